import json
from pathlib import Path
from typing import Any

import pytest

from attentif.data import ANSWER, DataConfig, Splits, load_table
from attentif.data.squad import ContextAnswer, parse_answers, read_squad, squad_rows
from attentif.errors import DataError

CONTEXT = "L'été 🌞 à Nice : Zoé, née à Nice, dort."


def squad(*questions: dict[str, Any], context: Any = CONTEXT) -> dict[str, Any]:
    return {"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": context, "qas": list(questions)}]}]}


def ask(text: str = "Où ?", *answers: tuple[str, int], **more: Any) -> dict[str, Any]:
    return {"id": "1", "question": text, "answers": [{"text": answer, "answer_start": start} for answer, start in answers]} | more


def rows(folder: Path, content: Any, **options: Any) -> list[Any]:
    from attentif.data.readers import Tolerance

    path = folder / "a.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
    config = DataConfig.model_validate({"train": str(path)} | options)
    return [values for _, values in squad_rows(config, "test", path, ANSWER, Tolerance(config.skip_bad), [])[1]]


def test_questions_come_with_their_passage_and_answers(tmp_path: Path) -> None:
    second = CONTEXT.rindex("Nice")
    ((question, context, answers),) = rows(tmp_path, squad(ask("Née où ?", ("Nice", second))))
    assert (question, context) == ("Née où ?", CONTEXT)
    assert parse_answers(answers) == [ContextAnswer("Nice", second)]  # the one that is meant, not the first that reads the same
    assert parse_answers(answers)[0].end == second + 4


def test_a_question_may_have_no_answer_in_either_spelling(tmp_path: Path) -> None:
    impossible = ask("Qui ?", is_impossible=True) | {"plausible_answers": [{"text": "Zoé", "answer_start": 18}]}
    assert [parse_answers(row[2]) for row in rows(tmp_path, squad(ask("Quand ?"), impossible))] == [[], []]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "a.json: is empty"),
        ("{", "a.json:1: is not valid JSON"),
        ('{"a": 1}\n{"a": 2}\n', "it looks like JSON lines"),
        ("[1, 2]", 'without a list called "data"'),
        ({"data": [{"title": "t"}]}, "no list called 'paragraphs'"),
        ({"data": [{"paragraphs": [{"context": "x"}]}]}, "no list called 'qas'"),
        (squad(), "holds no question"),
        (squad({"id": "1"}), "question 1 has no text"),
        (squad(ask(), context=3), 'no text under "context"'),
        (squad(ask(answers="Nice")), '"answers" of question 1 are no list'),
        (squad({"question": "Où ?"}), 'has no "answers"'),
        (squad(ask("Où ?", ("Nice", 3))), r"a.json:12: .*'Nice' is not at character 3 of the context \(it is at 10\)"),
        (squad(ask("Où ?", ("Paris", 3))), "it is nowhere in it"),
        (squad(ask("Où ?", ("Nice", -4))), "is not at character -4"),
        (squad(ask("Où ?", (" ", 5))), "empty answer"),
        (squad(ask("  ", ("Nice", 10))), r"a.json:\d+: a question is empty"),
        (squad(ask("Où\0 ?", ("Nice", 10))), "its question "),
        (squad(ask(answers=["Nice"])), "has an answer that is not"),
    ],
)
def test_what_is_not_squad_is_refused_in_one_line(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        rows(tmp_path, content)
    assert "\n" not in str(caught.value)


def test_bad_questions_are_left_out_where_some_are_allowed(tmp_path: Path) -> None:
    content = squad(ask("Où ?", ("Nice", 3)), ask("Où donc ?", ("Nice", 10)))
    assert [row[0] for row in rows(tmp_path, content, skip_bad=1)] == ["Où donc ?"]


def test_lines_are_those_of_the_questions(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(squad(ask("A ?"), ask("A ?"), ask("B ?")), indent=1))
    text = path.read_text().splitlines()
    lines = [line for line, _ in read_squad(path)]
    assert [text[line - 1].strip() for line in lines] == ['"question": "A ?",', '"question": "A ?",', '"question": "B ?",']
    assert len(set(lines)) == 3


# ---------------------------------------------------------------------------------------------------------------- splits


def articles(titles: list[str], passages: int, questions: int = 5) -> dict[str, Any]:
    """So many passages under each title, which may be empty, and so many questions about each."""
    passage = lambda n: {"context": f"{CONTEXT} {n}", "qas": [ask(f"Où {n} {i} ?", ("Nice", 10)) for i in range(questions)]}
    named = lambda title: {"title": title} if title else {}
    return {
        "data": [
            named(title) | {"paragraphs": [passage(place * passages + n) for n in range(passages)]} for place, title in enumerate(titles)
        ]
    }


def cut(folder: Path, content: Any, **more: Any) -> Splits:
    path = folder / "a.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return load_table(DataConfig.model_validate({"train": str(path)} | more), ANSWER, open_rows=squad_rows)


def sides(splits: Splits, role: str) -> list[int]:
    """In how many splits each value of a role stands."""
    tables = (splits.train, splits.valid, splits.test)
    return [sum(value in table[role] for table in tables) for value in {value for table in tables for value in table[role] if value}]


def test_all_passages_of_a_title_stay_in_one_split(tmp_path: Path) -> None:
    splits = cut(tmp_path, articles([f"t{n}" for n in range(20)], passages=3))
    assert set(sides(splits, "title")) == set(sides(splits, "context")) == {1}
    assert [len(table) for table in (splits.train, splits.valid, splits.test)] == [240, 30, 30]
    assert any("cut from train by title (seed 0): 240 train" in note for note in splits.notes)


@pytest.mark.parametrize(("titles", "why"), [(["", ""], "by passage"), (["a", "b"], "by passage, as it has too few different titles")])
def test_questions_about_a_passage_stay_in_one_split_where_titles_are_missing_or_too_few(
    tmp_path: Path, titles: list[str], why: str
) -> None:
    splits = cut(tmp_path, articles(titles, passages=20))
    assert set(sides(splits, "context")) == {1}
    assert [len(table) for table in (splits.train, splits.valid, splits.test)] == [160, 20, 20]
    assert any(f"cut from train {why} (seed 0)" in note for note in splits.notes)


def test_passages_without_a_title_are_cut_beside_those_with_one(tmp_path: Path) -> None:
    splits = cut(tmp_path, articles([f"t{n}" for n in range(10)] + [""], passages=10))
    assert set(sides(splits, "title")) == set(sides(splits, "context")) == {1}


def test_a_single_passage_cannot_be_cut(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"1.*\(by passage\), .*"):
        cut(tmp_path, articles(["t"], passages=1, questions=30))


def test_a_group_is_refused_as_questions_have_no_columns(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a.json:.*'nonsense' \(data.group\)"):
        cut(tmp_path, articles(["a", "b"], passages=20), group="nonsense")


def test_titles_are_not_asked_of_splits_that_are_given(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(json.dumps(articles([""], passages=2)))
    given = str(tmp_path / "b.json")
    assert len(cut(tmp_path, articles(["a", "b"], passages=2), valid=given, test=given).train) == 20
