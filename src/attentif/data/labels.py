"""Checks that labels are classes."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence

from attentif.data.table import Table
from attentif.errors import DataError

MOST_CLASSES = 1000
SEPARATORS = ";|,"  # that stand between several labels of one cell
DECIMAL_COMMA = re.compile(r"([+-]?\d+),(\d+)")
REGRESSION = "attentif train regress --data FILE"
MANY = 0.1  # rows with several labels in one, as a share, from which it is said


def label_key(label: str) -> str:
    """Normalised form of a label: case, spaces and 1 / 1.0 do not count."""
    bare = " ".join(unicodedata.normalize("NFC", label).casefold().split())
    number = read_number(bare)
    if number is None:
        return bare
    return str(int(number)) if number.is_integer() else repr(number)


def read_number(label: str) -> float | None:
    """A label as a number, if it is one: 4.5, or 4,5 with a decimal comma."""
    try:
        return float(DECIMAL_COMMA.sub(r"\1.\2", label.strip()))
    except ValueError:
        return None


def several_in_one(labels: Sequence[str]) -> str | None:
    """A note if many labels look like lists of other labels."""
    counts = Counter(labels)
    if all(read_number(label) is not None for label in counts):
        return None
    for separator in SEPARATORS:
        pieces = {label: {piece for part in label.split(separator) if (piece := part.strip())} for label in counts}
        known = Counter(piece for own in pieces.values() for piece in own)
        lists = [label for label, own in pieces.items() if len(own) > 1 and any(known[piece] > 1 for piece in own)]
        rows = sum(counts[label] for label in lists)
        if rows >= MANY * len(labels) and lists:
            keys = "task.several=true" + ("" if separator == ";" else f" 'task.separator=\"{separator}\"'")
            held = f"{rows:,} of {len(labels):,} rows have a label with {separator!r} in it, such as {lists[0]!r}"
            return f"{held}: each is read as one label; several labels at once need {keys}"
    return None


def decimals(labels: Sequence[str]) -> str | None:
    """A note if labels are decimal numbers: each is read as a separate class, without order."""
    counts = Counter(labels)
    numbers = [read_number(label) for label in counts]
    if any(number is None for number in numbers) or not any(number and not number.is_integer() for number in numbers):
        return None
    example = next(label for label in counts if not (read_number(label) or 0.0).is_integer())
    return (
        f"labels are numbers with decimals, such as {example}: each is read as a class, without order; to predict the number: {REGRESSION}"
    )


def check_labels(table: Table, *, normalised: bool, hint: str | None = None) -> None:
    """Refuse labels that are not classes: a single one, one per row, or two spellings of the same. `hint` helps with the second."""
    counts = Counter(table["label"])
    file = table.files[0]
    if len(counts) == 1:
        who = f"all {len(table):,} rows have" if len(table) > 1 else "the only row has"
        raise DataError(f"{who} the label {table['label'][0]!r}: there is nothing to tell apart", file=file)
    if len(counts) > MOST_CLASSES or (len(table) >= 20 and len(counts) > len(table) // 2):
        what, way_out = "an identifier or free text", ""
        if _mostly_numbers(counts):
            what, way_out = "a number to predict", f"; to predict the number: {REGRESSION}"
        problem = f"{len(counts):,} different labels in {len(table):,} rows"
        raise DataError(f"{problem}; {hint}" if hint else f"{problem}: that looks like {what}, not like classes{way_out}", file=file)
    if normalised:
        return
    spellings: dict[str, list[str]] = defaultdict(list)
    for label in counts:
        spellings[label_key(label)].append(label)
    for alike in spellings.values():
        if len(alike) > 1:
            rows = {label: f"{counts[label]:,} row{'s' if counts[label] > 1 else ''}" for label in alike}
            shown = " and ".join(f"{label!r} ({rows[label]})" for label in sorted(alike, key=lambda x: -counts[x]))
            raise DataError(f"{shown} look like one label; correct the file, or take them as one: data.normalise_labels=true", file=file)


def class_names(train: Table, others: Sequence[Table]) -> list[str]:
    """The classes in order; an error where one is never seen in training."""
    known = set(train["label"])
    for table in others:
        for row, label in enumerate(table["label"]):
            if label not in known:
                count = table["label"].count(label)
                rows = f"{count:,} row{'s' if count > 1 else ''}, the first at {table.place(row)}"
                alike = [other for other in known if label_key(other) == label_key(label)]
                way_out = f"; {alike[0]!r} has: take them as one with data.normalise_labels=true" if alike else ""
                raise DataError(f"the label {label!r} is in {table.name} ({rows}) but has no example in train{way_out}")
    refuse_one(train, "label")
    return sorted(known, key=_order)


def refuse_one(table: Table, role: str) -> None:
    """Refuse a table whose rows all have the same answer: there is nothing to learn."""
    if len(set(table[role])) == 1:
        which = f"all rows of {table.name} have the {role} {table[role][0]!r}"
        raise DataError(f"{which}: there is nothing to tell apart", file=table.files[0])


def _order(label: str) -> tuple[bool, float, str]:
    """Numbers by value, then words by alphabet."""
    number = read_number(label)
    return number is None, number or 0.0, label


def _mostly_numbers(labels: Counter[str]) -> bool:
    return sum(not _order(label)[0] for label in labels) > len(labels) / 2
