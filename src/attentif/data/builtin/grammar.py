"""A small grammar engine for French: rules as readable templates, agreement, elision, and two polarities.

A rule is one line, `[weight×] [+|-] template`; a rule without a sign serves praise and blame alike. In a template

    {symbol}         expands the symbol and keeps the polarity: praise stays praise
    {symbol!}        expands it with the opposite polarity (the construction around it must turn it over)
    {symbol?}        either polarity, as chance has it
    {le:part}        a noun with its determiner (le un de dun à ce quel mot); the words after it agree with it
    {le:part&}       the same, joined with the noun before: les acteurs et la musique sont ...
    {adj}            an adjective, agreeing with the last noun of the template or, where there is none, with the speaker;
                     {adj.m}, {adj.f}, {adj.mp}, {adj.fp} ask for a form
    {verb.present}   a verb in one of its forms; {.rest} is another form of the same verb
    [est|sont]       by number of the last noun; with four alternatives also by gender
    <ravi|ravie>     by gender of the speaker, the same for the whole text
    (a|b|)           any of them, with equal chances

Elision, capitals and spaces are put right at the end, over the whole text.
"""

import re
from bisect import bisect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate

from attentif.data.builtin.words import AGREEMENT, Adjective, Lexicon, Noun, Verb, Word

Piece = Callable[["Draft", "Scope"], str]

_TOKEN = re.compile(r"\{[^}]*\}|\[[^]]*\]|<[^>]*>|[(|)]|[^{}\[\]<>(|)]+")
_RULE = re.compile(r"(?:(\d+)× )?(?:([+-]) )?(.+)")
_VOWEL = "aeiouyàâéèêîïôûœh"
_ASPIRATED = "héros|huit|hasard|honte|hideu|oui|onze"
_ELIDED = re.compile(
    rf"(?<![-'])\b([LlDdNnJjMmSs]|[Qq]u|[Jj]usqu|[Pp]uisqu)(?:e|(?<=[Ll])a) (?=[{_VOWEL}{_VOWEL.upper()}])(?!{_ASPIRATED})"
)
_SENTENCE_START = re.compile(r"(?:^|(?<=[.!?…] ))(?:« )?\w")


@dataclass(slots=True)
class Draft:
    """One text in the making: what holds from its first word to its last."""

    chance: Callable[[], float]
    speaker: int  # 0 a man, 1 a woman
    kept: dict[str, Word] = field(default_factory=dict)  # words chosen once for the whole text
    said: list[Word] = field(default_factory=list)  # all others
    reversals: list[tuple[str, str]] = field(default_factory=list)  # (the template that reverses, the word it reverses)

    def pick(self, words: Sequence[Word]) -> Word:
        return words[int(self.chance() * len(words))]


@dataclass(slots=True)
class Scope:
    """One rule being written: its polarity, the template that last reversed it, the words that later ones agree with."""

    polarity: int
    reversed_by: str | None
    noun: Noun | None = None
    verb: Verb | None = None


class Grammar:
    """`rules`: symbol -> lines; `words`: symbol -> praise and blame; `once`: the word symbols that keep one value in a text."""

    def __init__(self, rules: Mapping[str, str], words: Lexicon, once: Collection[str] = ()) -> None:
        self.words, self.once = words, once
        self.choices: dict[tuple[str, int], tuple[list[int], list[tuple[str, Piece]]]] = {}
        for symbol, lines in rules.items():
            parsed = [_rule(line.strip()) for line in lines.strip().splitlines()]
            compiled = [(weight, sign, template, self._compile(template)) for weight, sign, template in parsed]
            for polarity, mark in enumerate("+-"):
                usable = [(weight, template, piece) for weight, sign, template, piece in compiled if sign in ("", mark)]
                weights = list(accumulate(weight for weight, _, _ in usable))
                self.choices[symbol, polarity] = weights, [(template, piece) for _, template, piece in usable]
        self._suitable = cache(self._find_suitable)

    def write(self, symbol: str, polarity: int, chance: Callable[[], float]) -> tuple[str, list[tuple[str, str]]]:
        """A text to `finish`, and the (template, word) pairs in which a construction reversed a word."""
        draft = Draft(chance, speaker=int(chance() < 0.5))
        return self._expand(symbol, draft, polarity, None), draft.reversals

    def _expand(self, symbol: str, draft: Draft, polarity: int, reversed_by: str | None) -> str:
        weights, rules = self.choices[symbol, polarity]
        _, piece = rules[bisect(weights, draft.chance() * weights[-1])]
        return piece(draft, Scope(polarity, reversed_by))

    def _compile(self, template: str) -> Piece:
        tokens = _TOKEN.findall(template)
        if "".join(tokens) != template:
            raise ValueError(f"unbalanced template: {template}")
        piece, rest = self._sequence(tokens, template)
        if rest:
            raise ValueError(f"unbalanced template: {template}")
        return piece

    def _sequence(self, tokens: list[str], template: str) -> tuple[Piece, list[str]]:
        """The pieces up to a closing parenthesis or bar, and the tokens left."""
        pieces: list[Piece] = []
        while tokens and tokens[0] not in ("|", ")"):
            token, tokens = tokens[0], tokens[1:]
            if token == "(":
                piece, tokens = self._alternatives(tokens, template)
            else:
                piece = self._piece(token, template)
            pieces.append(piece)
        if len(pieces) == 1:
            return pieces[0], tokens
        return (lambda draft, scope: "".join([piece(draft, scope) for piece in pieces])), tokens

    def _alternatives(self, tokens: list[str], template: str) -> tuple[Piece, list[str]]:
        options: list[Piece] = []
        while not options or tokens[:1] == ["|"]:
            option, tokens = self._sequence(tokens[1:] if options else tokens, template)
            options.append(option)
        if not tokens:
            raise ValueError(f"unbalanced template: {template}")
        return (lambda draft, scope: options[int(draft.chance() * len(options))](draft, scope)), tokens[1:]

    def _piece(self, token: str, template: str) -> Piece:
        inside = token[1:-1]
        if token[0] == "[":
            forms = inside.split("|")
            by_agreement = forms if len(forms) == 4 else [forms[0], forms[0], forms[1], forms[1]]
            return lambda _draft, scope: by_agreement[_noun(scope, template).agreement]
        if token[0] == "<":
            said = inside.split("|")
            return lambda draft, _scope: said[draft.speaker]
        if token[0] == "{":
            return self._slot(inside, template)
        return lambda _draft, _scope: token

    def _slot(self, inside: str, template: str) -> Piece:
        determiner, _, name = inside.rpartition(":")
        name, joined = name.removesuffix("&"), name.endswith("&")
        name, turn = (name[:-1], name[-1]) if name[-1] in "!?" else (name, "")
        symbol, _, form = name.partition(".")

        def choose_polarity(draft: Draft, scope: Scope) -> tuple[int, str | None]:
            if turn == "!":
                return 1 - scope.polarity, template
            if turn == "?":
                return int(draft.chance() < 0.5), None
            return scope.polarity, scope.reversed_by

        if not symbol:
            return lambda draft, scope: _form(scope.verb, form, draft)
        if symbol not in self.words:
            return lambda draft, scope: self._expand(symbol, draft, *choose_polarity(draft, scope))

        def word(draft: Draft, scope: Scope) -> str:
            polarity, reversed_by = choose_polarity(draft, scope)
            chosen = self._choose(symbol, draft, polarity, scope.noun.domain if scope.noun else "")
            if reversed_by is not None and self.words[symbol][0] is not self.words[symbol][1]:
                draft.reversals.append((reversed_by, chosen if isinstance(chosen, str) else chosen.text))
            if isinstance(chosen, Noun):
                scope.noun = scope.noun.join(chosen) if joined and scope.noun else chosen
                return DETERMINERS[determiner](chosen)
            if isinstance(chosen, Verb):
                scope.verb = chosen
                return _form(chosen, form, draft)
            if isinstance(chosen, Adjective):
                return chosen.forms[AGREEMENT[form] if form else scope.noun.agreement if scope.noun else draft.speaker]
            return chosen

        return word

    def _choose(self, symbol: str, draft: Draft, polarity: int, domain: str) -> Word:
        if symbol in self.once:
            if symbol not in draft.kept:
                draft.kept[symbol] = draft.pick(self.words[symbol][polarity])
            return draft.kept[symbol]
        words = self._suitable(symbol, polarity, domain)
        chosen = draft.pick(words)
        if chosen in draft.said:  # a second draw makes repetitions rare without forbidding them
            chosen = draft.pick(words)
        draft.said.append(chosen)
        return chosen

    def _find_suitable(self, symbol: str, polarity: int, domain: str) -> list[Word]:
        """The words of a symbol; of its adjectives, those that can be said of every domain named."""
        words = self.words[symbol][polarity]
        return [word for word in words if not isinstance(word, Adjective) or set(domain) <= set(word.domains)]


def _rule(line: str) -> tuple[int, str, str]:
    match = _RULE.fullmatch(line)
    if match is None:
        raise ValueError(f"not a rule: {line!r}")
    weight, sign, template = match.groups("")
    return int(weight or 1), sign, template


def _noun(scope: Scope, template: str) -> Noun:
    if scope.noun is None:
        raise ValueError(f"nothing to agree with in {template}")
    return scope.noun


def _form(verb: Verb | None, form: str, draft: Draft) -> str:
    if form == "participle" and verb is not None:
        return verb.participle[draft.speaker]
    return str(getattr(verb, form))


def _this(noun: Noun) -> str:
    word = ("cet" if noun.text[0] in _VOWEL else "ce", "cette", "ces", "ces")[noun.agreement]
    return f"{word} {noun.text}"


DETERMINERS: dict[str, Callable[[Noun], str]] = {
    "le": lambda noun: f"{('le', 'la', 'les', 'les')[noun.agreement]} {noun.text}",
    "un": lambda noun: f"{('un', 'une', 'des', 'des')[noun.agreement]} {noun.text}",
    "de": lambda noun: f"{_contract(noun, 'du', 'de la', 'des')} {noun.text}",
    "dun": lambda noun: f"{('de un', 'de une', 'de', 'de')[noun.agreement]} {noun.text}",
    "à": lambda noun: f"{_contract(noun, 'au', 'à la', 'aux')} {noun.text}",
    "ce": _this,
    "quel": lambda noun: f"{('quel', 'quelle', 'quels', 'quelles')[noun.agreement]} {noun.text}",
    "mot": lambda noun: noun.text,
}


def _contract(noun: Noun, masculine: str, feminine: str, plural: str) -> str:
    """du scénario, de la fin, des acteurs; before a vowel nothing contracts: de l'acteur (the elision comes later)."""
    if noun.agreement > 1:
        return plural
    if noun.agreement == 0 and noun.text[0] in _VOWEL:
        return {"du": "de le", "au": "à le"}[masculine]
    return feminine if noun.agreement else masculine


def finish(text: str) -> str:
    """Elision, single spaces, and a capital at the start of every sentence."""
    text = " ".join(text.split()).replace(" ,", ",").replace(" .", ".")
    text = _ELIDED.sub(r"\1'", text)
    return _SENTENCE_START.sub(lambda match: match[0].upper(), text)
