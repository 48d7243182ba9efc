"""Rows with several labels each: a list (JSON lines, Parquet), or one text in which a separator stands between them (CSV).

| in the file                               | labels          |
|-------------------------------------------|-----------------|
| "drame;policier" (separator ";")          | drame, policier |
| ["drame", "policier"], as a list or text  | the same        |
| "" in a CSV, [] in JSON                   | none            |

In a table they are kept as a JSON list, sorted, each once: see `labels_of`.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attentif.data.columns import Roles, find_columns
from attentif.data.config import DataConfig, Split
from attentif.data.labels import label_key
from attentif.data.load import load_rows, load_table
from attentif.data.progress import Say
from attentif.data.readers import PlainText, Row, Tolerance, open_reader, text_problem
from attentif.data.table import Splits, Table
from attentif.errors import DataError

Kept = tuple[str, str | None]  # what is kept of a cell, or the reason why nothing is
SEVERAL = Roles(("text", "labels"), optional=("pair",), guess_group=True)


def load_several(config: DataConfig, separator: str, say: Say | None = None) -> Splits:
    """Three tables with the role "labels", and the labels of the training split in order; a label that training never saw is refused."""
    splits = load_table(_name_columns(config), SEVERAL, say, open_rows=partial(_rows, separator))
    counts = Counter(label for row in splits.train["labels"] for label in labels_of(row))
    if not counts:
        raise DataError("no row of train has a label: there is nothing to learn", file=splits.train.files[0])
    for table in (splits.valid, splits.test):
        for row, text in enumerate(table["labels"]):
            if unknown := [label for label in labels_of(text) if label not in counts]:
                where = f"{table.place(row)}: the label {unknown[0]!r}"
                raise DataError(f"{where} ({table.name}) has no example in train{_alike(unknown[0], counts)}")
    labels, everywhere = sorted(counts), [label for label in counts if counts[label] == len(splits.train)]
    if len(everywhere) == len(labels):
        file = splits.train.files[0]
        raise DataError(f"all rows of train have the same labels ({', '.join(labels[:10])}): there is nothing to tell apart", file=file)
    shown = ", ".join(f"{label} ({counts[label]:,})" for label in labels[:20]) + (" ..." if labels[20:] else "")
    bare = sum(not labels_of(row) for row in splits.train["labels"])
    notes = [*splits.notes, f"labels in train: {shown}; {bare:,} of {len(splits.train):,} rows have none"]
    notes += [f"all rows of train have the label {label!r}: nothing can be learned about it" for label in everywhere]
    return Splits(splits.train, splits.valid, splits.test, labels, notes)


def several_rows(config: DataConfig, separator: str, say: Say | None = None) -> tuple[Table, list[str]]:
    """Every row of the `train` files, to be scored."""
    return load_rows(_name_columns(config), SEVERAL, say, open_rows=partial(_rows, separator))


def labels_of(kept: str) -> list[str]:
    """The labels of a row of the table."""
    return list(json.loads(kept))


def _name_columns(config: DataConfig) -> DataConfig:
    """`--label NAME` names the column of several labels too."""
    return config.replace(columns=config.columns | {"labels": config.label}) if config.label else config


def _rows(
    separator: str,
    config: DataConfig,
    split: Split,  # noqa: ARG001 - all readers of rows are called alike
    file: Path,
    roles: Roles,
    tolerance: Tolerance,
    notes: list[str],
) -> tuple[list[str], Iterator[Row]]:
    reader = open_reader(file, tolerance)
    if isinstance(reader, PlainText):
        raise DataError("is plain text, without a column for the labels; give a CSV, TSV, JSONL or Parquet file", file=file)
    names = find_columns(reader.columns, file, config, roles)
    said = ", ".join(f"{role} from column {column!r}" for role, column in names.items())
    notes.append(f"{reader.about}: {said}")
    spell = label_key if config.normalise_labels else str.strip
    return list(names), _read(reader.cells(list(names.values())), list(names), partial(_labels, separator, spell), file, tolerance)


def _read(
    rows: Iterator[tuple[int, Sequence[Any]]], roles: Sequence[str], labels: Callable[[Any], Kept], file: Path, tolerance: Tolerance
) -> Iterator[Row]:
    for line, values in rows:
        texts = []
        for role, value in zip(roles, values, strict=True):
            text, problem = labels(value) if role == "labels" else _text(role, value)
            if problem:
                tolerance.bad(problem, file, line)
                break
            texts.append(text)
        else:
            yield line, texts


def _text(role: str, value: Any) -> Kept:
    if not isinstance(value, str):
        return "", f"the {role} is {value!r}, where a text is expected"
    return value, text_problem(value)


def _labels(separator: str, spell: Callable[[str], str], value: Any) -> Kept:
    """A cell's labels as a JSON list, or the reason why they cannot be read."""
    if isinstance(value, str):
        if value.lstrip().startswith("["):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return "", f"the labels {value!r} begin as a JSON list and are none"
        else:
            value = [part for part in value.split(separator) if part.strip()]
    if not isinstance(value, list):
        return "", f"the labels are {value!r}, where a list, or a text with {separator!r} between them, is expected"
    for label in value:
        if isinstance(label, bool) or not isinstance(label, str | int) or not str(label).strip():
            return "", f"a label is {label!r}, where a text or a whole number is expected"
        if problem := text_problem(str(label)):
            return "", f"a label {problem}"
    return json.dumps(sorted({spell(str(label)) for label in value}), ensure_ascii=False), None


def _alike(label: str, known: Counter[str]) -> str:
    alike = [other for other in known if label_key(other) == label_key(label)]
    return f"; {alike[0]!r} has: take them as one with data.normalise_labels=true" if alike else ""
