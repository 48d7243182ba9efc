"""What a built-in set is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Columns = dict[str, list[Any]]  # a role and its values, row by row: texts, or arrays where the role is one of pictures, sounds, series
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
