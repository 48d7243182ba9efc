"""TOML: every value of a file has a line, and what is written is read back."""

import math
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attentif.config import toml_key, toml_value
from attentif.toml import line_of, lines_of

TRICKY = '''\
top = 1
"quoted key" = 2
a.b.c = 3
long = """
[not.a.table]
fake = 1
"""
list = [
  ["x", "y"],   # [neither]
  { deep = 1,
    deeper = 2 },
]
literal = 'back\\slash # no comment'
date = 1979-05-27 07:32:00

[table]      # comment
key = { inner = { far = 3 } }
"dotted.name".z = 4
pi = 3.14
[table.sub]
k = 1
[[blocks]]
repeat = 1
[[blocks]]
repeat = 2
[blocks.sublayers.attn]
heads = 3
[[blocks.sublayers.attn.pattern]]
left = 4
[[blocks.sublayers.attn.pattern]]
left = 5
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("top",), 1),
        (("quoted key",), 2),
        (("a", "b", "c"), 3),
        (("a", "b"), 3),
        (("a", "x"), 3),
        (("long",), 4),
        (("fake",), None),
        (("list", 0, 1), 9),
        (("list", 1, "deep"), 10),
        (("list", 1, "deeper"), 11),
        (("list", 1, "unknown"), 10),
        (("literal",), 13),
        (("date",), 14),
        (("table",), 16),
        (("table", "key", "inner", "far"), 17),
        (("table", "dotted.name", "z"), 18),
        (("table", "pi"), 19),
        (("table", "missing"), 16),
        (("table", "sub", "k"), 21),
        (("blocks", 0, "repeat"), 23),
        (("blocks", 1, "repeat"), 25),
        (("blocks", 1, "sublayers", "attn", "heads"), 27),
        (("blocks", 1, "sublayers", "attn", "pattern", 1, "left"), 31),
        (("blocks", 1, "nothing"), 24),
        (("nowhere",), None),
    ],
)
def test_lines_are_found(path: tuple[str | int, ...], line: int | None) -> None:
    assert line_of(TRICKY, path) == line


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from paths(item, (*path, key))


# ------------------------------------------------------------------------------------------------------------- writing

text = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | text
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=8)


@given(st.dictionaries(text, values, max_size=4))
def test_what_is_written_as_toml_is_read_back_and_every_value_has_a_line(document: dict[str, Any]) -> None:
    written = "".join(f"{toml_key(key)} = {toml_value(value)}\n" for key, value in document.items())
    assert tomllib.loads(written) == document
    found = lines_of(written)
    assert set(found) == set(paths(document))
    for number, key in enumerate(document, 1):
        assert found[(key,)] == number


def test_nan_and_paths_can_be_written_and_other_things_cannot() -> None:
    assert math.isnan(tomllib.loads(f"x = {toml_value(math.nan)}")["x"])
    assert toml_value(Path("a") / "b") == '"a/b"'
    with pytest.raises(TypeError, match="object"):
        toml_value(object())
