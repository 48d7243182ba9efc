"""Word alignment of translations: IBM model 1, read from pairs of sentences, scored by how well the source foretells the target's words."""

from functools import partial
from typing import Any, TypedDict

import numpy as np

from attentif.data import TRANSLATE, DataConfig, load_rows, load_table
from attentif.data.table import Table as Rows
from attentif.errors import UsageError
from attentif.tasks.answers import Baseline, EvalOptions, Evaluation
from attentif.tasks.base import Prepared, Say, Sizes, TaskState, Tokenizers
from attentif.tasks.batches import say_all
from attentif.tasks.details import details_of
from attentif.tasks.fitted import Examples, FittedData, FittedTask, register_fitted
from attentif.tasks.metrics import mean_interval, perplexity
from attentif.tasks.tokenizers import TokenizerSource, fit_tokenizer
from attentif.text import Tokenizer
from attentif.text.ibm1 import IBM1, IBM1Config, PairedText
from attentif.view.blocks import AttentionMaps, Block, FigureBlock, Paragraph, Section, TableBlock
from attentif.view.words import Text, percent

EMPTY = "∅"  # how the empty word is shown
SHOWN, LONGEST = 4, 16  # sentences drawn, and the words of the longest of them
TRANSLATED, MEANINGS = 20, 4  # source words whose translations are listed, and how many


class AlignedSentence(TypedDict):
    source: list[str]
    target: list[str]
    weights: list[list[float]]


class AlignmentDetails(TypedDict):
    alignments: list[AlignedSentence]
    translations: list[tuple[str, list[tuple[str, float]]]]


@register_fitted("alignment")
class Aligning(FittedTask):
    config: IBM1Config
    metric = "perplexity"
    unit = Text("paires de phrases", "pairs of sentences")
    offers = ("align",)

    def prepare(self, data: DataConfig, text: TokenizerSource, model: Any, say: Say, state: TaskState | None = None) -> FittedData:
        splits = load_table(data, TRANSLATE, say)
        say_all(splits.notes, say)
        sides = {"tokenizer": "source", "target": "target"}
        tokenizers = {name: fit_tokenizer(text, name, splits.train[role], say) for name, role in sides.items()}
        train, valid, test = (_examples(table, tokenizers) for table in (splits.train, splits.valid, splits.test))
        return Prepared(TaskState(), train, valid, test, tokenizers, Sizes(), splits.digest, splits.notes)

    def read(self, state: TaskState, data: DataConfig, tokenizers: Tokenizers, model: Any, say: Say) -> Examples:
        table, notes = load_rows(data, TRANSLATE, say)
        say_all(notes, say)
        return _examples(table, tokenizers)

    def score(self, model: IBM1, state: TaskState, dataset: Examples, options: EvalOptions) -> Evaluation:
        nats = model.nats(dataset.of)
        sums, sizes = np.array([row.sum() for row in nats]), np.array([len(row) for row in nats])
        loss, (low, high) = float(sums.sum() / sizes.sum()), mean_interval(sums, sizes)
        scores = {"perplexity": perplexity(loss), "loss": loss}
        intervals = {"perplexity": (perplexity(low), perplexity(high)), "loss": (low, high)}
        details: AlignmentDetails = {"alignments": _alignments(model, dataset), "translations": _translations(model, dataset)}
        return Evaluation(scores, intervals, len(nats), details, dataset.name)

    def align(self, model: IBM1, tokenizers: Tokenizers, source: str, target: str) -> AttentionMaps:
        """Which source word, or the empty one, each target word comes from: one map of one head, as attention's are shown."""
        f, e = encode_pair(source, target, tokenizers)
        if not len(f) or not len(e):
            raise UsageError("an alignment needs words on both sides")
        columns = [EMPTY, *word_names(tokenizers["tokenizer"], f)]
        return AttentionMaps(word_names(tokenizers["target"], e), {"ibm1": model.align(f, e)[None]}, columns, "IBM 1")

    def baselines(self, prepared: FittedData, say: Say) -> list[Baseline]:
        seen = np.bincount(np.concatenate(prepared.train.of.target), minlength=prepared.train.of.target_words) + 1.0
        loss = -float(np.log(seen / seen.sum())[np.concatenate(prepared.test.of.target)].mean())
        name = Text("fréquence des mots, sans la source", "word frequencies, without the source")
        return [Baseline(name, {"perplexity": perplexity(loss), "loss": loss})]

    def sections(self, evaluation: Evaluation) -> list[Section]:
        from attentif.view.figures import alignment

        if (details := details_of(evaluation, AlignmentDetails)) is None:
            return []
        about = Text(
            "Plus une case est foncée, plus le mot de la cible (ligne) vient de ce mot de la source (colonne) ; ∅ est le mot vide.",
            "The darker a cell, the more the target word (row) comes from that source word (column); ∅ is the empty word.",
        )
        drawn: list[Block] = [Paragraph(about)]
        for found in details["alignments"]:
            title = f"{' '.join(found['source'][1:])} → {' '.join(found['target'])}"
            drawn.append(FigureBlock(title, partial(alignment, found["weights"], found["target"], found["source"])))
        rows = [[word, ", ".join(f"{other} {percent(p).en}" for other, p in meanings)] for word, meanings in details["translations"]]
        heads = [Text("mot source", "source word"), Text("se traduit par", "translates to")]
        return [
            Section(Text("Alignements", "Alignments"), drawn),
            Section(Text("Traductions apprises", "Learned translations"), [TableBlock(heads, rows)]),
        ]


def word_names(tokenizer: Tokenizer, ids: Any) -> list[str]:
    return [tokenizer.rust.id_to_token(int(token)) or "?" for token in ids]


def encode_pair(source: str, target: str, tokenizers: Tokenizers) -> tuple[Any, Any]:
    """Two sentences in numbers of words."""
    sides = [("tokenizer", source), ("target", target)]
    return tuple(tokenizers[name].ids_batch([text], wrap="none")[0] for name, text in sides)  # type: ignore[return-value]


def _examples(table: Rows, tokenizers: Tokenizers) -> Examples:
    source, target = (
        tokenizers[name].ids_batch(table[role], wrap="none") for name, role in (("tokenizer", "source"), ("target", "target"))
    )
    pairs = PairedText(list(source), list(target), tokenizers["tokenizer"].vocab, tokenizers["target"].vocab)
    return Examples(table.name, pairs, len(table), tokenizers)


def _alignments(model: IBM1, examples: Examples) -> list[AlignedSentence]:
    """Some sentences of middling length, and who comes from whom in them."""
    source, target, tokenizers = examples.of.source, examples.of.target, examples.tokenizers
    fit = [row for row in range(len(source)) if 3 <= len(source[row]) <= LONGEST and 3 <= len(target[row]) <= LONGEST]
    fit = fit or list(range(min(len(source), SHOWN)))
    chosen = [fit[place] for place in np.unique(np.linspace(0, len(fit) - 1, SHOWN).astype(int)).tolist()]
    return [
        {
            "source": [EMPTY, *word_names(tokenizers["tokenizer"], source[row])],
            "target": word_names(tokenizers["target"], target[row]),
            "weights": model.align(source[row], target[row]).round(3).tolist(),
        }
        for row in chosen
    ]


def _translations(model: IBM1, examples: Examples) -> list[tuple[str, list[tuple[str, float]]]]:
    tokenizers = examples.tokenizers
    seen = np.bincount(np.concatenate(examples.of.source), minlength=examples.of.source_words)
    often = [word for word in np.argsort(-seen, kind="stable")[:TRANSLATED].tolist() if seen[word]]
    name = lambda word: EMPTY if word == model.empty else word_names(tokenizers["tokenizer"], [word])[0]
    meanings = lambda word: [(word_names(tokenizers["target"], [e])[0], round(p, 4)) for e, p in model.translations(word, MEANINGS)]
    return [(name(word), meanings(word)) for word in [*often, model.empty]]
