"""Classification: a label for a text, or for a pair of texts; or several labels at once (`multi_label.py`).

On the validation split (`calibration.py`) probabilities are calibrated and, with `task.linear = "averaged"`, averaged with
those of a linear model of words; `predict` and the report mention both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from attentif.data import CLASSIFY, DataConfig, Splits, Table, load_rows, load_table
from attentif.errors import ConfigError, DataError
from attentif.models import Batch, Model, ModelConfig
from attentif.models.frontends import TokensConfig
from attentif.models.heads import ClassifyHead, ClassifyHeadConfig, LanguageHeadConfig, TokensHeadConfig
from attentif.tasks.answers import Baseline, EvalOptions, Evaluation, Prediction
from attentif.tasks.attention import attention_maps, map_title, readable_tokens
from attentif.tasks.base import (
    BUDGET,
    TASKS,
    Example,
    Inputs,
    Loss,
    Prepared,
    Progress,
    Say,
    Sizes,
    Task,
    TaskConfig,
    TaskState,
    Tokenizers,
)
from attentif.tasks.baselines import Labelled, classification_baselines, linear_baselines
from attentif.tasks.batches import as_examples, build_meta, check_one_stack, format_count, longest_row, min_limit, say_all
from attentif.tasks.classification.adversarial import adversarial_loss
from attentif.tasks.classification.calibration import TINY, Answers, log_loss, probabilities
from attentif.tasks.classification.corrections import find_corrections
from attentif.tasks.classification.data import LabelledTexts, all_logits, encode_inputs, encode_texts, show_error
from attentif.tasks.classification.imbalance import Balance, Metric, ScoredBy, Weighting, balance_of, shares_of
from attentif.tasks.classification.linear import Floats, LinearModel
from attentif.tasks.classification.linear_features import LinearFeatures, count_features
from attentif.tasks.classification.report import ClassDetails, PartScores, TextDetails, TextError, classify_sections
from attentif.tasks.classification.scores import check_pooling, class_details, number_labels, score_classes
from attentif.tasks.classification.stacking import attach_reading, stack_network, stack_splits
from attentif.tasks.metrics import Interval, by_group, by_length, classification_scores, confusion, never_answered, share_of
from attentif.tasks.narrow import labels_of
from attentif.tasks.predictors import Predictor, Stacked, networks_of
from attentif.tasks.ragged import Ints, Ragged
from attentif.tasks.skip_gram_init import init_from_skip_gram
from attentif.tasks.tokenizers import TokenizerSource, fit_tokenizer
from attentif.text import Tokenizer
from attentif.view.blocks import AttentionMaps, Section
from attentif.view.words import Text, Words, percent

WORST = 12  # errors shown in the report
MOST_CLASSES = 12  # whose linear features are read: four numbers a class beside every token


@TASKS.register
class ClassifyConfig(TaskConfig):
    """A label for a text, or for a pair of texts; or several labels at once."""

    kind: Literal["classify"] = Field(
        "classify", description="text classification: one label for a text or a pair of texts, or several labels"
    )
    labels: list[str] = Field([], description="class names in the order of the logits; by default those of the training data")
    several: bool = Field(False, description="multi-label: a text may have several labels, or none")
    separator: str = Field(";", min_length=1, description="separator between the labels of a text, if they are not a list")
    max_len: int = Field(256, gt=2, description="maximum tokens of a text; longer ones are truncated")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="label smoothing")
    adversarial: float = Field(
        0.0, ge=0, description="norm of adversarial perturbations of the token embeddings (0: off; 1 to 5 are usual)"
    )
    word_dropout: float = Field(0.0, ge=0, lt=1, description="probability of replacing a token by [UNK] in training")
    vectors: bool = Field(
        False, description="initialise embeddings with skip-gram vectors of the training texts, unless loaded from a run or a file"
    )
    linear: Literal["none", "stacked", "averaged"] = Field(
        "none",
        description="linear model of words: none, stacked (the network reads its features and adds to its logits) or "
        "averaged (with the network's probabilities); weights are chosen on validation",
    )
    calibrate: bool = Field(True, description="temperature scaling on validation after training")
    class_weights: Weighting = Field(
        "auto",
        description="balanced: every class counts the same in the loss, however rare; auto: where the smallest class has under a fifth "
        "of an equal share; none",
    )
    metric: ScoredBy = Field(
        "auto",
        description="the score that counts, for which thresholds are chosen on validation: accuracy, balanced_accuracy or f1; auto: "
        "balanced accuracy where the smallest class has under a fifth of an equal share, else accuracy",
    )
    use: Literal["network", "best"] = Field(
        "network", description="best: where a baseline is better on validation, it gives the answers of this run"
    )

    def build(self) -> "Classify":
        if not self.several:
            return Classify(self)
        from attentif.tasks.classification.multi_label import Several

        return Several(self)


@dataclass(frozen=True)
class ClassifyState(TaskState):
    """The classes, whether inputs are pairs, and what turns logits into answers."""

    labels: tuple[str, ...] = ()
    pairs: bool | Literal["either"] = False  # either: an imported model does not say
    answers: Answers = field(default_factory=Answers)
    linear_features: LinearFeatures | None = None  # the linear model that the network is stacked on
    metric: Metric = "accuracy"  # the score that counts


class Classify(Task[ClassifyState, LabelledTexts]):
    config: ClassifyConfig
    state_type = ClassifyState
    offers = ("classify",)
    imported_state: ClassVar[Mapping[str, Any]] = {"pairs": "either"}
    optional_inputs = ("pair",)
    metric = "accuracy"
    samples_rows = True
    scores_by_batch = True

    @property
    def averages(self) -> bool:
        return True

    def metric_for(self, state: ClassifyState) -> str:
        return state.metric

    def adapt(self, model: ModelConfig) -> ModelConfig:
        """Replace a head of tokens by one of classes: pooled over the text, or at the last token of a causal model."""
        if not isinstance(model.head, LanguageHeadConfig | TokensHeadConfig):
            return model
        return model.with_head(ClassifyHeadConfig(pool="last" if model.encoder is None else "mean"))

    def check(self, model: ModelConfig) -> None:
        check_one_stack(model, "classify")
        check_pooling(model, build_meta(model), "token")
        for key in ("adversarial", "word_dropout", "vectors"):
            if getattr(self.config, key) and not isinstance(model.frontend, TokensConfig):
                raise ConfigError(f"task.{key}: is about the vectors of tokens, and this model reads none")

    # ----------------------------------------------------------------------------------------------------------------- data

    def prepare(
        self, data: DataConfig, text: TokenizerSource, model: ModelConfig, say: Say, state: ClassifyState | None = None
    ) -> Prepared[ClassifyState, LabelledTexts]:
        splits = self._load(data, say)
        notes = list(splits.notes)
        tables = (splits.train, splits.valid, splits.test)
        roles = [role for role in ("text", "pair") if role in splits.train.columns]
        tokenizer = fit_tokenizer(text, "tokenizer", [value for role in roles for value in splits.train[role]], say)
        labels = state.labels if state is not None else tuple(self.config.labels or splits.labels)
        if "pair" in roles and isinstance(model.frontend, TokensConfig) and model.frontend.segments < 2:
            notes.append("the two texts of a pair are told apart by [SEP] alone; model.frontend.segments=2 marks every token")
        longest = min_limit(self.config.max_len, model.max_len)
        train, valid, test = (self._encode(table, tokenizer, labels, longest, notes) for table in tables)
        frontend = {}
        known = None if state is None else state.linear_features
        balance = self._balance(train.labels, labels)
        notes += balance.notes
        log_shares = balance.log_shares if state is None else state.answers.log_shares
        if self.config.linear == "stacked":
            if without := self._no_token_features(model, len(labels), pairs="pair" in roles):
                notes.append(f"the network adds to the linear model's logits and reads none of its token features: {without}")
            else:
                frontend = {"features": count_features(len(train), train.labels, len(labels))}
            (train, valid, test), known = stack_splits(
                (train, valid, test), len(labels), known, log_shares, say, tokens="features" in frontend
            )
        train = replace(train, word_dropout=self.config.word_dropout, class_weights=balance.weights)
        say_all(notes, say)
        sizes = Sizes(tokenizer.vocab, classes=len(labels), max_len=longest_row(train, valid, test), frontend=frontend)
        if state is None:
            answers = Answers(several=self.config.several, log_shares=log_shares, offsets=balance.offsets)
            state = ClassifyState(labels, "pair" in roles, answers, known, balance.metric)
        return Prepared(state, train, valid, test, {"tokenizer": tokenizer}, sizes, splits.digest, notes)

    def _balance(self, numbers: Ints, labels: Sequence[str]) -> Balance:
        return balance_of(numbers, labels, self.config.class_weights, self.config.metric)

    def _no_token_features(self, model: ModelConfig, classes: int, *, pairs: bool) -> str:
        """Why these texts have no token features, if so."""
        if not isinstance(model.frontend, TokensConfig):
            return "it reads no tokens"
        if pairs:
            return "these are for single texts"
        return f"these are for at most {MOST_CLASSES} classes, and there are {classes}" if classes > MOST_CLASSES else ""

    def migrate_state(self, folder: Path, table: Mapping[str, Any]) -> ClassifyState:
        several = self.config.several
        features = LinearFeatures.load(folder, several=several) if self.config.linear == "stacked" else None
        return ClassifyState(tuple(table["labels"]), table.get("pairs", False), Answers.load(folder, several=several), features)

    def _load(self, data: DataConfig, say: Say) -> Splits:
        return load_table(data, CLASSIFY, say)

    def _rows(self, data: DataConfig, say: Say) -> tuple[Table, list[str]]:
        return load_rows(data, CLASSIFY, say)

    def read(self, state: ClassifyState, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> LabelledTexts:
        table, notes = self._rows(data, say)
        if state.pairs not in ("either", "pair" in table.columns):
            what = "pairs of texts, and these rows have one each" if state.pairs else "single texts, and these rows have two each"
            raise DataError(f"this model reads {what}", file=table.files[0])
        longest = min_limit(self.config.max_len, model.max_len)
        read = self._encode(table, tokenizers["tokenizer"], state.labels, longest, notes)
        say_all(notes, say)
        return self._stack(state, read)

    def _encode(self, table: Table, tokenizer: Tokenizer, labels: Sequence[str], longest: int, notes: list[str]) -> LabelledTexts:
        numbers = self._numbers(table, labels)
        ids, cut = encode_texts(tokenizer, table["text"], table.columns.get("pair"), longest)
        if cut:
            share = 100 * cut / len(table)
            notes.append(
                f"{table.name}: {format_count(cut, 'text')} of {len(table):,} ({share:.1f} %) cut to {longest} tokens (task.max_len)"
            )
        return LabelledTexts(table=table, ids=Ragged.of(ids), labels=numbers, tokenizer=tokenizer)

    def _stack(self, state: ClassifyState, texts: LabelledTexts) -> LabelledTexts:
        return attach_reading(texts, state.linear_features, len(state.labels), state.answers.log_shares)

    def _numbers(self, table: Table, labels: Sequence[str]) -> Ints:
        return number_labels(table, labels)

    # ------------------------------------------------------------------------------------------------------------- training

    def init_weights(self, model: Model, prepared: Prepared[ClassifyState, LabelledTexts], say: Say) -> None:
        train = prepared.train
        if train.reading is not None:
            train.reading()  # before the clock of training starts
            for network in networks_of(model):
                if isinstance(network.head, ClassifyHead):
                    network.head.zero_output()  # the first answers are the linear model's, and every step changes them
        if self.config.vectors:
            init_from_skip_gram(model, lambda: (train.ids[row] for row in range(len(train))), say)

    def step(self, model: Model, batch: Batch) -> Loss:
        loss_of = partial(self._loss, labels_of(batch), batch.weights)
        if self.config.adversarial and model.training:
            total, logits = adversarial_loss(stack_network(model, batch), batch, loss_of, self.config.adversarial)
        else:
            logits, _ = stack_network(model, batch)(batch)
            total = loss_of(logits)
        return Loss(total, len(labels_of(batch)), {"accuracy": self._right(logits.detach(), labels_of(batch))})

    def _loss(self, labels: Tensor, weights: Tensor | None, logits: Tensor) -> Tensor:
        losses = F.cross_entropy(logits, labels, reduction="none", label_smoothing=self.config.label_smoothing)
        return losses.sum() if weights is None else (losses * weights).sum()

    def _right(self, logits: Tensor, labels: Tensor) -> Tensor:
        return (logits.argmax(-1) == labels).sum()

    def finalize(
        self, model: Model, prepared: Prepared[ClassifyState, LabelledTexts], *, budget: int, say: Say, progress: Progress | None = None
    ) -> ClassifyState:
        """Choose temperature, linear part, weights and thresholds on validation; then refit the linear features on it too."""
        config, valid, train, state = self.config, prepared.valid, prepared.train, prepared.state
        linear = None
        if config.linear == "averaged":
            say("fitting the linear part on the training split")
            linear = LinearModel.fit(train.joined_texts(), train.labels, len(state.labels))
        if config.calibrate or linear or config.several or state.metric != "accuracy":
            logits, beneath = (
                all_logits(model, valid, EvalOptions(budget, progress=progress)),
                None if valid.reading is None else valid.reading().logits,
            )
            shares = None if config.several else shares_of(train.labels, len(state.labels))
            answers = Answers.fit(
                *(logits, valid.joined_texts(), valid.labels),
                calibrate=config.calibrate,
                linear=linear,
                beneath=beneath,
                shares=shares,
                weighted=bool(state.answers.log_shares),
                metric=state.metric,
            )
            state = replace(state, answers=answers)
            if chosen := answers.describe_choice(answers.stack(logits, beneath), valid.joined_texts(), valid.labels):
                say(chosen)
        if config.use == "best":
            state = self._best(model, state, prepared, budget, say)
        if state.linear_features is not None:
            say("all is chosen: fitting the linear model of words once more, on training and validation texts")
            labels = np.concatenate([train.labels, valid.labels])
            state = replace(
                state,
                linear_features=state.linear_features.refit([*train.joined_texts(), *valid.joined_texts()], labels, len(state.labels)),
            )
        return state

    def _best(
        self, model: Model, state: ClassifyState, prepared: Prepared[ClassifyState, LabelledTexts], budget: int, say: Say
    ) -> ClassifyState:
        """Answer by a baseline, refitted with validation, if it is better there than the network."""
        train, valid = (Labelled(split.joined_texts(), split.labels) for split in (prepared.train, prepared.valid))
        metric = self.metric_for(state)
        own = self.evaluate(model, state, prepared.valid, budget=budget, quick=True).scores[metric]
        best, best_score = None, own
        for one in linear_baselines(train, valid, len(state.labels), linear=self._fit_linear(prepared), metric=state.metric):
            p = one.answers.linear_part(valid.texts, len(state.labels))
            assert p is not None
            score = self._scores(replace(state, answers=one.answers), p, valid.labels)[metric]
            say(f"on validation: {one.name.en} {score:.4f}, the network {own:.4f} ({metric.replace('_', ' ')})")
            if score > best_score:
                best, best_score = one, score
        if best is None or best.answers.linear is None:
            return state
        say(f"answers are those of {best.name.en} (task.use=best)")
        texts, labels = [*train.texts, *valid.texts], np.concatenate([train.labels, valid.labels])
        return replace(state, answers=replace(best.answers, linear=best.answers.linear.again(texts, labels, len(state.labels))))

    def caveat(self, predictor: Predictor, state: ClassifyState) -> str:
        stacked = (
            "" if state.linear_features is None or not state.answers.needs_network else "the network is stacked on a linear model of words"
        )
        return "; ".join(part for part in (super().caveat(predictor, state), stacked, state.answers.note) if part)

    def graph_outputs(self, state: ClassifyState, logits: Tensor) -> dict[str, Tensor]:
        """Calibrated logits, whose softmax (or sigmoid) is the probability, and the class that is answered (or 0 and 1 for each label)."""
        answers = state.answers
        calibrated = logits / answers.temperature
        if answers.several:
            cuts = torch.tensor(answers.thresholds or [0.5] * len(state.labels)).logit()
            return {"logits": calibrated, "label": (calibrated >= cuts).long()}
        if answers.log_shares:
            calibrated = calibrated + torch.tensor(answers.log_shares)
        moved = calibrated - torch.tensor(answers.offsets) if answers.offsets else calibrated
        return {"logits": calibrated, "label": moved.argmax(-1)}

    # -------------------------------------------------------------------------------------------------------------- scoring

    def score(self, model: Model, state: ClassifyState, dataset: LabelledTexts, options: EvalOptions) -> Evaluation:
        if dataset.name == "test":  # by the linear model of this state, which `finalize` fits once more with validation
            dataset = self._stack(state, dataset)
        logits, beneath = all_logits(model, dataset, options), None if dataset.reading is None else dataset.reading().logits
        unweighted = (logits if beneath is None else logits + beneath) + np.array(state.answers.log_shares or 0.0)
        logits = state.answers.stack(logits, beneath)
        network = state.answers.network(logits)
        linear = state.answers.linear_part(dataset.joined_texts(), logits.shape[1])
        p = state.answers.mix(network, linear)
        if options.quick:
            return Evaluation(self._scores(state, p, dataset.labels), examples=len(dataset), split=dataset.name)
        scores, intervals, details = self._measure(
            model, state, dataset, p, network, probabilities(unweighted, several=self.config.several)
        )
        details["answers"] = {"temperature": state.answers.temperature, "chosen_on": state.answers.chosen_on}
        if linear is not None and state.answers.needs_network:
            parts: list[PartScores] = []
            for name, own in (("network", network), ("linear", linear)):
                part, around = self._with_intervals(state, own, dataset.labels)
                parts.append({"scores": part, "intervals": around})
                scores |= {f"{name}_{self.metric}": part[self.metric]}
            details["parts"] = {"weight": state.answers.weight, "network": parts[0], "linear": parts[1]}
        return Evaluation(scores, intervals, len(dataset), details, dataset.name)

    def _scores(self, state: ClassifyState, p: Floats, labels: Ints) -> dict[str, float]:
        log_p = np.log(np.maximum(p, TINY))
        scores = score_classes(log_p, labels, state.labels, "", quick=True, predicted=state.answers.decide(p)).scores
        if state.answers.log_shares:  # what training lowers: all classes count the same
            shares = np.exp(state.answers.log_shares)
            scores["loss"] = log_loss(probabilities(log_p - np.log(shares)), labels, 1 / shares)
        return scores

    def _with_intervals(self, state: ClassifyState, p: Floats, labels: Ints) -> tuple[dict[str, float], dict[str, Interval]]:
        return classification_scores(confusion(labels, state.answers.decide(p), p.shape[1]))

    def _measure(
        self, model: Model, state: ClassifyState, dataset: LabelledTexts, p: Floats, network: Floats, uncalibrated: Floats
    ) -> tuple[dict[str, float], dict[str, Interval], TextDetails]:
        """Scores, intervals and what the report shows; `p` is what is answered, `network` the network's part of it."""
        from attentif.view.figures.classify import reliability

        true, predicted = dataset.labels, state.answers.decide(p)
        found = score_classes(np.log(np.maximum(p, TINY)), true, state.labels, dataset.name, quick=False, predicted=predicted)
        ece = lambda own: reliability(own.max(1), own.argmax(1) == true).ece
        right = true == predicted
        details: ClassDetails = {
            **class_details(p, true, state.labels, predicted),
            "ece": {"before": ece(uncalibrated), "network": ece(network), "after": found.scores["ece"]},
            "by_length": by_length(dataset.lengths, share_of(right)),
            "worst": self._worst(model, state, dataset, predicted, p[np.arange(len(p)), predicted]),
        }
        if dataset.reading is not None:
            reading, features = dataset.reading(), state.linear_features
            if features is not None and reading.tokens is not None:
                details["overturned"] = find_corrections(dataset, reading, features, predicted, state.labels)
        if groups := dataset.table.columns.get("group"):
            details["by_group"] = by_group(groups, lambda rows: {"accuracy": float(right[rows].mean())})
        return found.scores, found.intervals, details

    def _worst(
        self, model: Model, state: ClassifyState, dataset: LabelledTexts, predicted: Ints, confidence: NDArray[np.float64]
    ) -> list[TextError]:
        """The errors that the model was surest of, with what each token said for the wrong class against the right one."""
        wrong = np.flatnonzero(predicted != dataset.labels)
        rows = wrong[np.argsort(-confidence[wrong], kind="stable")[:WORST]]
        found = []
        for row in rows.tolist():
            true, answer = int(dataset.labels[row]), int(predicted[row])
            names = state.labels[true], state.labels[answer]
            found.append(show_error(model, dataset, row, names, float(confidence[row]), partial(_margin, answer, true)))
        return found

    def baselines(self, prepared: Prepared[ClassifyState, LabelledTexts], say: Say) -> list[Baseline]:
        train, valid, test = (Labelled(split.joined_texts(), split.labels) for split in prepared.splits)
        state = prepared.state
        return classification_baselines(train, valid, test, len(state.labels), say, linear=self._fit_linear(prepared), metric=state.metric)

    def _fit_linear(self, prepared: Prepared[ClassifyState, LabelledTexts]) -> LinearModel | None:
        """The naive-Bayes-weighted model of the training split, where there is one already."""
        if (features := prepared.train.linear_features) is not None:
            return features().linear
        return prepared.state.answers.linear if self.config.linear == "averaged" and self.config.use == "network" else None

    # ------------------------------------------------------------------------------------------------------------ answering

    def predict(
        self, model: Model, state: ClassifyState, tokenizers: Tokenizers, inputs: Inputs, *, budget: int = BUDGET, **options: Any
    ) -> list[Prediction]:
        """A label for each text (or pair), with the probability of every class."""
        examples = as_examples(inputs, "text")
        source = self._read_inputs(model, state, tokenizers["tokenizer"], examples)
        weights = state.answers.network_weight, state.answers.linear_weight
        predictor = model if source.reading is None else Stacked(model, *weights)
        p = state.answers.probabilities(all_logits(predictor, source, EvalOptions(budget)), source.joined_texts())
        return [self._answer(state, example, row) for example, row in zip(examples, p, strict=True)]

    def _answer(self, state: ClassifyState, example: Example, p: Floats) -> Prediction:
        scores = {state.labels[c]: float(p[c]) for c in np.argsort(-p, kind="stable")}
        answer = int(state.answers.decide(p[None])[0])
        return Prediction(" / ".join(example.values()), state.labels[answer], float(p[answer]), scores)

    def _read_inputs(self, model: Model, state: ClassifyState, tokenizer: Tokenizer, examples: Sequence[Example]) -> LabelledTexts:
        texts = encode_inputs(tokenizer, examples, min_limit(self.config.max_len, model.config.max_len), pairs=state.pairs)
        return self._stack(state, texts)

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return classify_sections(evaluation)

    def warnings(self, evaluation: Evaluation) -> list[Text]:
        return never_answered(evaluation.details)

    def examples(self, prepared: Prepared[ClassifyState, LabelledTexts], count: int = 3) -> list[Example]:
        """Short test texts, one of each class in turn: maps of long ones are unreadable."""
        test = prepared.test
        first = test.labels if test.labels.ndim == 1 else test.labels.argmax(1)
        order = np.argsort(np.abs(test.lengths - 16), kind="stable")
        rank = np.zeros(len(order), dtype=np.int64)  # how many of its class come before, in that order
        for c in range(len(prepared.state.labels)):
            own = first[order] == c
            rank[own] = np.arange(own.sum())
        return [test.example(row) for row in order[np.argsort(rank, kind="stable")][:count].tolist()]

    def maps(self, model: Model, state: ClassifyState, tokenizers: Tokenizers, inputs: Inputs) -> list[AttentionMaps]:
        tokenizer, examples = tokenizers["tokenizer"], as_examples(inputs, "text")
        source = self._read_inputs(model, state, tokenizer, examples)
        found = []
        for row, answer in enumerate(self.predict(model, state, tokenizers, examples)):
            said: Words = answer.output
            if answer.probability is not None:
                said = Text("{label} ({sure})", "{label} ({sure})").with_(label=answer.output, sure=percent(answer.probability, 0))
            title = map_title(answer.input, said)
            tokens = readable_tokens(tokenizer, source.ids[row])
            found += attention_maps(model, source.batch([row]), tokens, writes=[answer.output], title=title)
        return found


def _margin(answer: int, true: int, logits: Tensor) -> Tensor:
    return logits[:, answer] - logits[:, true]
