"""Regression: a number for a text (a rating, a price), with an interval that holds nine times in ten.

    y' = (y - mean) / deviation of training             what is learned;  L = (ŷ - y')²
    ŷ  = a net(x) + b ridge(x),   a, b >= 0             by least squares on validation, where the network is stacked on a ridge regression
    [ŷ - q, ŷ + q],  q: the ⌈0.9 (n + 1)⌉th of the n errors on validation, by size (split conformal prediction, Vovk et al. 2005)

What the ridge regression says of a training text comes from a model of other training texts, as in `classification/linear_features.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from attentif.data import DataConfig, Table, load_rows, load_table
from attentif.data.columns import Roles
from attentif.data.labels import read_number
from attentif.errors import ConfigError, DataError
from attentif.models import Batch, Model, ModelConfig
from attentif.models.frontends import TokensConfig
from attentif.models.heads import ClassifyHead, ClassifyHeadConfig, LanguageHeadConfig, TokensHeadConfig
from attentif.tasks.answers import Baseline, EvalOptions, Evaluation, Prediction
from attentif.tasks.attention import attention_maps, influence, map_title, readable_tokens, running_text
from attentif.tasks.base import TASKS, Example, Loss, Prepared, Progress, Say, Sizes, Task, TaskConfig, TaskState, Tokenizers
from attentif.tasks.batches import as_examples, check_one_stack, format_count, longest_row, min_limit, say_all
from attentif.tasks.classification.data import all_logits, encode_inputs, encode_texts
from attentif.tasks.classification.linear import Floats, LinearModel
from attentif.tasks.classification.word_dropout import drop_words
from attentif.tasks.details import EstimateAnswer
from attentif.tasks.predictors import LinearBatch, Predictor, Stacked, networks_of
from attentif.tasks.ragged import Ragged, Rows
from attentif.tasks.regression.report import WORST, NumberError, RegressDetails, regression_scores, regression_sections
from attentif.tasks.regression.ridge import fit_ridge
from attentif.tasks.rows import EncodedRows
from attentif.tasks.skip_gram_init import init_from_skip_gram
from attentif.tasks.tokenizers import TokenizerSource, fit_tokenizer
from attentif.text import Tokenizer
from attentif.view.blocks import AttentionMaps, Section
from attentif.view.words import Text

REGRESS = Roles(("text", "value"), guess_group=True)
MEAN = Text("la moyenne", "the mean")
RIDGE = Text("TF-IDF + régression ridge", "TF-IDF + ridge regression")
LEVEL = 0.9  # of the intervals
FEWEST = 20  # validation rows from which anything is chosen


@TASKS.register
class RegressConfig(TaskConfig):
    """A number for a text."""

    kind: Literal["regress"] = Field("regress", description="a number for a text: a rating, a price")
    max_len: int = Field(256, gt=2, description="maximum tokens of a text; longer ones are truncated")
    linear: Literal["none", "stacked"] = Field(
        "stacked", description="ridge regression of words that the network is stacked on; weights are chosen on validation"
    )
    vectors: bool = Field(False, description="begin with word vectors (skip-gram) of the training texts")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="share of the tokens replaced by [UNK] in each step of training")

    def build(self) -> "Regress":
        return Regress(self)


@dataclass(frozen=True)
class RegressState(TaskState):
    """The scale of the numbers, the linear model, and what was chosen on validation."""

    mean: float = 0.0
    deviation: float = 1.0
    linear: LinearModel | None = None
    network_weight: float = 1.0
    linear_weight: float = 1.0
    margin: float | None = None  # half the interval, in the unit of the data

    def standardise(self, values: Floats) -> Floats:
        return (values - self.mean) / self.deviation

    def restore(self, values: Floats) -> Floats:
        return values * self.deviation + self.mean


@dataclass(frozen=True, kw_only=True)
class NumberedTexts(EncodedRows):
    """One split."""

    values: Floats  # (N,), as the file has them
    targets: Floats  # (N,), standardised
    linear: Callable[[], Floats] | None = None  # (N,): what the ridge regression says, standardised
    word_dropout: float = 0.0

    def batch(self, rows: Rows, *, packed: bool = False) -> Batch:
        chosen = np.asarray(rows, dtype=np.int64)
        source = self.ids.input(chosen, packed=packed, pad=self.tokenizer.pad)
        if self.word_dropout:
            source = drop_words(source, self.word_dropout, self.tokenizer)
        labels, numbers = torch.from_numpy(self.targets[chosen]).float(), tuple(chosen.tolist())
        if self.linear is None:
            return Batch(source, labels=labels, rows=numbers)
        beneath = torch.from_numpy(self.linear()[chosen]).float()[:, None]
        return LinearBatch(source, labels=labels, rows=numbers, linear=beneath)


class Regress(Task[RegressState, NumberedTexts]):
    config: RegressConfig
    state_type = RegressState
    offers = ("estimate",)
    metric = "mae"
    samples_rows = True
    scores_by_batch = True
    beside = ()

    def adapt(self, model: ModelConfig) -> ModelConfig:
        if not isinstance(model.head, LanguageHeadConfig | TokensHeadConfig):
            return model
        return model.with_head(ClassifyHeadConfig(pool="last" if model.encoder is None else "mean"))

    def check(self, model: ModelConfig) -> None:
        check_one_stack(model, "regress")
        if not isinstance(model.frontend, TokensConfig):
            raise ConfigError("model.frontend: regress reads texts, and this model reads no tokens")

    # ----------------------------------------------------------------------------------------------------------------- data

    def prepare(
        self, data: DataConfig, text: TokenizerSource, model: ModelConfig, say: Say, state: RegressState | None = None
    ) -> Prepared[RegressState, NumberedTexts]:
        splits = load_table(_with_value(data), REGRESS, say)
        notes, tables = list(splits.notes), (splits.train, splits.valid, splits.test)
        tokenizer = fit_tokenizer(text, "tokenizer", splits.train["text"], say)
        values = read_values(splits.train)
        known = state
        if state is None:
            if values.min() == values.max():
                raise DataError(f"all rows of train have the value {values[0]:g}: there is nothing to predict", file=splits.train.files[0])
            state = RegressState(float(values.mean()), float(values.std()))
            notes.append(f"values in train: {values.min():g} to {values.max():g}, mean {values.mean():.4g}")
        longest = min_limit(self.config.max_len, model.max_len)
        train, valid, test = (self._encode(table, tokenizer, state, longest, notes) for table in tables)
        if self.config.linear == "stacked":
            say("fitting a ridge regression of words")
            linear, left_out = fit_ridge(train.table["text"], train.targets)
            train = replace(train, linear=lambda: left_out)
            valid, test = (replace(own, linear=cache(partial(_linear_of, linear, own.table["text"]))) for own in (valid, test))
            state = replace(state, linear=linear) if known is None else state
        train = replace(train, word_dropout=self.config.word_dropout)
        say_all(notes, say)
        sizes = Sizes(tokenizer.vocab, classes=1, max_len=longest_row(train, valid, test))
        return Prepared(state, train, valid, test, {"tokenizer": tokenizer}, sizes, splits.digest, notes)

    def read(self, state: RegressState, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> NumberedTexts:
        table, notes = load_rows(_with_value(data), REGRESS, say)
        found = self._encode(table, tokenizers["tokenizer"], state, min_limit(self.config.max_len, model.max_len), notes)
        say_all(notes, say)
        return _add_linear_scores(state, found)

    def _encode(self, table: Table, tokenizer: Tokenizer, state: RegressState, longest: int, notes: list[str]) -> NumberedTexts:
        values = read_values(table)
        ids, cut = encode_texts(tokenizer, table["text"], None, longest)
        if cut:
            notes.append(f"{table.name}: {format_count(cut, 'text')} of {len(table):,} cut to {longest} tokens (task.max_len)")
        return NumberedTexts(table=table, ids=Ragged.of(ids), tokenizer=tokenizer, values=values, targets=state.standardise(values))

    # ------------------------------------------------------------------------------------------------------------- training

    def init_weights(self, model: Model, prepared: Prepared[RegressState, NumberedTexts], say: Say) -> None:
        for network in networks_of(model):
            if isinstance(network.head, ClassifyHead):
                network.head.zero_output()  # the first answers are the linear model's, or the mean
        if self.config.vectors:
            train = prepared.train
            init_from_skip_gram(model, lambda: (train.ids[row] for row in range(len(train))), say)

    def step(self, model: Model, batch: Batch) -> Loss:
        assert batch.labels is not None
        answers, _ = (Stacked(model) if isinstance(batch, LinearBatch) else model)(batch)
        errors = answers[:, 0] - batch.labels
        return Loss(errors.square().sum(), len(errors), {"mae": errors.detach().abs().sum()})

    def finalize(
        self, model: Model, prepared: Prepared[RegressState, NumberedTexts], *, budget: int, say: Say, progress: Progress | None = None
    ) -> RegressState:
        """The weights of both parts, and the width of the intervals, from validation."""
        state, valid = prepared.state, prepared.valid
        if len(valid) < FEWEST:
            say(f"validation has {format_count(len(valid), 'example')}, too few to choose anything by: answers have no intervals")
            return state
        network = all_logits(model, valid, EvalOptions(budget, progress=progress))[:, 0]
        if valid.linear is not None:
            from scipy.optimize import nnls

            weights, _ = nnls(np.stack([network, valid.linear()], axis=1), valid.targets)
            state = replace(state, network_weight=float(weights[0]), linear_weight=float(weights[1]))
            say(f"answers are {weights[0]:.2f} × the network + {weights[1]:.2f} × a ridge regression of words; chosen on validation")
        errors = np.sort(np.abs(_together(state, network, valid) - valid.values))
        place = min(int(np.ceil(LEVEL * (len(errors) + 1))), len(errors)) - 1
        return replace(state, margin=float(errors[place]))

    def caveat(self, predictor: Predictor, state: RegressState) -> str:
        stacked = "" if state.linear is None else "the network is stacked on a ridge regression of words"
        return "; ".join(part for part in (super().caveat(predictor, state), stacked) if part)

    def graph_outputs(self, state: RegressState, logits: Tensor) -> dict[str, Tensor]:
        return {"value": state.network_weight * logits[:, 0] * state.deviation + state.mean}

    # -------------------------------------------------------------------------------------------------------------- scoring

    def score(self, model: Model, state: RegressState, dataset: NumberedTexts, options: EvalOptions) -> Evaluation:
        found = _together(state, all_logits(model, dataset, options)[:, 0], dataset)
        scores, intervals = regression_scores(dataset.values, found, state.margin, draws=0 if options.quick else 1000)
        if options.quick:
            scores["loss"] = float(np.square(state.standardise(found) - dataset.targets).mean())
            return Evaluation(scores, examples=len(dataset), split=dataset.name)
        rows = np.argsort(-np.abs(found - dataset.values), kind="stable")[:WORST]
        details: RegressDetails = {
            "values": [[round(float(true), 6), round(float(own), 6)] for true, own in zip(dataset.values, found, strict=True)][:2000],
            "margin": state.margin,
            "worst": [self._error(model, dataset, int(row), float(found[row])) for row in rows],
        }
        return Evaluation(scores, intervals, len(dataset), details, dataset.name)

    def _error(self, model: Model, dataset: NumberedTexts, row: int, answer: float) -> NumberError:
        text = dataset.table["text"][row]
        encoding = dataset.tokenizer.encode(text, max_len=len(dataset.ids[row]))
        moved = influence(model, dataset.batch([row]), _first)
        values = [0.0] * len(encoding) if moved is None else [round(float(value), 4) for value in moved[0]]
        return {
            "true": float(dataset.values[row]),
            "answer": answer,
            "place": dataset.place(row),
            "tokens": running_text(encoding, text),
            "values": values,
        }

    def baselines(self, prepared: Prepared[RegressState, NumberedTexts], say: Say) -> list[Baseline]:
        train, test, state = prepared.train, prepared.test, prepared.state
        linear = state.linear or fit_ridge(train.table["text"], train.targets)[0]
        said = state.restore(_linear_of(linear, test.table["text"]))
        answers = ((MEAN, np.full(len(test), train.values.mean())), (RIDGE, said))
        found = [Baseline(name, *regression_scores(test.values, own, None)) for name, own in answers]
        for (name, _), one in zip(answers, found, strict=True):
            say(f"baseline {name.en}: mean absolute error {one.scores['mae']:.4g}")
        return found

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return regression_sections(evaluation)

    # ------------------------------------------------------------------------------------------------------------ answering

    def predict(
        self,
        model: Model,
        state: RegressState,
        tokenizers: Tokenizers,
        inputs: Sequence[str | Example],
        *,
        budget: int = 8192,
        **options: Any,
    ) -> list[Prediction]:
        """A number for each text, with its interval."""
        examples = as_examples(inputs, "text")
        source = self._read_inputs(model, state, tokenizers["tokenizer"], examples)
        values = _together(state, all_logits(model, source, EvalOptions(budget))[:, 0], source)
        found = []
        for example, value in zip(examples, values.tolist(), strict=True):
            row: dict[str, str | float | None] = {"input": example["text"], "value": value}
            details = EstimateAnswer(value=value, table=[row])
            if state.margin is not None:
                details |= {"low": value - state.margin, "high": value + state.margin}
                row |= {"low": value - state.margin, "high": value + state.margin}
            found.append(Prediction(example["text"], f"{value:.4g}", details=details))
        return found

    def _read_inputs(self, model: Model, state: RegressState, tokenizer: Tokenizer, examples: Sequence[Example]) -> NumberedTexts:
        texts = encode_inputs(tokenizer, examples, min_limit(self.config.max_len, model.config.max_len), pairs=False)
        blank = np.zeros(len(texts))
        return _add_linear_scores(state, NumberedTexts(table=texts.table, ids=texts.ids, tokenizer=tokenizer, values=blank, targets=blank))

    def examples(self, prepared: Prepared[RegressState, NumberedTexts], count: int = 3) -> list[Example]:
        """Short test texts, from the lowest value to the highest."""
        test = prepared.test
        short = np.argsort(np.abs(test.lengths - 16), kind="stable")[: 4 * count]
        order = short[np.argsort(test.values[short], kind="stable")]
        chosen = order[np.linspace(0, len(order) - 1, count).astype(np.int64)]
        return [{"text": test.table["text"][row]} for row in dict.fromkeys(chosen.tolist())]

    def maps(self, model: Model, state: RegressState, tokenizers: Tokenizers, inputs: Sequence[str | Example]) -> list[AttentionMaps]:
        tokenizer, examples = tokenizers["tokenizer"], as_examples(inputs, "text")
        source = self._read_inputs(model, state, tokenizer, examples)
        found = []
        for row, answer in enumerate(self.predict(model, state, tokenizers, examples)):
            tokens, title = readable_tokens(tokenizer, source.ids[row]), map_title(answer.input, answer.output)
            found += attention_maps(model, source.batch([row]), tokens, writes=[answer.output], title=title)
        return found


def read_values(table: Table) -> Floats:
    """The numbers of a table; DataError for a cell that is not a number."""
    values = np.empty(len(table))
    for row, text in enumerate(table["value"]):
        number = read_number(text)
        if number is None or not np.isfinite(number):
            raise DataError(f"{table.place(row)}: the value {text!r} is not a number", code="not-a-number")
        values[row] = number
    return values


def _with_value(data: DataConfig) -> DataConfig:
    """`--label` names the column of values."""
    return data.replace(columns={**data.columns, "value": data.label}) if data.label and "value" not in data.columns else data


def _linear_of(linear: LinearModel, texts: Sequence[str]) -> Floats:
    return linear.log_odds(texts)[:, 0]


def _add_linear_scores(state: RegressState, texts: NumberedTexts) -> NumberedTexts:
    linear = state.linear
    return texts if linear is None else replace(texts, linear=cache(partial(_linear_of, linear, texts.table["text"])))


def _together(state: RegressState, network: Floats, texts: NumberedTexts) -> Floats:
    """The answers, in the unit of the data."""
    if texts.linear is None:
        return state.restore(network)
    return state.restore(state.network_weight * network + state.linear_weight * texts.linear())


def _first(logits: Tensor) -> Tensor:
    return logits[:, 0]
