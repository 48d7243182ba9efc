"""ELIZA: conversation by patterns and templates (Weizenbaum 1966), with its own engine and scripts.

    1  the text is cut into clauses; the first clause with a keyword is answered
    2  its keywords are tried by rank, the highest first; of each the decomposition patterns, in order:  "* je rêve de *"
    3  the first pattern that matches gives its next template (they take turns); {1}, {2} are what its * stood for, seen from
       the other side: je → vous, mon → votre; a template with a part that stands for nothing is passed over
    4  a pattern with `memory` puts such an answer away for later as well
    5  without a keyword: the oldest of what was put away, or else a way of saying "go on"

In a pattern, * is any number of words, @famille one word of that group, anything else itself. A template "=rêve" answers as to "rêve".
French and English are written with apostrophes and hyphens of their own: d'un is d' and un, suis-je is suis and je, it's is it and 's.
"""

import re
import unicodedata
from collections import deque
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from attentif.config import Config, Document, read_toml
from attentif.errors import UsageError

LANGUAGES = ("fr", "en")
SHORTENED = r"['’](?:s|m|re|ve|ll|d)\b"  # of is, am, are, have, will, would
WORD = re.compile(rf"[^\W_]+(?:-[^\W_]+)*(?:['’]t\b|(?={SHORTENED})|['’](?=[^\W_])|)|{SHORTENED}|[.,;:!?…()«»\"]", re.IGNORECASE)
HOLE = re.compile(r"\{(\d+)\}")
VOWEL = r"(?:[aeiouàâéèêëîïôœ]|y\b|h(?!aï|ain|asard|aut|eurt|éros|onte|ors|uit|url))"  # what de becomes d' before
CLAUSE_ENDS = frozenset('.,;:!?…()«»"')
REMEMBERED = 8  # answers put away at most


class Rule(Config):
    """A pattern of a clause with the keyword, and the answers to it."""

    pattern: str = Field(description="words; * stands for any number of them, @group for one of a group")
    answers: tuple[str, ...] = Field(strict=False, min_length=1, description="templates, used in turn; {1} is what the first * stood for")
    memory: bool = Field(False, description="put the answer away for when there is nothing to say")


class Keyword(Config):
    """Words to look for, and their rules."""

    words: tuple[str, ...] = Field(strict=False, min_length=1, description="any of these")
    rank: int = Field(0, ge=0, description="the highest rank of a clause is answered first")
    rules: tuple[Rule, ...] = Field(strict=False, min_length=1, description="tried in order")


class ElizaScript(Config):
    """The rules of a language: a TOML file."""

    hello: str = Field(description="the first thing it says")
    goodbye: str = Field(description="the last")
    quit: tuple[str, ...] = Field(strict=False, description="what one says to leave")
    go_on: tuple[str, ...] = Field(strict=False, min_length=1, description="what it says when nothing matches")
    same: dict[str, str] = Field({}, description="words read as others")
    elided: dict[str, str] = Field({}, description="words with an apostrophe, and what they are short for: d' for de")
    reflect: dict[str, str] = Field({}, description="words seen from the other side")
    reflect_last: dict[str, str] = Field({}, description="the same, where a word ends what is repeated: like you, like me")
    groups: dict[str, list[str]] = Field({}, description="words that a pattern may call by one name")
    keywords: tuple[Keyword, ...] = Field(strict=False, min_length=1, description="what it looks for")

    @model_validator(mode="after")
    def _refers_to_what_is_there(self) -> Self:
        known = {word for keyword in self.keywords for word in keyword.words}
        for keyword in self.keywords:
            for rule in keyword.rules:
                parts = rule.pattern.split()
                if unknown := [part for part in parts if part.startswith("@") and part[1:] not in self.groups]:
                    raise ValueError(f"pattern {rule.pattern!r}: there is no group {unknown[0][1:]!r}")
                holes = sum(part == "*" or part.startswith("@") for part in parts)
                for answer in rule.answers:
                    if answer.startswith("=") and answer[1:] not in known:
                        raise ValueError(f"answer {answer!r}: no keyword is {answer[1:]!r}")
                    if any(not 1 <= int(hole) <= holes for hole in HOLE.findall(answer)):
                        raise ValueError(f"answer {answer!r}: the pattern {rule.pattern!r} has {holes} parts to fill in")
        return self

    @cached_property
    def keyword_of(self) -> dict[str, Keyword]:
        return {word: keyword for keyword in self.keywords for word in keyword.words}

    @cached_property
    def short(self) -> dict[str, str]:
        return {full: short for short, full in self.elided.items()}


def load_script(source: str | Path) -> ElizaScript:
    """Load the script of a language ("fr", "en"), or one of your own from a TOML file."""
    if str(source) in LANGUAGES:
        source = Path(__file__).with_name(f"{source}.toml")
    elif not Path(source).suffix:
        raise UsageError(f"ELIZA speaks {' and '.join(LANGUAGES)}, not {str(source)!r}; a script of your own is a TOML file")
    return Document([read_toml(Path(source))]).build(ElizaScript)


class Eliza:
    """One conversation."""

    def __init__(self, script: ElizaScript) -> None:
        self.script = script
        self.turns: dict[tuple[str, ...], int] = {}  # how often each list of templates was used
        self.memory: deque[str] = deque(maxlen=REMEMBERED)
        self.ended = False

    @property
    def hello(self) -> str:
        return self.script.hello

    def answer(self, text: str) -> str:
        """Answer a text."""
        words = self._read(text)
        if " ".join(word for word in words if word not in CLAUSE_ENDS) in self.script.quit:
            self.ended = True
            return self.script.goodbye
        for clause in clauses(words):
            found = sorted(
                {word for word in clause if word in self.script.keyword_of},
                key=lambda w: (-self.script.keyword_of[w].rank, clause.index(w)),
            )
            for word in found:
                if (said := self._apply_keyword(self.script.keyword_of[word], clause)) is not None:
                    return said
        return self.memory.popleft() if self.memory else self._rotate(self.script.go_on)[0]

    def _read(self, text: str) -> list[str]:
        words = [word.lower().replace("’", "'") for word in WORD.findall(unicodedata.normalize("NFC", text))]
        return [part for word in words for part in self._split_word(word).split()]

    def _split_word(self, word: str) -> str:
        """Map a word to its synonym; a pronoun after a hyphen is a word of its own: suis-je."""
        before, _, last = word.rpartition("-")
        return self.script.same.get(word, f"{before} {last}" if before and last in self.script.reflect else word)

    def _apply_keyword(self, keyword: Keyword, clause: Sequence[str], depth: int = 0) -> str | None:
        for rule in keyword.rules:
            parts = match(rule.pattern.split(), clause, self.script.groups, self.script.elided)
            if parts is None:
                continue
            fillable = [answer for answer in self._rotate(rule.answers) if all(parts[int(hole) - 1] for hole in HOLE.findall(answer))]
            if not fillable:
                continue
            template = fillable[0]
            if template.startswith("="):
                return (
                    self._apply_keyword(self.script.keyword_of[template[1:]], clause, depth + 1)
                    if depth < len(self.script.keywords)
                    else None
                )
            said = self._fill(template, parts)
            if not rule.memory:
                return said
            self.memory.append(said)  # and the next rule answers now
        return None

    def _rotate(self, templates: tuple[str, ...]) -> tuple[str, ...]:
        """Return the templates, starting with the one whose turn it is."""
        turn = self.turns.get(templates, 0) % len(templates)
        self.turns[templates] = turn + 1
        return templates[turn:] + templates[:turn]

    def _fill(self, template: str, parts: Sequence[Sequence[str]]) -> str:
        said = HOLE.sub(lambda hole: join_words(self._reflect(parts[int(hole[1]) - 1])), template)
        said = self._elide(re.sub(r"\s+([.,…])", r"\1", re.sub(r"\s+", " ", said)).strip())
        return said[:1].upper() + said[1:]

    def _elide(self, said: str) -> str:
        """Elide: "de un chien" becomes "d'un chien"."""
        short = self.script.short
        return re.sub(rf"\b({'|'.join(short)}) (?={VOWEL})", lambda word: short[word[1]], said) if short else said

    def _reflect(self, words: Sequence[str]) -> list[str]:
        seen = [self.script.reflect.get(word, word) for word in words]
        return [*seen[:-1], *(self.script.reflect_last.get(word, seen[-1]) for word in words[-1:])]


def clauses(words: Sequence[str]) -> list[list[str]]:
    """Split words at punctuation marks."""
    found: list[list[str]] = [[]]
    for word in words:
        if word in CLAUSE_ENDS:
            found.append([])
        else:
            found[-1].append(word)
    return [clause for clause in found if clause]


def match(
    pattern: Sequence[str], words: Sequence[str], groups: dict[str, list[str]], elided: dict[str, str] | None = None
) -> list[list[str]] | None:
    """Match words to a pattern: the words of each * (shortest first) and @group, or None."""
    if not pattern:
        return [] if not words else None
    first, rest = pattern[0], pattern[1:]
    if first == "*":
        for taken in range(len(words) + 1):
            if (found := match(rest, words[taken:], groups, elided)) is not None:
                return [list(words[:taken]), *found]
        return None
    if not words or not (words[0] in groups[first[1:]] if first.startswith("@") else first in (words[0], (elided or {}).get(words[0]))):
        return None
    found = match(rest, words[1:], groups, elided)
    return found if found is None or not first.startswith("@") else [[words[0]], *found]


def join_words(words: Sequence[str]) -> str:
    """Join words with spaces, except beside an apostrophe: l'eau, it's."""
    return " ".join(words).replace("' ", "'").replace(" '", "'")
