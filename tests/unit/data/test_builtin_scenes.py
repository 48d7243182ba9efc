"""Scenes: answers that the picture shows, digits that no other split has, and nothing that the words alone would give away."""

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest

from attentif.data.builtin import BUILTIN, scenes
from attentif.data.builtin.captions import describe_scene
from attentif.data.builtin.scenes import ASKED, DIGIT, RELATIONS, SIDE, Placed, ask_questions, draw_scene, load, render_scene

FEW = {"train": 300, "valid": 20, "test": 40}


@pytest.fixture(scope="module")
def splits() -> Any:
    return load(0, scenes=FEW)


def placed(*digits: tuple[int, int, int]) -> list[Placed]:
    return [Placed(digit, x, y, 0) for digit, x, y in digits]


def answers(scene: list[Placed], language: Any = "fr") -> dict[str, tuple[str, str]]:
    return {kind: (question, answer) for kind, question, answer in ask_questions(scene, Random(0), language)}


def test_questions_are_answered_as_the_scene_shows() -> None:
    found = answers(placed((7, 16, 2), (3, 1, 0), (9, 2, 14)))
    assert found["sum"][1] == "dix-neuf"
    assert found["count"][1] == "trois"
    assert found["largest"][1] == "neuf"
    assert found["smallest"][1] == "trois"
    assert {"sum", "count", "there", "largest", "smallest"} <= set(found) <= set(ASKED["fr"])


@pytest.mark.parametrize(
    ("kind", "scene"),
    [
        ("left", [(7, 12, 0), (3, 2, 0)]),
        ("right", [(7, 2, 0), (3, 12, 4)]),
        ("above", [(7, 0, 12), (3, 0, 2)]),
        ("below", [(7, 4, 2), (3, 0, 12)]),
    ],
)
def test_relations_are_those_of_the_eye(kind: str, scene: list[tuple[int, int, int]]) -> None:
    """The 3 is beside the 7 on that side, and has nothing there itself."""
    assert asked_of(kind, scene) == {("7", "three"), ("3", "nothing")}


def asked_of(kind: str, scene: list[tuple[int, int, int]]) -> set[tuple[str, str]]:
    """Every question of this kind that the scene may give: the digit it names, and the answer."""
    draws = (ask_questions(placed(*scene), Random(n), "en") for n in range(50))
    told = [(question.rstrip("?").split()[-1], answer) for found in draws for own, question, answer in found if own == kind]
    return set(told)


def test_a_relation_that_could_be_doubted_is_not_asked_for() -> None:
    assert asked_of("left", [(7, 12, 0), (3, 2, 5)]) == set()  # rather above than beside
    assert asked_of("left", [(7, 12, 6), (3, 2, 2), (5, 2, 10), (4, 2, 18)]) == set()  # the 7 has two at its left
    # two rows of two: the answer is another one for each digit of the right column
    assert asked_of("left", [(7, 12, 0), (3, 2, 0), (5, 12, 10), (4, 2, 10)]) == {
        ("7", "three"), ("5", "four"), ("3", "nothing"), ("4", "nothing")
    }  # fmt: skip


def test_the_picture_alone_does_not_give_a_relation_away() -> None:
    """In every scene that is asked about a relation, another digit named would have made another answer."""
    chance = Random(2)
    for scene in (draw_scene(chance, [[0]] * 10) for _ in range(40)):
        digits = [(one.digit, one.x, one.y) for one in scene]
        for kind in RELATIONS:
            assert len({answer for _, answer in asked_of(kind, digits)}) != 1


def test_digits_are_where_they_were_put_and_do_not_overlap() -> None:
    chance = Random(1)
    for _ in range(100):
        scene = draw_scene(chance, [[0]] * 10)
        assert all(0 <= one.x <= SIDE - DIGIT and 0 <= one.y <= SIDE - DIGIT for one in scene)
        assert render_scene(scene, np.full((1, DIGIT, DIGIT), 9, np.uint8)).sum() == 9 * DIGIT * DIGIT * len(scene)
        assert len({one.digit for one in scene}) == len(scene)


def test_splits_share_no_original(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[set[int]] = []
    monkeypatch.setattr(scenes, "render_scene", lambda scene, inks: used.append({one.original for one in scene}) or np.zeros((SIDE, SIDE)))
    load(0, scenes=FEW)
    train, valid, test = (set().union(*part) for part in (used[:300], used[300:320], used[320:]))
    assert not train & valid
    assert not train & test
    assert not valid & test


def test_scenes_are_a_function_of_the_seed(splits: Any) -> None:
    again, other = load(0, scenes=FEW), load(1, scenes=FEW)
    assert again["test"]["question"] == splits["test"]["question"]
    assert all(np.array_equal(a, b) for a, b in zip(again["test"]["image"], splits["test"]["image"], strict=True))
    assert other["test"]["question"] != splits["test"]["question"]


def test_the_words_of_a_question_do_not_give_its_answer_away(splits: Any) -> None:
    """The most frequent answer of each kind is no more frequent than what digits drawn at random allow."""
    found: dict[str, Counter[str]] = {}
    for kind, answer in zip(splits["train"]["kind"], splits["train"]["answer"], strict=True):
        found.setdefault(kind, Counter())[answer] += 1
    share = {kind: max(counts.values()) / counts.total() for kind, counts in found.items()}
    assert share["there"] < 0.6
    assert share["count"] < 0.35
    assert max(share[kind] for kind in RELATIONS) < 0.4  # "nothing": a third
    assert share["sum"] < 0.2


def test_questions_about_one_scene_share_its_picture(splits: Any) -> None:
    assert len({id(picture) for picture in splits["test"]["image"]}) == FEW["test"]
    assert splits["test"]["image"][0].dtype == np.uint8


def test_english_scenes_are_the_same_pictures() -> None:
    french, english = load(0, scenes=FEW), load(0, language="en", scenes=FEW)
    assert np.array_equal(french["test"]["image"][0], english["test"]["image"][0])
    assert {"yes", "no"} <= set(english["train"]["answer"])
    assert {"scenes", "scenes-en"} <= set(BUILTIN)


def test_captions_name_the_digits_as_one_reads_and_where_they_stand() -> None:
    scene = placed((7, 14, 2), (3, 2, 2), (8, 10, 14))
    told = {language: next(describe_scene(scene, Random(0), language))[2] for language in ("fr", "en")}
    assert told["fr"] == "un trois en haut à gauche, un sept en haut à droite, un huit en bas à droite"
    assert told["en"] == "a three at the top left, a seven at the top right, an eight at the bottom right"
