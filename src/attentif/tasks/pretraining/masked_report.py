"""Baselines of hidden tokens, and the report's pages on them."""

from typing import TypedDict

import numpy as np

from attentif.tasks.answers import Baseline, Evaluation
from attentif.tasks.base import Say
from attentif.tasks.baselines import measure_time
from attentif.tasks.details import details_of
from attentif.tasks.metrics import perplexity
from attentif.tasks.pretraining.base import Spoiled
from attentif.tasks.pretraining.masking import Vocabulary
from attentif.tasks.pretraining.neighbours import Neighbours
from attentif.tasks.pretraining.passages import Passages
from attentif.tasks.ragged import UNSCORED
from attentif.view.blocks import Block, Cell, Paragraph, Section, TableBlock, TokensBlock
from attentif.view.words import Text, Words, percent

ABOUT = Text(
    "Des passages du test tels que le modèle les a lus. Un jeton caché est d'autant plus foncé que le modèle donnait de chances au "
    "vrai ; parmi les jetons choisis, huit sur dix sont [MASK], un est un autre jeton, un est resté en place.",
    "Passages of the test as the model read them. A hidden token is the darker, the likelier the model held the true one; of the "
    "tokens chosen, eight in ten are [MASK], one is another token, one was left in place.",
)


def masked_baselines(train: Passages, test: Spoiled, vocabulary: Vocabulary, say: Say) -> list[Baseline]:
    """The commonest token, and what was seen between the two neighbours: as the model reads them, so that some are [MASK]."""
    labels, read = test.labels.flat.astype(np.int64), test.ids.flat.astype(np.int64)
    places = np.flatnonzero(labels != UNSCORED)  # never the first or the last: those are special tokens
    wanted, left, right = labels[places], read[places - 1], read[places + 1]
    found = []
    with measure_time() as clock:
        special = vocabulary.special.nonzero().squeeze(1).numpy()
        counts = Neighbours(train.running_text(), vocabulary.tokenizer.vocab, special)
        p = (counts.counts[wanted] + 1.0) / (len(counts.tokens) + counts.vocab)
    systems = [(Text("jeton le plus fréquent", "commonest token"), np.full(len(wanted), int(counts.counts.argmax())), p, clock.seconds)]
    with measure_time() as clock:
        guess, p = counts.guess(left, right), counts.probability(left, wanted, right)
    name = Text("ce qui se lit d'ordinaire entre les deux voisins", "what usually stands between the two neighbours")
    systems.append((name, guess, p, clock.seconds))
    for name, guess, p, seconds in systems:
        loss = -float(np.log(p).mean()) if len(p) else 0.0
        scores = {"accuracy": float((guess == wanted).mean()) if len(p) else 0.0, "loss": loss, "perplexity": perplexity(loss)}
        found.append(Baseline(name, scores, seconds=seconds))
        say(f"baseline {name.en}: accuracy {100 * scores['accuracy']:.1f} %, perplexity {scores['perplexity']:.1f} ({seconds:.1f} s)")
    return found


class HiddenPassage(TypedDict):
    """A passage, what is hidden of it, and what the model guesses."""

    tokens: list[str]
    places: list[int]
    true: list[str]
    probability: list[float]  # of the true token
    guesses: list[list[str]]
    probabilities: list[list[float]]


class MaskedDetails(TypedDict):
    hidden: list[HiddenPassage]


def masked_sections(evaluation: Evaluation, about: Text = ABOUT) -> list[Section]:
    if not (details := details_of(evaluation, MaskedDetails)) or not details["hidden"]:
        return []
    body: list[Block] = [Paragraph(about)]
    for passage in details["hidden"]:
        body += [_passage(passage), _guesses(passage)]
    return [Section(Text("Ce que le modèle devine", "What the model guesses"), body)]


def _passage(passage: HiddenPassage) -> TokensBlock:
    values = [0.0] * len(passage["tokens"])
    for place, p in zip(passage["places"], passage["probability"], strict=True):
        values[place] = p
    return TokensBlock([token.replace("␣", " ").replace("⏎", "⏎\n") for token in passage["tokens"]], values, whole=1.0)


def _guesses(passage: HiddenPassage) -> TableBlock:
    heads: list[Words] = [Text("lu", "read"), Text("vrai", "true"), Text("ses chances", "its chances"), Text("propositions", "guesses")]
    rows: list[list[Cell]] = []
    for place, true, p, names, likely in zip(
        passage["places"], passage["true"], passage["probability"], passage["guesses"], passage["probabilities"], strict=True
    ):
        guesses = [Text(*(f"{name} {percent(chance)[lang]}" for lang in ("fr", "en"))) for name, chance in zip(names, likely, strict=True)]
        together = Text(*(" · ".join(guess[lang] for guess in guesses) for lang in ("fr", "en")))
        rows.append([passage["tokens"][place], true, percent(p), together])
    right = [row for row, (true, names) in enumerate(zip(passage["true"], passage["guesses"], strict=True)) if names[0] == true]
    return TableBlock(heads, rows, strong=right)
