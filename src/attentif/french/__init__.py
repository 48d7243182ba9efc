"""Messages in French, from a catalogue beside this file.

Messages are born in English, where they are written; whoever prints one asks `localize`. The catalogue's pages (`*.txt`) hold each English
message with its French below it. {0}, {1} ... stand for what varies: they are matched in the printed message and translated in turn.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

from attentif.errors import UsageError

Lang = Literal["fr", "en"]
THIN, WIDE = "\u202f", "\u00a0"  # no-break spaces: before ; ! ? % and between thousands; before a colon and inside « »
GROUPED, DECIMAL = re.compile(r"[-−+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?"), re.compile(r"[-−+]?\d+\.\d+")
NUMBER = re.compile(rf"(?:{GROUPED.pattern}|{DECIMAL.pattern}|\d+)( ?%)?")
CLAUSES = (("; ", f"{THIN}; ", ""), (": ", f"{WIDE}: ", ""), (" (", " (", ")"))  # how clauses are joined, in English and in French
LISTS = ((", ", ", "), (" and ", " et "), (" + ", " + "), (" · ", " · "))
PLACE = re.compile(r"\{(\d)(!r|!n)?\}")  # {0!r}: as it is, for what goes into a file or a command; {0!n}: names, and how many of each
COUNT = re.compile(rf"(?<=\()({GROUPED.pattern})(?=\))")


def choose_language() -> Lang:
    """The language of messages and tables: `ATTENTIF_LANG`, else the locale; English where neither says French."""
    if own := os.environ.get("ATTENTIF_LANG", "").strip().lower():
        if own[:2] not in ("en", "fr"):
            raise UsageError(f"the environment variable ATTENTIF_LANG is {own!r}; fr and en are known", code="language")
        return "fr" if own[:2] == "fr" else "en"
    locale = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := os.environ.get(name))), "")
    return "fr" if locale.startswith("fr") else "en"


def pick(french: str, english: str) -> str:
    return typeset(french) if choose_language() == "fr" else english


def localize(message: str) -> str:
    """The message in the user's language."""
    return to_french(message) if choose_language() == "fr" else message


def to_french(message: str) -> str:
    """The message in French; unchanged where the catalogue has no French for it.

    A message that is not known as a whole is translated clause by clause, and after a key or a file name: "train.lr: must be ..."."""
    return french_number(message) if NUMBER.fullmatch(message) else _translate(message) or message


def _translate(message: str) -> str | None:
    exact, templates = _catalogue()
    if message in exact:
        return exact[message]
    found = [(one.french, match.groups()) for one in templates if one.key in message and (match := one.pattern.fullmatch(message))]
    for french, values in found:
        if not any("; " in f"{value} " for value in values):
            return _fill(french, values)
    clauses = list(map(_translate, message.split("; "))) if "; " in message else []
    if clauses and None not in clauses:
        return f"{THIN}; ".join(filter(None, clauses))
    if found:  # whatever a place takes, with its semicolons
        return _fill(*found[0])
    for mark, french_mark, end in CLAUSES:
        first, found_mark, rest = message.removesuffix(end).partition(mark)
        said = (_translate(first), _translate(rest)) if found_mark and message.endswith(end) else (None, None)
        if any(said):
            return f"{said[0] or first}{french_mark}{said[1] or rest}{end}"
    return None


def _fill(french: str, values: Sequence[str]) -> str:
    write: dict[str | None, Callable[[str], str]] = {"!r": str, "!n": _translate_counts, None: _translate_part}
    return PLACE.sub(lambda place: write[place[2]](values[int(place[1])]), french)


def _translate_counts(names: str) -> str:
    return COUNT.sub(lambda count: french_number(count[0]), names)


def _translate_part(part: str) -> str:
    """What stands for {0}: a number, a phrase of the catalogue, or a list of them; names stay as they are."""
    if NUMBER.fullmatch(part):
        return french_number(part)
    if (whole := _translate(part)) is not None:
        return whole
    for mark, french_mark in LISTS:
        if mark in part:
            return french_mark.join(map(_translate_part, part.split(mark)))
    return part


def french_number(written: str) -> str:
    """1,234.5 % with a decimal comma and no-break spaces; digits alone (a year, a line) stay."""
    digits = written.rstrip(" %")
    shown = digits.replace(",", THIN).replace(".", ",") if GROUPED.fullmatch(digits) or DECIMAL.fullmatch(digits) else digits
    return shown + (f"{THIN}%" if written.endswith("%") else "")


def typeset(french: str) -> str:
    """French as typographers set it: no line ends before ; : ! ? %, inside « », and apostrophes are curved."""
    french = re.sub(r" (?=[;!?](?:\s|$))|(?<=[\d}]) (?=%)", THIN, french)
    french = re.sub(r" (?=:(?:\s|$))|(?<=«) | (?=»)", WIDE, french)
    return re.sub(r"(?<=[A-Za-zÀ-ÿ])'(?=[A-Za-zÀ-ÿ«{])", "’", french)


class Template(NamedTuple):
    key: str  # its longest fixed part
    pattern: re.Pattern[str]
    french: str


def entries() -> Iterator[tuple[str, str]]:
    """Every English message of the catalogue with its French."""
    for page in sorted(files("attentif.french").iterdir(), key=lambda page: page.name):
        if page.name.endswith(".txt"):
            lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line and not line.startswith("# ")]
            yield from zip(lines[::2], (line.strip() for line in lines[1::2]), strict=True)


@cache
def _catalogue() -> tuple[dict[str, str], list[Template]]:
    """Whole messages, and those with places, the most specific first."""
    exact, open_ones = {}, []
    for english, french in entries():
        pieces = PLACE.split(english)[::3]
        if len(pieces) == 1:
            exact[english] = typeset(french)
            continue
        pattern = re.compile("(.*?)".join(map(re.escape, pieces)), re.DOTALL)
        open_ones.append((sum(map(len, pieces)), Template(max(pieces, key=len), pattern, typeset(french))))
    return exact, [template for _, template in sorted(open_ones, key=lambda item: -item[0])]
