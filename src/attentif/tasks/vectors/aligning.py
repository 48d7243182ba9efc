"""Word alignment of translations: IBM model 1, read from pairs of sentences, scored by how well the source foretells the target's words."""

from functools import partial
from typing import Any

import numpy as np

from attentif.data import TRANSLATE, DataConfig, load_rows, load_table
from attentif.data.table import Table as Rows
from attentif.errors import UsageError
from attentif.tasks.feed import fitted
from attentif.tasks.fitting import Examples, Fitting, Material, fitting
from attentif.tasks.metrics import mean_interval, perplexity
from attentif.tasks.task import Baseline, Evaluation, Progress, Say, Tokenizers
from attentif.text import Tokenizer, TokenizerConfig
from attentif.text.fitted import Fitted
from attentif.text.ibm1 import IBM1, IBM1Config, PairedText
from attentif.view.blocks import AttentionMaps, Block, FigureBlock, Paragraph, Section, Table
from attentif.view.words import Text, percent

EMPTY = "∅"  # how the empty word is shown
SHOWN, LONGEST = 4, 16  # sentences drawn, and the words of the longest of them
TRANSLATED, MEANINGS = 20, 4  # source words whose translations are listed, and how many


@fitting("alignment")
class Aligning(Fitting):
    config: IBM1Config
    metric = "perplexity"
    unit = "pairs"
    offers = ("align",)

    def prepare(self, data: DataConfig, text: TokenizerConfig | Tokenizers, model: Any, say: Say) -> Material:
        splits = load_table(data, TRANSLATE, say)
        for note in splits.notes:
            say(note)
        sides = {"tokenizer": "source", "target": "target"}
        tokenizers = {name: fitted(text, name, splits.train[role], say) for name, role in sides.items()}
        train, valid, test = (_examples(table, tokenizers) for table in (splits.train, splits.valid, splits.test))
        return Material(train, valid, test, tokenizers, splits.digest, splits.notes)

    def read(self, data: DataConfig, tokenizers: Tokenizers, model: Any, say: Say) -> Examples:
        table, notes = load_rows(data, TRANSLATE, say)
        for note in notes:
            say(note)
        return _examples(table, tokenizers)

    def evaluate(
        self, model: Fitted[Any], dataset: Examples, *, budget: int = 8192, quick: bool = False, progress: Progress | None = None
    ) -> Evaluation:
        assert isinstance(model, IBM1)
        nats = model.nats(dataset.of)
        sums, sizes = np.array([row.sum() for row in nats]), np.array([len(row) for row in nats])
        loss, (low, high) = float(sums.sum() / sizes.sum()), mean_interval(sums, sizes)
        scores = {"perplexity": perplexity(loss), "loss": loss}
        intervals = {"perplexity": (perplexity(low), perplexity(high)), "loss": (low, high)}
        details = {"alignments": _alignments(model, dataset), "translations": _translations(model, dataset)}
        return Evaluation(scores, intervals, len(nats), details, dataset.name)

    def align(self, model: IBM1, tokenizers: Tokenizers, source: str, target: str) -> AttentionMaps:
        """Which source word, or the empty one, each target word comes from: one map of one head, as attention's are shown."""
        f, e = paired(source, target, tokenizers)
        if not len(f) or not len(e):
            raise UsageError("an alignment needs words on both sides")
        columns = [EMPTY, *word_names(tokenizers["tokenizer"], f)]
        return AttentionMaps(word_names(tokenizers["target"], e), {"ibm1": model.align(f, e)[None]}, columns, "IBM 1")

    def baselines(self, material: Material, say: Say) -> list[Baseline]:
        seen = np.bincount(np.concatenate(material.train.of.target), minlength=material.train.of.target_words) + 1.0
        loss = -float(np.log(seen / seen.sum())[np.concatenate(material.test.of.target)].mean())
        name = Text("fréquence des mots, sans la source", "word frequencies, without the source")
        return [Baseline(name, {"perplexity": perplexity(loss), "loss": loss})]

    def sections(self, evaluation: Evaluation) -> list[Section]:
        from attentif.view.figures import alignment

        details = evaluation.details
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
            Section(Text("Traductions apprises", "Learned translations"), [Table(heads, rows)]),
        ]


def word_names(tokenizer: Tokenizer, ids: Any) -> list[str]:
    return [tokenizer.rust.id_to_token(int(token)) or "?" for token in ids]


def paired(source: str, target: str, tokenizers: Tokenizers) -> tuple[Any, Any]:
    """Two sentences in numbers of words."""
    sides = [("tokenizer", source), ("target", target)]
    return tuple(tokenizers[name].ids_batch([text], wrap="none")[0] for name, text in sides)  # type: ignore[return-value]


def _examples(table: Rows, tokenizers: Tokenizers) -> Examples:
    source, target = (
        tokenizers[name].ids_batch(table[role], wrap="none") for name, role in (("tokenizer", "source"), ("target", "target"))
    )
    pairs = PairedText(list(source), list(target), tokenizers["tokenizer"].vocab, tokenizers["target"].vocab)
    return Examples(table.name, pairs, len(table), tokenizers)


def _alignments(model: IBM1, examples: Examples) -> list[dict[str, Any]]:
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


def _translations(model: IBM1, examples: Examples) -> list[Any]:
    tokenizers = examples.tokenizers
    seen = np.bincount(np.concatenate(examples.of.source), minlength=examples.of.source_words)
    often = [word for word in np.argsort(-seen, kind="stable")[:TRANSLATED].tolist() if seen[word]]
    name = lambda word: EMPTY if word == model.empty else word_names(tokenizers["tokenizer"], [word])[0]
    meanings = lambda word: [[word_names(tokenizers["target"], [e])[0], round(p, 4)] for e, p in model.translations(word, MEANINGS)]
    return [[name(word), meanings(word)] for word in [*often, model.empty]]
