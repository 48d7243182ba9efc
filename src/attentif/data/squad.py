"""Questions about passages, in the format of SQuAD (Rajpurkar et al. 2016, 2018): one JSON object

    {"version": "v2.0", "data": [{"title": ..., "paragraphs": [{"context": ..., "qas": [
        {"id": ..., "question": ..., "answers": [{"text": ..., "answer_start": 177}, ...], "is_impossible": false}, ...]}, ...]}, ...]}

`answer_start` counts characters (Unicode code points) of the context from 0. A question without answers has none in its passage (2.0).
In a table the answers of a question are one text: see `ContextAnswer`, `write_answers` and `parse_answers`.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from attentif.data.columns import Roles, refuse_group
from attentif.data.config import DataConfig, Split
from attentif.data.readers import Row, Tolerance, check_file, text_lines, text_problem
from attentif.errors import DataError

FORM = 'SQuAD\'s form is {"data": [{"paragraphs": [{"context": ..., "qas": [...]}]}]}'
NEAR = 40  # characters of a question that an error shows


@dataclass(frozen=True, slots=True)
class ContextAnswer:
    """A piece of the context, and where it begins."""

    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def write_answers(answers: Sequence[ContextAnswer]) -> str:
    """The answers of a question as one text; "[]" where there is none."""
    return json.dumps([[answer.text, answer.start] for answer in answers], ensure_ascii=False)


def parse_answers(text: str) -> list[ContextAnswer]:
    return [ContextAnswer(*pair) for pair in json.loads(text)]


@dataclass(frozen=True, slots=True)
class Question:
    """One question as a file has it."""

    id: str
    question: str
    context: str
    answers: Any = None
    impossible: bool = False
    title: str = ""  # of the article that the passage is from, where it has one


def squad_rows(
    config: DataConfig,
    split: Split,
    file: Path,
    roles: Roles,
    tolerance: Tolerance,
    notes: list[str],
) -> tuple[list[str], Iterator[Row]]:
    """What `load_table` asks for: the roles question, context and answers (of train the title too), and the questions of a file."""
    refuse_group(config, file, "leave it out: questions about a passage, and passages of a title, stay together without it")
    notes.append(f"{file}: questions in SQuAD's form")
    cut = split == "train"
    return [*roles.required, *(["title"] if cut else [])], _rows(file, tolerance, titled=cut)


def _rows(file: Path, tolerance: Tolerance, *, titled: bool) -> Iterator[Row]:
    for line, asked in read_squad(file):
        answers, problem = _answers(asked)
        if problem:
            tolerance.bad(problem, file, line)
        else:
            yield line, [asked.question, asked.context, write_answers(answers), *([asked.title] if titled else [])]


def _answers(asked: Question) -> tuple[list[ContextAnswer], str | None]:
    """The answers, checked against the context, or why they cannot be used."""
    said = f"the question “{asked.question[:NEAR]}{'…' if len(asked.question) > NEAR else ''}”"
    if not asked.question.strip():
        return [], "a question is empty"
    if not asked.context.strip():
        return [], f"{said} has an empty context"
    for name, value in (("question", asked.question), ("context", asked.context)):
        if problem := text_problem(value):
            return [], f"{said}: its {name} {problem}"
    if asked.answers is None and not asked.impossible:
        return [], f'{said} has no "answers"; one without an answer says "answers": []'
    if asked.impossible:
        return [], None
    found = []
    for answer in asked.answers:
        text, start = (answer.get("text"), answer.get("answer_start")) if isinstance(answer, dict) else (None, None)
        if not isinstance(text, str) or not isinstance(start, int) or isinstance(start, bool):
            return [], f'{said} has an answer that is not {{"text": ..., "answer_start": ...}}'
        if not text.strip():
            return [], f"{said} has an empty answer"
        if start < 0 or asked.context[start : start + len(text)] != text:
            place = asked.context.find(text)
            where = f"it is at {place}" if place >= 0 else "it is nowhere in it"
            return [], f"{said}: its answer {text[:NEAR]!r} is not at character {start} of the context ({where})"
        found.append(ContextAnswer(text, start))
    return found, None


def read_squad(file: Path) -> Iterator[tuple[int, Question]]:
    """Every question of a file, and the line it stands in; its answers are not looked at."""
    check_file(file)
    raw = "".join(text_lines(file))
    try:
        whole = json.loads(raw)
    except json.JSONDecodeError as error:
        more = "; it looks like JSON lines: one object is expected" if error.msg == "Extra data" else ""
        raise DataError(f"is not valid JSON: {error.msg.lower()}, at character {error.colno}{more}", file=file, line=error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"is not usable JSON: {str(error).split(';')[0].lower()}", file=file) from None
    if not isinstance(whole, dict) or not isinstance(whole.get("data"), list):
        raise DataError(f'is JSON without a list called "data"; {FORM}', file=file)
    lines = _Lines(raw)
    number = count(1)
    for article in whole["data"]:
        title = _title(article)
        for paragraph in _list(article, "paragraphs", file):
            for asked in _list(paragraph, "qas", file):
                n = next(number)
                if not isinstance(asked, dict) or not isinstance(asked.get("question"), str):
                    raise DataError(f'question {n} has no text under "question"; {FORM}', file=file)
                if not isinstance(context := paragraph.get("context"), str):
                    raise DataError(f'the paragraph of question {n} has no text under "context"; {FORM}', file=file)
                answers = asked.get("answers")
                if answers is not None and not isinstance(answers, list):
                    raise DataError(f'the "answers" of question {n} are no list', file=file, line=lines.of(asked["question"]))
                id_ = str(asked.get("id", n))
                id_ = str(n) if text_problem(id_) else id_  # it only names the question in a file of answers
                impossible = bool(asked.get("is_impossible"))
                yield lines.of(asked["question"]), Question(id_, asked["question"], context, answers, impossible, title)
    if next(number) == 1:
        raise DataError("holds no question", file=file)


def _title(article: Any) -> str:
    title = article.get("title") if isinstance(article, dict) else None
    return title.strip() if isinstance(title, str) and not text_problem(title) else ""


def _list(value: Any, key: str, file: Path) -> list[Any]:
    if not isinstance(value, dict) or not isinstance(value.get(key), list):
        raise DataError(f'something in "data" has no list called {key!r}; {FORM}', file=file)
    return list(value[key])


class _Lines:
    """The lines that texts stand in, asked for in the order of the file."""

    def __init__(self, raw: str) -> None:
        self.raw, self.place, self.line = raw, 0, 1

    def of(self, text: str) -> int:
        """The line of this text's next occurrence; where it is written in another way (escapes), the line before it."""
        for spelling in (json.dumps(text, ensure_ascii=False), json.dumps(text)):
            if (found := self.raw.find(spelling, self.place)) >= 0:
                self.line += self.raw.count("\n", self.place, found)
                self.place = found + 1  # a text that is there twice is found twice
                break
        return self.line
