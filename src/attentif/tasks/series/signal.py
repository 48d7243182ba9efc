"""Classification of signals: a label for a series of measurements, such as a heartbeat. Scored and shown as any classification."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field

from attentif.data import DataConfig, Roles, Table, load_rows, load_table
from attentif.data.columns import ASKED
from attentif.data.readers import Tolerance
from attentif.data.signals import SIGNAL, Floats32, open_signals, parsed_signal
from attentif.errors import ConfigError, DataError, UsageError
from attentif.models import Batch, Input, Model, ModelConfig
from attentif.models.frontends.series import Normalise, SeriesConfig, normalised
from attentif.models.heads import ClassifyHeadConfig
from attentif.nn.seq import Seq
from attentif.tasks.feed import as_examples, counted, limit_of, on_paper
from attentif.tasks.labels.classified import classified, surest_errors
from attentif.tasks.labels.classify_data import log_probabilities
from attentif.tasks.looking import attention_maps
from attentif.tasks.ragged import Ints, Rows
from attentif.tasks.report import WORST_ERRORS, classify_sections
from attentif.tasks.series.signal_baselines import signal_baselines
from attentif.tasks.series.windows import reading_series
from attentif.tasks.task import (
    TASKS,
    Baseline,
    Dataset,
    Evaluation,
    Example,
    Loss,
    Prediction,
    Prepared,
    Progress,
    Say,
    Sizes,
    Task,
    TaskConfig,
    Tokenizers,
)
from attentif.text import TokenizerConfig
from attentif.view.blocks import AttentionMaps, FigureBlock, Section
from attentif.view.words import Text

WORST = 6  # errors drawn in the report
MOST_PLACES = 128  # of an attention map


@TASKS.register
class SignalConfig(TaskConfig):
    """A label for a series of measurements."""

    kind: Literal["signal"] = Field("signal", description="a label for a series of measurements")
    labels: list[str] = Field([], description="the classes, in the model's order; by default those of the training data")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of the target given to the other classes")
    max_len: int = Field(4096, gt=0, description="longer signals are refused")
    mean: list[float] = Field([], description="of each channel in training; filled in")
    deviation: list[float] = Field([], description="the same; filled in")

    def build(self) -> "Signal":
        return Signal(self)


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
            own = [normalised(signal[None], self.normalise)[0][0] for signal in own]
        data = torch.nn.utils.rnn.pad_sequence(own, batch_first=True)
        source = Input(data, Seq.padded([len(signal) for signal in own]))
        return Batch(source, labels=torch.from_numpy(self.labels[chosen]), rows=tuple(chosen))

    def place(self, row: int) -> str:
        return self.table.place(row)


def check_channels(table: Table, row: int, signal: Floats32, channels: int) -> None:
    if signal.shape[1] != channels:
        raise DataError(f"{table.place(row)}: the signal has {counted(signal.shape[1], 'channel')} where others have {channels}")


class Signal(Task):
    config: SignalConfig
    offers = ("classify",)
    metric = "accuracy"
    reads = "signal"
    needs_tokenizer = False

    @property
    def averages(self) -> bool:
        return True

    def adapt(self, model: ModelConfig) -> ModelConfig:
        """Any preset is a body: measurements in place of tokens, classes in place of its own head."""
        model = reading_series(model)
        if not isinstance(model.head, ClassifyHeadConfig):
            model = model.with_head(ClassifyHeadConfig(pool="last" if model.encoder is None else "mean"))
        return model

    def check(self, model: ModelConfig) -> None:
        frontend = model.frontend
        if not isinstance(frontend, SeriesConfig):
            raise ConfigError(f'model.frontend: signal reads measurements: kind = "series", not {frontend.kind!r}')
        if frontend.independent:
            raise ConfigError("model.frontend.independent: a signal has one label for all its channels: say false")
        if frontend.calendar:
            raise ConfigError("model.frontend.calendar: signals have no dates: leave it out")
        if model.encoder is not None and model.decoder is not None:
            raise ConfigError("model: signal reads with one stack, and this model has an encoder and a decoder; take encoder-tiny, say")
        built = on_paper(model)
        if isinstance(model.head, ClassifyHeadConfig) and model.head.pool == "first" and built.caps.causal:
            raise ConfigError('model.head.pool: the first step of a causal model has read nothing else; pool = "last" has read it all')

    def prepare(self, data: DataConfig, text: TokenizerConfig | Tokenizers, model: ModelConfig, say: Say) -> Prepared:
        splits = load_table(data, SIGNAL, say, open_rows=open_signals)
        notes = list(splits.notes)
        known = [self._parsed(splits.train, row) for row in range(len(splits.train))]
        for row, signal in enumerate(known):
            check_channels(splits.train, row, signal, known[0].shape[1])
        whole = np.concatenate(known)
        mean, deviation = whole.mean(0, dtype=np.float64), whole.std(0, dtype=np.float64)
        if not deviation.all():
            raise DataError(f"channel {int(deviation.argmin()) + 1} is constant in all training signals", file=splits.train.files[0])
        lengths = np.array([len(signal) for signal in known])
        long = f"{lengths.min():,} to {lengths.max():,}" if lengths.min() < lengths.max() else f"{lengths.max():,}"
        notes.append(f"signals of {long} steps, {counted(known[0].shape[1], 'channel')}")
        for note in notes:
            say(note)
        self.config = self.config.changed(labels=self.config.labels or splits.labels, mean=mean.tolist(), deviation=deviation.tolist())
        parts = [self._signals(table, model) for table in (splits.train, splits.valid, splits.test)]
        longest = max(int(part.tokens.max()) for part in parts)
        sizes = Sizes(classes=len(self.config.labels), max_len=longest, frontend={"channels": len(mean)})
        train, valid, test = parts
        return Prepared(self.config, train, valid, test, {}, sizes, splits.digest, notes)

    def read(self, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> Signals:
        table, notes = load_rows(data, SIGNAL, say, open_rows=open_signals)
        for note in notes:
            say(note)
        return self._signals(table, model)

    def _parsed(self, table: Table, row: int) -> Floats32:
        try:
            return parsed_signal(table["signal"][row])
        except ValueError as error:
            raise DataError(f"{table.place(row)}: {error}") from None

    def _signals(self, table: Table, model: ModelConfig) -> Signals:
        frontend, config = model.frontend, self.config
        assert isinstance(frontend, SeriesConfig)
        number = {label: place for place, label in enumerate(config.labels)}
        signals, channels = [], len(config.mean)
        limit = limit_of(config.max_len, None if model.max_len is None else (model.max_len - 1) * frontend.step + frontend.patch)
        for row in range(len(table)):
            signal = self._parsed(table, row)
            check_channels(table, row, signal, channels)
            if not frontend.patch <= len(signal) <= limit:
                raise DataError(
                    f"{table.place(row)}: the signal has {counted(len(signal), 'step')}; this model reads {frontend.patch} to {limit:,}"
                )
            if "label" in table.columns and table["label"][row] not in number:
                known = ", ".join(config.labels[:10])
                raise DataError(f"{table.place(row)}: the label {table['label'][row]!r} is none of the model's classes ({known})")
            signals.append(((signal - config.mean) / config.deviation).astype(np.float32))
        labels = [number[label] for label in table["label"]] if "label" in table.columns else [0] * len(table)
        tokens = np.array([frontend.tokens(len(signal)) for signal in signals], dtype=np.int64)
        return Signals(table, signals, np.array(labels, dtype=np.int64), tokens, frontend.normalise)

    def step(self, model: Model, batch: Batch) -> Loss:
        assert batch.labels is not None
        logits, _ = model(batch)
        total = F.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=self.config.label_smoothing)
        return Loss(total, len(batch.labels), {"accuracy": (logits.detach().argmax(-1) == batch.labels).sum()})

    def evaluate(
        self, model: Model, dataset: Dataset, *, budget: int = 8192, quick: bool = False, progress: Progress | None = None
    ) -> Evaluation:
        assert isinstance(dataset, Signals)
        log_p = log_probabilities(model, dataset, budget, progress)
        found = classified(log_p, dataset.labels, self.config.labels, dataset.name, quick=quick)
        if not quick:
            found.details["worst_signals"] = [
                {
                    "true": self.config.labels[int(dataset.labels[row])],
                    "predicted": self.config.labels[int(log_p[row].argmax())],
                    "probability": float(np.exp(log_p[row].max())),
                    "place": dataset.place(row),
                    "values": [float(f"{value:.4g}") for value in self._parsed(dataset.table, row)[:, 0]],
                }
                for row in surest_errors(log_p, dataset.labels, WORST)
            ]
        return found

    def baselines(self, prepared: Prepared, say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        assert isinstance(train, Signals)
        assert isinstance(test, Signals)
        return signal_baselines(train.signals, train.labels, test.signals, test.labels, len(self.config.labels), say)

    def inputs(self, file: Path, column: str | None) -> list[str | Example]:
        """The signals of a table, whose labels are not asked for."""
        config = DataConfig(train=str(file), columns={"signal": column} if column else {})
        _, rows = open_signals(config, "test", file, Roles(("signal",), ways={"signal": ASKED}), Tolerance(), [])
        return [{"signal": values[0], "place": f"{file}:{line}"} for line, values in rows]

    def predict(
        self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example], *, budget: int = 8192, **options: Any
    ) -> list[Prediction]:
        """A label for each signal, written "0.1 0.2 0.3", with the probability of every class."""
        asked = self._asked(model, inputs)
        found = []
        for row, p in enumerate(np.exp(log_probabilities(model, asked, budget))):
            order = np.argsort(-p, kind="stable")
            scores = {self.config.labels[c]: float(p[c]) for c in order}
            found.append(Prediction(asked.place(row), self.config.labels[order[0]], float(p[order[0]]), scores))
        return found

    def _asked(self, model: Model, inputs: Sequence[str | Example]) -> Signals:
        examples = as_examples(inputs, "signal")
        places = np.stack([np.arange(len(examples)), np.zeros(len(examples), np.int64)], axis=1)
        names = [example.get("place") or f"signal {number}" for number, example in enumerate(examples, 1)]
        table = Table("input", {"signal": [example["signal"] for example in examples]}, names, places)
        try:
            return self._signals(table, model.config)
        except DataError as error:
            raise UsageError(error.message) from None

    def sections(self, evaluation: Evaluation) -> list[Section]:
        from functools import partial

        from attentif.view.figures.forecast import Drawn, signals

        sections = classify_sections(evaluation)
        if worst := evaluation.details.get("worst_signals"):
            shown = [Drawn(e["values"], f"{e['true']} → {e['predicted']}", e["probability"], e["place"]) for e in worst]
            about = Text(
                "Les erreurs dont le modèle était le plus sûr : vraie classe → réponse. Certaines étiquettes sont peut-être fausses.",
                "The errors that the model was surest of: true class → answer. Some labels may be wrong themselves.",
            )
            block = FigureBlock(Text("Vraie classe → réponse", "True class → answer"), partial(signals, shown), about)
            sections.append(Section(WORST_ERRORS, [block]))
        return sections

    def examples(self, prepared: Prepared, count: int = 3) -> list[Example]:
        """The first test signal of each class."""
        test = prepared.test
        assert isinstance(test, Signals)
        firsts = [int(np.flatnonzero(test.labels == c)[0]) for c in range(len(self.config.labels)) if (test.labels == c).any()]
        return [{"signal": test.table["signal"][row], "place": test.place(row)} for row in firsts[:count]]

    def maps(self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example]) -> list[AttentionMaps]:
        """Which patches (or steps) attend to which; none where there are too many to be read."""
        asked, found = self._asked(model, inputs), []
        frontend = model.config.frontend
        assert isinstance(frontend, SeriesConfig)
        for row, answer in enumerate(self.predict(model, tokenizers, inputs)):
            if (count := int(asked.tokens[row])) > MOST_PLACES:
                continue
            first = (len(asked.signals[row]) - frontend.patch) % frontend.step
            tokens = [str(first + place * frontend.step + 1) for place in range(count)]
            title = f"{answer.input} → {answer.output} ({100 * (answer.probability or 0):.0f} %)"
            found += attention_maps(model, asked.batch([row]), tokens, title=title)
        return found
