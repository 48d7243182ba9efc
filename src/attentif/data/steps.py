"""Time steps of a series, and calendar features of dates.

A step is a fixed number of seconds (an hour, a day), or of months, which are not all as long. The season that a step suggests: a day of
hours or minutes, a week of days, a year of weeks, months or quarters.
"""

import re
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentif.data.month_names import in_digits

Dates = NDArray[np.datetime64]  # in seconds
Ints = NDArray[np.int64]

HOUR, DAY, WEEK = 3600, 86_400, 7 * 86_400
EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class TimeStep:
    """Step from one row to the next, in months or seconds."""

    seconds: int = 0
    months: int = 0

    @property
    def name(self) -> str:
        """ "an hour", "15 minutes", "3 months"."""
        if self.months:
            years, rest = divmod(self.months, 12)
            return _amount(years, "year") if not rest else _amount(self.months, "month")
        for unit, seconds in (("week", WEEK), ("day", DAY), ("hour", HOUR), ("minute", 60), ("second", 1)):
            if self.seconds % seconds == 0:
                return _amount(self.seconds // seconds, unit)
        raise AssertionError("a step of no time")

    @property
    def period(self) -> int:
        """Period of the season to try first, in steps; 1 if there is none."""
        if self.months:
            return 12 // self.months if 12 % self.months == 0 else 1
        if self.seconds == WEEK:
            return 52
        if self.seconds == DAY:
            return 7
        return DAY // self.seconds if self.seconds < DAY and DAY % self.seconds == 0 else 1

    @property
    def seasons(self) -> tuple[int, ...]:
        """Plausible seasons: the day and the week, where steps fill a day."""
        return (self.period, 7 * self.period) if self.seconds and self.seconds * self.period == DAY else (self.period,)

    def after(self, last: np.datetime64, count: int) -> Dates:
        """The `count` dates that follow."""
        numbers = np.arange(1, count + 1)
        if not self.months:
            return last.astype("datetime64[s]") + (numbers * self.seconds).astype("timedelta64[s]")
        month = last.astype("datetime64[M]") + (numbers * self.months).astype("timedelta64[M]")
        days = (last.astype("datetime64[D]") - last.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64)
        lengths = ((month + 1).astype("datetime64[D]") - month.astype("datetime64[D]")).astype(np.int64)
        if last.astype("datetime64[D]") + 1 == (last.astype("datetime64[M]") + 1).astype("datetime64[D]"):  # ends of months
            days = np.int64(30)
        clock = last.astype("datetime64[s]") - last.astype("datetime64[D]").astype("datetime64[s]")
        return (month.astype("datetime64[D]") + np.minimum(days, lengths - 1)).astype("datetime64[s]") + clock

    def between(self, dates: Dates) -> Ints:
        """Steps from each date to the next; 0 if not a whole number."""
        if self.months:
            return _months(dates) // self.months * (_months(dates) % self.months == 0)
        gaps = np.diff(dates).astype("timedelta64[s]").astype(np.int64)
        return gaps // self.seconds * (gaps % self.seconds == 0)


def step_of(dates: Dates) -> TimeStep:
    """The most frequent step; months if dates fall on one day of the month, or on its last."""
    gaps = np.diff(dates).astype("timedelta64[s]").astype(np.int64)
    if len(gaps) and gaps.min() >= 28 * DAY and _same_day_of_month(dates):
        return TimeStep(months=_commonest(_months(dates)))
    return TimeStep(seconds=_commonest(gaps) if len(gaps) else DAY)


def calendar(dates: Dates) -> Ints:
    """(rows, 4): hour, weekday (Monday is 0), day of the month and month, each from 0."""
    days = dates.astype("datetime64[D]")
    hour = (dates - days.astype(dates.dtype)).astype("timedelta64[h]").astype(np.int64)
    weekday = (days.astype(np.int64) + 3) % 7  # the first of January 1970 was a Thursday
    months = dates.astype("datetime64[M]")
    day = (days - months.astype("datetime64[D]")).astype(np.int64)
    return np.stack([hour, weekday, day, months.astype(np.int64) % 12], axis=1)


def parse_date(value: Any, format: str | None) -> tuple[int, int | None]:
    """A date as a file has it: seconds since 1970, in UTC where it has a time zone, and the zone's distance from UTC; ValueError where
    it is none."""
    if isinstance(value, datetime):
        moment = value
    elif isinstance(value, date):
        moment = datetime(value.year, value.month, value.day)
    else:
        text = str(value).strip()
        if format:
            moment = datetime.strptime(text, format)
        else:
            if re.fullmatch(r"\d{4}(-\d{2})?", text):  # a year, a month
                text += "-01-01"[: 10 - len(text)] if len(text) == 4 else "-01"
            moment = datetime.fromisoformat(in_digits(text) or text)
    distance = moment.utcoffset()
    seconds = round((moment.replace(tzinfo=None) - EPOCH).total_seconds())
    return (seconds, None) if distance is None else (seconds - round(distance.total_seconds()), round(distance.total_seconds()))


def format_date(moment: np.datetime64, *, timed: bool, utc: bool = False) -> str:
    """ "2016-07-01", or "2016-07-01 00:00" where dates are `timed`; "2016-07-01 00:00Z" of an instant."""
    text = str(moment.astype("datetime64[s]")).replace("T", " ")
    if utc:
        return text.removesuffix(":00") + "Z"
    return text.removesuffix(":00") if timed else text[:10]


def have_time(dates: Dates) -> bool:
    """Whether a date has more than its day: then all are written with hour and minute."""
    return bool((dates != dates.astype("datetime64[D]").astype(dates.dtype)).any())


def _months(dates: Dates) -> Ints:
    months: Ints = dates.astype("datetime64[M]").astype(np.int64)
    return months[1:] - months[:-1]


def _same_day_of_month(dates: Dates) -> bool:
    days = dates.astype("datetime64[D]")
    place = (days - dates.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64)
    left = ((dates.astype("datetime64[M]") + 1).astype("datetime64[D]") - days).astype(np.int64)
    return bool((place == place[0]).all() or (left == left[0]).all())


def _commonest(numbers: Ints) -> int:
    values, counts = np.unique(numbers, return_counts=True)
    return int(values[counts.argmax()])


def _amount(number: int, unit: str) -> str:
    return f"{'an' if unit == 'hour' else 'a'} {unit}" if number == 1 else f"{number} {unit}s"
