"""Questions about pictures: a table with the columns image (paths, from the table's own folder), question and answer, or a built-in set.

A picture is decoded once, however many questions are asked about it, and all of them stay in one split: what a test asks about was never
seen in training.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attentif.data.columns import ASKED, Roles, find_columns
from attentif.data.config import SPLITS, DataConfig, Split
from attentif.data.images import Frame, open_picture
from attentif.data.load import load_built_in, load_rows, load_table, table_rows
from attentif.data.picture_decoding import usual_size
from attentif.data.picture_files import Bytes
from attentif.data.progress import Pulse, Say
from attentif.data.readers import PlainText, Row, Tolerance, open_reader
from attentif.data.split import sample
from attentif.data.table import Splits, Table
from attentif.errors import DataError

ABOUT_PICTURES = Roles(("image", "question", "answer"), optional=("kind",), together={"group": "picture"})


@dataclass(frozen=True)
class Questions:
    """One split: questions and answers by row, and the pictures that they are about."""

    table: Table  # image (the picture's name), question, answer, and kind where questions have one
    pixels: Bytes  # (P, C, H, W)
    picture: NDArray[np.int64]  # (rows,): which of them a question is about

    @cached_property
    def by_picture(self) -> list[NDArray[np.int64]]:
        """The rows of the questions about each picture."""
        order = np.argsort(self.picture, kind="stable")
        return np.split(order, np.searchsorted(self.picture[order], np.arange(1, len(self.pixels))))


@dataclass(frozen=True)
class QuestionSplits:
    train: Questions
    valid: Questions
    test: Questions
    texts: Splits
    notes: list[str] = field(default_factory=list)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of every text and every pixel in its place."""
        total = hashlib.sha256(self.texts.digest.encode())
        for part in (self.train, self.valid, self.test):
            total.update(repr(part.pixels.shape).encode())
            total.update(part.pixels.tobytes())
        return total.hexdigest()


def load_questions(config: DataConfig, frame: Frame, say: Say | None = None) -> QuestionSplits:
    """Load and check the three splits; `notes` reports what was detected."""
    if config.name:
        texts, pictures = _load_built_in(config)
        parts = [_with_arrays(getattr(texts, split), pictures) for split in SPLITS]
        notes = list(texts.notes)
    else:
        texts = load_table(config, ABOUT_PICTURES, say, open_rows=_rows)
        notes = list(texts.notes)
        tolerance = Tolerance(config.skip_bad)
        parts = [decode_pictures(getattr(texts, split), frame, tolerance, Pulse(say)) for split in SPLITS]
        notes += tolerance.notes + _share_pictures(parts)
        require_one_size(parts)
    for split, part in zip(SPLITS, parts, strict=True):
        notes.append(f"{split}: {len(part.table):,} questions about {len(part.pixels):,} pictures")
    train, valid, test = parts
    return QuestionSplits(train, valid, test, texts, notes)


def load_question_rows(config: DataConfig, frame: Frame, say: Say | None = None) -> tuple[Questions, list[str]]:
    """Every question of the `train` files, to be answered and scored."""
    table, notes = load_rows(config, ABOUT_PICTURES, say, open_rows=_rows)
    tolerance = Tolerance(config.skip_bad)
    part = decode_pictures(table, frame, tolerance, Pulse(say))
    require_one_size([part])
    return part, notes + tolerance.notes


def read_questions(file: Path, question: str | None = None) -> list[dict[str, str]]:
    """The unanswered questions of a table: {"image": path, "question": ...}; `question` names their column."""
    reader = open_reader(file, Tolerance())
    if isinstance(reader, PlainText):
        raise DataError("is plain text; expected a table (CSV, TSV, JSONL) with the columns image and question", file=file)
    config = DataConfig(train=str(file), columns={"question": question} if question else {})
    names = find_columns(reader.columns, file, config, Roles(("image", "question"), ways={"image": "'image'", "question": ASKED}))
    found = []
    for line, values in reader.rows(list(names.values())):
        row = dict(zip(names, values, strict=True))
        if empty := [role for role, value in row.items() if not value.strip()]:
            raise DataError(f"the {empty[0]} is empty: there is nothing to read", file=file, line=line)
        found.append(row | {"image": str(file.parent / row["image"])})
    return found


# ---------------------------------------------------------------------------------------------------------------- tables


def _rows(
    config: DataConfig, split: Split, file: Path, roles: Roles, tolerance: Tolerance, notes: list[str]
) -> tuple[list[str], Iterator[Row]]:
    """As any table's, with paths that lead from here, and rows about one picture in one group unless another is named."""
    names, rows = table_rows(config, split, file, roles, tolerance, notes)
    place = names.index("image")

    def resolve() -> Iterator[Row]:
        for line, values in rows:
            path = str(file.parent / values[place])
            own = [] if "group" in names else [values[place]]  # as written: the cut must not depend on where the folder lies
            yield line, [*values[:place], path, *values[place + 1 :], *own]

    return [*names, *([] if "group" in names else ["group"])], resolve()


def _load_built_in(config: DataConfig) -> tuple[Splits, dict[str, Bytes]]:
    """The texts of a built-in set, and its pictures by name; rows that hold the same array are about one picture."""
    pictures: dict[str, Bytes] = {}
    tables: dict[str, Table] = {}
    for split, table in load_built_in(config, ABOUT_PICTURES).items():
        names: dict[int, str] = {}
        arrays: Sequence[Bytes] = table["image"]  # type: ignore[assignment]
        for array in arrays:
            if id(array) not in names:
                names[id(array)] = f"{table.files[0]} picture {len(names) + 1}"
                pictures[names[id(array)]] = array[None] if array.ndim == 2 else np.moveaxis(array, 2, 0)
        columns = table.columns | {"image": [names[id(array)] for array in arrays]}
        tables[split] = Table(table.name, columns, table.files, table.places)
    train, notes = tables["train"], []
    if 0 < config.limit < len(train):
        notes.append(f"trained on {config.limit:,} of {len(train):,} questions, as data.limit asks")
        train = sample(train, config.limit, config.seed)
    return Splits(train, tables["valid"], tables["test"], notes=notes), pictures


def _with_arrays(table: Table, pictures: dict[str, Bytes]) -> Questions:
    names = list(dict.fromkeys(table["image"]))
    number = {name: place for place, name in enumerate(names)}
    return Questions(table, np.stack([pictures[name] for name in names]), np.array([number[name] for name in table["image"]]))


def decode_pictures(table: Table, frame: Frame, tolerance: Tolerance, pulse: Pulse) -> Questions:
    """The pictures of a table; a row whose picture cannot be read is a bad row."""
    pictures: dict[str, Bytes] = {}
    unreadable: dict[str, str] = {}
    kept = []
    for row, name in enumerate(table["image"]):
        if name not in pictures and name not in unreadable:
            try:
                pictures[name] = open_picture(name, frame)
            except DataError as error:
                unreadable[name] = str(error)
            pulse(lambda: f"reading {table.name}: {len(pictures):,} pictures")
        if name in pictures:
            kept.append(row)
        else:
            file, line = table.places[row]
            tolerance.bad(unreadable[name], Path(table.files[file]), int(line))
    if not kept:
        raise DataError(f"{table.name} has no question with a usable picture", file=table.files[0])
    table = table if len(kept) == len(table) else table.take(kept)
    _alike_pictures(table, pictures)
    return _with_arrays(table, pictures)


def _alike_pictures(table: Table, pictures: dict[str, Bytes]) -> None:
    """One size for all; grey ones become colour where others are."""
    channels = max(len(picture) for picture in pictures.values())
    size = usual_size(pictures.values())
    for name, picture in pictures.items():
        if picture.shape[1:] != size:
            here, there = (f"{height} × {width}" for height, width in (picture.shape[1:], size))
            usual = next(other for other, one in pictures.items() if one.shape[1:] == size)
            way_out = f"task.height={size[0]} task.width={size[1]}"
            raise DataError(f"{name} has {here} pixels and {usual} {there}; bring all to one size: {way_out}", file=table.files[0])
        if len(picture) != channels:
            pictures[name] = np.repeat(picture, channels, axis=0)


def require_one_size(parts: Sequence[Questions]) -> None:
    """The splits too have one size."""
    first = parts[0]
    for part in parts[1:]:
        if part.pixels.shape[1:] != first.pixels.shape[1:]:
            here, there = (" × ".join(map(str, p.pixels.shape[1:])) for p in (part, first))
            raise DataError(
                f"{part.table.name} has pictures of {here} (channels, height, width) and train of {there}; "
                "bring all to one: task.channels, task.height, task.width"
            )


def _share_pictures(parts: Sequence[Questions]) -> list[str]:
    """A note on pictures that occur in two splits."""
    notes = []
    names = [set(part.table["image"]) for part in parts]
    for later, earlier in ((1, 0), (2, 0), (2, 1)):
        if same := names[later] & names[earlier]:
            notes.append(f"{len(same):,} of {len(names[later]):,} {SPLITS[later]} pictures are in {SPLITS[earlier]} too ({min(same)})")
    return notes
