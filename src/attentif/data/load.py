"""Load the examples of a configuration into memory."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from attentif.data.columns import NoGroupError, Roles, find_columns, refuse_group
from attentif.data.config import SPLITS, DataConfig, Split
from attentif.data.groups import with_groups, without_groups
from attentif.data.labels import check_labels, class_names, decimals, label_key, several_in_one
from attentif.data.progress import Pulse, Say
from attentif.data.readers import PlainText, Row, Tolerance, is_plain, open_reader, text_lines
from attentif.data.split import cut_apart, duplicate_notes, sample
from attentif.data.table import Splits, Table
from attentif.errors import DataError

# The roles that a file fills, and its rows in that order: how a task whose files are no tables (CoNLL, SQuAD) reads them.
Open = Callable[[DataConfig, Split, Path, Roles, Tolerance, list[str]], tuple[list[str], Iterator[Row]]]


def load_table(config: DataConfig, roles: Roles, say: Say | None = None, *, open_rows: Open | None = None) -> Splits:
    """Load and check the three splits of a task; `notes` reports what was detected."""
    notes: list[str] = []
    if config.name:
        tables = load_built_in(config, roles)
    else:
        tolerance = Tolerance(config.skip_bad)
        tables = {split: _read(config, split, roles, tolerance, notes, Pulse(say), open_rows) for split in SPLITS if config.files(split)}
        notes += tolerance.notes
        _same_columns(tables, roles)
    labelled = "label" in tables["train"].columns
    if labelled:
        hint = several_in_one(tables["train"]["label"]) if "label" in roles.lists else None
        tables = {split: _check_labels(table, config, hint) for split, table in tables.items()}
        notes += [note for note in (hint, decimals(tables["train"]["label"])) if note]
    tables = cut_apart(tables, config, roles, notes)
    train, valid, test = (tables[split] for split in SPLITS)
    if 0 < config.limit < len(train):
        notes.append(f"trained on {config.limit:,} of {len(train):,} rows, as data.limit asks")
        train = sample(train, config.limit, config.seed if config.limit_seed is None else config.limit_seed)
    labels = class_names(train, [valid, test]) if labelled else []
    if labels:
        counts = Counter(train["label"])
        notes.append(
            "classes in train: " + ", ".join(f"{label} ({counts[label]:,})" for label in labels[:20]) + (" ..." if labels[20:] else "")
        )
    return Splits(train, valid, test, labels, notes + duplicate_notes(train, valid, test))


def load_rows(config: DataConfig, roles: Roles, say: Say | None = None, *, open_rows: Open | None = None) -> tuple[Table, list[str]]:
    """Every row of the `train` files, to be scored, whatever its class; and notes."""
    notes: list[str] = []
    tolerance = Tolerance(config.skip_bad)
    try:
        read = _read(config, "train", roles, tolerance, notes, Pulse(say), open_rows)
    except NoGroupError:  # nothing is cut here: other files than the run's own need not have its groups
        read = _read(without_groups(config), "train", roles, tolerance, notes, Pulse(say), open_rows)
    table = Table("test", read.columns, read.files, read.places)  # what is scored is never left out for its length
    if config.normalise_labels and "label" in table.columns:
        table = _normalise_text(table)
    return table, notes + tolerance.notes


def load_built_in(config: DataConfig, roles: Roles) -> dict[str, Table]:
    from attentif.data.builtin import BUILTIN

    entry = BUILTIN[str(config.name)]
    if missing := [role for role in roles.required if role not in entry.roles]:
        raise DataError(f"the built-in set {entry.name!r} has no {missing[0]} (it has {', '.join(entry.roles)}): it is for another task")
    tables = {}
    for split, columns in entry.rows(config.seed, config.options).items():
        kept = {role: values for role, values in columns.items() if role in (*roles.required, *roles.optional, "group")}
        count = len(next(iter(kept.values())))
        places = np.stack([np.zeros(count, dtype=np.int64), np.arange(1, count + 1)], axis=1)
        tables[split] = Table(split, kept, [f"{entry.name}/{split}"], places)
    return tables


def _read(
    config: DataConfig, split: Split, roles: Roles, tolerance: Tolerance, notes: list[str], pulse: Pulse, open_rows: Open | None
) -> Table:
    """The rows of one split's files."""
    columns: dict[str, list[str]] = {}
    files = config.files(split)
    places: list[tuple[int, int]] = []
    grouping = config if split == "train" else without_groups(config)
    opened = with_groups(files, grouping, notes, lambda file, asked: (open_rows or table_rows)(asked, split, file, roles, tolerance, notes))
    grouped = any("group" in names for names, _ in opened)
    for number, (file, (names, rows)) in enumerate(zip(files, opened, strict=True)):
        told = [role for role in names if role != "group"] + (["group"] if grouped else [])
        if columns and set(columns) != set(told):
            raise DataError(f"has {', '.join(told)} where {files[0]} has {', '.join(columns)}", file=file)
        columns = columns or {role: [] for role in told}
        read = len(places)
        for line, values in rows:
            if problem := _problem(names, values):
                tolerance.bad(problem, file, line)
                continue
            for role, value in zip(names, values, strict=True):
                columns[role].append(value)
            if grouped and "group" not in names:
                columns["group"].append("")  # a group of its own
            places.append((number, line))
            if len(places) % 4096 == 0:
                pulse(lambda: f"reading {split}: {len(places):,} rows")
        if len(places) == read:
            raise DataError("has no usable row" if tolerance.count else "has no rows, only a header", file=file)
    return Table(split, columns, [str(file) for file in files], np.array(places, dtype=np.int64))


def table_rows(
    config: DataConfig, split: Split, file: Path, roles: Roles, tolerance: Tolerance, notes: list[str]
) -> tuple[list[str], Iterator[Row]]:
    """The roles that a file fills, and its rows in that order."""
    target = config.target_file(split)
    if target is not None:
        if set(roles.required) != {"source", "target"}:
            raise DataError(f"a second, line-aligned file ({target}) is for translation only", file=file)
        refuse_group(config, file)
        notes.append(f"{split}: each line of {file} is translated by the same line of {target}")
        return ["source", "target"], _align_lines(file, target, tolerance)
    reader = open_reader(file, tolerance)
    if isinstance(reader, PlainText):
        if len(roles.required) > 1:
            way_out = (
                "give the file of translations too: --target FILE"
                if "source" in roles.required
                else "give a CSV, TSV, JSONL or Parquet file"
            )
            raise DataError(f"is plain text, which has no column for the {roles.required[1]}; {way_out}", file=file)
        refuse_group(config, file)
        notes.append(f"{file}: {reader.format}, one {roles.required[0]} a line")
        return [roles.required[0]], ((line, values) for line, values in reader.rows(["line"]) if values[0].strip())
    names = find_columns(reader.columns, file, config, roles)
    said = ", ".join(f"{role} from column {column!r}" for role, column in names.items())
    notes.append(f"{reader.about}: {said}")
    return list(names), reader.rows(list(names.values()), {names[role]: way_out for role, way_out in roles.lists.items() if role in names})


def _align_lines(source: Path, target: Path, tolerance: Tolerance) -> Iterator[Row]:
    for file in (source, target):
        if not is_plain(file):
            raise DataError("line-aligned files are plain text; a table has both texts in its columns", file=file)
    pair = [open_reader(file, tolerance) for file in (source, target)]
    if (counts := [_count(file) for file in (source, target)])[0] != counts[1]:
        raise DataError(f"{source} has {counts[0]:,} lines and {target} has {counts[1]:,}: line-aligned files have as many")
    # a bad line of either file leaves a gap in its own numbering: the other file's line is then passed over too
    rows = [iter(reader.rows(["line"])) for reader in pair]
    left, right = (next(side, None) for side in rows)
    while left is not None and right is not None:
        if left[0] == right[0]:
            row = [*left[1], *right[1]]
            empty = [file for file, text in zip((source, target), row, strict=True) if not text.strip()]
            if empty:
                tolerance.bad("the line is empty", empty[0], left[0])
            else:
                yield left[0], row
        step_left, step_right = left[0] <= right[0], right[0] <= left[0]
        left = next(rows[0], None) if step_left else left
        right = next(rows[1], None) if step_right else right


def _count(file: Path) -> int:
    return sum(1 for _ in text_lines(file))


def _problem(names: Sequence[str], values: Sequence[str]) -> str | None:
    for role, value in zip(names, values, strict=True):
        if not value.strip() and role != "title":
            return f"the {role} is empty"
        if role == "label" and value.strip().casefold() == "nan":
            return "the label is not a number (NaN): it is missing"
    return None


def _same_columns(tables: dict[str, Table], roles: Roles) -> None:
    wanted = {*roles.required, *roles.optional}  # what only says how train is cut is not asked of the others
    expected = wanted & set(tables["train"].columns)
    for table in tables.values():
        if (found := wanted & set(table.columns)) != expected:
            odd = sorted(expected ^ found)[0]
            has, lacks = ("train", table.name) if odd in expected else (table.name, "train")
            raise DataError(f"{has} has a {odd} column and {lacks} has none", file=table.files[0])


def _check_labels(table: Table, config: DataConfig, hint: str | None) -> Table:
    if config.normalise_labels:
        table = _normalise_text(table)
    if table.name == "train":
        check_labels(table, normalised=config.normalise_labels, hint=hint)
    return table


def _normalise_text(table: Table) -> Table:
    return Table(table.name, table.columns | {"label": [label_key(label) for label in table["label"]]}, table.files, table.places)
