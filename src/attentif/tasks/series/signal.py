"""Classification of signals: a label for a series of measurements, such as a heartbeat. Scored and shown as any classification."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field

from attentif.data import DataConfig, Roles, Table, load_rows, load_table
from attentif.data.columns import ASKED
from attentif.data.readers import Tolerance
from attentif.data.signals import SIGNAL, Floats32, open_signals, parse_signal
from attentif.errors import ConfigError, DataError, UsageError
from attentif.models import Batch, Input, Model, ModelConfig
from attentif.models.frontends.series import Normalise, SeriesConfig, normalise_window
from attentif.models.heads import ClassifyHeadConfig
from attentif.nn.seq import Seq
from attentif.tasks.answers import Baseline, EvalOptions, Evaluation, Prediction
from attentif.tasks.attention import attention_maps
from attentif.tasks.base import BUDGET, TASKS, Example, Inputs, Loss, Prepared, Say, Sizes, Task, TaskConfig, TaskState, Tokenizers
from attentif.tasks.batches import as_examples, build_meta, check_one_stack, format_count, min_limit, say_all
from attentif.tasks.classification.data import log_probabilities
from attentif.tasks.classification.report import ClassDetails, classify_sections
from attentif.tasks.classification.scores import check_pooling, first_of_each_class, number_labels, score_classes, surest_errors
from attentif.tasks.details import details_of
from attentif.tasks.metrics import never_answered
from attentif.tasks.narrow import labels_of, narrow
from attentif.tasks.ragged import Ints, Rows
from attentif.tasks.report import WORST_ERRORS
from attentif.tasks.series.signal_baselines import signal_baselines
from attentif.tasks.series.windows import adapt_to_series
from attentif.tasks.tokenizers import TokenizerSource
from attentif.view.blocks import AttentionMaps, FigureBlock, Section
from attentif.view.words import Text

WORST = 6  # errors drawn in the report
MOST_PLACES = 128  # of an attention map


@TASKS.register
class SignalConfig(TaskConfig):
    """A label for a series of measurements."""

    kind: Literal["signal"] = Field("signal", description="time series classification")
    labels: list[str] = Field([], description="class names in the order of the logits; by default those of the training data")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="label smoothing")
    max_len: int = Field(4096, gt=0, description="maximum steps of a signal; longer ones are refused")

    def build(self) -> "Signal":
        return Signal(self)


class SignalError(TypedDict):
    true: str
    predicted: str
    probability: float
    place: str
    values: list[float]


class SignalDetails(ClassDetails):
    worst_signals: list[SignalError]


@dataclass(frozen=True)
class SignalState(TaskState):
    """The classes, and the scale of training by channel."""

    labels: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()


@dataclass(frozen=True)
class Signals:
    """One split, on the scale of training."""

    table: Table
    signals: list[Floats32]  # (steps, channels) each
    labels: Ints
    tokens: Ints  # of each, in a batch's budget
    normalise: Normalise

    @property
    def name(self) -> str:
        return self.table.name

    @cached_property
    def lengths(self) -> Ints:
        return self.tokens

    def __len__(self) -> int:
        return len(self.signals)

    def batch(self, rows: Rows, *, packed: bool = False) -> Batch:
        """Signals side by side, zeros after the end of the shorter ones."""
        chosen = [int(row) for row in rows]
        own = [torch.from_numpy(self.signals[row]) for row in chosen]
        if self.normalise != "none":
            own = [normalise_window(signal[None], self.normalise)[0][0] for signal in own]
        data = torch.nn.utils.rnn.pad_sequence(own, batch_first=True)
        source = Input(data, Seq.from_padded([len(signal) for signal in own]))
        return Batch(source, labels=torch.from_numpy(self.labels[chosen]), rows=tuple(chosen))

    def place(self, row: int) -> str:
        return self.table.place(row)


def check_channels(table: Table, row: int, signal: Floats32, channels: int) -> None:
    if signal.shape[1] != channels:
        raise DataError(f"{table.place(row)}: the signal has {format_count(signal.shape[1], 'channel')} where others have {channels}")


class Signal(Task[SignalState, Signals]):
    config: SignalConfig
    state_type = SignalState
    offers = ("classify",)
    metric = "accuracy"
    reads = "signal"
    scores_by_batch = True
    needs_tokenizer = False

    @property
    def averages(self) -> bool:
        return True

    def adapt(self, model: ModelConfig) -> ModelConfig:
        """Use any preset as the backbone, with measurements in place of tokens and a classification head."""
        model = adapt_to_series(model)
        if not isinstance(model.head, ClassifyHeadConfig):
            model = model.with_head(ClassifyHeadConfig(pool="last" if model.encoder is None else "mean"))
        return model

    def check(self, model: ModelConfig) -> None:
        frontend = model.frontend
        if not isinstance(frontend, SeriesConfig):
            raise ConfigError(f'model.frontend: signal reads measurements: expected kind = "series", not {frontend.kind!r}')
        if frontend.independent:
            raise ConfigError("model.frontend.independent: a signal has one label for all its channels: set it to false")
        if frontend.calendar:
            raise ConfigError("model.frontend.calendar: signals have no dates: leave it out")
        check_one_stack(model, "signal")
        check_pooling(model, build_meta(model), "step")

    def prepare(
        self, data: DataConfig, text: TokenizerSource, model: ModelConfig, say: Say, state: SignalState | None = None
    ) -> Prepared[SignalState, Signals]:
        splits = load_table(data, SIGNAL, say, open_rows=open_signals)
        notes = list(splits.notes)
        known = [self._parse_signal(splits.train, row) for row in range(len(splits.train))]
        for row, signal in enumerate(known):
            check_channels(splits.train, row, signal, known[0].shape[1])
        whole = np.concatenate(known)
        mean, deviation = whole.mean(0, dtype=np.float64), whole.std(0, dtype=np.float64)
        if not deviation.all():
            raise DataError(f"channel {int(deviation.argmin()) + 1} is constant in all training signals", file=splits.train.files[0])
        lengths = np.array([len(signal) for signal in known])
        long = f"{lengths.min():,} to {lengths.max():,}" if lengths.min() < lengths.max() else f"{lengths.max():,}"
        notes.append(f"signals of {long} steps, {format_count(known[0].shape[1], 'channel')}")
        say_all(notes, say)
        if state is None:
            state = SignalState(tuple(self.config.labels or splits.labels), tuple(mean.tolist()), tuple(deviation.tolist()))
        parts = [self._signals(state, table, model) for table in (splits.train, splits.valid, splits.test)]
        longest = max(int(part.tokens.max()) for part in parts)
        sizes = Sizes(classes=len(state.labels), max_len=longest, frontend={"channels": len(mean)})
        train, valid, test = parts
        return Prepared(state, train, valid, test, {}, sizes, splits.digest, notes)

    def read(self, state: SignalState, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> Signals:
        table, notes = load_rows(data, SIGNAL, say, open_rows=open_signals)
        say_all(notes, say)
        return self._signals(state, table, model)

    def _parse_signal(self, table: Table, row: int) -> Floats32:
        try:
            return parse_signal(table["signal"][row])
        except ValueError as error:
            raise DataError(f"{table.place(row)}: {error}") from None

    def _signals(self, state: SignalState, table: Table, model: ModelConfig) -> Signals:
        frontend, config = narrow(model.frontend, SeriesConfig), self.config
        signals, channels = [], len(state.mean)
        limit = min_limit(config.max_len, None if model.max_len is None else (model.max_len - 1) * frontend.step + frontend.patch)
        for row in range(len(table)):
            signal = self._parse_signal(table, row)
            check_channels(table, row, signal, channels)
            if not frontend.patch <= len(signal) <= limit:
                steps = format_count(len(signal), "step")
                raise DataError(f"{table.place(row)}: the signal has {steps}; this model reads {frontend.patch} to {limit:,}")
            signals.append(((signal - state.mean) / state.deviation).astype(np.float32))
        labels = number_labels(table, state.labels) if "label" in table.columns else np.zeros(len(table), np.int64)
        tokens = np.array([frontend.tokens(len(signal)) for signal in signals], dtype=np.int64)
        return Signals(table, signals, labels, tokens, frontend.normalise)

    def step(self, model: Model, batch: Batch) -> Loss:
        logits, _ = model(batch)
        total = F.cross_entropy(logits, labels_of(batch), reduction="sum", label_smoothing=self.config.label_smoothing)
        return Loss(total, len(labels_of(batch)), {"accuracy": (logits.detach().argmax(-1) == labels_of(batch)).sum()})

    def score(self, model: Model, state: SignalState, dataset: Signals, options: EvalOptions) -> Evaluation:
        log_p = log_probabilities(model, dataset, options)
        found = score_classes(log_p, dataset.labels, state.labels, dataset.name, quick=options.quick)
        if not options.quick:
            worst: list[SignalError] = [
                {
                    "true": state.labels[int(dataset.labels[row])],
                    "predicted": state.labels[int(log_p[row].argmax())],
                    "probability": float(np.exp(log_p[row].max())),
                    "place": dataset.place(row),
                    "values": [float(f"{value:.4g}") for value in self._parse_signal(dataset.table, row)[:, 0]],
                }
                for row in surest_errors(log_p, dataset.labels, WORST)
            ]
            found = replace(found, details={**found.details, "worst_signals": worst})
        return found

    def baselines(self, prepared: Prepared[SignalState, Signals], say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        return signal_baselines(train.signals, train.labels, test.signals, test.labels, len(prepared.state.labels), say)

    def inputs(self, file: Path, column: str | None) -> list[str | Example]:
        """The signals of a table, whose labels are not asked for."""
        config = DataConfig(train=str(file), columns={"signal": column} if column else {})
        _, rows = open_signals(config, "test", file, Roles(("signal",), ways={"signal": ASKED}), Tolerance(), [])
        return [{"signal": values[0], "place": f"{file}:{line}"} for line, values in rows]

    def predict(
        self, model: Model, state: SignalState, tokenizers: Tokenizers, inputs: Inputs, *, budget: int = BUDGET, **options: Any
    ) -> list[Prediction]:
        """A label for each signal, written "0.1 0.2 0.3", with the probability of every class."""
        asked = self._read_inputs(model, state, inputs)
        probabilities = np.exp(log_probabilities(model, asked, EvalOptions(budget)))
        return [Prediction.of_classes(asked.place(row), state.labels, p) for row, p in enumerate(probabilities)]

    def _read_inputs(self, model: Model, state: SignalState, inputs: Inputs) -> Signals:
        examples = as_examples(inputs, "signal")
        names = [example.get("place") or f"signal {number}" for number, example in enumerate(examples, 1)]
        table = Table.of_files({"signal": [example["signal"] for example in examples]}, names)
        try:
            return self._signals(state, table, model.config)
        except DataError as error:
            raise UsageError(error.message) from None

    def warnings(self, evaluation: Evaluation) -> list[Text]:
        return never_answered(evaluation.details)

    def sections(self, evaluation: Evaluation) -> list[Section]:
        from functools import partial

        from attentif.view.figures.forecast import ClassifiedSignal, signals

        sections = classify_sections(evaluation)
        if (details := details_of(evaluation, SignalDetails)) and (worst := details["worst_signals"]):
            shown = [ClassifiedSignal(e["values"], f"{e['true']} → {e['predicted']}", e["probability"], e["place"]) for e in worst]
            about = Text(
                "Les erreurs dont le modèle était le plus sûr : vraie classe → réponse. Certaines étiquettes sont peut-être fausses.",
                "The errors that the model was surest of: true class → answer. Some labels may be wrong themselves.",
            )
            block = FigureBlock(Text("Vraie classe → réponse", "True class → answer"), partial(signals, shown), about)
            sections.append(Section(WORST_ERRORS, [block]))
        return sections

    def examples(self, prepared: Prepared[SignalState, Signals], count: int = 3) -> list[Example]:
        """The first test signal of each class."""
        test = prepared.test
        firsts = first_of_each_class(test.labels, len(prepared.state.labels))
        return [{"signal": test.table["signal"][row], "place": test.place(row)} for row in firsts[:count]]

    def maps(self, model: Model, state: SignalState, tokenizers: Tokenizers, inputs: Inputs) -> list[AttentionMaps]:
        """Which patches (or steps) attend to which; none where there are too many to be read."""
        asked, found = self._read_inputs(model, state, inputs), []
        frontend = narrow(model.config.frontend, SeriesConfig)
        for row, answer in enumerate(self.predict(model, state, tokenizers, inputs)):
            if (count := int(asked.tokens[row])) > MOST_PLACES:
                continue
            first = (len(asked.signals[row]) - frontend.patch) % frontend.step
            tokens = [str(first + place * frontend.step + 1) for place in range(count)]
            title = f"{answer.input} → {answer.output} ({100 * (answer.probability or 0):.0f} %)"
            found += attention_maps(model, asked.batch([row]), tokens, title=title)
        return found
