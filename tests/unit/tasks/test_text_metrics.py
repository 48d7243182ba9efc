import numpy as np
import pytest
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import get_entities

from attentif.data.conll import find_entities
from attentif.tasks.metrics import share
from attentif.tasks.text_metrics import (
    answer_f1,
    entity_counts,
    entity_f1,
    entity_intervals,
    exact_match,
    normalise_answer,
    rouge_scores,
)

TRUE = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-ORG"], ["O", "O"]]
FOUND = [["B-PER", "O", "O", "B-LOC"], ["I-ORG", "I-ORG"], ["B-LOC", "O"]]


def test_entities_count_whole() -> None:
    scores = entity_f1(entity_counts(TRUE, FOUND))
    assert scores["entity_precision"] == pytest.approx(1 / 4)  # Nice; half a name, one too long, one made up
    assert scores["entity_recall"] == pytest.approx(1 / 3)
    low, high = entity_intervals(entity_counts(TRUE, FOUND), 50)["entity_f1"]
    assert 0 <= low <= scores["entity_f1"] <= high <= 1


def test_nothing_found_and_nothing_there_give_zero_without_a_warning() -> None:
    assert entity_f1(entity_counts([["O"]], [["O"]]))["entity_f1"] == 0.0


def test_entities_are_those_of_seqeval_whatever_breaks_the_scheme() -> None:
    tags = ["O", *(f"{mark}-{kind}" for mark in "BIES" for kind in ("PER", "LOC"))]
    rng = np.random.default_rng(0)
    true, found = ([rng.choice(tags, size=rng.integers(1, 9)).tolist() for _ in range(2000)] for _ in range(2))
    found = [own[: len(known)] + ["O"] * (len(known) - len(own)) for own, known in zip(found, true, strict=True)]
    assert [find_entities(own) for own in true] == [get_entities(own) for own in true]
    oracles = {"entity_f1": f1_score, "entity_precision": precision_score, "entity_recall": recall_score}
    expected = {name: score(true, found) for name, score in oracles.items()}
    assert entity_f1(entity_counts(true, found)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("answer", "normal"),
    [("The Eiffel Tower!", "eiffel tower"), ("an  apple,", "apple"), ("U.S.A.", "usa"), ("theatre", "theatre"), ("It's", "its")],
)
def test_english_answers_are_compared_by_squads_rules(answer: str, normal: str) -> None:
    assert normalise_answer(answer, "en") == normal


@pytest.mark.parametrize(
    ("answer", "normal"),
    [
        ("L’école", "école"),
        ("la mer.", "mer"),
        ("l'été", "été"),
        ("Les Lilas", "lilas"),
        ("« le chat »", "chat"),
        ("arc-en-ciel", "arc-en-ciel"),
    ],
)
def test_french_answers_lose_french_articles(answer: str, normal: str) -> None:
    assert normalise_answer(answer, "fr") == normal


def test_the_best_of_several_references_counts_and_silence_is_an_answer() -> None:
    assert exact_match("in Paris", ["Paris", "in Paris"]) == 1.0
    assert answer_f1("in Paris", ["Paris"]) == pytest.approx(2 / 3)
    assert exact_match("", []) == answer_f1("", []) == 1.0
    assert exact_match("Paris", []) == answer_f1("Paris", []) == 0.0
    assert answer_f1("", ["Paris"]) == 0.0


def test_rouge_agrees_with_a_hand_count_and_sees_accents() -> None:
    found = rouge_scores(["l'été fut beau", "été"], ["l'été était beau", "ete"])
    assert found.scores["rouge1"] == pytest.approx((3 / 4 + 0) / 2)  # l, été, beau of 4 words; été is not ete
    assert found.scores["rouge2"] == pytest.approx((1 / 3 + 0) / 2)
    assert found.scores["rougeL"] == pytest.approx((3 / 4 + 0) / 2)
    assert found.scores["exact_match"] == 0.0
    assert not found.intervals
    assert rouge_scores(["a b"] * 9, ["a b"] * 9, draws=10).intervals["rougeL"] == share(9, 9)[1]  # not certain


def test_rouge_is_the_librarys_own_on_plain_english() -> None:
    from rouge_score.rouge_scorer import RougeScorer

    one, other = "the cat sat on the mat today", "a cat was sitting on the mat"
    theirs = RougeScorer(["rouge1", "rouge2", "rougeL"]).score(other, one)
    found = rouge_scores([one], [other]).scores
    assert {key: found[key] for key in theirs} == pytest.approx({key: value.fmeasure for key, value in theirs.items()})


def test_entities_that_are_all_right_are_not_certain() -> None:
    nine = np.array([[2, 2, 2]] * 9)
    silent = np.array([[0, 0, 0]])
    assert entity_intervals(nine)["entity_f1"] == share(9, 9)[1]
    assert entity_intervals(np.concatenate([nine, silent]))["entity_f1"] == share(9, 9)[1]  # it says nothing of entities
