"""Daylight saving time in local dates: the hour that clocks repeat in autumn, and the one they skip in spring.

Both happen in the night to a Sunday, in Europe as in America and Australia. Only dates without a time zone suffer from it.
"""

import numpy as np
from numpy.typing import NDArray

from attentif.data.steps import HOUR, Dates, calendar

SUNDAY = 6
REPEATED, SKIPPED = range(4), range(1, 5)  # what clocks show once they were put back, or forward: from the Azores to Helsinki
WAY_OUT = "write dates in UTC, or with their time zone"


def repeats_an_hour(dates: Dates) -> bool:
    """Whether all dates that stand twice or go back are those of an hour that clocks repeated."""
    gaps = np.diff(dates).astype(np.int64)
    backward = gaps <= 0
    steps, counts = np.unique(gaps[~backward], return_counts=True)
    if not len(steps) or HOUR % (step := int(steps[counts.argmax()])):
        return False
    at_once = np.isin(gaps[backward], [0, step - HOUR])  # sorted rows stand in pairs, others go back together
    return bool((at_once & _on_sunday(dates[1:][backward], REPEATED)).all())


def skips_an_hour(before: np.datetime64, here: np.datetime64, step: int) -> bool:
    """Whether what is missing between two dates, `step` seconds apart otherwise, is an hour that clocks skipped."""
    gap = int((here - before).astype(np.int64))
    return step > 0 and gap - step == HOUR and bool(_on_sunday(np.array([here]), SKIPPED).all())


def _on_sunday(dates: Dates, hours: range) -> NDArray[np.bool_]:
    hour, weekday = calendar(dates)[:, :2].T
    return (weekday == SUNDAY) & np.isin(hour, hours)
