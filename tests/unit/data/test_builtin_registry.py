"""What the registry promises is what the sets give."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from attentif.data.builtin import BUILTIN


def test_each_set_is_registered_under_its_name() -> None:
    assert {"reviews", "numbers", "stdlib"} <= set(BUILTIN)
    assert all(entry.name == name for name, entry in BUILTIN.items())


@pytest.mark.parametrize("name", BUILTIN)
def test_splits_have_the_declared_roles_in_columns_of_one_length(name: str) -> None:
    entry = BUILTIN[name]
    splits = entry.load(0)
    assert list(splits) == ["train", "valid", "test"]
    for columns in splits.values():
        assert set(entry.roles) <= set(columns)
        assert len({len(values) for values in columns.values()}) == 1
        assert all(value.strip() for values in columns.values() for value in values if isinstance(value, str))


def test_rows_do_not_depend_on_the_process() -> None:
    code = "from attentif.data.builtin import numbers, reviews; print(numbers.load(1), reviews.load(1, train=99, valid=9, test=40))"
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]


@pytest.mark.parametrize(("name", "marks"), [("reviews", ("négatif", "positif")), ("numbers", ("unseen number", "unseen combination"))])
def test_the_examples_of_the_documentation_are_rows_of_the_test_split(name: str, marks: tuple[str, str]) -> None:
    page = (Path(__file__).parents[3] / "docs" / "datasets.md").read_text(encoding="utf-8")
    rows = {frozenset(row) for row in zip(*BUILTIN[name].load(0)["test"].values(), strict=True)}
    shown = [frozenset(re.split(r" \| ", line.strip("| "))) for line in page.splitlines() if any(f"| {mark} |" in line for mark in marks)]
    assert len(shown) >= 5
    assert all(any(row <= cells for row in rows) for cells in shown)


def test_built_in_sets_import_nothing_heavy() -> None:
    code = "import sys, attentif.data.builtin.reviews; print([m for m in ('torch', 'sklearn', 'pyarrow') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
