"""Overlap of evaluation and training rows."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from attentif.data.in_memory import save_frame
from attentif.data.table import Table
from attentif.tasks.answers import Evaluation
from attentif.tasks.base import Dataset
from attentif.tasks.details import OverlapDetails, ScoredRows


def find_unseen(dataset: Dataset, *known: Dataset) -> list[int] | None:
    """Numbers of the rows that the `known` splits do not have; None where they cannot be compared (sounds by their files, series)."""
    scored, tables = getattr(dataset, "table", None), [getattr(split, "table", None) for split in known]
    if not isinstance(scored, Table):
        return None
    seen: set[bytes] = set()
    for table in tables:
        if not isinstance(table, Table):
            return None
        seen.update(table.contents)
    return [row for row, content in enumerate(scored.contents) if content not in seen]


def save_rows(dataset: Dataset, rows: list[int]) -> dict[str, Any]:
    """Save some rows of a table to a file; return the `[data]` keys that read them."""
    table: Table = getattr(dataset, "table")  # noqa: B009 - find_unseen has looked
    part = table.take(rows)
    file = save_frame([{role: values[row] for role, values in part.columns.items()} for row in range(len(part))])
    return {"train": str(file), **name_roles(part.columns)}


def name_roles(roles: Iterable[str]) -> dict[str, Any]:
    """Keys of `[data]` that name a column for each role, where columns are called by their roles."""
    given = {*roles}
    direct: dict[str, str] = {role: role for role in ("text", "label", "pair", "source") if role in given}
    direct |= {"target_column": "target"} if "target" in given else {}
    others = {role: role for role in sorted(given) if role not in (*direct.values(), "group")}
    return {**direct} | ({"columns": others} if others else {})


def add_unseen(found: Evaluation, unseen: Evaluation | None, seen: int) -> Evaluation:
    """Add the scores of the rows that training did not read."""
    apart: ScoredRows | None = None
    if unseen is not None:
        apart = {"scores": unseen.scores, "intervals": unseen.intervals, "examples": unseen.examples}
    return replace(found, details={**found.details, **OverlapDetails(trained_on=seen, unseen=apart)})
