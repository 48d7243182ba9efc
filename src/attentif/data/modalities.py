"""Rows that are pictures and texts, and sounds where there are some, of the same things: a table with the columns image, text and audio.

Paths are relative to the table. A row of which one part cannot be read is a bad row.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attentif.data.audio import HIGHEST_RATE, Wave, decode_sounds, find_first_rate, resample
from attentif.data.columns import Roles, find_columns
from attentif.data.config import SPLITS, DataConfig, Split
from attentif.data.images import Frame
from attentif.data.load import load_built_in, load_rows, load_table, table_rows
from attentif.data.picture_files import Bytes
from attentif.data.progress import Pulse, Say
from attentif.data.questions import Questions, decode_pictures, require_one_size
from attentif.data.readers import PlainText, Row, Tolerance, open_reader
from attentif.data.split import sample
from attentif.data.table import Splits, Table
from attentif.errors import DataError

SEVERAL = Roles(("image", "text"), optional=("audio",))
BUILT_IN = Roles(SEVERAL.required, optional=("audio", "rate"))
FILES = ("image", "audio")


@dataclass(frozen=True)
class Things:
    """One split: the texts, the picture of each row, and its sound, if rows have any."""

    table: Table
    pixels: Bytes  # (P, C, H, W)
    picture: NDArray[np.int64]  # (rows,): which of them is the row's
    waves: list[Wave] | None


@dataclass(frozen=True)
class ThingSplits:
    train: Things
    valid: Things
    test: Things
    rate: int | None  # samples a second of the sounds, if there are any
    texts: Splits
    notes: list[str] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """SHA-256 of every text, pixel and sample in its place."""
        total = hashlib.sha256("\n".join(f"{part.table.name}\t{text}" for part in self.parts for text in part.table["text"]).encode())
        for part in self.parts:
            total.update(part.pixels.tobytes())
            total.update(part.picture.tobytes())
            for wave in part.waves or ():
                total.update(wave.tobytes())
        return total.hexdigest()

    @property
    def parts(self) -> tuple[Things, Things, Things]:
        return self.train, self.valid, self.test


def load_things(config: DataConfig, frame: Frame, rate: int | None, say: Say) -> ThingSplits:
    """Three splits, checked; sounds at `rate` samples a second, by default the first file's, or 16,000 where that is lower."""
    if config.name:
        return _load_built_in(config, rate)
    texts = load_table(config, SEVERAL, say, open_rows=_rows)
    if "audio" in texts.train.columns:
        rate = rate or min(find_first_rate(texts.train), HIGHEST_RATE)
    tolerance = Tolerance(config.skip_bad)
    train, valid, test = (_decode(getattr(texts, split), frame, rate, tolerance, say) for split in SPLITS)
    require_one_size([Questions(part.table, part.pixels, part.picture) for part in (train, valid, test)])
    return ThingSplits(train, valid, test, rate if train.waves else None, texts, [*texts.notes, *tolerance.notes])


def load_thing_rows(config: DataConfig, frame: Frame, rate: int | None, say: Say) -> tuple[Things, list[str]]:
    """Every row of the `train` files, to be scored."""
    if config.name:
        return _load_built_in(config, rate).train, []
    table, notes = load_rows(config, SEVERAL, say, open_rows=_rows)
    tolerance = Tolerance(config.skip_bad)
    return _decode(table, frame, rate, tolerance, say), notes + tolerance.notes


def read_things(file: Path) -> list[dict[str, str]] | None:
    """The pictures, texts and sounds of a table, one by one: {"image": path}, {"text": ...}; None for plain text."""
    reader = open_reader(file, Tolerance())
    if isinstance(reader, PlainText):
        return None
    names = find_columns(reader.columns, file, DataConfig(train=str(file)), Roles((), optional=("text", *FILES)))
    if not names:
        raise DataError("has no column of texts, pictures or sounds (text, image, audio)", file=file)
    found: list[dict[str, str]] = []
    for _, values in reader.rows(list(names.values())):
        cells = {role: value for role, value in zip(names, values, strict=True) if value.strip()}
        found += [{role: str(file.parent / value) if role in FILES else value} for role, value in cells.items()]
    return found


def _rows(
    config: DataConfig, split: Split, file: Path, roles: Roles, tolerance: Tolerance, notes: list[str]
) -> tuple[list[str], Iterator[Row]]:
    """As any table's, with paths that lead from here."""
    names, rows = table_rows(config, split, file, roles, tolerance, notes)
    leads = [role in FILES for role in names]
    return names, (
        (line, [str(file.parent / value) if path and value.strip() else value for value, path in zip(values, leads, strict=True)])
        for line, values in rows
    )


def _decode(table: Table, frame: Frame, rate: int | None, tolerance: Tolerance, say: Say) -> Things:
    seen = decode_pictures(table, frame, tolerance, Pulse(say))
    if "audio" not in table.columns or rate is None:
        return Things(seen.table, seen.pixels, seen.picture, None)
    rows = [str(row) for row in range(len(seen.table))]
    own = Table(seen.table.name, seen.table.columns | {"row": rows}, seen.table.files, seen.table.places)
    heard = decode_sounds(own, rate, tolerance, say)
    kept = np.array([int(row) for row in heard.table["row"]])
    return Things(heard.table, seen.pixels, seen.picture[kept], heard.waves)


def _load_built_in(config: DataConfig, rate: int | None) -> ThingSplits:
    parts: dict[str, Things] = {}
    tables, given = load_built_in(config, BUILT_IN), rate
    for split, whole in tables.items():
        names = {role: [f"{whole.files[0]} {role} {line}" for line in whole.places[:, 1]] for role in FILES if role in whole.columns}
        table = Table(split, {"text": whole["text"]} | names, whole.files, whole.places)
        if split == "train" and 0 < config.limit < len(table):
            table = sample(table, config.limit, config.seed)
        rows = (table.places[:, 1] - 1).tolist()
        pixels = np.stack([np.asarray(whole["image"][row])[None] for row in rows])
        waves = None
        if "audio" in whole.columns:
            own = int(whole["rate"][0])
            rate = given or own
            waves = [resample(np.asarray(whole["audio"][row], np.float32), own, rate) for row in rows]
        parts[split] = Things(table, pixels, np.arange(len(table)), waves)
    train, valid, test = (parts[split] for split in SPLITS)
    return ThingSplits(train, valid, test, rate, Splits(train.table, valid.table, test.table))
