"""Several tasks in one model, told apart by the words before the text (T5, Raffel et al. 2020):

    "traduire: deux cents" -> "two hundred"          "juger: Quel film !" -> "positif"

A table has a column of prefixes (`task`, `prefix` ...), or `task.prefixes` names one for each file of `data.train`. Scores are given for
all rows, and for each prefix.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from attentif.data import TEXT_TO_TEXT, DataConfig, Table
from attentif.errors import DataError, UsageError
from attentif.models import ModelConfig
from attentif.tasks.baselines import translation_baselines
from attentif.tasks.metrics import text_scores
from attentif.tasks.report import written_sections
from attentif.tasks.task import TASKS, Baseline, Evaluation, Example, Prepared, Say, Tokenizers
from attentif.tasks.writing.seq2seq import DRAWS, Pairs, Seq2Seq, Seq2SeqConfig
from attentif.text import TokenizerConfig
from attentif.view.blocks import Section
from attentif.view.words import Text


def bare_prefix(written: str) -> str:
    """A prefix as the task's name: many write the colon that stands after it too."""
    return written.strip().removesuffix(":").rstrip()


@TASKS.register
class TextToTextConfig(Seq2SeqConfig):
    """Several tasks in one model, each named before its texts."""

    kind: Literal["text-to-text"] = Field("text-to-text", description="several tasks in one model, each named before its texts")
    metric: Literal["exact_match", "chrf", "bleu"] = Field("exact_match", description="the score that counts: exact_match, chrf, bleu")
    prefixes: list[Annotated[str, AfterValidator(bare_prefix)]] = Field(
        [], description="one for each file of `data.train`, where no column holds them; by default the data's"
    )

    def build(self) -> "TextToText":
        return TextToText(self)


class TextToText(Seq2Seq):
    config: TextToTextConfig
    reads = "source"
    beside = ("prefix",)
    roles = TEXT_TO_TEXT
    shown = "answers"

    def prepare(self, data: DataConfig, text: TokenizerConfig | Tokenizers, model: ModelConfig, say: Say) -> Prepared:
        prepared = super().prepare(data, text, model, say)
        known = dict.fromkeys(self.config.prefixes)
        train = prepared.train
        assert isinstance(train, Pairs)
        known |= dict.fromkeys(sorted(set(train.table["prefix"])))
        for split in (prepared.valid, prepared.test):
            assert isinstance(split, Pairs)
            _refuse_new(split, list(known))
        self.config = self.config.changed(prefixes=list(known))
        return Prepared(
            self.config, train, prepared.valid, prepared.test, prepared.tokenizers, prepared.sizes, prepared.digest, prepared.notes
        )

    def read(self, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> Pairs:
        pairs = super().read(data, tokenizers, model, say)
        _refuse_new(pairs, self.config.prefixes)
        return pairs

    def settled(self, table: Table) -> Table:
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
        return [prefixed(prefix, text) for prefix, text in zip(table["prefix"], table["source"], strict=True)]

    def source_of(self, example: Example) -> str:
        text = prefixed(bare_prefix(example["prefix"]), example["source"]) if "prefix" in example else example["source"]
        if self.config.prefixes and text.partition(":")[0].strip() not in self.config.prefixes:
            ways = ", ".join(f"«{prefix}: ...»" for prefix in self.config.prefixes[:8])
            raise UsageError(f"say what is to be done first: {ways} (or, in a table, by a column called prefix)")
        return text

    def groups(self, table: Table) -> list[str]:
        return table["prefix"]

    def group_scores(self, written: list[str], references: list[str]) -> dict[str, float]:
        """By letters (chrF), not by words: an answer of one word has no run of four words, and BLEU would be 0 whatever it is."""
        scores = text_scores(written, references).scores
        return {key: scores[key] for key in ("exact_match", "chrf")}

    def baselines(self, prepared: Prepared, say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        assert isinstance(train, Pairs)
        assert isinstance(test, Pairs)
        return translation_baselines((train.sources, train.references), (test.sources, test.references), say, draws=DRAWS)

    def sections(self, evaluation: Evaluation) -> list[Section]:
        heads = (Text("texte", "text"), Text("réponse du modèle", "the model's answer"), Text("référence", "reference"))
        return written_sections(evaluation, self.shown, Text("Réponses", "Answers"), heads, groups=Text("tâche", "task"))


def prefixed(prefix: str, text: str) -> str:
    return f"{prefix}: {text}"


def _refuse_new(pairs: Pairs, known: list[str]) -> None:
    for row, prefix in enumerate(pairs.table["prefix"]):
        if prefix not in known:
            raise DataError(f"{pairs.place(row)}: the prefix {prefix!r} is none of the model's ({', '.join(known[:10])})")
