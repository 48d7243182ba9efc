"""Several tasks in one model, told apart by the words before the text (T5, Raffel et al. 2020):

    "traduire: deux cents" -> "two hundred"          "juger: Quel film !" -> "positif"

A table has a column of prefixes (`task`, `prefix` ...), or `task.prefixes` names one for each file of `data.train`. Scores are given for
all rows, and for each prefix.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from attentif.data import TEXT_TO_TEXT, DataConfig, Table
from attentif.errors import DataError, UsageError
from attentif.models import ModelConfig
from attentif.tasks.answers import Baseline, Evaluation
from attentif.tasks.base import TASKS, Example, Prepared, Say, TaskState, Tokenizers
from attentif.tasks.baselines import translation_baselines
from attentif.tasks.metrics import text_scores
from attentif.tasks.seq2seq.base import DRAWS, Pairs, Seq2Seq, Seq2SeqConfig
from attentif.tasks.seq2seq.report import written_sections
from attentif.tasks.tokenizers import TokenizerSource
from attentif.view.blocks import Section
from attentif.view.words import Text


def bare_prefix(written: str) -> str:
    """A prefix without its colon, as the name of the task."""
    return written.strip().removesuffix(":").rstrip()


@TASKS.register
class TextToTextConfig(Seq2SeqConfig):
    """Several tasks in one model, each named before its texts."""

    kind: Literal["text-to-text"] = Field(
        "text-to-text", description="several text-to-text tasks in one model, each named by a prefix (T5)"
    )
    metric: Literal["exact_match", "chrf", "bleu"] = Field("exact_match", description="main score: exact_match, chrf, bleu")
    prefixes: list[Annotated[str, AfterValidator(bare_prefix)]] = Field(
        [], description="a prefix for each file of `data.train`; by default a column of the data"
    )

    def build(self) -> "TextToText":
        return TextToText(self)


@dataclass(frozen=True)
class TextToTextState(TaskState):
    """The prefixes of the tasks that the model was trained on."""

    prefixes: tuple[str, ...] = ()


class TextToText(Seq2Seq[TextToTextState]):
    config: TextToTextConfig
    state_type = TextToTextState
    reads = "source"
    beside = ("prefix",)
    roles = TEXT_TO_TEXT

    def prepare(
        self, data: DataConfig, text: TokenizerSource, model: ModelConfig, say: Say, state: TextToTextState | None = None
    ) -> Prepared[TextToTextState, Pairs]:
        prepared = super().prepare(data, text, model, say, state)
        if state is None:
            state = TextToTextState(tuple(dict.fromkeys((*self.config.prefixes, *sorted(set(prepared.train.table["prefix"]))))))
        for split in (prepared.valid, prepared.test):
            _refuse_new(split, state.prefixes)
        return replace(prepared, state=state)

    def read(self, state: TextToTextState, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> Pairs:
        pairs = super().read(state, data, tokenizers, model, say)
        _refuse_new(pairs, state.prefixes)
        return pairs

    def complete_table(self, table: Table) -> Table:
        """The table with a column of prefixes, that of its files where it has none of its own."""
        if "prefix" in table.columns:
            return Table(table.name, table.columns | {"prefix": [*map(bare_prefix, table["prefix"])]}, table.files, table.places)
        given = self.config.prefixes
        if len(given) != len(table.files):
            files = f"{len(table.files)} file{'s' if len(table.files) > 1 else ''}"
            raise DataError(
                f"no column looks like the prefix that says which task a row is of; name it (data.columns.prefix=NAME), "
                f"or give one for each file: task.prefixes has {len(given)} for {files}",
                file=table.files[0],
            )
        return Table(table.name, table.columns | {"prefix": [given[file] for file in table.places[:, 0]]}, table.files, table.places)

    def sources(self, table: Table) -> list[str]:
        return [add_prefix(prefix, text) for prefix, text in zip(table["prefix"], table["source"], strict=True)]

    def source_of(self, state: TextToTextState, example: Example) -> str:
        text = add_prefix(bare_prefix(example["prefix"]), example["source"]) if "prefix" in example else example["source"]
        if state.prefixes and text.partition(":")[0].strip() not in state.prefixes:
            ways = ", ".join(f"«{prefix}: ...»" for prefix in state.prefixes[:8])
            raise UsageError(f"say what is to be done first: {ways} (or, in a table, by a column called prefix)")
        return text

    def groups(self, table: Table) -> list[str]:
        return table["prefix"]

    def group_scores(self, written: list[str], references: list[str]) -> dict[str, float]:
        """Score by characters (chrF): BLEU would be 0 for any one-word answer."""
        scores = text_scores(written, references).scores
        return {key: scores[key] for key in ("exact_match", "chrf")}

    def baselines(self, prepared: Prepared[TextToTextState, Pairs], say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        return translation_baselines((train.sources, train.references), (test.sources, test.references), say, draws=DRAWS)

    def sections(self, evaluation: Evaluation) -> list[Section]:
        heads = (Text("texte", "text"), Text("réponse du modèle", "the model's answer"), Text("référence", "reference"))
        return written_sections(evaluation, Text("Réponses", "Answers"), heads, groups=Text("tâche", "task"))


def add_prefix(prefix: str, text: str) -> str:
    return f"{prefix}: {text}"


def _refuse_new(pairs: Pairs, known: Sequence[str]) -> None:
    for row, prefix in enumerate(pairs.table["prefix"]):
        if prefix not in known:
            raise DataError(f"{pairs.place(row)}: the prefix {prefix!r} is none of the model's ({', '.join(known[:10])})")
