"""Classification: a label for a text, or for a pair of texts; or several labels at once (`classify_several.py`).

What training leaves behind is made fit for use on the validation split (`blend.py`): probabilities are calibrated and, with
`task.blend`, averaged with those of a linear model of words. Both are said wherever they are used.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from attentif.data import CLASSIFY, DataConfig, Splits, Table, load_rows, load_table
from attentif.errors import ConfigError, DataError
from attentif.models import Batch, Model, ModelConfig
from attentif.models.frontends import TokensConfig
from attentif.models.heads import ClassifyHead, ClassifyHeadConfig, LanguageHeadConfig, TokensHeadConfig
from attentif.tasks.baselines import Labelled, classification_baselines
from attentif.tasks.feed import as_examples, counted, fitted, limit_of, on_paper
from attentif.tasks.labels.adversarial import adversarial_loss
from attentif.tasks.labels.blend import TINY, Answers, probabilities
from attentif.tasks.labels.classified import classified
from attentif.tasks.labels.classify_data import LabelledTexts, all_logits, asked, encoded, shown_error, unknown_label
from attentif.tasks.labels.evidence import Evidence, Told, numbers_beside
from attentif.tasks.labels.hiding import hide
from attentif.tasks.labels.linear import Floats, Linear
from attentif.tasks.labels.overturned import overturned
from attentif.tasks.looking import attention_maps, shown_tokens
from attentif.tasks.metrics import by_group, by_length, classification_scores, confusion, share_of
from attentif.tasks.ragged import Ints, Ragged
from attentif.tasks.report import classify_sections
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
from attentif.tasks.word_vectors import begin_with_skip_gram
from attentif.text import Tokenizer, TokenizerConfig
from attentif.view.blocks import AttentionMaps, Section

WORST = 12  # errors shown in the report
MOST_CLASSES = 12  # of which evidence is read: four numbers a class beside every token


@TASKS.register
class ClassifyConfig(TaskConfig):
    """A label for a text, or for a pair of texts; or several labels at once."""

    kind: Literal["classify"] = Field("classify", description="a label for a text, or for a pair of texts; or several at once")
    labels: list[str] = Field([], description="the classes, in the model's order; by default those of the training data")
    several: bool = Field(False, description="a text may have several labels at once, or none")
    separator: str = Field(";", min_length=1, description="what stands between several labels of one text, where they are no list")
    pairs: bool | Literal["either"] = Field(
        False, description="the inputs are pairs of texts; found in the training data (either: an imported model does not say)"
    )
    max_len: int = Field(256, gt=2, description="longer texts are cut to so many tokens")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of the target given to the other classes")
    adversarial: float = Field(
        0.0, ge=0, description="train on the worst small step of the tokens' vectors too, of this length (0: no; 1 to 5 are usual)"
    )
    hidden: float = Field(0.0, ge=0, lt=1, description="share of the tokens that are hidden in each step of training, as [UNK]")
    vectors: bool = Field(
        False, description="begin with word vectors (skip-gram) of the training texts, where neither a run nor a file brings others"
    )
    evidence: bool = Field(
        False, description="tell the network what a linear model of words says of each token, and let it add to that model's answer"
    )
    calibrate: bool = Field(True, description="divide logits by a temperature chosen on validation, after training")
    blend: bool = Field(False, description="answer with the average of the network and a linear model of words, weighted on validation")

    def build(self) -> "Classify":
        if not self.several:
            return Classify(self)
        from attentif.tasks.labels.classify_several import Several

        return Several(self)


class Classify(Task):
    config: ClassifyConfig
    offers = ("classify",)
    optional_inputs = ("pair",)
    metric = "accuracy"

    def __init__(self, config: ClassifyConfig) -> None:
        super().__init__(config)
        self.answers = Answers(several=config.several)
        self.tokenizer: Tokenizer | None = None  # once the training texts are read
        self.learned: Callable[[], tuple[Evidence, Told]] | None = None  # once the training texts are read: fits it
        self.evidence: Evidence | None = None  # once it is fitted, or a run is opened

    @property
    def averages(self) -> bool:
        return True

    def adapt(self, model: ModelConfig) -> ModelConfig:
        """A head of classes where the preset has one of tokens: pooled over the text, or at the end where only the end has read it all."""
        if not isinstance(model.head, LanguageHeadConfig | TokensHeadConfig):
            return model
        return model.with_head(ClassifyHeadConfig(pool="last" if model.encoder is None else "mean"))

    def check(self, model: ModelConfig) -> None:
        if model.encoder is not None and model.decoder is not None:
            raise ConfigError("model: classify reads with one stack, and this model has an encoder and a decoder; take encoder-tiny, say")
        built = on_paper(model)
        if isinstance(model.head, ClassifyHeadConfig) and model.head.pool == "first" and built.caps.causal:
            raise ConfigError('model.head.pool: the first token of a causal model has read nothing else; pool = "last" has read it all')
        for key in ("adversarial", "hidden", "vectors", "evidence"):
            if getattr(self.config, key) and not isinstance(model.frontend, TokensConfig):
                raise ConfigError(f"task.{key}: is about the vectors of tokens, and this model reads none")

    # ----------------------------------------------------------------------------------------------------------------- data

    def prepare(self, data: DataConfig, text: TokenizerConfig | Tokenizers, model: ModelConfig, say: Say) -> Prepared:
        splits = self._load(data, say)
        notes = list(splits.notes)
        tables = (splits.train, splits.valid, splits.test)
        roles = [role for role in ("text", "pair") if role in splits.train.columns]
        tokenizer = fitted(text, "tokenizer", [value for role in roles for value in splits.train[role]], say)
        labels = self.config.labels or splits.labels
        if "pair" in roles and isinstance(model.frontend, TokensConfig) and model.frontend.segments < 2:
            notes.append("the two texts of a pair are told apart by [SEP] alone; model.frontend.segments=2 marks every token")
        longest = limit_of(self.config.max_len, model.max_len)
        train, valid, test = (self._encoded(table, tokenizer, labels, longest, notes) for table in tables)
        frontend, without = {}, self._no_evidence(len(labels), pairs="pair" in roles)
        if self.config.evidence and without:
            notes.append(f"the network reads no evidence of a linear model (task.evidence): {without}")
        elif self.config.evidence:
            frontend = {"evidence": numbers_beside(len(train), train.labels, len(labels))}
            self.learned = learned = cache(partial(self._learn, train, len(labels), say))  # only where somebody asks for it
            train = replace(train, told=lambda: learned()[1])
            valid = replace(valid, told=cache(partial(self._told, valid, lambda: learned()[0])))  # by who has not seen its labels
            test = replace(test, told=cache(partial(self._told, test, lambda: self.evidence or learned()[0])))
        for note in notes:
            say(note)
        sizes = Sizes(
            tokenizer.vocab, classes=len(labels), max_len=max(int(split.lengths.max()) for split in (train, valid, test)), frontend=frontend
        )
        task = self.config.changed(labels=labels, pairs="pair" in roles, evidence=bool(frontend))
        self.config, self.tokenizer = task, tokenizer
        return Prepared(task, train, valid, test, {"tokenizer": tokenizer}, sizes, splits.digest, notes)

    def _no_evidence(self, classes: int, *, pairs: bool) -> str:
        """Why these texts have none, if so."""
        if pairs:
            return "that is about single texts, and these are pairs"
        return f"that is for at most {MOST_CLASSES} classes, and there are {classes}" if classes > MOST_CLASSES else ""

    def _learn(self, train: LabelledTexts, classes: int, say: Say) -> tuple[Evidence, Told]:
        found, told = Evidence.fit(train.joined(), train.labels, classes, train.tokenizer, train.ids, say)
        self.evidence = self.evidence or found  # an opened run has its own
        return found, told

    def _told(self, texts: LabelledTexts, known: Callable[[], Evidence]) -> Told:
        return known().of(texts.joined(), len(self.config.labels), texts.tokenizer, texts.ids)

    def _informed(self, texts: LabelledTexts) -> LabelledTexts:
        """With what the linear model says of them, where the network of an opened run reads it."""
        known = self.evidence
        return texts if known is None else replace(texts, told=cache(partial(self._told, texts, lambda: known)))

    def _load(self, data: DataConfig, say: Say) -> Splits:
        return load_table(data, CLASSIFY, say)

    def _rows(self, data: DataConfig, say: Say) -> tuple[Table, list[str]]:
        return load_rows(data, CLASSIFY, say)

    def read(self, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> LabelledTexts:
        table, notes = self._rows(data, say)
        if self.config.pairs not in ("either", "pair" in table.columns):
            what = "pairs of texts, and these rows have one each" if self.config.pairs else "single texts, and these rows have two each"
            raise DataError(f"this model reads {what}", file=table.files[0])
        longest = limit_of(self.config.max_len, model.max_len)
        read = self._encoded(table, tokenizers["tokenizer"], self.config.labels, longest, notes)
        for note in notes:
            say(note)
        return self._informed(read)

    def _encoded(self, table: Table, tokenizer: Tokenizer, labels: list[str], longest: int, notes: list[str]) -> LabelledTexts:
        numbers = self._numbers(table, labels)
        ids, cut = encoded(tokenizer, table["text"], table.columns.get("pair"), longest)
        if cut:
            share = 100 * cut / len(table)
            notes.append(f"{table.name}: {counted(cut, 'text')} of {len(table):,} ({share:.1f} %) cut to {longest} tokens (task.max_len)")
        return LabelledTexts(table=table, ids=Ragged.of(ids), labels=numbers, tokenizer=tokenizer)

    def _numbers(self, table: Table, labels: list[str]) -> Ints:
        """The labels of a table as numbers of classes."""
        number = {label: place for place, label in enumerate(labels)}
        for row, label in enumerate(table["label"]):
            if label not in number:
                raise unknown_label(label, table.place(row), labels)
        return np.array([number[label] for label in table["label"]], dtype=np.int64)

    # ------------------------------------------------------------------------------------------------------------- training

    def begin(self, model: Model, prepared: Prepared, say: Say) -> None:
        train = prepared.train
        assert isinstance(train, LabelledTexts)
        if train.told is not None:
            train.told()  # before the clock of training starts
            for member in model.members:
                if isinstance(member.head, ClassifyHead):
                    member.head.answer_nothing()  # the first answers are the linear model's, and every step changes them
        if self.config.vectors:
            begin_with_skip_gram(model, lambda: (train.ids[row] for row in range(len(train))), say)

    def step(self, model: Model, batch: Batch) -> Loss:
        if self.config.hidden and model.training:
            assert self.tokenizer is not None
            batch = hide(batch, self.config.hidden, self.tokenizer)
        assert batch.labels is not None
        loss_of = partial(self._loss, batch.labels)
        if self.config.adversarial and model.training:
            total, logits = adversarial_loss(model, batch, loss_of, self.config.adversarial)
        else:
            logits, _ = model(batch)
            total = loss_of(logits)
        return Loss(total, len(batch.labels), {"accuracy": self._right(logits.detach(), batch.labels)})

    def _loss(self, labels: Tensor, logits: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels, reduction="sum", label_smoothing=self.config.label_smoothing)

    def _right(self, logits: Tensor, labels: Tensor) -> Tensor:
        return (logits.argmax(-1) == labels).sum()

    def settle(self, model: Model, prepared: Prepared, folder: Path, *, budget: int, say: Say, progress: Progress | None = None) -> None:
        """Temperature, linear part, weights and thresholds, chosen on validation; then what the network reads learns from it too."""
        config, valid, train = self.config, prepared.valid, prepared.train
        assert isinstance(valid, LabelledTexts)
        assert isinstance(train, LabelledTexts)
        known = self.learned()[0] if self.learned is not None else None
        linear = known.linear if known is not None and config.blend else None
        if known is None and config.blend:
            say("fitting the linear part on the training split")
            linear = Linear.fit(train.joined(), train.labels, len(config.labels))
        if config.calibrate or linear or config.several:
            logits = all_logits(model, valid, budget, progress)
            self.answers = Answers.fit(logits, valid.joined(), valid.labels, calibrate=config.calibrate, linear=linear)
            self.answers.save(folder)
            if chosen := self.answers.chosen(logits, valid.joined(), valid.labels):
                say(chosen)
        if known is not None:
            say("all is chosen: fitting the linear model of words once more, on training and validation texts")
            labels = np.concatenate([train.labels, valid.labels])
            self.evidence = known.again([*train.joined(), *valid.joined()], labels, len(config.labels))
            self.evidence.save(folder)

    def keep(self, folder: Path) -> None:
        """What the network reads, from the beginning: a run can be opened, and gone on with, before it is finished."""
        if self.learned is not None:
            self.learned()[0].save(folder)

    def recall(self, folder: Path) -> None:
        self.answers = Answers.load(folder, several=self.config.several)
        if self.config.evidence:
            self.evidence = Evidence.load(folder, several=self.config.several)

    @property
    def note(self) -> str:
        told = "" if self.evidence is None else "the network reads what a linear model of words says of each token, and adds to its answer"
        return "; ".join(part for part in (told, self.answers.note) if part)

    # -------------------------------------------------------------------------------------------------------------- scoring

    def evaluate(
        self, model: Model, dataset: Dataset, *, budget: int = 8192, quick: bool = False, progress: Progress | None = None
    ) -> Evaluation:
        assert isinstance(dataset, LabelledTexts)
        logits = all_logits(model, dataset, budget, progress)
        network = self.answers.network(logits)
        linear = self.answers.linear_part(dataset.joined(), logits.shape[1])
        p = self.answers.mixed(network, linear)
        if quick:
            return Evaluation(self._scores(p, dataset.labels), examples=len(dataset), split=dataset.name)
        scores, intervals, details = self._measured(model, dataset, p, network, probabilities(logits, several=self.config.several))
        details["answers"] = {"temperature": self.answers.temperature, "chosen_on": self.answers.chosen_on}
        if linear is not None:
            alone = {name: self._with_intervals(own, dataset.labels) for name, own in (("network", network), ("linear", linear))}
            scores |= {f"{name}_{self.metric}": own[self.metric] for name, (own, _) in alone.items()}
            details["parts"] = {"weight": self.answers.weight} | {n: {"scores": s, "intervals": i} for n, (s, i) in alone.items()}
        return Evaluation(scores, intervals, len(dataset), details, dataset.name)

    def _scores(self, p: Floats, labels: Ints) -> dict[str, float]:
        return classified(np.log(np.maximum(p, TINY)), labels, self.config.labels, "", quick=True).scores

    def _with_intervals(self, p: Floats, labels: Ints) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
        return classification_scores(confusion(labels, p.argmax(1), p.shape[1]))

    def _measured(
        self, model: Model, dataset: LabelledTexts, p: Floats, network: Floats, uncalibrated: Floats
    ) -> tuple[dict[str, float], dict[str, tuple[float, float]], dict[str, Any]]:
        """Scores, intervals and what the report shows; `p` is what is answered, `network` the network's part of it."""
        from attentif.view.figures.classify import reliability

        true, predicted = dataset.labels, p.argmax(1)
        found = classified(np.log(np.maximum(p, TINY)), true, self.config.labels, dataset.name, quick=False)
        ece = lambda own: reliability(own.max(1), own.argmax(1) == true).ece
        right = true == predicted
        details = found.details | {
            "ece": {"before": ece(uncalibrated), "network": ece(network), "after": found.scores["ece"]},
            "by_length": by_length(dataset.lengths, share_of(right)),
            "worst": self._worst(model, dataset, predicted, p.max(1)),
        }
        if dataset.told is not None:
            told = dataset.told()
            assert self.evidence is not None
            details["overturned"] = overturned(dataset, told, self.evidence, predicted, self.config.labels)
        if groups := dataset.table.columns.get("group"):
            details["by_group"] = by_group(groups, lambda rows: {"accuracy": float(right[rows].mean())})
        return found.scores, found.intervals, details

    def _worst(self, model: Model, dataset: LabelledTexts, predicted: Ints, confidence: NDArray[np.float64]) -> list[dict[str, Any]]:
        """The errors that the model was surest of, with what each token said for the wrong class against the right one."""
        wrong = np.flatnonzero(predicted != dataset.labels)
        rows = wrong[np.argsort(-confidence[wrong], kind="stable")[:WORST]]
        found = []
        for row in rows.tolist():
            true, answer = int(dataset.labels[row]), int(predicted[row])
            names = self.config.labels[true], self.config.labels[answer]
            found.append(shown_error(model, dataset, row, names, float(confidence[row]), partial(_margin, answer, true)))
        return found

    def baselines(self, prepared: Prepared, say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        assert isinstance(train, LabelledTexts)
        assert isinstance(test, LabelledTexts)
        known, judged = (Labelled(split.joined(), split.labels) for split in (train, test))
        linear = self.answers.linear or (None if self.evidence is None else self.evidence.linear)  # fitted already
        return classification_baselines(known, judged, len(self.config.labels), say, linear=linear)

    # ------------------------------------------------------------------------------------------------------------ answering

    def predict(
        self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example], *, budget: int = 8192, **options: Any
    ) -> list[Prediction]:
        """A label for each text (or pair), with the probability of every class."""
        examples = as_examples(inputs, "text")
        source = self._asked(model, tokenizers["tokenizer"], examples)
        p = self.answers.probabilities(all_logits(model, source, budget), source.joined())
        return [self._answer(example, row) for example, row in zip(examples, p, strict=True)]

    def _answer(self, example: Example, p: Floats) -> Prediction:
        order = np.argsort(-p, kind="stable")
        scores = {self.config.labels[c]: float(p[c]) for c in order}
        return Prediction(" / ".join(example.values()), self.config.labels[order[0]], float(p[order[0]]), scores)

    def _asked(self, model: Model, tokenizer: Tokenizer, examples: Sequence[Example]) -> LabelledTexts:
        texts = asked(tokenizer, examples, limit_of(self.config.max_len, model.config.max_len), pairs=self.config.pairs)
        return self._informed(texts)

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return classify_sections(evaluation)

    def examples(self, prepared: Prepared, count: int = 3) -> list[Example]:
        """Short test texts, one of each class in turn: long ones make maps that nobody can read."""
        test = prepared.test
        assert isinstance(test, LabelledTexts)
        first = test.labels if test.labels.ndim == 1 else test.labels.argmax(1)
        order = np.argsort(np.abs(test.lengths - 16), kind="stable")
        rank = np.zeros(len(order), dtype=np.int64)  # how many of its class come before, in that order
        for c in range(len(self.config.labels)):
            own = first[order] == c
            rank[own] = np.arange(own.sum())
        return [test.example(row) for row in order[np.argsort(rank, kind="stable")][:count].tolist()]

    def maps(self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example]) -> list[AttentionMaps]:
        tokenizer, examples = tokenizers["tokenizer"], as_examples(inputs, "text")
        source = self._asked(model, tokenizer, examples)
        found = []
        for row, answer in enumerate(self.predict(model, tokenizers, examples)):
            sure = "" if answer.probability is None else f" ({100 * answer.probability:.0f} %)"
            title = f"« {answer.input} » → {answer.output}{sure}"
            tokens = shown_tokens(tokenizer, source.ids[row])
            found += attention_maps(model, source.batch([row]), tokens, writes=[answer.output], title=title)
        return found


def _margin(answer: int, true: int, logits: Tensor) -> Tensor:
    return logits[:, answer] - logits[:, true]
