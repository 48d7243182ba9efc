"""Translation: a text from another, written by a decoder that reads the encoder's output.

In training the decoder reads the reference shifted by one, [BOS] y, and is scored on y [EOS] (teacher forcing). The source is x [EOS].
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch.nn.functional as F
from pydantic import Field

from attentif.data import TRANSLATE, DataConfig, Table, load_rows, load_table
from attentif.decode import GenerateOptions, generate
from attentif.errors import ConfigError, DataError
from attentif.models import Batch, Model, ModelConfig, evaluating
from attentif.models.heads import LanguageHeadConfig
from attentif.tasks.baselines import translation_baselines
from attentif.tasks.feed import as_examples, counted, each_batch, fitted, limit_of, on_paper
from attentif.tasks.language import generate_options
from attentif.tasks.looking import attention_maps, shown_tokens
from attentif.tasks.metrics import Interval, by_group, by_length, exactly, perplexity, share_of, text_scores
from attentif.tasks.ragged import UNSCORED, Ints, Ragged, Rows
from attentif.tasks.report import translate_sections
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
from attentif.tasks.tokens import scored_logits, token_loss
from attentif.text import Tokenizer, TokenizerConfig
from attentif.view.blocks import AttentionMaps, Section

SHOWN = 10  # translations, and errors, in the report
SIDE_BY_SIDE = 8192  # tokens of the sources and references translated at once: a step of one row costs nearly as much as of many
DRAWS = 500  # of the bootstrap of BLEU and chrF


@TASKS.register
class TranslateConfig(TaskConfig):
    """A text from another."""

    kind: Literal["translate"] = Field("translate", description="a text from another, by an encoder and a decoder")
    metric: Literal["bleu", "chrf", "exact_match"] = Field("bleu", description="the score that counts: bleu, chrf, exact_match")
    max_len: int = Field(256, gt=1, description="pairs with a longer side, in tokens, are left out of training and cut elsewhere")
    separate_vocab: bool = Field(False, description="a tokenizer of its own for the target")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="share of the target given to all other tokens")
    beams: int = Field(1, gt=0, description="translations searched side by side; 1: greedy")
    length_penalty: float = Field(1.0, description="of beam search: 0 favours short translations")
    eval_examples: int = Field(200, ge=0, description="validation examples translated during training (0: all); all at the end")

    def build(self) -> "Translate":
        return Translate(self)


@dataclass(frozen=True)
class Pairs:
    """One split: sources x [EOS], targets [BOS] y [EOS]."""

    table: Table
    source: Ragged
    target: Ragged
    tokenizers: tuple[Tokenizer, Tokenizer]

    @property
    def name(self) -> str:
        return self.table.name

    @cached_property
    def lengths(self) -> Ints:
        return np.stack([self.source.lengths, self.target.lengths - 1], 1)  # [BOS] or [EOS]: the target is read without its last

    def __len__(self) -> int:
        return len(self.source)

    def batch(self, rows: Rows, *, packed: bool = False) -> Batch:
        chosen = np.asarray(rows, dtype=np.int64)
        reading, writing = self.tokenizers
        return Batch(
            self.source.input(chosen, packed=packed, pad=reading.pad),
            self.target.trimmed(last=1).input(chosen, packed=packed, pad=writing.pad),
            self.target.trimmed(first=1).values(chosen, packed=packed, fill=UNSCORED),
            tuple(chosen.tolist()),
        )

    def place(self, row: int) -> str:
        return self.table.place(row)


class Translate(Task):
    config: TranslateConfig
    reads = "source"

    def __init__(self, config: TranslateConfig) -> None:
        super().__init__(config)
        self.metric = config.metric

    def adapt(self, model: ModelConfig) -> ModelConfig:
        return model if isinstance(model.head, LanguageHeadConfig) else model.with_head(LanguageHeadConfig())

    def check(self, model: ModelConfig) -> None:
        if model.encoder is None or model.decoder is None:
            raise ConfigError("model: translate needs an encoder and a decoder; take transformer-tiny, say")
        if self.config.separate_vocab and model.shared:
            raise ConfigError("task.separate_vocab: the model shares one embedding (model.shared = true); one of them must give way")
        built = on_paper(model)
        if not built.caps.causal:
            raise ConfigError("model.decoder: translate writes one token after the other, and this decoder would see those to come")

    def prepare(self, data: DataConfig, text: TokenizerConfig | Tokenizers, model: ModelConfig, say: Say) -> Prepared:
        splits = load_table(data, TRANSLATE, say)
        notes = list(splits.notes)
        tokenizers = self._tokenizers(splits.train, text, say)
        limits, both = self._limits(model), _both(tokenizers)
        train, valid, test = (_encoded(table, both, limits, notes) for table in (splits.train, splits.valid, splits.test))
        for note in notes:
            say(note)
        longest = max(int(side.lengths.max()) for split in (train, valid, test) for side in (split.source, split.target))
        sizes = Sizes(both[0].vocab, target_vocab=both[1].vocab, max_len=longest)
        return Prepared(self.config, train, valid, test, tokenizers, sizes, splits.digest, notes)

    def read(self, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> Pairs:
        table, notes = load_rows(data, TRANSLATE, say)
        encoded = _encoded(table, _both(tokenizers), self._limits(model), notes)
        for note in notes:
            say(note)
        return encoded

    def _limits(self, model: ModelConfig) -> tuple[int, int]:
        return limit_of(self.config.max_len, model.max_len), limit_of(self.config.max_len, model.max_target_len)

    def _tokenizers(self, train: Table, text: TokenizerConfig | Tokenizers, say: Say) -> Tokenizers:
        if self.config.separate_vocab:
            return {name: fitted(text, name, train[role], say) for name, role in (("tokenizer", "source"), ("target", "target"))}
        return {"tokenizer": fitted(text, "tokenizer", [*train["source"], *train["target"]], say)}

    def step(self, model: Model, batch: Batch) -> Loss:
        return Loss(*token_loss(model, batch, self.config.label_smoothing))

    def evaluate(
        self, model: Model, dataset: Dataset, *, budget: int = 8192, quick: bool = False, progress: Progress | None = None
    ) -> Evaluation:
        assert isinstance(dataset, Pairs)
        rows = np.arange(len(dataset))
        if quick and 0 < self.config.eval_examples < len(dataset):
            rows = np.linspace(0, len(dataset) - 1, self.config.eval_examples).astype(np.int64)
        scores = _token_scores(model, dataset, budget, progress)
        written = self._written(model, dataset, rows, budget, progress)
        references = [dataset.table["target"][row] for row in rows.tolist()]
        found = text_scores(written, references, draws=0 if quick else DRAWS)
        if quick:
            return Evaluation(found.scores | scores, examples=len(rows), split=dataset.name)
        details = self._details(dataset, written, references) | {"signatures": found.signatures}
        return Evaluation(found.scores | scores, found.intervals, len(rows), details, dataset.name)

    def _written(self, model: Model, dataset: Pairs, rows: Ints, budget: int, progress: Progress | None) -> list[str]:
        """Translations of some rows, in their order."""
        target = dataset.tokenizers[1]
        found: dict[int, list[int]] = {}
        for batch in each_batch(model, dataset, max(budget, SIDE_BY_SIDE), progress, rows):
            options = GenerateOptions(
                max_tokens=_room(batch.source.seq.max_len), beams=self.config.beams, length_penalty=self.config.length_penalty
            )
            prompts = [[target.bos]] * batch.source.seq.batch
            answers = generate(model, prompts, options, source=batch.source, stop_tokens=[target.eos])
            found |= {row: answer.tokens for row, answer in zip(batch.rows, answers, strict=True)}
        return target.decode_batch(found[row] for row in rows.tolist())

    def _details(self, dataset: Pairs, written: list[str], references: list[str]) -> dict[str, Any]:
        right = np.array([exactly(a, b) for a, b in zip(written, references, strict=True)])

        def bleu(rows: Ints) -> tuple[float, Interval]:
            chosen = text_scores([written[row] for row in rows], [references[row] for row in rows], draws=100)
            return chosen.scores["bleu"], chosen.intervals["bleu"]

        exact = right.mean() > 0.5  # where most translations are exactly right, BLEU says little
        details: dict[str, Any] = {
            "by_length": by_length(dataset.source.lengths, share_of(right) if exact else bleu),
            "by_length_metric": "exact_match" if exact else "bleu",
        }
        if groups := dataset.table.columns.get("group"):
            details["by_group"] = by_group(groups, lambda rows: {"exact_match": float(right[rows].mean()), "bleu": bleu(rows)[0]})
        for key, among in (("translations", np.arange(len(dataset))), ("wrong", np.flatnonzero(~right) if exact else np.arange(0))):
            spread = among[np.unique(np.linspace(0, len(among) - 1, SHOWN).astype(np.int64))] if len(among) else among
            details[key] = [
                {"source": dataset.table["source"][row], "written": written[row], "reference": references[row]} for row in spread.tolist()
            ]
        return details

    def baselines(self, prepared: Prepared, say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        assert isinstance(train, Pairs)
        assert isinstance(test, Pairs)
        known, asked = ((split.table["source"], split.table["target"]) for split in (train, test))
        return translation_baselines(known, asked, say, draws=DRAWS)

    def predict(self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example], **options: Any) -> list[Prediction]:
        """Translations; the options are those of `GenerateOptions`, by default the task's."""
        reading, writing = _both(tokenizers)
        texts = [example["source"] for example in as_examples(inputs, "source")]
        ids = Ragged.of(reading.ids_batch(texts, wrap="eos", max_len=limit_of(self.config.max_len, model.config.max_len)))
        room = _room(int(ids.lengths.max(initial=1)))
        own = {"beams": self.config.beams, "length_penalty": self.config.length_penalty} if not options.get("temperature") else {}
        chosen = generate_options({"max_tokens": room} | own | options)
        found: list[Prediction] = []
        for start in range(0, len(texts), 64):
            rows = range(start, min(start + 64, len(texts)))
            source = ids.input(rows, packed=False, pad=reading.pad)
            written = generate(model, [[writing.bos]] * len(rows), chosen, source=source, stop_tokens=[writing.eos], decode=writing.decode)
            found += [Prediction(texts[row], answer.text or "") for row, answer in zip(rows, written, strict=True)]
        return found

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return translate_sections(evaluation)

    def examples(self, prepared: Prepared, count: int = 3) -> list[Example]:
        """Test sources of a dozen tokens, spread over the split: long ones make maps that nobody can read."""
        test = prepared.test
        assert isinstance(test, Pairs)
        handy = np.sort(np.argsort(np.abs(test.source.lengths - 12), kind="stable")[: 20 * count])
        rows = handy[np.unique(np.linspace(0, len(handy) - 1, count).astype(np.int64))]
        return [{"source": test.table["source"][row]} for row in rows.tolist()]

    def maps(self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example]) -> list[AttentionMaps]:
        """The weights while the model reads a source and writes its own translation (or the `target` that is given)."""
        reading, writing = _both(tokenizers)
        found = []
        for example in as_examples(inputs, "source"):
            source = example["source"]
            target = example.get("target") or self.predict(model, tokenizers, [source])[0].output
            limits = [limit_of(self.config.max_len, limit) for limit in (model.config.max_len, model.config.max_target_len)]
            x, y = (
                reading.ids_batch([source], wrap="eos", max_len=limits[0]),
                writing.ids_batch([target], wrap="bos-eos", max_len=limits[1]),
            )
            pair = Pairs(_table(source, target), Ragged.of(x), Ragged.of(y), (reading, writing))
            written = shown_tokens(writing, y[0])
            title = f"« {source} » → « {target} »"
            read = shown_tokens(reading, x[0])
            found += attention_maps(model, pair.batch([0]), written[:-1], source=read, writes=written[1:], title=title)
        return found


def _room(source: int) -> int:
    """Tokens that a translation of so many may take: twice as many, and some more for the shortest."""
    return 2 * source + 16


def _table(source: str, target: str) -> Table:
    return Table("input", {"source": [source], "target": [target]}, ["input"], np.array([[0, 1]]))


def _both(tokenizers: Tokenizers) -> tuple[Tokenizer, Tokenizer]:
    """Of the source and of the target, which may share one."""
    return tokenizers["tokenizer"], tokenizers.get("target", tokenizers["tokenizer"])


def _encoded(table: Table, tokenizers: tuple[Tokenizer, Tokenizer], limits: tuple[int, int], notes: list[str]) -> Pairs:
    """The rows in tokens. Long pairs are left out of train, whose rows nobody counts on, and cut where all rows are to be scored."""
    source, target = tokenizers
    ids = (source.ids_batch(table["source"], wrap="eos"), target.ids_batch(table["target"], wrap="bos-eos"))
    long = np.array([any(len(side) > limit for side, limit in zip(row, limits, strict=True)) for row in zip(*ids, strict=True)])
    if not long.any():
        return Pairs(table, Ragged.of(ids[0]), Ragged.of(ids[1]), tokenizers)
    what = f"{table.name}: {counted(int(long.sum()), 'pair')} of {len(table):,} longer than {min(limits)} tokens (task.max_len)"
    if table.name != "train":
        notes.append(f"{what} cut")
        cut = (
            source.ids_batch(table["source"], wrap="eos", max_len=limits[0]),
            target.ids_batch(table["target"], wrap="bos-eos", max_len=limits[1]),
        )
        return Pairs(table, Ragged.of(cut[0]), Ragged.of(cut[1]), tokenizers)
    if long.all():
        raise DataError(f"every pair has more than {min(limits)} tokens on a side: raise task.max_len", file=table.files[0])
    notes.append(f"{what} left out")
    kept = np.flatnonzero(~long)
    left, right = (Ragged.of([side[row] for row in kept]) for side in ids)
    return Pairs(table.take(kept), left, right, tokenizers)


def _token_scores(model: Model, dataset: Pairs, budget: int, progress: Progress | None) -> dict[str, float]:
    """Loss and accuracy of the next token after the reference's own beginning."""
    nats, right, count = 0.0, 0, 0
    with evaluating(model):
        for batch in each_batch(model, dataset, budget, progress):
            logits, labels, _, _ = scored_logits(model, batch)
            nats += float(F.cross_entropy(logits, labels, reduction="sum"))
            right += int((logits.argmax(-1) == labels).sum())
            count += len(labels)
    loss = nats / count
    return {"loss": loss, "perplexity": perplexity(loss), "token_accuracy": right / count}
