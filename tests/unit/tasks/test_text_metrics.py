import numpy as np
import pytest

from attentif.tasks.metrics import share
from attentif.tasks.text_metrics import (
    answer_f1,
    entity_counts,
    entity_f1,
    entity_intervals,
    entity_scores,
    exact_match,
    normalise_answer,
    rouge_scores,
)

TRUE = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-ORG"], ["O", "O"]]
FOUND = [["B-PER", "O", "O", "B-LOC"], ["I-ORG", "I-ORG"], ["B-LOC", "O"]]


def test_entities_count_whole_by_seqeval_and_by_hand() -> None:
    scores = entity_scores(TRUE, FOUND)
    assert scores["entity_precision"] == pytest.approx(1 / 4)  # Nice; half a name, one too long, one made up
    assert scores["entity_recall"] == pytest.approx(1 / 3)
    assert entity_f1(entity_counts(TRUE, FOUND)) == pytest.approx(scores)
    low, high = entity_intervals(entity_counts(TRUE, FOUND), 50)["entity_f1"]
    assert 0 <= low <= scores["entity_f1"] <= high <= 1


def test_nothing_found_and_nothing_there_give_zero_without_a_warning() -> None:
    assert entity_scores([["O"]], [["O"]])["entity_f1"] == 0.0
    assert entity_f1(entity_counts([["O"]], [["O"]]))["entity_f1"] == 0.0


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
