"""Windows of a series: so many steps to read, so many to forecast, cut out when they are asked for.

Splits follow one another in time. A window belongs to the split that all the steps it forecasts stand in; what it reads may stand in the
split before (as the literature has it: Zhou et al. 2021), but never after. Every window is counted, stride 1, none dropped.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attentif.data.series import Series
from attentif.data.steps import calendar
from attentif.errors import DataError
from attentif.models import Batch, Input, ModelConfig
from attentif.models.frontends import TokensConfig
from attentif.models.frontends.series import SeriesConfig
from attentif.nn.seq import Seq
from attentif.tasks.predictors import LinearBatch
from attentif.tasks.ragged import Ints, Rows

Floats32 = NDArray[np.float32]


@dataclass(frozen=True)
class Scaled:
    """A series on the standardised scale: (x − mean) / deviation of the training split, channel by channel, series by series."""

    series: Series
    values: Floats32  # (rows, channels)
    mean: NDArray[np.float64]  # (series, channels)
    deviation: NDArray[np.float64]

    @cached_property
    def calendar(self) -> Ints:
        return calendar(self.series.dates)

    def find_series(self, row: int) -> int:
        """Which series a row belongs to."""
        return int(np.searchsorted(self.series.borders, row, side="right")) - 1

    def unscale(self, values: NDArray[Any], number: int) -> NDArray[np.float64]:
        """Values (..., channels) of one series as the file has them."""
        return values * self.deviation[number] + self.mean[number]


@dataclass(frozen=True)
class Windows:
    """One split: `starts` are the first rows that windows read."""

    name: str
    scaled: Scaled
    starts: Ints
    look_back: int
    horizon: int
    tokens: int  # of a window, in a batch's budget
    linear: Callable[[Floats32], NDArray[Any]] | None = None  # the map beneath the network, of (n, look-back, channels)

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def lengths(self) -> Ints:
        return np.full(len(self.starts), self.tokens, dtype=np.int64)

    def batch(self, rows: Rows, *, packed: bool = False) -> Batch:
        """What is read, with the calendar beside it up to the last step of the horizon, and as labels what comes."""
        chosen = np.asarray(rows, dtype=np.int64)
        steps = self.starts[chosen][:, None] + np.arange(self.look_back + self.horizon)
        batch = build_batch(self.scaled.values[steps], self.scaled.calendar[steps], self.look_back, chosen)
        if self.linear is None:
            return batch
        beneath = torch.from_numpy(self.linear(batch.source.data.numpy()))
        return LinearBatch(batch.source, labels=batch.labels, rows=batch.rows, linear=beneath)

    def read_and_true(self, rows: Rows) -> tuple[Floats32, Floats32]:
        """What these windows read (n, look-back, channels), and what came (n, horizon, channels)."""
        steps = self.starts[np.asarray(rows, dtype=np.int64)][:, None] + np.arange(self.look_back + self.horizon)
        values = self.scaled.values[steps]
        return values[:, : self.look_back], values[:, self.look_back :]

    def place(self, row: int) -> str:
        """Where the forecast begins."""
        first = int(self.starts[row]) + self.look_back
        return f"{self.scaled.series.place(first)} ({self.scaled.series.when(self.scaled.series.dates[first])})"

    def pick(self, count: int) -> Ints:
        """At most so many windows, evenly spaced over the split."""
        return np.unique(np.linspace(0, len(self) - 1, min(count, len(self))).round().astype(np.int64))


def adapt_to_series(model: ModelConfig) -> ModelConfig:
    """Use any preset as the backbone of series: measurements in place of tokens, its positions kept."""
    frontend = model.frontend
    if not isinstance(frontend, TokensConfig) or model.target is not None:
        return model
    return model.replace(frontend=SeriesConfig(position=frontend.position, norm=frontend.norm))


def build_batch(values: Floats32, dates: Ints, look_back: int, rows: Ints) -> Batch:
    """Windows (n, steps, channels) of which `look_back` steps are read, with their calendar (n, steps, 4)."""
    whole, beside = torch.from_numpy(values), torch.from_numpy(dates)
    seq = Seq.from_padded(torch.full((len(whole),), look_back))
    known = Input(beside, Seq.from_padded(torch.full((len(whole),), beside.shape[1])))
    return Batch(Input(whole[:, :look_back], seq, beside=known), labels=whole[:, look_back:], rows=tuple(rows.tolist()))


@dataclass(frozen=True, slots=True)
class Cuts:
    """Rows at which each series is cut, (series, 4): its beginning, and the ends of train, valid and test."""

    rows: Ints

    def part(self, number: int, split: int) -> slice:
        return slice(int(self.rows[number, split]), int(self.rows[number, split + 1]))


def cut_by_time(series: Series, counts: Sequence[int], fractions: tuple[float, float], notes: list[str]) -> Cuts:
    """By the files themselves where valid or test are files, by so many rows, or by shares of valid and test, in the order of time."""
    found = []
    for name, rows in series.each():
        length = rows.stop - rows.start
        own = np.bincount(series.parts[rows], minlength=3)
        if counts and own[1:].any():
            raise DataError("task.split cuts one table, and this one has its splits already: leave task.split out", file=series.files[0])
        if own[1] and not own[2]:
            raise DataError("a file to choose by (valid) goes with one to score (test): series are cut by time", file=series.files[0])
        if own[2]:
            valid = int(own[1]) or round(int(own[0]) * fractions[0])
            sizes = [length - valid - int(own[2]), valid, int(own[2])]
        elif counts:
            sizes = list(counts)
            if sum(sizes) > length:
                of = f" of series {name!r}" if name else ""
                raise DataError(f"task.split asks for {sum(sizes):,} rows and there are {length:,}{of}", file=series.files[0])
        else:
            valid, test = (round(length * share) for share in fractions)
            sizes = [length - valid - test, valid, test]
        found.append(rows.start + np.concatenate([[0], np.cumsum(sizes)]))
    cuts = Cuts(np.array(found, dtype=np.int64))
    first = cuts.rows[0]
    shown = ", ".join(f"{size:,} {split}" for size, split in zip(np.diff(first).tolist(), ("train", "valid", "test"), strict=True))
    left = int(series.borders[1] - first[-1])
    unused = f"; the last {left:,} rows are not used" if left else ""
    began = "".join(
        f", {split} from {series.when(series.dates[first[place]])}"
        for place, split in ((1, "valid"), (2, "test"))
        if first[place] < first[place + 1]
    )
    notes.append(f"cut by time{' (each series)' if len(series.names) > 1 else ''}: {shown} rows{began}{unused}")
    return cuts


def window_starts(cuts: Cuts, split: int, look_back: int, horizon: int) -> Ints:
    """The first rows of the windows of a split: 0 train, 1 valid, 2 test."""
    found = []
    for number in range(len(cuts.rows)):
        part = cuts.part(number, split)
        first = max(part.start - look_back, int(cuts.rows[number, 0]))
        found.append(np.arange(first, part.stop - look_back - horizon + 1))
    return np.concatenate(found)


def standardise(series: Series, mean: NDArray[np.float64], deviation: NDArray[np.float64]) -> Scaled:
    values = np.empty(series.values.shape, dtype=np.float32)
    for number, (_, rows) in enumerate(series.each()):
        values[rows] = (series.values[rows] - mean[number]) / deviation[number]
    return Scaled(series, values, mean, deviation)


def training_scale(series: Series, cuts: Cuts) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and deviation (series, channels) of the training split; a channel that never moves there is refused."""
    mean, deviation = [], []
    for number, (name, _) in enumerate(series.each()):
        part = cuts.part(number, 0)
        known = series.values[part]
        mean.append(known.mean(0))
        deviation.append(known.std(0))
        still = np.flatnonzero(np.ptp(known, axis=0) == 0)
        if len(still):
            column, of = series.columns[still[0]], f" of series {name!r}" if name else ""
            rows = f"{part.stop - part.start:,} training rows"
            way_out = "" if name else "; leave it out (task.columns)"
            raise series.error(
                f"{column}: is constant{of} ({known[0, still[0]]:g} in all {rows}): there is nothing to learn{way_out}", part.start
            )
    return np.array(mean), np.array(deviation)


def drop_unusable(
    series: Series, counts: Sequence[int], fractions: tuple[float, float], sizes: tuple[int, int], allowed: int, notes: list[str]
) -> tuple[Series, list[str]]:
    """The series that move and have windows (look-back, horizon) in each split; and the names of the others, so many at most."""
    total, problems = len(series.names), dict[int, DataError]()
    for number in range(total):
        own = series.only([number])
        try:
            cuts = cut_by_time(own, counts, fractions, [])
            _check_lengths(own, cuts, *sizes)
            training_scale(own, cuts)
        except DataError as problem:
            problems[number] = problem
    if not problems:
        return series, []
    first = next(iter(problems.values()))
    if len(problems) == total:
        raise first
    if len(problems) > allowed:
        way_out = f"--skip-bad {len(problems)} leaves out what cannot be used, {len(problems):,} of {total:,} series"
        raise DataError(f"{first.message}; {way_out}", file=first.file, line=first.line)
    notes.append(f"{len(problems):,} of {total:,} series left out, the first for this: {first}")
    kept = [number for number in range(total) if number not in problems]
    return series.only(kept), [series.names[number] for number in problems]


def _check_lengths(series: Series, cuts: Cuts, look_back: int, horizon: int) -> None:
    for number, (name, _) in enumerate(series.each()):
        for place, split in enumerate(("train", "valid", "test")):
            part = cuts.part(number, place)
            rows, need = part.stop - part.start, horizon + (look_back if place == 0 else 0)
            if rows < need:
                of = f" of series {name!r}" if name else ""
                total = int(series.borders[number + 1] - series.borders[number])
                window = f"{look_back} + {horizon}" if place == 0 else f"a horizon of {horizon}"
                way_out = "shorten task.look_back or task.horizon, or bring more rows"
                raise DataError(
                    f"too few rows{of}: {split} has {rows:,} of {total:,} and a window takes {window}; {way_out}", file=series.files[0]
                )
