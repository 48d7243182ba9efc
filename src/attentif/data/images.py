"""Pictures in memory: found (`picture_files`), decoded by Pillow, resized, split.

They are decoded once, into one array of bytes (N, C, H, W): training passes over them many times, and a photo takes longer to decode than
to augment. At 224 × 224 pixels a colour picture takes 150 kB, one of MNIST 784 bytes.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from attentif.data.config import SPLITS, DataConfig, Split
from attentif.data.groups import with_groups, without_groups
from attentif.data.labels import check_labels, class_names, label_key
from attentif.data.load import load_built_in
from attentif.data.picture_decoding import (
    DATA_URI,
    Fit,
    Frame,
    Resample,
    as_shown,
    data_uri,
    decode,
    film_uri,
    open_picture,
    stack_frames,
    usual_size,
)
from attentif.data.picture_files import LABELLED, SUFFIXES, Bytes, PictureEntry, entries_of
from attentif.data.picture_sizes import choose_size
from attentif.data.progress import Pulse, Say
from attentif.data.readers import Tolerance
from attentif.data.split import cut_apart, duplicate_notes, sample
from attentif.data.table import Table
from attentif.errors import DataError

__all__ = [
    "DATA_URI",
    "Fit",
    "Frame",
    "PictureSplits",
    "Pictures",
    "Resample",
    "as_shown",
    "data_uri",
    "load_picture_rows",
    "load_pictures",
    "open_picture",
    "picture_inputs",
]

LARGE = 500_000_000  # bytes of pixels from which the memory they take is said


@dataclass(frozen=True)
class Pictures:
    """One split: bytes (N, C, H, W), and a table of labels and places beside them."""

    table: Table
    pixels: Bytes
    frames: int = 1  # of each film; their channels stand one after the other

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        _, channels, height, width = self.pixels.shape
        return channels, height, width

    def __len__(self) -> int:
        return len(self.table)

    def place(self, row: int) -> str:
        return self.table.place(row)

    def to_image(self, row: int) -> Bytes:
        """(H, W), or (H, W, 3): as picture libraries have them; frames of a film side by side."""
        return as_shown(stack_frames(self.pixels[row], self.frames))

    def to_uri(self, row: int) -> str:
        """The picture, or the film, inside an address."""
        return data_uri(self.to_image(row)) if self.frames == 1 else film_uri(self.pixels[row], self.frames)


@dataclass(frozen=True)
class PictureSplits:
    """Three splits, the classes in order, and notes for the user."""

    train: Pictures
    valid: Pictures
    test: Pictures
    labels: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of every label and every pixel in its place."""
        total = hashlib.sha256()
        for part in (self.train, self.valid, self.test):
            total.update(repr((part.name, part.pixels.shape, part.table["label"])).encode())
            total.update(np.ascontiguousarray(part.pixels).data)
        return total.hexdigest()


def load_pictures(config: DataConfig, frame: Frame, say: Say | None = None, *, step: int = 0) -> PictureSplits:
    """Load and check labelled pictures in three splits; `notes` reports what was detected.

    Pictures of several sizes are resized to one that `step` divides; at 0 they are refused."""
    notes: list[str] = []
    if config.name:
        tables = {split: _find_frame(table, frame) for split, table in load_built_in(config, LABELLED).items()}
    else:
        tolerance, pulse = Tolerance(config.skip_bad), Pulse(say)
        sources = _sources(config, tolerance, notes)
        if step:
            frame = choose_size(frame, chain.from_iterable(sources.values()), step, notes)
        parts = {split: _decode_all(split, entries, frame, tolerance, pulse) for split, entries in sources.items()}
        notes += tolerance.notes
        tables = _alike(parts, frame)
    tables = {split: _check_table(table, config) for split, table in tables.items()}
    tables = cut_apart(tables, config, LABELLED, notes, rows="pictures")
    train, valid, test = (tables[split] for split in SPLITS)
    if 0 < config.limit < len(train):
        notes.append(f"trained on {config.limit:,} of {len(train):,} pictures, as data.limit asks")
        train = sample(train, config.limit, config.seed)
    labels = class_names(train, [valid, test])
    counts = Counter(train["label"])
    shown = ", ".join(f"{label} ({counts[label]:,})" for label in labels[:20])
    stacked = tuple(_stack(table, frame.frames) for table in (train, valid, test))
    layers, height, width = stacked[0].shape
    channels = layers // frame.frames
    what = "pictures" if frame.frames == 1 else f"films of {frame.frames} frames"
    notes.append(f"{what} of {height} × {width} pixels, {'grey' if channels == 1 else f'{channels} channels'}; in train: {shown}")
    if (total := sum(part.pixels.nbytes for part in stacked)) > LARGE:
        notes.append(f"their pixels take {total / 1e9:.1f} GB of memory")
    return PictureSplits(stacked[0], stacked[1], stacked[2], labels, notes + duplicate_notes(train, valid, test))


def load_picture_rows(config: DataConfig, frame: Frame, say: Say | None = None) -> tuple[Pictures, list[str]]:
    """All pictures of `train`, to be scored by a trained model; of a source that names its own test split, that one."""
    notes: list[str] = []
    tolerance = Tolerance(config.skip_bad)
    entries: list[PictureEntry] = []
    for source in config.files("train"):
        parts = entries_of(source, without_groups(config), tolerance, notes)
        entries += parts.get("test") or parts.get(None) or [entry for own in parts.values() for entry in own]
        if "test" in parts:
            notes.append(f"{source}: its own test split is scored")
    table = _alike({"test": _decode_all("test", entries, frame, tolerance, Pulse(say))}, frame)["test"]
    if config.normalise_labels:
        table = _check_table(table, config)
    return _stack(table, frame.frames), notes + tolerance.notes


def picture_inputs(source: Path) -> list[str]:
    """The pictures of a folder, however deep, by path: what a trained model is asked about, labelled or not."""
    if source.is_file():
        if source.suffix.lower() in SUFFIXES:
            return [str(source)]
        return [data_uri(as_shown(decode(entry.picture, Frame()))) for entry in _unsplit(source)]
    if not source.is_dir():
        raise DataError("no such file or folder", file=source)
    found = sorted(str(path) for path in source.rglob("*") if path.suffix.lower() in SUFFIXES and not path.name.startswith("."))
    if not found:
        raise DataError("has no pictures in it", file=source)
    return found


def _unsplit(source: Path) -> list[PictureEntry]:
    parts = entries_of(source, DataConfig(train=str(source)), Tolerance(), [])
    return [entry for own in parts.values() for entry in own]


# --------------------------------------------------------------------------------------------------------------- tables


def _sources(config: DataConfig, tolerance: Tolerance, notes: list[str]) -> dict[Split, list[PictureEntry]]:
    """Entries by split: those that the configuration names, and those that the source of `train` names itself."""
    found: dict[Split, list[PictureEntry]] = {}
    own: dict[Split, list[PictureEntry]] = {}
    for split in SPLITS:
        files, asked = config.files(split), config if split == "train" else without_groups(config)
        opened = with_groups(files, asked, notes, lambda source, own: entries_of(source, own, tolerance, notes))
        for source, parts in zip(files, opened, strict=True):
            found.setdefault(split, []).extend(parts.pop(split, []) or parts.pop(None, []))
            if not found[split]:
                raise DataError(f"names no {split} split of its own, only {', '.join(map(str, parts))}", file=source)
            if split == "train":
                for other, entries in parts.items():
                    if other is not None and not config.files(other):
                        own.setdefault(other, []).extend(entries)
    return found | own


@dataclass
class _Decoded:
    """Pictures of one split that may still differ in size."""

    table: Table
    pictures: list[Bytes]


def _decode_all(split: Split, entries: Sequence[PictureEntry], frame: Frame, tolerance: Tolerance, pulse: Pulse) -> _Decoded:
    pictures: list[Bytes] = []
    kept: list[PictureEntry] = []
    for entry in entries:
        try:
            pictures.append(decode(entry.picture, frame))
            kept.append(entry)
        except ValueError as error:
            of_a_row = f"{entry.picture}: " if entry.row and isinstance(entry.picture, Path) else ""
            tolerance.bad(f"{of_a_row}{error}", entry.file, entry.row or None)
        if len(pictures) % 256 == 0:
            pulse(lambda: f"reading {split}: {len(pictures):,} of {len(entries):,} pictures")
    if not kept:
        raise DataError(f"{split} has no usable picture", file=entries[0].file if entries else None)
    whole = [entry.picture if isinstance(entry.picture, Path) else entry.file for entry in kept]
    files = list(dict.fromkeys([_source_of(kept), *map(str, whole)]))  # the first is what messages about all of them name
    number = {file: place for place, file in enumerate(files)}
    places = [(number[str(file)], 0 if isinstance(entry.picture, Path) else entry.row) for file, entry in zip(whole, kept, strict=True)]
    columns = {"label": [entry.label for entry in kept]}
    if any(entry.group is not None for entry in kept):
        columns["group"] = [entry.group or "" for entry in kept]
    return _Decoded(Table(split, columns, files, np.array(places, dtype=np.int64)), pictures)


def _source_of(entries: Sequence[PictureEntry]) -> str:
    """The folder of the classes, or the file."""
    first = entries[0]
    return str(first.file.parent.parent if first.row == 0 else first.file)


def _alike(parts: dict[Split, _Decoded], frame: Frame) -> dict[str, Table]:
    """All pictures in one shape: grey ones become colour where others are; other sizes are refused with the way out."""
    channels = (frame.channels or 0) * frame.frames or max(len(picture) for part in parts.values() for picture in part.pictures)
    size = usual_size(picture for part in parts.values() for picture in part.pictures)
    usual = (part.table.place(row) for part in parts.values() for row, picture in enumerate(part.pictures) if picture.shape[1:] == size)
    tables: dict[str, Table] = {}
    for split, part in parts.items():
        for row, picture in enumerate(part.pictures):
            if picture.shape[1:] != size:
                here, there = (f"{s[0]} × {s[1]}" for s in (picture.shape[1:], size))
                way_out = f"task.height={size[0]} task.width={size[1]}"
                raise DataError(f"{part.table.place(row)} has {here} pixels and {next(usual)} {there}; bring all to one size: {way_out}")
            if len(picture) != channels:
                if len(picture) != frame.frames:
                    raise DataError(f"{part.table.place(row)} has {len(picture)} channels where others have {channels}")
                part.pictures[row] = np.repeat(picture, channels // frame.frames, axis=0)
        tables[split] = _with_pictures(part.table, part.pictures)
    return tables


def _with_pictures(table: Table, pictures: list[Bytes]) -> Table:
    """The table with a column of pictures; rows alike are those whose pixels are."""
    together = Table(table.name, {**table.columns, "image": pictures}, table.files, table.places)  # type: ignore[dict-item]
    together.__dict__["contents"] = [hashlib.blake2b(np.ascontiguousarray(pixels).data, digest_size=16).digest() for pixels in pictures]
    return together


def _find_frame(table: Table, frame: Frame) -> Table:
    """A built-in set's pictures, in the frame."""
    pictures: list[Any] = [decode(np.asarray(pixels), frame) for pixels in table["image"]]
    return _with_pictures(table, pictures)


def _check_table(table: Table, config: DataConfig) -> Table:
    """Labels that are classes."""
    for row, label in enumerate(table["label"]):
        if not label.strip():
            raise DataError(f"{table.place(row)}: the label is empty")
    if config.normalise_labels:
        contents = table.contents
        table = Table(table.name, table.columns | {"label": [label_key(label) for label in table["label"]]}, table.files, table.places)
        table.__dict__["contents"] = contents
    if table.name == "train":
        check_labels(table, normalised=config.normalise_labels)
    return table


def _stack(table: Table, frames: int) -> Pictures:
    pixels = np.stack([np.asarray(picture) for picture in table["image"]])
    kept = Table(table.name, {role: values for role, values in table.columns.items() if role != "image"}, table.files, table.places)
    return Pictures(kept, pixels, frames)
