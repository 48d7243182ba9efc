"""Forecasting: from the last steps of a series, or of many, to the next ones."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor, nn

from attentif.data import DataConfig
from attentif.data.dates import parts_problem
from attentif.data.series import Series, load_series
from attentif.data.series_rows import Decimal, Fill, Wanted
from attentif.data.steps import TimeStep
from attentif.errors import ConfigError, DataError
from attentif.models import Batch, Input, Model, ModelConfig, eval_mode
from attentif.models.frontends.series import SeriesConfig
from attentif.models.heads.horizon import HorizonHead, HorizonHeadConfig, pinball
from attentif.tasks.answers import Baseline, EvalOptions, Evaluation, Prediction
from attentif.tasks.attention import attention_maps
from attentif.tasks.base import TASKS, Example, Inputs, Loss, Prepared, Progress, Say, Sizes, Task, TaskConfig, TaskState, Tokenizers
from attentif.tasks.batches import build_meta, check_one_stack, device_of, format_count, iterate_batches, say_all
from attentif.tasks.metrics import Floats
from attentif.tasks.narrow import labels_of, narrow
from attentif.tasks.predictors import LinearBatch, Predictor, networks_of
from attentif.tasks.series.forecast_answers import make_example, predict_file, read_input, window_ending
from attentif.tasks.series.forecast_baselines import forecast_baselines
from attentif.tasks.series.forecast_details import collect_details
from attentif.tasks.series.forecast_report import forecast_sections
from attentif.tasks.series.forecast_scores import Tally, seasonal_error
from attentif.tasks.series.linear_map import LinearMap
from attentif.tasks.series.rollout import normalise_input, predict_change, predict_direct, predict_next, roll_out, sample_futures
from attentif.tasks.series.stack import LinearStack
from attentif.tasks.series.windows import (
    Cuts,
    Scaled,
    Windows,
    adapt_to_series,
    cut_by_time,
    drop_unusable,
    standardise,
    training_scale,
    window_starts,
)
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
    linear: Literal["none", "stacked"] = Field(
        "none", description="stacked: the network corrects a linear map of the window; its weight and the map's settings by validation"
    )
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
    def stacked(self) -> bool:
        """Whether the network corrects a linear map; one step at a time, it forecasts alone."""
        return self.linear == "stacked" and self.mode == "direct"

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
    stack: LinearStack | None = None  # the linear map beneath the network


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
        """Use any preset as the backbone, with measurements in place of tokens and a forecasting head."""
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
        fractions = (data.fraction("valid"), data.fraction("test"))
        series, left_out = drop_unusable(series, config.split, fractions, (config.look_back, config.horizon), data.skip_bad, notes)
        cuts = cut_by_time(series, config.split, fractions, notes)
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
        if config.linear == "stacked" and config.mode == "rollout":
            say("a linear map gives the whole horizon at once: with mode = rollout the network forecasts alone")
        if config.stacked:
            if state.stack is None:
                say("choosing a linear map on validation: its ridge and how many steps it reads")
            stack = state.stack or LinearStack(LinearMap.choose(train, valid))
            say(f"linear map: {stack.linear.choice}")
            state = replace(state, stack=stack)
            train, valid, test = (replace(split, linear=stack.linear) for split in (train, valid, test))
        frontend, channels = narrow(model.frontend, SeriesConfig), len(series.columns)
        head = {
            "horizon": 1 if config.mode == "rollout" else config.horizon,
            "channels": 1 if frontend.independent else channels,
            "places": frontend.tokens(config.look_back),
            "quantiles": len(config.quantiles) or 1,
        }
        sizes = Sizes(frontend={"channels": channels}, head=head, max_len=train.tokens)
        return Prepared(state, train, valid, test, {}, sizes, series.digest, notes)

    def migrate_state(self, folder: Path, table: Mapping[str, Any]) -> ForecastState:
        arrays = {key: np.array(table[key]) for key in ("mean", "deviation", "naive")}
        return super().migrate_state(folder, {**table, **arrays, "step": table["step"] or None})

    def load_series(self, state: ForecastState, data: DataConfig, say: Say | None = None) -> tuple[Series, list[str]]:
        """Other rows, as far apart as those of training, without the series that it left out."""
        series, notes = load_series(data, self.request(state), say)
        trained = TimeStep(*state.step) if state.step else series.step
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

    # --------------------------------------------------------------------------------------------- training and scores

    def step(self, model: Model, batch: Batch) -> Loss:
        if self.config.mode == "rollout":
            given, true = predict_next(model, batch)
        elif isinstance(batch, LinearBatch):
            given, true = predict_change(model, batch.source)[0] + batch.linear[..., None], labels_of(batch)
        else:
            given, true = predict_direct(model, batch.source), labels_of(batch)
        return Loss(self._loss(given, true), true.numel())

    def _loss(self, given: Tensor, true: Tensor) -> Tensor:
        if self.config.quantiles:
            return pinball(given, true, given.new_tensor(self.config.quantiles)).mean(-1).sum()
        losses = {"mse": F.mse_loss, "mae": F.l1_loss, "huber": F.smooth_l1_loss}
        return losses[self.config.loss](given[..., 0], true, reduction="sum")

    def init_weights(self, model: Model, prepared: Prepared[ForecastState, Windows], say: Say) -> None:
        if self.config.stacked:
            for network in networks_of(model):
                nn.init.zeros_(narrow(network.head, HorizonHead).out.weight)  # the first forecasts are the linear map's

    def finalize(
        self, model: Model, prepared: Prepared[ForecastState, Windows], *, budget: int, say: Say, progress: Progress | None = None
    ) -> ForecastState:
        """The weight of the network and the width of its bands, from validation."""
        state, valid, config = prepared.state, prepared.valid, self.config
        if state.stack is None:
            return state

        def read() -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
            with eval_mode(model):
                for batch in iterate_batches(model, valid, EvalOptions(budget, progress=progress)):
                    added = predict_change(model, batch.source)[0]
                    yield torch.tensor(batch.rows), added, narrow(batch, LinearBatch).linear, labels_of(batch)

        stack = state.stack.choose(read, len(valid), config.middle, config.quantiles)
        bands = f", its bands {stack.width:.2f} times as wide" if config.quantiles else ""
        say(f"forecasts are a linear map + {stack.network:.2f} × the network{bands}; chosen on validation")
        return replace(state, stack=stack)

    def caveat(self, predictor: Predictor, state: ForecastState) -> str:
        stacked = "" if state.stack is None else f"a linear map + {state.stack.network:.2f} × the network"
        return "; ".join(part for part in (super().caveat(predictor, state), stacked) if part)

    def forecast(self, model: Model, state: ForecastState, source: Input) -> Tensor:
        """(B, horizon, channels, quantiles): the model's own way, quantiles in order."""
        if self.config.mode == "rollout":
            return roll_out(model, source, self.config.horizon, self.median)[0].sort(-1).values
        if state.stack is None:
            given = predict_direct(model, source)
        else:
            given = state.stack.join(predict_change(model, source)[0], source.data, self.config.middle)
        return given.sort(-1).values  # lines that cross are rearranged (Chernozhukov et al. 2010)

    def median(self, given: Tensor) -> Tensor:
        return given[..., self.config.middle]

    def score(self, model: Model, state: ForecastState, dataset: Windows, options: EvalOptions) -> Evaluation:
        tally = Tally(dataset, self.naive(state, dataset))
        total = inside = 0.0
        with eval_mode(model):
            for batch in iterate_batches(model, dataset, options):
                given = self.forecast(model, state, batch.source)
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

    def bands(self, model: Model, state: ForecastState, batch: Batch) -> NDArray[np.float32]:
        """Forecasts with their quantiles (B, horizon, channels, Q); those of a one-step model are of futures drawn step by step."""
        config = self.config
        with eval_mode(model):
            source = batch.to(device_of(model)).source
            if config.mode == "direct" or len(config.quantiles) < 2:
                return self.forecast(model, state, source).cpu().numpy()
            return sample_futures(model, source, config.horizon, torch.tensor(config.quantiles), PATHS).cpu().numpy()

    def baselines(self, prepared: Prepared[ForecastState, Windows], say: Say) -> list[Baseline]:
        state = prepared.state
        linear = None if state.stack is None else state.stack.linear
        return forecast_baselines(*prepared.splits, self.naive(state, prepared.test), state.period or 1, linear, say)

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
