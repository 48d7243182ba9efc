"""French film reviews, positive and negative, written by a grammar: synthetic, seeded, free of anyone's text.

Counting words does not solve them: the same evaluative words serve both labels, and negation, concession, denial, others' opinions,
comparison and expectation, at varying distance, decide what they mean (rules in `reviews_grammar.py`, words in `reviews_lexicon.py`).

Some pairs (a construction that reverses, the word it reverses) never occur in training or validation; one test review in four has one.
"""

from functools import cache
from random import Random
from zlib import crc32

from attentif.data.builtin.grammar import Grammar
from attentif.data.builtin.reviews_grammar import RULES
from attentif.data.builtin.reviews_lexicon import LEXICON

LABELS = ("positif", "négatif")
HELD_OUT = 0.03  # share of the (construction, word) pairs kept for the test
UNSEEN_SHARE = 0.25  # share of the test reviews that have such a pair


def load(seed: int = 0, *, train: int = 20_000, valid: int = 2_000, test: int = 2_000) -> dict[str, dict[str, list[str]]]:
    """The three splits, roles `text` and `label`: all texts distinct, both labels as frequent (to one review)."""
    rng = Random(f"reviews {seed}")
    grammar = _grammar()
    unseen = round(UNSEEN_SHARE * test)
    splits: dict[str, list[tuple[str, str]]] = {"train": [], "valid": [], "test": []}
    taken: set[str] = set()
    # the test first, so that it holds its share of short reviews, which are soon all taken
    for split, unfamiliar, size in (("test", True, unseen), ("test", False, test - unseen), ("valid", False, valid), ("train", False, train)):
        rows: list[tuple[str, str]] = []
        while len(rows) < size:
            polarity = len(rows) % 2
            text, reversals = grammar.write("review", polarity, rng.random)
            if text not in taken and any(_held_out(seed, *pair) for pair in reversals) == unfamiliar:
                taken.add(text)
                rows.append((text, LABELS[polarity]))
        splits[split] += rows
    return {split: _columns(splits[split], rng) for split in splits}


@cache
def _grammar() -> Grammar:
    return Grammar(RULES, LEXICON, once={"genre"})


@cache
def _held_out(seed: int, template: str, word: str) -> bool:
    return crc32(f"{seed}:{template}:{word}".encode()) < HELD_OUT * 2**32


def _columns(rows: list[tuple[str, str]], rng: Random) -> dict[str, list[str]]:
    rng.shuffle(rows)
    return {"text": [text for text, _ in rows], "label": [label for _, label in rows]}
