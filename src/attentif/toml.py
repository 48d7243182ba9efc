"""Where in a TOML source each value stands, so that an error can name the line. `tomllib` reads the values and forgets their places."""

import re
import tomllib
from collections.abc import Iterator
from typing import NamedTuple

Keys = tuple[str | int, ...]  # ("model", "blocks", 0, "repeat")

_TOKEN = re.compile(
    r"""(?P<gap>[ \t\r\n]+ | \#[^\n]*)
      | (?P<text>\"{3}(?:\\.|[^\\])*?\"{3}(?!\") | '{3}.*?'{3}(?!') | \"(?:\\.|[^\"\\\n])*\" | '[^'\n]*')
      | (?P<sign>[\[\]{}=,.])
      | (?P<word>[^\s\[\]{}=,.\#\"']+)""",
    re.VERBOSE | re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def line_of(text: str, path: Keys) -> int | None:
    """The line of a valid TOML source that sets `path`, or else the nearest table or list around it."""
    lines = lines_of(text)
    return next((lines[path[:length]] for length in range(len(path), 0, -1) if path[:length] in lines), None)


def lines_of(text: str) -> dict[Keys, int]:
    """The line of every key, table and list item of a valid TOML source."""
    return _Reader(text).document()


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "gap":
            yield _Token(str(match.lastgroup), match[0], line)
        line += match[0].count("\n")


class _Reader:
    def __init__(self, text: str) -> None:
        self.tokens = list(_tokens(text))
        self.next = 0
        self.lines: dict[Keys, int] = {}
        self.last: dict[Keys, int] = {}  # of each list of tables, the number of its newest item

    def document(self) -> dict[Keys, int]:
        table: Keys = ()
        while self.next < len(self.tokens):
            if self.sees("["):
                table = self.header()
            else:
                self.entry(table)
        return self.lines

    def header(self) -> Keys:
        """`[a.b]`, or `[[a.b]]`, which begins a new item."""
        line = self.take("[").line
        item = self.sees("[") and bool(self.take("["))
        keys = self.keys()
        path: Keys = ()
        for number, key in enumerate(keys, 1):
            path = (*path, key)
            self.lines.setdefault(path, line)
            if item and number == len(keys):
                self.last[path] = self.last.get(path, -1) + 1
            if path in self.last:
                path = (*path, self.last[path])
                self.lines.setdefault(path, line)
        for _ in range(2 if item else 1):
            self.take("]")
        return path

    def entry(self, table: Keys) -> None:
        """`a.b = value`"""
        line = self.tokens[self.next].line
        path = table
        for key in self.keys():
            path = (*path, key)
            self.lines.setdefault(path, line)
        self.take("=")
        self.value(path)

    def keys(self) -> list[str]:
        found = [self.key()]
        while self.sees("."):
            self.take(".")
            found.append(self.key())
        return found

    def key(self) -> str:
        token = self.tokens[self.next]
        self.next += 1
        return str(tomllib.loads(f"key = {token.text}")["key"]) if token.kind == "text" else token.text

    def value(self, path: Keys) -> None:
        first = self.tokens[self.next]
        self.lines.setdefault(path, first.line)
        if self.sees("["):
            self.take("[")
            count = 0
            while not self.sees("]"):
                self.value((*path, count))
                count += 1
                if self.sees(","):
                    self.take(",")
            self.take("]")
        elif self.sees("{"):
            self.take("{")
            while not self.sees("}"):
                self.entry(path)
                if self.sees(","):
                    self.take(",")
            self.take("}")
        elif first.kind == "text":
            self.next += 1
        else:  # numbers and dates: words and dots, to the end of the line at most
            while self.next < len(self.tokens) and self.plain(self.tokens[self.next], first.line):
                self.next += 1

    @staticmethod
    def plain(token: _Token, line: int) -> bool:
        return token.line == line and (token.kind == "word" or token.text == ".")

    def sees(self, sign: str) -> bool:
        return self.next < len(self.tokens) and self.tokens[self.next][:2] == ("sign", sign)

    def take(self, sign: str) -> _Token:
        assert self.sees(sign)
        self.next += 1
        return self.tokens[self.next - 1]
