"""Forecasting: from the last steps of a series, or of many, to the next ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor

from attentif.data import DataConfig
from attentif.data.dates import parts_problem
from attentif.data.series import Series, load_series
from attentif.data.series_rows import Decimal, Fill, Wanted
from attentif.data.steps import Step
from attentif.errors import ConfigError, DataError
from attentif.models import Batch, Input, Model, ModelConfig, eval_mode
from attentif.models.frontends.series import SeriesConfig
from attentif.models.heads.horizon import HorizonHeadConfig, pinball
from attentif.tasks.attention import attention_maps
from attentif.tasks.base import (
    TASKS,
    Baseline,
    EvalOptions,
    Evaluation,
    Example,
    Inputs,
    Loss,
    Prediction,
    Prepared,
    Say,
    Sizes,
    Task,
    TaskConfig,
    TaskState,
    Tokenizers,
    check_one_stack,
    say_all,
)
from attentif.tasks.batches import build_meta, device_of, format_count, iterate_batches
from attentif.tasks.metrics import Floats
from attentif.tasks.narrow import labels_of, narrow
from attentif.tasks.series.forecast_answers import make_example, predict_file, read_input, window_ending
from attentif.tasks.series.forecast_baselines import forecast_baselines
from attentif.tasks.series.forecast_details import collect_details
from attentif.tasks.series.forecast_report import forecast_sections
from attentif.tasks.series.forecast_scores import Tally, seasonal_error
from attentif.tasks.series.rollout import normalise_input, predict_direct, predict_next, roll_out, sample_futures
from attentif.tasks.series.windows import Cuts, Scaled, Windows, adapt_to_series, cut_by_time, standardise, training_scale, window_starts
from attentif.tasks.tokenizers import TokenizerSource
from attentif.view.blocks import AttentionMaps, Section

PATHS = 100  # drawn futures of a one-step model with quantiles
MOST_PLACES = 128  # of an attention map


@TASKS.register
class ForecastConfig(TaskConfig):
    """The next steps of a series, or of many, from the last ones."""

    kind: Literal["forecast"] = Field("forecast", description="the next steps of a series, or of many, from the last ones")
    look_back: int = Field(96, gt=0, description="steps that are read")
    horizon: int = Field(24, gt=0, description="steps that are forecast")
    mode: Literal["direct", "rollout"] = Field("direct", description="all steps at once, or one after the other on its own answers")
    loss: Literal["mse", "mae", "huber"] = Field("mse", description="what is minimised where no quantiles are asked for")
    quantiles: list[float] = Field([], description="bands: [0.1, 0.5, 0.9]; 0.5, the median, is the forecast")
    split: list[int] = Field([], description="rows to train, to choose by and to score; by default data.valid_fraction and test_fraction")
    columns: list[str] = Field([], description="columns that are forecast; by default all that hold numbers")
    fill: Fill = Field("none", description="missing rows and cells: none (refused), linear, previous, zero (nothing was sold)")
    uneven: bool = Field(False, description="take rows as evenly spaced, whatever their dates (trading days)")
    date_format: str | None = Field(None, description='how dates are written, as strptime has it ("%d/%m/%Y"); by default ISO 8601')
    decimal: Decimal = Field("point", description="what stands before the decimals of a number in a table: point, comma (1,5 and 1 234,5)")
    period: int | None = Field(None, gt=0, description="steps of a season; by default what the step suggests: a day, a week, a year")
    date: str | dict[str, str] | None = Field(
        None, description='column of dates, or of each part: { year = "an", month = "mois" }; by default data.columns.date, or by its name'
    )
    series: str | None = Field(None, description="column that names the series of a long table; by default data.columns.series")

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        if self.quantiles and (sorted(set(self.quantiles)) != self.quantiles or not all(0 < q < 1 for q in self.quantiles)):
            raise ValueError("quantiles: lie between 0 and 1 and rise: [0.1, 0.5, 0.9]")
        if self.quantiles and 0.5 not in self.quantiles:
            raise ValueError("quantiles: 0.5, the median, must be among them: it is the forecast")
        if self.split and (len(self.split) != 3 or min(self.split) < 1):
            raise ValueError("split: three numbers of rows, to train, to choose by and to score")
        if isinstance(self.date, dict) and (problem := parts_problem(self.date)):
            raise ValueError(f"date: {problem}")
        return self

    def build(self) -> "Forecast":
        return Forecast(self)

    @property
    def middle(self) -> int:
        """Place of the median among what is given for each value."""
        return self.quantiles.index(0.5) if self.quantiles else 0


@dataclass(frozen=True)
class ForecastState(TaskState):
    """What was read in training, by which columns, and its scale by series and channel."""

    columns: tuple[str, ...] = ()
    date: str | Mapping[str, str] | None = None
    series: str | None = None  # column that names the series of a long table
    names: tuple[str, ...] = ()  # the series of a long table
    left_out: tuple[str, ...] = ()  # those that training could not use, as --skip-bad allowed
    step: tuple[int, int] | None = None  # from row to row, in seconds and in months
    period: int | None = None  # steps of a season
    mean: Floats = field(default_factory=lambda: np.empty((0, 0)))  # (series, channels)
    deviation: Floats = field(default_factory=lambda: np.empty((0, 0)))
    naive: Floats = field(default_factory=lambda: np.empty((0, 0)))  # error of the seasonal forecast within training, for MASE


class Forecast(Task[ForecastState, Windows]):
    config: ForecastConfig
    state_type = ForecastState
    offers = ("forecast",)
    metric = "mse"
    reads = "series"
    needs_tokenizer = False

    # ------------------------------------------------------------------------------------------------- model and data

    @property
    def averages(self) -> bool:
        return self.config.mode == "direct"

    def adapt(self, model: ModelConfig) -> ModelConfig:
        """Any preset of the toolkit is a body: measurements in place of tokens, a head of the horizon in place of its own."""
        model = adapt_to_series(model)
        rollout = self.config.mode == "rollout"
        if not isinstance(model.head, HorizonHeadConfig):
            model = model.with_head(HorizonHeadConfig(pool="each" if rollout else "last"))
        elif rollout != (model.head.pool == "each"):
            model = model.with_head(model.head.replace(pool="each" if rollout else "last"))
        return model

    def check(self, model: ModelConfig) -> None:
        config, frontend = self.config, model.frontend
        check_one_stack(model, "forecast", "patchtst-tiny")
        if not isinstance(frontend, SeriesConfig):
            raise ConfigError(f'model.frontend: forecast reads measurements: kind = "series", not {frontend.kind!r}')
        if frontend.patch > config.look_back:
            raise ConfigError(f"model.frontend.patch: {frontend.patch} steps are more than task.look_back, {config.look_back}")
        built = build_meta(model)
        if config.mode == "rollout":
            if frontend.patch > 1:
                raise ConfigError("model.frontend.patch: a forecast that is rolled out reads step by step: patch = 1")
            if model.decoder is None or built.caps.streaming == "none":
                raise ConfigError('task.mode: only a causal model can be rolled out: a decoder (lstm-tiny, mamba-tiny), or mode = "direct"')
        places = frontend.tokens(config.look_back) + (config.horizon if config.mode == "rollout" else 0)
        if model.max_len is not None and places > model.max_len:
            raise ConfigError(f"task.look_back: it makes {places} tokens, and this model reads {model.max_len}; or take longer patches")

    def prepare(
        self, data: DataConfig, text: TokenizerSource, model: ModelConfig, say: Say, state: ForecastState | None = None
    ) -> Prepared[ForecastState, Windows]:
        config = self.config
        series, notes = load_series(data, self.request(state), say)
        series, left_out = self._drop_unusable(series, data, notes)
        cuts = cut_by_time(series, config.split, (data.fraction("valid"), data.fraction("test")), notes)
        mean, deviation = training_scale(series, cuts)
        scaled = standardise(series, mean, deviation)
        naive_of = lambda season: [seasonal_error(scaled.values[cuts.part(number, 0)], season) for number in range(len(series.names))]
        seasons = [season for season in series.step.seasons if season <= config.look_back] or series.step.seasons[:1]
        period = (config.period if state is None else state.period) or min(seasons, key=lambda season: float(np.mean(naive_of(season))))
        why = f"of {' and '.join(map(str, seasons))} the one that repeats best in training" if len(seasons) > 1 else "as the step suggests"
        notes.append(f"season: {format_count(period, 'step')}" + ("" if config.period else f", {why} (task.period)"))
        if short := int((np.diff(cuts.rows)[:, 0] <= period).sum()):
            which = f" of {short:,} of {len(series.names):,} series" if len(series.names) > 1 else ""
            notes.append(f"training{which} is no longer than a season: MASE is the error over that of the value before")
        naive = naive_of(period)
        splits = [self._windows(scaled, name, window_starts(cuts, place, config.look_back, config.horizon), model)
                  for place, name in enumerate(("train", "valid", "test"))]  # fmt: skip
        train, valid, test = splits
        if 0 < data.limit < len(train):
            notes.append(f"trained on {data.limit:,} of {len(train):,} windows, as data.limit asks")
            train = self._windows(scaled, "train", train.starts[train.pick(data.limit)], model)
        notes.append(
            f"windows of {config.look_back} + {config.horizon} steps: {len(train):,} train, {len(valid):,} valid, {len(test):,} test"
        )
        say_all(notes, say)
        if state is None:
            column = config.series or data.column("series")
            step = (series.step.seconds, series.step.months)
            read = (tuple(series.columns), series.date, column, tuple(series.names), tuple(left_out))
            state = ForecastState(*read, step, period, mean, deviation, np.array(naive))
        frontend, channels = narrow(model.frontend, SeriesConfig), len(series.columns)
        head = {
            "horizon": 1 if config.mode == "rollout" else config.horizon,
            "channels": 1 if frontend.independent else channels,
            "places": frontend.tokens(config.look_back),
            "quantiles": len(config.quantiles) or 1,
        }
        sizes = Sizes(frontend={"channels": channels}, head=head, max_len=train.tokens)
        return Prepared(state, train, valid, test, {}, sizes, series.digest, notes)

    def _drop_unusable(self, series: Series, data: DataConfig, notes: list[str]) -> tuple[Series, list[str]]:
        """The series that move and have windows in each split; and the names of the others, no more than data.skip_bad allows."""
        total, problems = len(series.names), dict[int, DataError]()
        for number in range(total):
            own = series.only([number])
            try:
                cuts = cut_by_time(own, self.config.split, (data.fraction("valid"), data.fraction("test")), [])
                self._check_lengths(own, cuts)
                training_scale(own, cuts)
            except DataError as problem:
                problems[number] = problem
        if not problems:
            return series, []
        first = next(iter(problems.values()))
        if len(problems) == total:
            raise first
        if len(problems) > data.skip_bad:
            way_out = f"--skip-bad {len(problems)} leaves out what cannot be used, {len(problems):,} of {total:,} series"
            raise DataError(f"{first.message}; {way_out}", file=first.file, line=first.line)
        notes.append(f"{len(problems):,} of {total:,} series left out, the first for this: {first}")
        kept = [number for number in range(total) if number not in problems]
        return series.only(kept), [series.names[number] for number in problems]

    def migrate_state(self, folder: Path, table: Mapping[str, Any]) -> ForecastState:
        arrays = {key: np.array(table[key]) for key in ("mean", "deviation", "naive")}
        return super().migrate_state(folder, {**table, **arrays, "step": table["step"] or None})

    def load_series(self, state: ForecastState, data: DataConfig, say: Say | None = None) -> tuple[Series, list[str]]:
        """Other rows, as far apart as those of training, without the series that it left out."""
        series, notes = load_series(data, self.request(state), say)
        trained = Step(*state.step) if state.step else series.step
        if series.step != trained and not self.config.uneven:
            raise DataError(f"rows are {series.step.name} apart, and those of training {trained.name}", file=series.files[0])
        kept = [number for number, name in enumerate(series.names) if name not in state.left_out]
        if not kept:
            raise DataError(f"the series {series.names[0]!r} was left out of training: nothing is known of it", file=series.files[0])
        if len(kept) == len(series.names):
            return series, notes
        notes.append(f"{len(series.names) - len(kept):,} of {len(series.names):,} series left out, as in training")
        return series.only(kept), notes

    def read(self, state: ForecastState, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> Windows:
        series, notes = self.load_series(state, data, say)
        say_all(notes, say)
        config = self.config
        whole = Cuts(np.stack([series.borders[:-1], series.borders[:-1], series.borders[:-1], series.borders[1:]], axis=1))
        windows = self._windows(self.scale(state, series), "test", window_starts(whole, 2, config.look_back, config.horizon), model)
        if not len(windows):
            raise DataError(f"has {len(series):,} rows, and a window takes {config.look_back} + {config.horizon}", file=series.files[0])
        return windows

    def request(self, state: ForecastState | None = None) -> Wanted:
        """The columns of training, or those of the configuration before."""
        config, read = self.config, state or self.config
        return Wanted(
            columns=list(read.columns), date=read.date, series=read.series, date_format=config.date_format, decimal=config.decimal,
            fill=config.fill, uneven=config.uneven,
        )  # fmt: skip

    def _windows(self, scaled: Scaled, name: str, starts: NDArray[np.int64], model: ModelConfig) -> Windows:
        frontend, config = narrow(model.frontend, SeriesConfig), self.config
        steps = config.look_back + (config.horizon - 1 if config.mode == "rollout" else 0)
        times = scaled.values.shape[1] if frontend.independent else 1
        return Windows(name, scaled, starts, config.look_back, config.horizon, frontend.tokens(steps) * times)

    def scale(self, state: ForecastState, series: Series) -> Scaled:
        """Other rows on the scale of training; a series that training has not seen has none."""
        known = {name: place for place, name in enumerate(state.names)}
        if unknown := [name for name in series.names if name not in known]:
            raise DataError(f"the series {unknown[0]!r} was not in training ({', '.join(state.names[:10])})", file=series.files[0])
        places = [known[name] for name in series.names]
        return standardise(series, state.mean[places], state.deviation[places])

    def _check_lengths(self, series: Series, cuts: Cuts) -> None:
        config = self.config
        for number, (name, _) in enumerate(series.each()):
            for place, split in enumerate(("train", "valid", "test")):
                part = cuts.part(number, place)
                rows, need = part.stop - part.start, config.horizon + (config.look_back if place == 0 else 0)
                if rows < need:
                    of = f" of series {name!r}" if name else ""
                    total = int(series.borders[number + 1] - series.borders[number])
                    window = f"{config.look_back} + {config.horizon}" if place == 0 else f"a horizon of {config.horizon}"
                    way_out = "shorten task.look_back or task.horizon, or bring more rows"
                    raise DataError(
                        f"too few rows{of}: {split} has {rows:,} of {total:,} and a window takes {window}; {way_out}", file=series.files[0]
                    )

    # --------------------------------------------------------------------------------------------- training and scores

    def step(self, model: Model, batch: Batch) -> Loss:
        if self.config.mode == "rollout":
            given, true = predict_next(model, batch)
        else:
            given, true = predict_direct(model, batch.source), labels_of(batch)
        return Loss(self._loss(given, true), true.numel())

    def _loss(self, given: Tensor, true: Tensor) -> Tensor:
        if self.config.quantiles:
            return pinball(given, true, given.new_tensor(self.config.quantiles)).mean(-1).sum()
        losses = {"mse": F.mse_loss, "mae": F.l1_loss, "huber": F.smooth_l1_loss}
        return losses[self.config.loss](given[..., 0], true, reduction="sum")

    def forecast(self, model: Model, source: Input) -> Tensor:
        """(B, horizon, channels, quantiles): the model's own way, quantiles in order."""
        if self.config.mode == "rollout":
            return roll_out(model, source, self.config.horizon, self.median)[0].sort(-1).values
        return predict_direct(model, source).sort(-1).values  # lines that cross are rearranged (Chernozhukov et al. 2010)

    def median(self, given: Tensor) -> Tensor:
        return given[..., self.config.middle]

    def score(self, model: Model, state: ForecastState, dataset: Windows, options: EvalOptions) -> Evaluation:
        tally = Tally(dataset, self.naive(state, dataset))
        total = inside = 0.0
        with eval_mode(model):
            for batch in iterate_batches(model, dataset, options):
                given = self.forecast(model, batch.source)
                total += float(self._loss(given, labels_of(batch)))
                inside += float(((given[..., 0] <= labels_of(batch)) & (labels_of(batch) <= given[..., -1])).sum())
                tally.add(batch.rows, self.median(given).cpu().numpy(), labels_of(batch).cpu().numpy())
        scored = len(dataset) * dataset.horizon * dataset.scaled.values.shape[1]
        scores = tally.scores()
        if self.config.quantiles and self.config.mode == "direct":  # a one-step model's are of the next step alone
            scores |= {"pinball": total / scored, "coverage": inside / scored}
        if options.quick:
            return Evaluation(scores | {"loss": total / scored}, examples=len(dataset), split=dataset.name)
        details = collect_details(self, model, state, dataset, tally, options)
        return Evaluation(scores, tally.intervals(), len(dataset), details, dataset.name)

    def naive(self, state: ForecastState, windows: Windows) -> Floats:
        return state.naive[[state.names.index(name) for name in windows.scaled.series.names]]

    def bands(self, model: Model, batch: Batch) -> NDArray[np.float32]:
        """Forecasts with their quantiles (B, horizon, channels, Q); those of a one-step model are of futures drawn step by step."""
        config = self.config
        with eval_mode(model):
            source = batch.to(device_of(model)).source
            if config.mode == "direct" or len(config.quantiles) < 2:
                return self.forecast(model, source).cpu().numpy()
            return sample_futures(model, source, config.horizon, torch.tensor(config.quantiles), PATHS).cpu().numpy()

    def baselines(self, prepared: Prepared[ForecastState, Windows], say: Say) -> list[Baseline]:
        state = prepared.state
        return forecast_baselines(*prepared.splits, self.naive(state, prepared.test), state.period or 1, say)

    # ----------------------------------------------------------------------------------------------------------- answers

    def predict(self, model: Model, state: ForecastState, tokenizers: Tokenizers, inputs: Inputs, **options: Any) -> list[Prediction]:
        """The steps after the last row of each file, with their dates; quantiles where the model was trained to give them."""
        return [prediction for given in inputs for prediction in predict_file(self, model, state, given)]

    def inputs(self, file: Path, column: str | None = None) -> list[str | Example]:
        """A file is one input: its last rows are read."""
        return [str(file)]

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return forecast_sections(evaluation)

    def examples(self, prepared: Prepared[ForecastState, Windows], count: int = 1) -> list[Example]:
        """The window in the middle of the test."""
        return [make_example(prepared.test, len(prepared.test) // 2)]

    def maps(self, model: Model, state: ForecastState, tokenizers: Tokenizers, inputs: Inputs) -> list[AttentionMaps]:
        """Which patches (or steps) attend to which, in the last window of each input; of the first channel where channels are apart."""
        frontend = narrow(model.config.frontend, SeriesConfig)
        count = frontend.tokens(self.config.look_back)
        if count > MOST_PLACES or self.config.mode == "rollout":
            return []
        found = []
        for given in inputs:
            scaled, name, _ = read_input(self, state, given)
            end = len(scaled.series)
            batch = Batch(normalise_input(model, window_ending(self, scaled, end).source))
            dates = scaled.series.dates[end - 1 - frontend.step * np.arange(count)[::-1]]
            found += attention_maps(model, batch, [f"… {scaled.series.when(date)}" for date in dates], title=name)
        return found
