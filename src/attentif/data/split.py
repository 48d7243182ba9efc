"""Split a table into train, valid and test, and find rows that occur in two of them.

The cut depends on the seed and on what rows say, not on their order: each row, or each group of rows that must stay together, has a
number drawn from its content, and those with the lowest numbers are kept apart. Rows that say the same stay together, so that nothing
in a test was seen in training; so do those of a group, and those that read the same passage.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attentif.data.columns import Roles
from attentif.data.config import SPLITS, DataConfig, Split
from attentif.data.groups import guess_group
from attentif.data.table import Table
from attentif.errors import DataError


def seeded_order(seed: int, content: bytes) -> int:
    """Hash a content to a uniform 64-bit number, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8, salt=seed.to_bytes(16, "little")).digest(), "little")


@dataclass(frozen=True, slots=True)
class Unit:
    """Rows that stay together."""

    number: int  # decides where they go
    rows: list[int]


def cut_apart(tables: Mapping[str, Table], config: DataConfig, roles: Roles, notes: list[str], *, rows: str = "rows") -> dict[str, Table]:
    """Split valid and test off train if they have no files, with a note."""
    wanted: tuple[Split, ...] = ("test", "valid")
    if not (apart := {str(split): config.fraction(split) for split in wanted if split not in tables}):
        return dict(tables)
    parts, how = _cut_by_guess(tables["train"], apart, config, roles, notes) or _cut_as_told(tables["train"], apart, config, roles)
    found = {**tables, **parts}
    sizes = ", ".join(f"{len(found[split]):,} {split}" for split in SPLITS)
    notes.append(f"{' and '.join(reversed(apart))} cut from train {how} (seed {config.seed}): {sizes} {rows}")
    return found


def _cut_as_told(table: Table, apart: dict[str, float], config: DataConfig, roles: Roles) -> tuple[dict[str, Table], str]:
    together = {"group": repr(config.group)} if config.group else {"group": "group", **roles.together}
    return cut_splits(table, apart, config.seed, roles.classes, together)


def _cut_by_guess(
    table: Table, apart: dict[str, float], config: DataConfig, roles: Roles, notes: list[str]
) -> tuple[dict[str, Table], str] | None:
    """Split by a guessed group column, if there is one and train keeps every class."""
    guess = guess_group(table, config, roles, len(apart) + 1)
    if guess is None:
        return None
    grouped = Table(table.name, table.columns | {"group": guess.values}, table.files, table.places)
    parts, how = cut_splits(grouped, apart, config.seed, together={"group": repr(guess.column)})
    if lost := sorted(_labels(table) - _labels(parts["train"])):
        notes.append(f"not cut by {guess.column!r}, as train would have no example of {lost[0]!r}")
        return None
    notes += guess.notes
    return parts, f'{how}, so that no {guess.column} stands on two sides; data.group="" cuts at random'


def _labels(table: Table) -> set[str]:
    """Of a column of single labels, or of lists of them."""
    return {label for row in range(len(table)) for label in _row_labels(table, row)}


def _row_labels(table: Table, row: int) -> set[str]:
    if "labels" in table.columns:
        return {*json.loads(table["labels"][row])}
    return {table["label"][row]} if "label" in table.columns else set()


def cut_splits(
    table: Table, fractions: dict[str, float], seed: int, classes: str = "label", together: Mapping[str, str] | None = None
) -> tuple[dict[str, Table], str]:
    """Parts of the table by name, each with about its fraction of the rows, and the rest as "train"; and how they were cut, in words.

    By the roles `together`, each with its name in words, where the table has them; else each value of the role `classes` by itself, so that
    it has its share everywhere, unless classes are so small that none has a row to give.
    """
    present = {role: name for role, name in (together or {}).items() if any(table.columns.get(role, ()))}
    taken, how = _take_groups(present, table, fractions, seed) if present else _take_at_random(table, fractions, seed, classes)
    return {name: table.take(sorted(rows), name) for name, rows in taken.items()}, how


def _take_groups(together: Mapping[str, str], table: Table, fractions: dict[str, float], seed: int) -> tuple[dict[str, list[int]], str]:
    """By the first of the roles of which each part can have its share; else by the last, whatever share that gives them."""
    roles, why = list(together), ""
    for place, role in enumerate(roles):
        units = _units(_keys(table, roles[place:]), seed)
        how = f"by {together[role]}{why}"
        if all((taken := _take([units], fractions)).values()):
            return taken, how
        why = f", as it has too few different {together[role]}s"
    if len(units) > len(fractions):
        return _some_each(units, fractions), how
    found = f"only {len(units):,} different group{'s' if len(units) > 1 else ''} (by {together[roles[-1]]})"
    parts = " and ".join(reversed(fractions))
    raise DataError(f"{found}, where train, {parts} want one each; give files for {parts}", file=table.files[0])


def _some_each(units: Sequence[Unit], fractions: dict[str, float]) -> dict[str, list[int]]:
    """Where units are too few, or too large, for the shares: at least one in each part, the smallest first, and the largest to train on."""
    *small, largest = sorted(units, key=lambda unit: len(unit.rows))
    total = sum(len(unit.rows) for unit in units)
    taken: dict[str, list[int]] = {name: [] for name in (*fractions, "train")}
    for unit in small:
        missing = {name: fraction * total - len(taken[name]) for name, fraction in fractions.items()}
        name = max(fractions, key=lambda name: (not taken[name], missing[name]))
        nearer = abs(missing[name] - len(unit.rows)) < abs(missing[name])
        taken[name if nearer or not taken[name] else "train"] += unit.rows
    taken["train"] += largest.rows
    return taken


def _keys(table: Table, roles: Sequence[str]) -> list[bytes]:
    """What keeps rows together: the value of the first role that a row has, else its content."""
    said = zip(*(table[role] for role in roles), strict=True)
    return [next((value.encode() for value in values if value), b"") or table.contents[row] for row, values in enumerate(said)]


def _take_at_random(table: Table, fractions: dict[str, float], seed: int, classes: str) -> tuple[dict[str, list[int]], str]:
    units = _units(table.contents, seed)
    by_class = classes in table.columns
    how = "at random, class by class" if by_class else "at random"
    taken = _take(_by_class(units, table[classes]) if by_class else [units], fractions)
    if by_class and not all(taken.values()):
        how, taken = "at random, not class by class, as no class has rows enough", _take([units], fractions)
    for name, rows in taken.items():
        if not rows:
            many = f"{len(table):,} rows are" if len(table) > 1 else "1 row is"
            alike = f" ({len(units):,} of them different, and rows that say the same stay together)" if len(units) < len(table) else ""
            raise DataError(f"{many} too few to keep some for {name}{alike}; give a file for it", file=table.files[0])
    return taken, how


def _take(strata: Sequence[Sequence[Unit]], fractions: dict[str, float]) -> dict[str, list[int]]:
    """The rows of each part, of which every stratum gives its share."""
    taken: dict[str, list[int]] = {name: [] for name in (*fractions, "train")}
    for stratum in strata:
        rest = stratum
        total = sum(len(unit.rows) for unit in stratum)
        for name, fraction in fractions.items():
            part, rest = _lowest(rest, fraction * total)
            taken[name] += [row for unit in part for row in unit.rows]
        taken["train"] += [row for unit in rest for row in unit.rows]
    return taken


def _units(keys: Sequence[bytes], seed: int) -> list[Unit]:
    together: dict[bytes, list[int]] = defaultdict(list)
    for row, key in enumerate(keys):
        together[key].append(row)
    return sorted((Unit(seeded_order(seed, key), rows) for key, rows in together.items()), key=lambda unit: unit.number)


def _by_class(units: Sequence[Unit], classes: Sequence[str]) -> list[list[Unit]]:
    strata: dict[str, list[Unit]] = defaultdict(list)
    for unit in units:
        strata[classes[unit.rows[0]]].append(unit)
    return [strata[name] for name in sorted(strata)]


def _lowest(units: Sequence[Unit], wanted: float) -> tuple[list[Unit], list[Unit]]:
    """The first units that bring the count nearer to the target, and the others; the last unit is never taken."""
    part: list[Unit] = []
    rest: list[Unit] = []
    count = 0
    for unit in units[:-1]:
        if abs(count + len(unit.rows) - wanted) < abs(count - wanted):
            part.append(unit)
            count += len(unit.rows)
        else:
            rest.append(unit)
    return part, [*rest, *units[-1:]]


def sample(table: Table, count: int, seed: int) -> Table:
    """`count` rows, the same ones each time, in the table's order, one of each class among them; a larger sample holds the smaller ones."""
    if not count or count >= len(table):
        return table
    numbers = np.array([seeded_order(seed + 1, content) for content in table.contents], dtype=np.uint64)  # not the order of the cut
    order = np.argsort(numbers, kind="stable").tolist()
    wanted = _one_of_each_class(table, order)
    return table.take(sorted([*wanted, *(row for row in order if row not in wanted)][:count]))


def _one_of_each_class(table: Table, order: Sequence[int]) -> dict[int, None]:
    """The first row, in this order, of each label: what few rows have would be lost among a hundred, and valid and test ask for it."""
    found: dict[int, None] = {}
    seen: set[str] = set()
    for row in order:
        if new := _row_labels(table, row) - seen:
            seen |= new
            found[row] = None
    return found


def duplicate_notes(train: Table, valid: Table, test: Table) -> list[str]:
    """Notes on rows that occur in two tables, or that have the same content with different labels."""
    notes = []
    seen = {table.name: _first_rows(table) for table in (train, valid)}
    for table, before in ((valid, train), (test, train), (test, valid)):
        rows = [(row, seen[before.name][content]) for row, content in enumerate(table.contents) if content in seen[before.name]]
        if rows:
            first, same = rows[0]
            where = f"{table.place(first)} is {before.place(same)}"
            notes.append(f"{len(rows):,} of {len(table):,} {table.name} rows are in {before.name} too (the first: {where})")
    if "label" in train.columns and (contrary := _contrary(train)):
        row, other = contrary[0]
        where = f"{train.place(other)} and {train.place(row)}"
        repeat = "row repeats" if len(contrary) == 1 else "rows repeat"
        notes.append(f"{len(contrary):,} train {repeat} another with a different label (the first: {where})")
    return notes


def _first_rows(table: Table) -> dict[bytes, int]:
    """The first row of each content."""
    first: dict[bytes, int] = {}
    for row, content in enumerate(table.contents):
        first.setdefault(content, row)
    return first


def _contrary(table: Table) -> list[tuple[int, int]]:
    """Rows whose content occurred earlier with another label, and where."""
    first, labels = _first_rows(table), table["label"]
    return [(row, first[content]) for row, content in enumerate(table.contents) if labels[first[content]] != labels[row]]
