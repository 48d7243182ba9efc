"""French film reviews, positive and negative, written by a grammar: synthetic, seeded, free of anyone's text.

Counting words does not solve them: the same evaluative words serve both labels, and negation, concession, denial, others' opinions,
comparison and expectation, at varying distance, decide what they mean (rules in `reviews_grammar.py`, words in `reviews_lexicon.py`).

Some pairs (a construction that reverses, the word it reverses) never occur in training or validation; one test review in four has one.
"""

from functools import cache
from random import Random
from zlib import crc32

from attentif.data.builtin.grammar import Grammar, finish
from attentif.data.builtin.registry import BuiltIn
from attentif.data.builtin.reviews_grammar import RULES
from attentif.data.builtin.reviews_lexicon import LEXICON

LABELS = ("positif", "négatif")
HELD_OUT = 0.03  # share of the (construction, word) pairs kept for the test
UNSEEN_SHARE = 0.25  # share of the test reviews that have such a pair


def load(seed: int = 0, *, train: int = 20_000, valid: int = 2_000, test: int = 2_000) -> dict[str, dict[str, list[str]]]:
    """The three splits, roles `text` and `label`: all texts distinct, both labels as frequent (to one review)."""
    rng = Random(f"reviews {seed}")
    unseen = round(UNSEEN_SHARE * test)
    familiar, unfamiliar = _write(rng, seed, train + valid + test - unseen, unseen)
    sizes = {"train": (train, 0), "valid": (valid, 0), "test": (test - unseen, unseen)}
    splits = {}
    for split, (from_familiar, from_unfamiliar) in sizes.items():
        rows = _take(familiar, from_familiar) + _take(unfamiliar, from_unfamiliar)
        rng.shuffle(rows)
        splits[split] = {"text": [text for text, _ in rows], "label": [label for _, label in rows]}
    return splits


Pool = tuple[list[str], list[str]]  # texts of praise, texts of blame


def _write(rng: Random, seed: int, familiar: int, unfamiliar: int) -> tuple[Pool, Pool]:
    """Distinct reviews in chance order, enough of each label: without held-out pairs, and with."""
    grammar = _grammar()
    pools: tuple[Pool, Pool] = (([], []), ([], []))
    wanted = (familiar // 2 + len(("train", "valid", "test")), unfamiliar // 2 + 1)  # an odd split takes one more of praise
    taken: set[str] = set()
    polarity = 0
    while any(len(texts) < count for pool, count in zip(pools, wanted, strict=True) for texts in pool):
        polarity = 1 - polarity
        draft, reversals = grammar.write("review", polarity, rng.random)
        kind = any(_is_held_out(seed, *pair) for pair in reversals)
        texts = pools[kind][polarity]
        if len(texts) < wanted[kind] and (text := finish(draft)) not in taken:
            taken.add(text)
            texts.append(text)
    for texts in (*pools[0], *pools[1]):
        rng.shuffle(texts)  # short reviews are soon all taken: every split gets its share of them
    return pools


def _take(pool: Pool, size: int) -> list[tuple[str, str]]:
    return [(pool[row % 2].pop(), LABELS[row % 2]) for row in range(size)]


@cache
def _grammar() -> Grammar:
    return Grammar(RULES, LEXICON, once={"genre"})


@cache
def _is_held_out(seed: int, template: str, word: str) -> bool:
    return crc32(f"{seed}:{template}:{word}".encode()) < HELD_OUT * 2**32


SET = BuiltIn(
    name="reviews",
    roles=("text", "label"),
    description="French film reviews, written by a grammar in which counting words is not enough",
    size="20,000 train, 2,000 valid, 2,000 test reviews",
    synthetic=True,
    load=load,
)
