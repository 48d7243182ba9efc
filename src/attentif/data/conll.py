"""Sentences with a tag for each word: CoNLL columns, or JSON lines {"tokens": [...], "tags": [...]}.

A CoNLL line is a token and its tags, separated by tabs or spaces; an empty line ends a sentence; lines that begin with -DOCSTART- are
skipped, and so are comments (`# id = 3`) before a sentence. The token is the first column and the tag the last, or, in a .conllu file
(Universal Dependencies), the second and the fourth; `data.columns = { tags = "2" }` says otherwise, counted from 1. What has no word of its
own there, the range of a contraction (1-2) and an empty node (3.1), is skipped. In a table both values are texts, a token a line: see
`encode_list` and `decode_list`.

Entities are written in one of three schemes, X being a type (Ramshaw & Marcus 1995; Tjong Kim Sang & Veenstra 1999):

    IOB1    I-X inside an entity; B-X only where an entity follows another of the same type at once
    IOB2    B-X begins every entity, I-X goes on with it
    BIOES   the same, E-X ends an entity of several words, S-X is one of a single word      (BILOU: L for E, U for S)
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from attentif.data.columns import ASKED, TAG, Roles, find_columns, refuse_group
from attentif.data.config import DataConfig, Split
from attentif.data.readers import Row, Tolerance, cell_text, check_file, is_plain, open_reader, suffix_of, text_lines, text_problem
from attentif.errors import DataError

Scheme = Literal["none", "IOB1", "IOB2", "BIOES"]
OUTSIDE = "O"
SKIPPED = "-DOCSTART-"
ENTITY = re.compile(r"([BIESLU])-(.+)")
UNIVERSAL = ".conllu"
NO_WORD = re.compile(r"\d+[-.]\d+")  # of the first column of .conllu
AS_BIOES = {"L": "E", "U": "S"}


def encode_list(values: Sequence[str]) -> str:
    """Tokens, or tags, as one text."""
    return "\n".join(values)


def decode_list(text: str) -> list[str]:
    return text.split("\n")


# --------------------------------------------------------------------------------------------------------------- reading


def read_tagged_rows(
    config: DataConfig,
    split: Split,  # noqa: ARG001 - all readers of rows are called alike
    file: Path,
    roles: Roles,
    tolerance: Tolerance,
    notes: list[str],
) -> tuple[list[str], Iterator[Row]]:
    """What `load_table` asks for: the roles tokens and tags (and the group of a table), and the sentences of a file."""
    if in_columns(file):
        check_file(file)
        refuse_group(config, file)
        reader = Conll(file, config, tolerance)
        notes.append(f"{file}: {reader.columns} columns, token from column {reader.token + 1}, tag from column {reader.tag + 1}")
        return ["tokens", "tags"], reader.rows()
    table = open_reader(file, tolerance)
    names = find_columns(table.columns, file, config, roles)
    notes.append(f"{table.about}: " + ", ".join(f"{role} from column {column!r}" for role, column in names.items()))
    return list(names), _list_rows(table.cells(list(names.values())), config.group, file, tolerance)


def read_untagged_rows(file: Path) -> list[str] | None:
    """The sentences of a file of words, whatever their tags; None if it holds plain texts."""
    if suffix_of(file) in (".conll", UNIVERSAL, ".bio", ".iob", ".iob2"):
        _, rows = read_tagged_rows(DataConfig(train=str(file)), "train", file, TAG, Tolerance(), [])
        return [tokens for _, (tokens, *_) in rows]
    if is_plain(file):
        return None
    table = open_reader(file, Tolerance())
    names = find_columns(table.columns, file, DataConfig(train=str(file)), Roles((), optional=("text", "tokens"), ways={"text": ASKED}))
    if "text" in names or not names:
        return None
    found = []
    for line, (tokens,) in table.cells([names["tokens"]]):
        if problem := _values_problem("tokens", tokens):
            raise DataError(problem, file=file, line=line)
        found.append(encode_list(tokens))
    return found


def in_columns(file: Path) -> bool:
    """A word a line, rather than a table whose rows are sentences."""
    return is_plain(file) or suffix_of(file) in (".tsv", ".tab")


def line_of(file: Path, line: int, word: int) -> int:
    """Where a word of the sentence that begins at this line stands; where that cannot be told, the sentence."""
    return line + word if in_columns(file) and suffix_of(file) != UNIVERSAL else line


def _list_rows(rows: Iterator[tuple[int, Sequence[Any]]], group: str | None, file: Path, tolerance: Tolerance) -> Iterator[Row]:
    for line, (tokens, tags, *grouped) in rows:
        told = [cell_text(cell, str(group)) for cell in grouped]
        if problem := _list_problem(tokens, tags) or next((problem for _, problem in told if problem), None):
            tolerance.bad(problem, file, line)
        else:
            yield line, [encode_list(tokens), encode_list(tags), *(text for text, _ in told)]


def _list_problem(tokens: Any, tags: Any) -> str | None:
    """Why two values cannot be a sentence and its tags."""
    if problem := _values_problem("tokens", tokens) or _values_problem("tags", tags):
        return problem
    return None if len(tokens) == len(tags) else f"{len(tokens)} tokens with {len(tags)} tags"


def _values_problem(name: Literal["tokens", "tags"], values: Any) -> str | None:
    if not isinstance(values, list) or not values:
        return f"the {name} are no list of texts, such as " + ('["Le", "chat"]' if name == "tokens" else '["O", "B-PER"]')
    for place, value in enumerate(values, 1):
        if not isinstance(value, str):
            return f"{name[:-1]} {place} is {value!r}, where a text is expected" + (": give the tags' names" if name == "tags" else "")
        if not value.strip():
            return f"{name[:-1]} {place} is empty"
        if "\n" in value:
            return f"{name[:-1]} {place} holds a line end"
        if problem := text_problem(value):
            return f"{name[:-1]} {place} {problem}"
    return None


class Conll:
    """One file of columns."""

    def __init__(self, file: Path, config: DataConfig, tolerance: Tolerance) -> None:
        self.file, self.tolerance = file, tolerance
        first = next(((number, line) for number, line in self._lines() if line.strip() and not line.startswith(("#", SKIPPED))), None)
        if first is None:
            raise DataError("holds no sentence: expected a token and its tag per line", file=file)
        self.separator = re.compile("\t" if "\t" in first[1] else r"[ \t]+")  # a no-break space is part of its word: 10 000
        self.columns = len(self.separator.split(first[1]))
        self.universal = suffix_of(file) == UNIVERSAL
        token, tag = (2, 4) if self.universal else (1, self.columns)
        self.token, self.tag = self._column(config, "tokens", token), self._column(config, "tags", tag)
        if self.columns < 2:
            raise DataError("has one column, where a token and its tag are expected", file=file, line=first[0])

    def _column(self, config: DataConfig, role: str, default: int) -> int:
        asked = config.column(role) or str(default)
        if not asked.isdigit() or not 1 <= int(asked) <= self.columns:
            said = f"data.columns.{role}: {asked!r} is none of its columns"
            raise DataError(f"{said}, which have no names and are counted from 1 to {self.columns}", file=self.file)
        return int(asked) - 1

    def _lines(self) -> Iterator[tuple[int, str]]:
        return ((number, line.strip("\r\n ")) for number, line in enumerate(text_lines(self.file), 1))

    def rows(self) -> Iterator[Row]:
        """Sentences, at the line of their first word."""
        start, words, sound = 0, list[tuple[str, str]](), True
        for number, line in [*self._lines(), (0, "")]:
            if not line.strip():
                if words and sound:
                    tokens, tags = zip(*words, strict=True)
                    yield start, [encode_list(tokens), encode_list(tags)]
                words, sound = [], True
                continue
            fields = self.separator.split(line)
            if self.universal and NO_WORD.fullmatch(fields[0]):
                continue
            if line.startswith(SKIPPED) or (line.startswith("#") and not words and len(fields) != self.columns):
                continue
            start = start if words else number
            if sound and (problem := self._problem(fields)):
                self.tolerance.bad(problem, self.file, number)
                sound = False  # the sentence that holds the line is left out
            words.append(("", "") if not sound else (fields[self.token].strip(), fields[self.tag].strip()))

    def _problem(self, fields: list[str]) -> str | None:
        if len(fields) != self.columns:
            return f"{len(fields)} column{'s' if len(fields) > 1 else ''} where the first line has {self.columns}"
        for name, value in (("token", fields[self.token]), ("tag", fields[self.tag])):
            if not value.strip():
                return f"the {name} is empty"
            if problem := text_problem(value):
                return problem
        return None


# --------------------------------------------------------------------------------------------------------------- schemes


def bioes(tags: Sequence[str]) -> list[str]:
    """BILOU's names as those of BIOES."""
    return [AS_BIOES.get(tag[0], tag[0]) + tag[1:] if ENTITY.fullmatch(tag) else tag for tag in tags]


def split_tag(tag: str) -> tuple[str, str]:
    """ "B-PER" as ("B", "PER"), "O" as ("O", "")."""
    found = ENTITY.fullmatch(tag)
    return (found[1], found[2]) if found else (OUTSIDE, "")


def detect_scheme(sentences: Sequence[Sequence[str]]) -> Scheme:
    """The scheme that the fewest tags violate; "none" for tags that are not entities (parts of speech)."""
    tags = [tag for sentence in sentences for tag in sentence]
    entities = [tag for tag in tags if ENTITY.fullmatch(tag)]
    if not entities or 2 * (len(entities) + tags.count(OUTSIDE)) < len(tags):
        return "none"
    if any(tag[0] in "ESLU" for tag in entities):
        return "BIOES"
    wrong = {scheme: sum(sum(1 for _ in find_broken(sentence, scheme)) for sentence in sentences) for scheme in ("IOB2", "IOB1")}
    return "IOB1" if wrong["IOB1"] < wrong["IOB2"] else "IOB2"


def find_broken(tags: Sequence[str], scheme: Scheme) -> Iterator[tuple[int, str]]:
    """Each tag that violates the scheme, and why."""
    if scheme == "none":
        return
    before, kind = OUTSIDE, ""
    for place, tag in enumerate(tags):
        mark, own = split_tag(tag)
        if tag != OUTSIDE and mark == OUTSIDE:
            yield place, f"the tag {tag!r} is neither O nor a letter and a type, such as B-PER"
        elif why := _explain_break(mark, before, scheme, goes_on=own == kind):
            yield place, f"{tag} {'after ' + tags[place - 1] if place else 'at the beginning'} {why}"
        before, kind = mark, own
    if scheme == "BIOES" and before in "BI":
        yield len(tags) - 1, f"{tags[-1]} at the end leaves an entity open in BIOES"


def _explain_break(mark: str, before: str, scheme: Scheme, *, goes_on: bool) -> str:
    """What is wrong with a tag after another; `goes_on`: both are of one type."""
    if scheme == "IOB1":
        return "" if mark != "B" or (before in "BI" and goes_on) else "is no second entity of its type, which is what IOB1 writes B- for"
    if scheme == "IOB2":
        return "" if mark != "I" or (before in "BI" and goes_on) else "continues no entity: in IOB2 the first word has B-"
    if before in "BI":
        return "" if mark in "IE" and goes_on else "leaves an entity open in BIOES"
    return "continues no entity in BIOES" if mark in "IE" else ""


def find_entities(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """(type, first word, last word) of each entity, broken tags read as generously as conlleval and seqeval do."""
    found: list[tuple[str, int, int]] = []
    before = OUTSIDE, ""
    for place, (mark, kind) in enumerate(map(split_tag, tags)):
        if mark != OUTSIDE:
            begins = mark in "BS" or before[0] in "ESO" or kind != before[1]
            found.append((kind, place if begins else found.pop()[1], place))
        before = mark, kind
    return found


def repair_tags(tags: Sequence[str], scheme: Scheme) -> list[str]:
    """The same entities in valid tags."""
    fixed = [OUTSIDE] * len(tags)
    for kind, first, last in find_entities(tags):
        touches = first > 0 and split_tag(fixed[first - 1])[1] == kind
        for place in range(first, last + 1):
            mark = "B" if place == first and (scheme != "IOB1" or touches) else "I"
            if scheme == "BIOES" and place == last:
                mark = "S" if first == last else "E"
            fixed[place] = f"{mark}-{kind}"
    return fixed
