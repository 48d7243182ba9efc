import numpy as np
import pytest
from scipy import sparse

from attentif.tasks.baselines import (
    Labelled,
    classification_baselines,
    language_baselines,
    nearest,
    translation_baselines,
)
from attentif.tasks.classification.linear import log_count_ratio


def said(line: str) -> None:
    """Nobody listens."""


def labelled(*classes: list[str]) -> Labelled:
    texts = [text for texts in classes for text in texts]
    return Labelled(texts, np.repeat(np.arange(len(classes)), [len(texts) for texts in classes]))


def test_log_count_ratio_is_the_paper_s() -> None:
    x = sparse.csr_matrix(np.array([[1, 0, 1], [1, 1, 0], [0, 1, 0]]))
    own = np.array([1, 1, 0])
    p, q = np.array([3, 2, 2]), np.array([1, 2, 1])  # 1 + counts of each side
    assert np.allclose(log_count_ratio(x, own), np.log((p / 7) / (q / 4)))


def test_every_baseline_is_reported_and_the_linear_ones_read_words() -> None:
    train = labelled(["bon film", "très bon", "bon jeu", "si bon"] * 5, ["film nul", "très nul", "jeu nul"] * 5)
    test = labelled(["un bon moment"], ["un moment nul", "nul"])
    majority, tfidf, bayes = classification_baselines(train, test, test, 2, said)
    assert majority.scores["accuracy"] == pytest.approx(1 / 3)  # the first class is the larger in train, not in test
    assert tfidf.scores["accuracy"] == bayes.scores["accuracy"] == 1.0
    assert {"accuracy", "f1", "balanced_accuracy", "auc"} <= set(bayes.intervals)


def test_baselines_tell_three_classes_apart() -> None:
    train = labelled(["rouge vif"] * 6, ["vert clair"] * 6, ["bleu nuit"] * 6)
    test = labelled(["rouge"], ["vert"], ["bleu"])
    assert [found.scores["accuracy"] for found in classification_baselines(train, test, test, 3, said)][1:] == [1.0, 1.0]


def test_ngrams_predict_a_text_that_repeats_better_than_frequencies() -> None:
    train, test = np.tile([1, 2, 3, 4, 0], 200), np.tile([1, 2, 3, 4, 0], 10)
    single, ngrams = language_baselines(train, test, vocab=5, end=0, text_bytes=100, say=said)
    assert single.scores["perplexity"] == pytest.approx(5.0, rel=0.01)
    assert 1.0 < ngrams.scores["perplexity"] < 1.05  # a little is kept for what was not seen


def test_the_closest_example_is_the_one_with_the_same_rare_words() -> None:
    known = ["le chat dort", "le chien court", "la pluie tombe"]
    assert nearest(known, ["un chien qui court", "pluie"]).tolist() == [1, 2]
    (found,) = translation_baselines((known, ["a", "b", "c"]), (["le chien court"], ["b"]), said)
    assert found.scores["exact_match"] == 1.0
