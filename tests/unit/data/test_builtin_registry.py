"""What the registry promises is what the sets give."""

import subprocess
import sys

import pytest

from attentif.data.builtin import BUILTIN


def test_each_set_is_registered_under_its_name() -> None:
    assert {"reviews", "numbers", "stdlib"} == set(BUILTIN)
    assert all(entry.name == name for name, entry in BUILTIN.items())


@pytest.mark.parametrize("name", BUILTIN)
def test_splits_have_the_declared_roles_in_columns_of_one_length(name: str) -> None:
    entry = BUILTIN[name]
    splits = entry.load(0)
    assert list(splits) == ["train", "valid", "test"]
    for columns in splits.values():
        assert set(entry.roles) <= set(columns)
        assert len({len(values) for values in columns.values()}) == 1
        assert all(value.strip() for values in columns.values() for value in values)


def test_built_in_sets_import_nothing_heavy() -> None:
    code = "import sys, attentif.data.builtin.reviews; print([m for m in ('torch', 'sklearn', 'pyarrow') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
