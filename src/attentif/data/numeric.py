"""Cells of measurements: numbers, missing values, or an error with its reason."""

import re
from typing import Any

import numpy as np

MISSING = ("", "nan", "na", "n/a", "null", "none")
LARGEST = 1e30  # single precision ends at 3e38, and sums of such cells must stay below
THOUSANDS = " \u00a0\u202f"  # spaces that stand between them: plain, no-break, and its narrow form
FRENCH = re.compile(rf"\s*[+-]?(?:\d+,\d+|\d{{1,3}}(?:[{THOUSANDS}]\d{{3}})+(?:,\d+)?)\s*")


def is_number(value: Any) -> bool:
    try:
        return not np.isnan(number_of("", value))
    except ValueError:
        return False


def is_french(value: Any) -> bool:
    """Whether a cell is a number with a decimal comma, or with spaces between its thousands: 1 234,5."""
    return isinstance(value, str) and FRENCH.fullmatch(value) is not None


def in_points(value: str) -> str:
    """The same number as Python writes it."""
    return re.sub(rf"[{THOUSANDS}]", "", value).replace(",", ".")


def number_of(column: str, value: Any) -> float:
    """A cell as a number, nan where it is missing; ValueError says what it is instead."""
    try:
        number = float(value)
    except OverflowError:  # a whole number of hundreds of digits
        number = float("inf")
    except (TypeError, ValueError):
        if value is None or str(value).strip().casefold() in MISSING:
            return float("nan")
        comma = "; decimals are written with a point" if isinstance(value, str) and "," in value else ""
        raise ValueError(f"{column}: {str(value)[:40]!r} is not a number{comma}") from None
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{column}: is infinite")
    if abs(number) > LARGEST:
        raise ValueError(f"{column}: {str(value)[:40]} is too large to be worked with; correct it, or choose another unit")
    return number
