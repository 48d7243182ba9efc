"""Limits on what the header of a file may ask for, checked before memory is spent on it.

A limit that a sound file may exceed is raised by its environment variable; docs/data.md lists them.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from attentif.errors import DataError, UsageError

SMALL = 64_000_000  # bytes that any file may unpack to
ROW_BYTES = 16  # the least that a row of a table counts for: a column of one repeated value takes no bytes on disk
SOUND_RATES = range(100, 768_001)  # samples a second: from seismographs to the fastest converters
USUAL_RATE = 48_000  # samples a second at which a sound may last as long as the limit says


@dataclass(frozen=True, slots=True)
class Limit:
    """A number that an environment variable overrides."""

    variable: str
    default: int

    @property
    def value(self) -> int:
        """The limit in force."""
        given = os.environ.get(self.variable, "").strip()
        if not given:
            return self.default
        if not (given.isascii() and given.isdigit() and len(given) < 19 and int(given)):
            raise UsageError(f"the environment variable {self.variable} is {given!r}; a whole number above 0 is expected")
        return int(given)

    @property
    def way_out(self) -> str:
        return f"if the file is right, raise the limit: {self.variable}=N (now {self.value:,})"


UNPACK_RATIO = Limit("ATTENTIF_MAX_UNPACK_RATIO", 100)
SOUND_SECONDS = Limit("ATTENTIF_MAX_SOUND_SECONDS", 3600)


def largest_unpacked(packed: int) -> int:
    """The bytes that a compressed file of `packed` bytes may unpack to."""
    return max(SMALL, UNPACK_RATIO.value * packed)


def check_unpacked(unpacked: int, packed: int, file: Path, what: str = "") -> None:
    """Refuse a file whose `packed` bytes on disk hold, or announce, more than anything but a decompression bomb does."""
    if unpacked > largest_unpacked(packed):
        held = f"{what or 'its content'} takes {unpacked / 1e6:,.0f} MB or more unpacked, and {packed / 1e6:,.2f} MB packed"
        raise DataError(f"{held}, more than {UNPACK_RATIO.value} times as much; {UNPACK_RATIO.way_out}", file=file)


def check_sound(frames: int, rate: int, file: Path) -> None:
    """Refuse a sound whose rate no recorder has, or that is longer than the limit."""
    if rate not in SOUND_RATES:
        possible = f"{SOUND_RATES.start:,} to {SOUND_RATES.stop - 1:,}"
        raise DataError(f"its header says {rate:,} samples a second, and {possible} are read; correct the header", file=file)
    longest = SOUND_SECONDS.value
    if frames > longest * min(rate, USUAL_RATE):
        long = f"{frames:,} samples, {frames / rate:,.0f} seconds, is longer than a sound may be; cut it into pieces, or"
        raise DataError(f"{long} {SOUND_SECONDS.way_out}", file=file)
