"""Denoising's baselines and its part of the report."""

from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from attentif.tasks.answers import Baseline, Evaluation
from attentif.tasks.base import Say
from attentif.tasks.baselines import measure_time
from attentif.tasks.details import details_of
from attentif.tasks.metrics import Slice, share
from attentif.tasks.report import WHERE, length_figure
from attentif.view.blocks import Block, Cell, Legend, Paragraph, Section, TableBlock, TokensBlock
from attentif.view.words import Text, Words

Ints = NDArray[np.int64]


def denoise_baselines(known: Ints, hidden: Ints, before: Ints, vocab: int, say: Say) -> list[Baseline]:
    """The most frequent token, and the most frequent one after the token before, which a decoder reads too."""
    usual = int(np.bincount(known, minlength=vocab).argmax())
    systems = [
        (Text("jeton le plus fréquent", "most frequent token"), lambda: np.full(len(hidden), usual)),
        (
            Text("jeton le plus fréquent après le précédent", "most frequent token after the one before"),
            lambda: _most_frequent_next(known, before, usual),
        ),
    ]
    found = []
    for name, guess in systems:
        with measure_time() as clock:
            hits = int((guess() == hidden).sum())
        accuracy, around = share(hits, len(hidden))
        found.append(Baseline(name, {"token_accuracy": accuracy}, {"token_accuracy": around}, clock.seconds))
        say(f"baseline {name.en}: {100 * accuracy:.1f} % of the hidden tokens ({clock.seconds:.1f} s)")
    return found


def _most_frequent_next(known: Ints, before: Ints, usual: int) -> Ints:
    """The token that follows each most often; `usual` after one that nothing follows."""
    size = int(known.max()) + 1
    pairs, seen = np.unique(known[:-1] * size + known[1:], return_counts=True)
    order = np.lexsort((-seen, pairs // size))  # by the first token, the most frequent follower first
    first, place = np.unique(pairs[order] // size, return_index=True)
    best = np.full(max(size, int(before.max(initial=0)) + 1), usual)
    best[first] = pairs[order][place] % size
    return best[before]


class Fill(TypedDict):
    true: str
    found: str


class Gaps(TypedDict):
    """A piece of text: what is visible, and what is hidden between."""

    texts: list[str]
    fills: list[Fill]


class DenoiseDetails(TypedDict):
    by_span: list[Slice]  # token accuracy by the size of the gap
    gaps: list[Gaps]
    tokens: int


def denoise_sections(evaluation: Evaluation) -> list[Section]:
    if (details := details_of(evaluation, DenoiseDetails)) is None:
        return []
    blocks: list[Block] = []
    if len(details["by_span"]) > 1:
        blocks.append(length_figure("token_accuracy", details["by_span"], Text("Selon la taille du trou", "By size of the gap")))
    about = Text(
        "Des morceaux du test ; ¶ sépare deux documents.",
        "Pieces of the test; ¶ stands between two documents.",
    )
    legend = Legend(
        Text("ce que le modèle a retrouvé", "what the model restored"),
        Text("ce qu'il a écrit à la place de ⟨ce qui était là⟩", "what it wrote in place of ⟨what stood there⟩"),
    )
    heads: list[Words] = [Text("texte, trous remplis par le modèle", "text, gaps filled by the model")]
    rows: list[list[Cell]] = [[_show_fills(entry)] for entry in details["gaps"]]
    sections = [Section(Text("Les trous du texte", "The gaps of the text"), [Paragraph(about), legend, TableBlock(heads, rows)])]
    return [Section(WHERE, blocks), *sections] if blocks else sections


def _show_fills(entry: Gaps) -> Cell:
    tokens, values = [], []
    for place, text in enumerate(entry["texts"]):
        tokens.append(text)
        values.append(0.0)
        if place < len(entry["fills"]):
            fill = entry["fills"][place]
            right = fill["true"] == fill["found"]
            tokens.append(fill["found"] if right else f"{fill['found'].rstrip()} ⟨{fill['true'].strip()}⟩")
            values.append(0.5 if right else -0.8)
    return TokensBlock(tokens, values, whole=1.0)
