"""IBM model 1: a pass by the equations, by hand, and a likelihood that never falls."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from attentif.kernels.ibm1 import RaggedIds, em_naive, em_pass, look_up, uniform
from attentif.text.ibm1 import IBM1Config, PairedText

LA, MAISON, BLEUE, FLEUR = range(4)
THE, HOUSE, BLUE, FLOWER = range(4)


def pairs(*sentences: tuple[list[int], list[int]], words: int = 4) -> PairedText:
    source, target = ([np.array(side) for side in sides] for sides in zip(*sentences, strict=True))
    return PairedText(source, target, words, words)


def random_pairs(seed: int = 0) -> PairedText:
    rng = np.random.default_rng(seed)
    source = [rng.integers(0, 8, rng.integers(1, 7)) for _ in range(40)]
    return PairedText(source, [np.append((s + 1) % 9, rng.integers(0, 9)) for s in source], 8, 9)


def test_a_pass_is_that_of_the_equations() -> None:
    given = random_pairs()
    source, target = RaggedIds.from_sentences(given.source), RaggedIds.from_sentences(given.target)
    table = uniform(source, target, given.source_words, given.target_words, at_once=7)
    plain = [(s.tolist(), t.tolist()) for s, t in zip(given.source, given.target, strict=True)]
    t = {(f, e): 1 / given.target_words for s, ts in plain for f in s for e in ts}
    assert len(table.t) == len(t)
    for _ in range(3):
        table, likelihood = em_pass(source, target, table)
        t, expected = em_naive(plain, t)
        assert likelihood == pytest.approx(expected)
        f, e = (np.array(side) for side in zip(*t, strict=True))
        assert np.allclose(look_up(table, f, e), list(t.values()))


def test_a_pass_by_hand() -> None:
    """ "la maison" = "the house", "la" = "the", without the empty word; t(e|f) = 1/4 at first.

    In the first pair each word comes from both by a half; in the second the from la by one. c(the|la) = ½ + 1, c(house|la) = ½.
    """
    source, target = (
        RaggedIds.from_sentences([np.array([LA, MAISON]), np.array([LA])]),
        RaggedIds.from_sentences([np.array([THE, HOUSE]), np.array([THE])]),
    )
    table, likelihood = em_pass(source, target, uniform(source, target, 4, 4))
    assert likelihood == pytest.approx(3 * np.log(1 / 4))
    f, e = np.array([LA, LA, MAISON, MAISON, BLEUE]), np.array([THE, HOUSE, THE, HOUSE, THE])
    assert look_up(table, f, e).tolist() == pytest.approx([0.75, 0.25, 0.5, 0.5, 0.0])


def test_the_likelihood_never_falls() -> None:
    rows = IBM1Config(epochs=25).build().fit(random_pairs())
    likelihoods = [row["log_likelihood"] for row in rows]
    assert all(after >= before - 1e-9 for before, after in itertools.pairwise(likelihoods))
    assert likelihoods[-1] > likelihoods[0] + 10


def test_words_are_found_by_the_company_they_keep() -> None:
    text = pairs(([LA, MAISON], [THE, HOUSE]), ([LA, MAISON, BLEUE], [THE, BLUE, HOUSE]), ([LA, FLEUR], [THE, FLOWER]))
    model = IBM1Config(epochs=20).build()
    model.fit(text)
    found = model.align(np.array([LA, MAISON, BLEUE]), np.array([THE, BLUE, HOUSE]))
    assert found.shape == (3, 4)
    assert found.sum(1).tolist() == pytest.approx([1, 1, 1])
    assert found[1:].argmax(1).tolist() == [3, 2]  # blue from bleue, house from maison
    assert model.translations(FLEUR, 1)[0][0] == FLOWER


def test_a_word_never_seen_together_comes_from_the_empty_one_and_costs_but_is_possible() -> None:
    model = IBM1Config().build()
    model.fit(pairs(([LA], [THE])))
    assert model.align(np.array([LA]), np.array([BLUE])).tolist() == [[1.0, 0.0]]
    assert np.isfinite(model.score(pairs(([LA], [BLUE])))["loss"])


def test_what_is_saved_answers_the_same(tmp_path: Path) -> None:
    model = IBM1Config(epochs=3).build()
    model.fit(random_pairs())
    model.save(tmp_path)
    again = IBM1Config(epochs=3).build().load(tmp_path)
    other = random_pairs(1)
    assert np.allclose(again.align(other.source[0], other.target[0]), model.align(other.source[0], other.target[0]))
    assert again.score(other)["loss"] == pytest.approx(model.score(other)["loss"])
