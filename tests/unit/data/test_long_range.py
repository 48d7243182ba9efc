"""The long-range suite: what each set asks for is what its definition says, and its rows are pinned to the byte."""

import hashlib
import json
from collections import Counter
from random import Random

import numpy as np
import pytest
from pydantic import ValidationError

from attentif.data import DataConfig
from attentif.data.builtin import BUILTIN
from attentif.data.builtin.copying import make_copying
from attentif.data.builtin.induction import induction
from attentif.data.builtin.listops import Lengths, draw_tree, value
from attentif.data.builtin.listops import words as words_of
from attentif.data.builtin.memory_rows import IGNORED, NOTHING
from attentif.data.builtin.recall import associative_recall
from attentif.data.builtin.sorting import make_sorting

SUITE = ("copying", "selective-copying", "recall", "induction", "sorting", "parity", "listops", "needle")
SMALL = {"train": 40, "valid": 10, "test": 20}
SHA256 = {
    "copying": "ce712585ba87bf089f47a09421a001c8cb3ee7a97e3861e18dcd60dd60728892",
    "selective-copying": "6a8ac20e351dff0593627da899039a93fa4cdae1ed5279dce16a08407e759355",
    "recall": "8fd31917fbd503c8c25fbb8eef11061bca638318f2cb6411698468f254637268",
    "induction": "4f8d17590dfd9f5edc594f7538bd7940a41677da9cfd153a651958365e126591",
    "sorting": "236b42ffbd89ee4b7979c80e590f91563e4c52be0d7498272305a605e963b1e7",
    "parity": "659f40b01c6f00952bc3d23d02e5d0f6b9776a9800866954715ee0c3f010ddbb",
    "listops": "628ce833bfbdc23fbcc1ad99addc7b2d3f9d19005a3e08d1caef760c59221a60",
    "needle": "319cb961069c162e65351a4d9cfdaa3c08b775dcedbb79679bc5caed291b22f3",
}


def rows(name: str, **options: int) -> dict[str, dict[str, list[str]]]:
    return BUILTIN[name].rows(0, SMALL | options)


def asked(name: str, **options: int) -> list[tuple[list[str], list[str]]]:
    """Words and answers of the test rows."""
    columns = rows(name, **options)["test"]
    return [(text.split(), answers.split()) for text, answers in zip(columns["text"], columns["answers"], strict=True)]


def said(answers: list[str]) -> list[str]:
    return [word for word in answers if word != NOTHING]


@pytest.mark.parametrize("name", SUITE)
def test_the_rows_of_a_seed_are_pinned(name: str) -> None:
    content = json.dumps(rows(name), sort_keys=True, ensure_ascii=False).encode()
    assert hashlib.sha256(content).hexdigest() == SHA256[name]


@pytest.mark.parametrize("name", SUITE)
def test_another_seed_gives_other_rows_and_splits_differ(name: str) -> None:
    first, other = (BUILTIN[name].rows(seed, SMALL) for seed in (0, 1))
    assert first["train"]["text"] != other["train"]["text"]
    assert [len(columns["text"]) for columns in first.values()] == [40, 10, 20]
    assert first["train"]["text"][:10] != first["valid"]["text"]


def test_copying_asks_for_the_first_symbols_in_their_order() -> None:
    for words, answers in asked("copying", copied=5, gap=7):
        assert len(words) == 17
        assert said(answers) == words[:5]
        assert answers[:12] == [NOTHING] * 12


def test_selective_copying_asks_for_what_is_not_blank() -> None:
    for words, answers in asked("selective-copying", copied=5, length=20):
        assert said(answers) == [word for word in words if word not in ("blank", "say")]


@pytest.mark.parametrize("length", [0, 40])
def test_recall_asks_for_the_value_of_each_key(length: int) -> None:
    for words, answers in asked("recall", pairs=4, length=length):
        table = dict(zip(words[0:8:2], words[1:8:2], strict=True))
        assert len(table) == 4
        assert len(said(answers)) == 4
        assert all(table[word] == answer for word, answer in zip(words[8:], answers[8:], strict=True) if answer != NOTHING)
        assert len(words) == (length or 12)


def test_questions_among_blanks_come_soon_after_the_pairs_more_often_than_late() -> None:
    _, targets = associative_recall(2000, pairs=2, keys=4, values=4, length=104, seed=0)
    counts = (targets[:, 4:] != IGNORED).sum(0)
    assert counts.sum() == 4000
    assert counts[:10].sum() > 3 * counts[50:60].sum()


def test_induction_asks_what_followed_the_mark() -> None:
    for words, answers in asked("induction", length=12):
        assert said(answers) == [answers[-1]] == [words[words.index("mark") + 1]]
        assert words.count("mark") == 2


def test_sorting_asks_for_the_numbers_in_order() -> None:
    for words, answers in asked("sorting", length=6):
        assert said(answers) == sorted(words[:6], key=lambda word: int(word[1:]))


def test_parity_is_the_sum_of_the_bits() -> None:
    columns = rows("parity", length=9, shortest=3)["test"]
    for text, label in zip(columns["text"], columns["label"], strict=True):
        assert label == ("odd" if text.count("1") % 2 else "even")
        assert 3 <= len(text.split()) <= 9
    for words, answers in asked("parity", length=9):
        assert answers == ["odd" if words[: place + 1].count("1") % 2 else "even" for place in range(9)]


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (("max", [2, 9, ("min", [4, 7]), 0]), 9),
        (("min", [2, ("max", [1, 8])]), 2),
        (("med", [1, 9, 5]), 5),
        (("med", [1, 4]), 2),  # 2.5, rounded down
        (("sum", [7, 8]), 5),
    ],
)
def test_the_value_of_a_list_of_operations(tree: tuple[str, list[object]], expected: int) -> None:
    assert value(tree) == expected


def test_listops_labels_are_the_values_worked_out_by_a_stack() -> None:
    columns = rows("listops", depth=4, shortest=10, longest=40)["test"]
    for text, label in zip(columns["text"], columns["label"], strict=True):
        stack: list[list[str | int]] = [[]]
        for word in text.split():
            if word.isdigit():
                stack[-1].append(int(word))
            elif word == "end":
                operation, *arguments = stack.pop()
                numbers = [int(argument) for argument in arguments]
                reduce = {"max": max, "min": min, "sum": lambda n: sum(n) % 10, "med": lambda n: int(np.median(n))}
                stack[-1].append(reduce[str(operation)](numbers))
            else:
                stack.append([word])
        assert stack == [[int(label)]]
        assert 10 <= len(text.split()) <= 40


@pytest.mark.parametrize("options", [{"arguments": 3, "shortest": 70, "longest": 80}, {"arguments": 40, "depth": 9, "longest": 200}])
def test_rare_lengths_of_listops_are_drawn_without_being_waited_for(options: dict[str, int]) -> None:
    columns = rows("listops", **({"depth": 5} | options))["train"]
    lengths = [len(text.split()) for text in columns["text"]]
    assert options.get("shortest", 6) <= min(lengths)
    assert max(lengths) <= options["longest"]
    assert len(set(columns["text"])) == 40


def test_rows_of_listops_drawn_by_length_are_as_frequent_as_those_that_are_not() -> None:
    found = Lengths(3, 3, 8, 12)
    random, kept, direct = Random(0), Counter[int](), Counter[int]()
    while kept.total() < 4000:
        length = len([*words_of(draw_tree(random, 3, 3))])
        kept[length] += 8 <= length <= 12
    for _ in range(4000):
        direct[len([*words_of(found.draw(random))])] += 1
    for length in range(8, 13):
        expected = 4000 * found.wanted[length] / found.share
        assert kept[length] == pytest.approx(expected, abs=4 * expected**0.5)
        assert direct[length] == pytest.approx(expected, abs=4 * expected**0.5)


def test_the_needle_says_the_colour_of_whom_the_question_names() -> None:
    columns = rows("needle", sentences=6, decoys=2)["test"]
    for text, label, group in zip(columns["text"], columns["label"], columns["group"], strict=True):
        name = text.split("quelle est la couleur de ")[1].split()[0]
        assert f"la couleur de {name} est le {label} ." in text
        assert text.count("est le") == 3
        place = text.split(" . ").index(f"la couleur de {name} est le {label}")
        assert group == ("the beginning", "the middle", "the end")[3 * place // 6]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("recall", {"pairs": 20}, "20 pairs need as many keys, and there are 16"),
        ("recall", {"length": 5}, "need 12 places, not 5"),
        ("recall", {"pears": 3}, "options.pears: .*did you mean 'pairs'"),
        ("copying", {"gap": -1}, "options.gap"),
        ("selective-copying", {"copied": 90}, "90 symbols do not fit in 48 places"),
        ("needle", {"decoys": 12}, "do not fit in 12 sentences"),
        ("listops", {"depth": 1, "shortest": 50}, "no row of this depth"),
        ("listops", {"arguments": 2, "depth": 3, "shortest": 5, "longest": 6}, "has 5 to 6 tokens"),
        ("listops", {"depth": 1000}, "options.depth"),
        ("listops", {"arguments": 30, "depth": 10, "longest": 20_000}, "are drawn up to 8,192 tokens: longest = 8192"),
        ("reviews", {"length": 3}, "'reviews' takes none"),
    ],
)
def test_options_that_cannot_be_are_refused_before_any_row_is_made(name: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        DataConfig.model_validate({"name": name, "options": options})


def test_options_do_not_go_with_files() -> None:
    with pytest.raises(ValidationError, match="built-in set"):
        DataConfig.model_validate({"train": "rows.csv", "options": {"length": 3}})


@pytest.mark.parametrize("make", [make_copying, induction, make_sorting, associative_recall])
def test_tokens_and_targets_have_one_shape(make: object) -> None:
    tokens, targets = make(7, seed=1)  # type: ignore[operator]
    assert tokens.shape == targets.shape
    assert len(tokens) == 7
    assert ((targets != IGNORED).sum(1) > 0).all()
