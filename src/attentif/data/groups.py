"""Groups of rows that stay in one split: those of one author, series or speaker.

The column that says so is named by the user, or, in a table of labels, recognised by its name and its values: what a model learns of a
series says much about the next review of it, and nothing about the next series.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from attentif.data.columns import NoGroupError, Roles, bare, find_columns
from attentif.data.config import DataConfig
from attentif.data.readers import PlainText, Reader, Tolerance, cell_text, is_plain, open_reader
from attentif.data.table import Table

Opened = TypeVar("Opened")

# What rows are about, then who they are from: the first that a table has is the one by which it is cut. As in `columns.NAMES`, without
# case, accents and spaces; "film_id", "id_film" and "film name" are "film" too.
BELONGING = (
    "series", "serie", "film", "movie", "show", "book", "livre", "product", "produit", "item", "asin", "hotel", "restaurant", "business",
    "group", "groupe", "patient", "patiente", "subject", "sujet", "participant", "participante", "speaker", "locuteur", "locutrice",
    "author", "auteur", "autrice", "writer", "user", "utilisateur", "utilisatrice", "reviewer", "customer", "client", "cliente",
    "person", "personne", "student", "eleve", "conversation", "thread", "session",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class GroupGuess:
    """A column whose name says that rows belong together, and its value in each row; "" where a row has none."""

    column: str
    values: list[str]
    notes: list[str]


def guess_group(table: Table, config: DataConfig, roles: Roles, splits: int) -> GroupGuess | None:
    """Guess the group column: more values than splits, and at least two rows per value on average."""
    if not roles.guess_group or config.group is not None or any(is_plain(Path(file)) for file in table.files):  # folders of sounds too
        return None
    readers = [open_reader(Path(file), Tolerance(sys.maxsize)) for file in table.files]  # bad rows were told when the table was read
    free = [_free(reader, config, roles) for reader in readers]
    for column in sorted({name for names in free for name in names}, key=lambda name: (BELONGING.index(_groups_by(name)), name)):
        having = [column in names for names in free]
        found = [_values(reader, column) if has else {} for reader, has in zip(readers, having, strict=True)]
        values = [found[file].get(line, "") for file, line in table.places.tolist()]
        rows, different = sum(map(bool, values)), len({*values} - {""})
        if splits < different <= rows / 2:
            without = [reader.path for reader, has in zip(readers, having, strict=True) if not has]
            return GroupGuess(column, values, own_groups(without, column))
    return None


def _free(reader: Reader, config: DataConfig, roles: Roles) -> list[str]:
    """The columns that groups are known by, and that nothing else is read from."""
    if isinstance(reader, PlainText):
        return []
    used = find_columns(reader.columns, reader.path, config, roles).values()
    return [name for name in reader.columns if _groups_by(name) in BELONGING and name not in used]


def _groups_by(column: str) -> str:
    name = bare(column)
    for more in ("id", "name", "title"):
        name = name.removesuffix(more) or name
    return name.removeprefix("id") or name


def _values(reader: Reader, column: str) -> dict[int, str]:
    """Group of each line; a cell that is not a text has none."""
    read = ((line, cell_text(cell, column)) for line, (cell,) in reader.cells([column]))
    return {line: text.strip() for line, (text, problem) in read if not problem}


def with_groups(
    files: Sequence[Path], config: DataConfig, notes: list[str], open_file: Callable[[Path, DataConfig], Opened]
) -> list[Opened]:
    """Open every file; those without the group column that another file has are opened without it, with a note."""
    opened: dict[int, Opened] = {}  # by the file's place: one may be given twice
    without: dict[int, NoGroupError] = {}
    for place, file in enumerate(files):
        try:
            opened[place] = open_file(file, config)
        except NoGroupError as error:
            without[place] = error
    if without and not opened:
        raise without[0]
    opened |= {place: open_file(files[place], without_groups(config)) for place in without}
    notes += own_groups([files[place] for place in without], str(config.group))
    return [opened[place] for place in range(len(files))]


def own_groups(without: Sequence[Path], column: str) -> list[str]:
    """A note on files that lack the group column, if any."""
    have, their = ("have", "their") if len(without) > 1 else ("has", "its")
    lacking = " and ".join(map(str, without))
    return [f"{lacking} {have} no column {column!r}: each of {their} rows is a group of its own"] if without else []


def without_groups(config: DataConfig) -> DataConfig:
    return config.replace(group="")
