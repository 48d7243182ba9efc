"""The data sets that come with the project: nothing to download, the same rows for the same seed on every machine.

Two are written by the project itself (synthetic, and said to be), the third is text that every Python carries.
"""

from collections.abc import Callable
from dataclasses import dataclass

from attentif.data.builtin import numbers, reviews, stdlib

Columns = dict[str, list[str]]  # a role ("text", "label", "source", "target", ...) and its values, row by row
Splits = dict[str, Columns]  # "train", "valid", "test"


@dataclass(frozen=True, kw_only=True)
class BuiltIn:
    """One built-in set: what its rows are for, and how to make them."""

    name: str
    roles: tuple[str, ...]
    description: str
    size: str
    synthetic: bool
    load: Callable[[int], Splits]  # seed -> splits


BUILTIN: dict[str, BuiltIn] = {
    entry.name: entry
    for entry in (
        BuiltIn(
            name="reviews",
            roles=("text", "label"),
            description="French film reviews, written by a grammar in which counting words is not enough",
            size="20,000 train, 2,000 valid, 2,000 test reviews",
            synthetic=True,
            load=reviews.load,
        ),
        BuiltIn(
            name="numbers",
            roles=("source", "target"),
            description="French number words to English number words, 0 to 999,999,999",
            size="30,000 train, 1,000 valid, 2,000 test pairs",
            synthetic=True,
            load=numbers.load,
        ),
        BuiltIn(
            name="stdlib",
            roles=("text",),
            description="the source text of the running Python's standard library, one document a file",
            size="about 10 MB in several hundred files, 90 % train, 5 % valid, 5 % test (depends on the Python)",
            synthetic=False,
            load=stdlib.load,
        ),
    )
}
