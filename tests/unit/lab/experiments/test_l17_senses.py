"""Made-up senses: a sentence is about the theme of the sense, and uses that lie apart are told apart, equal ones are not."""

import numpy as np
import pytest

from attentif.lab.experiment import Settings
from attentif.lab.experiments.l17_senses import COMPANY, FAITHFUL, OWN, measure, measure_separation, sentences, themes_of_both

THEMES = 6


def share_of_own_theme(mixed: bool) -> float:
    """How many of the words beside an ambiguous one are of its sense's theme."""
    rows, senses = sentences(THEMES, 4000, 0, mixed=mixed)
    ambiguous = rows >= THEMES * OWN
    assert (ambiguous.sum(1) == 1).all()
    theme = (rows[ambiguous] - THEMES * OWN + senses) % THEMES
    return float((rows[~ambiguous].reshape(-1, COMPANY) // OWN == theme[:, None]).mean())


def test_the_words_beside_an_ambiguous_one_are_of_its_senses_theme_unless_mixed() -> None:
    assert share_of_own_theme(mixed=False) == pytest.approx(FAITHFUL + (1 - FAITHFUL) / THEMES, abs=0.02)
    assert share_of_own_theme(mixed=True) == pytest.approx(1 / THEMES, abs=0.02)


def test_uses_with_one_vector_are_as_near_whatever_their_sense() -> None:
    senses = np.tile([0, 1], 20)
    found = measure_separation(np.tile([[0.3, -0.1, 0.2]], (40, 1)).astype(np.float32), np.zeros(40, dtype=np.int64), senses)
    assert found["nearest"] == pytest.approx(19 / 39)  # of the others, those of the same sense
    assert found["same"] == pytest.approx(found["other"]) == pytest.approx(1.0)


def test_uses_that_lie_apart_by_sense_are_told_apart() -> None:
    words, senses = np.repeat([0, 1], 20), np.tile([0, 1], 20)
    noise = np.random.default_rng(0).normal(0, 0.05, (40, 2))
    found = measure_separation((np.eye(2)[senses] + noise).astype(np.float32), words, senses)
    assert found["nearest"] == 1.0
    assert found["same"] > 0.9 > 0.3 > found["other"]


def test_a_vector_between_two_themes_has_both_as_nearest() -> None:
    themes = np.eye(THEMES, dtype=np.float32)
    own = np.repeat(themes, OWN, axis=0)
    both = themes + np.roll(themes, -1, axis=0)
    assert themes_of_both(np.concatenate([own, both]), THEMES) == 1.0
    assert themes_of_both(np.concatenate([own, themes + np.roll(themes, -2, axis=0)]), THEMES) == 0.0


def test_a_small_encoder_separates_what_its_own_embedding_does_not() -> None:
    static, *_, last = measure(Settings(size="tiny"), lambda done, total: None)["layers"][0]
    assert static["nearest"] == pytest.approx(0.5, abs=0.05)
    assert last["nearest"] > 0.8
    assert last["same"] - last["other"] > 0.1
