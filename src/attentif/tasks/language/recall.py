"""Answers at the places that ask for them: copying, associative recall, sorting, and whatever else tests a memory.

    text       k3 v1 k7 v4 k7 k3
    answers    _  _  _  _  v4 v1

A word of `answers` for each word of `text`, or `_` where nothing is asked. The model reads the text once, from left to right, and only its
answers are scored; nothing is fed back. So attention, recurrences and state spaces are asked exactly the same. An encoder, which reads both
ways, may be asked too.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch.nn.functional as F
from pydantic import Field

from attentif.data import DataConfig, Roles, Table, load_rows, load_table
from attentif.errors import DataError
from attentif.models import Batch, Model, ModelConfig, eval_mode
from attentif.models.heads import LanguageHeadConfig
from attentif.tasks.answers import Baseline, EvalOptions, Evaluation, Prediction
from attentif.tasks.attention import attention_maps, map_title, readable_tokens
from attentif.tasks.base import BUDGET, TASKS, Example, Inputs, Loss, Prepared, Say, Sizes, Task, TaskConfig, TaskState, Tokenizers
from attentif.tasks.batches import as_examples, build_meta, check_one_stack, iterate_batches, longest_row, min_limit, say_all
from attentif.tasks.language.recall_report import RecallDetails, RecallError, recall_sections
from attentif.tasks.metrics import Slice, by_group, by_length, mean_interval, share, share_of
from attentif.tasks.ragged import UNSCORED, Ints, Ragged
from attentif.tasks.rows import LabelledTokens
from attentif.tasks.token_loss import scored_logits, token_loss
from attentif.tasks.tokenizers import TokenizerSource, fit_tokenizer
from attentif.text import Tokenizer
from attentif.view.blocks import AttentionMaps, Section
from attentif.view.words import Text

NOTHING = "_"  # no answer is expected here
RECALL = Roles(("text", "answers"))
SHOWN = 8  # rows with errors in the report
MOST_PLACES = 64  # answers of a row that are told apart by their order


@TASKS.register
class RecallConfig(TaskConfig):
    """Answers at the places of a text that ask for them."""

    kind: Literal["recall"] = Field("recall", description="predict a token at each position that asks for one")
    max_len: int = Field(65_536, gt=1, description="maximum tokens of a text; longer ones are refused")

    def build(self) -> "Recall":
        return Recall(self)


class Recall(Task[TaskState, LabelledTokens]):
    config: RecallConfig
    metric = "accuracy"

    def adapt(self, model: ModelConfig) -> ModelConfig:
        return model if isinstance(model.head, LanguageHeadConfig) else model.with_head(LanguageHeadConfig())

    def check(self, model: ModelConfig) -> None:
        check_one_stack(model, "recall", "decoder-tiny")
        build_meta(model)

    # ----------------------------------------------------------------------------------------------------------------- data

    def prepare(
        self, data: DataConfig, text: TokenizerSource, model: ModelConfig, say: Say, state: TaskState | None = None
    ) -> Prepared[TaskState, LabelledTokens]:
        splits = load_table(data, RECALL, say)
        words = [
            f"{asking} {_count_answers(answers)}" for asking, answers in zip(splits.train["text"], splits.train["answers"], strict=True)
        ]
        tokenizer = fit_tokenizer(text, "tokenizer", words, say)
        train, valid, test = (self._encode(table, tokenizer, model) for table in (splits.train, splits.valid, splits.test))
        say_all(splits.notes, say)
        sizes = Sizes(tokenizer.vocab, max_len=longest_row(train, valid, test))
        return Prepared(state or TaskState(), train, valid, test, {"tokenizer": tokenizer}, sizes, splits.digest, splits.notes)

    def read(self, state: TaskState, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> LabelledTokens:
        table, notes = load_rows(data, RECALL, say)
        say_all(notes, say)
        return self._encode(table, tokenizers["tokenizer"], model)

    def _encode(self, table: Table, tokenizer: Tokenizer, model: ModelConfig) -> LabelledTokens:
        ids, labels = [], []
        unknown = tokenizer.rust.token_to_id("[UNK]")
        most = min_limit(self.config.max_len, model.max_len)
        answers = tokenizer.ids_batch(table["answers"], wrap="none")
        for row, (own, answer) in enumerate(zip(tokenizer.ids_batch(table["text"], wrap="none"), answers, strict=True)):
            words, asked = table["text"][row].split(), table["answers"][row].split()
            wrong = ""
            if len(words) != len(asked):
                wrong = f"{len(words)} words and {len(asked)} answers: there must be one for each word, {NOTHING} where nothing is asked"
            elif len(own) != len(words) or len(answer) != len(asked):
                wrong = "recall needs a tokenizer that keeps words whole: tokenizer.kind=word, and words of letters and digits"
            elif len(own) > most:
                wrong = f"{len(own):,} tokens, more than {most:,} (task.max_len, or what the model can read)"
            elif all(word == NOTHING for word in asked):
                wrong = f"nothing is asked: every answer is {NOTHING}"
            if wrong:
                file, line = table.places[row]
                raise DataError(wrong, file=table.files[file], line=int(line))
            wanted = np.array([word != NOTHING for word in asked])
            ids.append(own)
            labels.append(np.where(wanted, answer, UNSCORED).astype(np.int64))
            # an answer that training never saw cannot be given: it is scored, and wrong
            if unknown is not None:
                labels[-1][wanted & (answer == unknown)] = tokenizer.pad
        return LabelledTokens(table=table, ids=Ragged.of(ids), labels=Ragged.of(labels), tokenizer=tokenizer)

    # ------------------------------------------------------------------------------------------------------------- the loop

    def step(self, model: Model, batch: Batch) -> Loss:
        return Loss(*token_loss(model, batch))

    def score(self, model: Model, state: TaskState, dataset: LabelledTokens, options: EvalOptions) -> Evaluation:
        found, nats = self._answers(model, dataset, options)
        right = [given == wanted[wanted != UNSCORED] for given, wanted in zip(found, _each(dataset.labels), strict=True)]
        hits, sizes = np.array([int(own.sum()) for own in right]), np.array([len(own) for own in right])
        whole = hits == sizes
        exact, around = share(int(whole.sum()), len(whole))
        scores = {"accuracy": float(hits.sum() / sizes.sum()), "exact_match": exact, "loss": nats / int(sizes.sum())}
        if options.quick:
            return Evaluation(scores, examples=len(dataset), split=dataset.name)
        intervals = {"accuracy": mean_interval(hits, sizes), "exact_match": around}
        details: RecallDetails = {"by_order": _by_order(right), "by_length": by_length(dataset.lengths, share_of(whole)), "errors": []}
        if groups := dataset.table.columns.get("group"):
            details["by_group"] = by_group(groups, lambda rows: {"accuracy": float(hits[rows].sum() / sizes[rows].sum())})
        details["errors"] = [self._error(dataset, row, found[row]) for row in np.flatnonzero(~whole)[:SHOWN].tolist()]
        return Evaluation(scores, intervals, len(dataset), details, dataset.name)

    def _answers(self, model: Model, dataset: LabelledTokens, options: EvalOptions) -> tuple[list[Ints], float]:
        """What is answered at the places that ask, row by row, and the summed loss."""
        found: dict[int, Ints] = {}
        nats = 0.0
        with eval_mode(model):
            for batch in iterate_batches(model, dataset, options):
                logits, labels, places, seq = scored_logits(model, batch)
                nats += float(F.cross_entropy(logits, labels, reduction="sum"))
                chosen, rows = logits.argmax(-1).cpu().numpy(), seq.row.flatten()[places].cpu().numpy()
                for place, row in enumerate(batch.rows):
                    found[row] = chosen[rows == place]
        return [found[row] for row in range(len(dataset))], nats

    def _error(self, dataset: LabelledTokens, row: int, given: Ints) -> RecallError:
        wanted = _count_answers(dataset.table["answers"][row])
        return {"text": dataset.table["text"][row], "wanted": wanted, "given": " ".join(readable_tokens(dataset.tokenizer, given))}

    def baselines(self, prepared: Prepared[TaskState, LabelledTokens], say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        counts = Counter(train.labels.flat[train.labels.flat != UNSCORED].tolist())
        often = max(counts, key=lambda token: (counts[token], -token))
        asked = [own[own != UNSCORED] for own in _each(test.labels)]
        hits, sizes = np.array([int((own == often).sum()) for own in asked]), np.array([len(own) for own in asked])
        scores = {"accuracy": float(hits.sum() / sizes.sum()), "exact_match": float((hits == sizes).mean())}
        name = Text("la réponse la plus fréquente", "the most frequent answer")
        return [Baseline(name, scores, {"accuracy": mean_interval(hits, sizes)})]

    # -------------------------------------------------------------------------------------------------------------- answers

    def predict(
        self, model: Model, state: TaskState, tokenizers: Tokenizers, inputs: Inputs, *, budget: int = BUDGET, **options: Any
    ) -> list[Prediction]:
        """The answer at every place of each text; where `answers` are given, at the places that ask."""
        examples = as_examples(inputs, "text")
        dataset = self._read_inputs(model, tokenizers["tokenizer"], examples)
        found, _ = self._answers(model, dataset, EvalOptions(budget))
        return [
            Prediction(example["text"], " ".join(readable_tokens(dataset.tokenizer, given)))
            for example, given in zip(examples, found, strict=True)
        ]

    def _read_inputs(self, model: Model, tokenizer: Tokenizer, examples: Sequence[Example]) -> LabelledTokens:
        texts = [example["text"] for example in examples]
        answers = [example.get("answers") or text for example, text in zip(examples, texts, strict=True)]  # any word asks
        return self._encode(Table.of_inputs({"text": texts, "answers": answers}), tokenizer, model.config)

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return recall_sections(evaluation)

    def examples(self, prepared: Prepared[TaskState, LabelledTokens], count: int = 3) -> list[Example]:
        test = prepared.test
        return [{role: test.table[role][row] for role in ("text", "answers")} for row in np.argsort(test.lengths, kind="stable")[:count]]

    def maps(self, model: Model, state: TaskState, tokenizers: Tokenizers, inputs: Inputs) -> list[AttentionMaps]:
        found = []
        for example in as_examples(inputs, "text"):
            one = self._read_inputs(model, tokenizers["tokenizer"], [example])
            found += attention_maps(model, one.batch([0]), readable_tokens(one.tokenizer, one.ids[0]), title=map_title(example["text"]))
        return found


def _count_answers(answers: str) -> str:
    """The answers alone, without the places where nothing is asked."""
    return " ".join(word for word in answers.split() if word != NOTHING)


def _each(ragged: Ragged) -> list[Ints]:
    return [ragged[row].astype(np.int64) for row in range(len(ragged))]


def _by_order(right: Sequence[np.ndarray[Any, Any]]) -> list[Slice]:
    """The share of right first answers, second answers, ..."""
    found: list[Slice] = []
    for place in range(min(MOST_PLACES, max(map(len, right), default=0))):
        own = [bool(row[place]) for row in right if len(row) > place]
        value, around = share(sum(own), len(own))
        found.append({"low": place + 1, "high": place + 1, "value": value, "interval": list(around), "examples": len(own)})
    return found
