"""French words with the forms a grammar asks for: nouns with their gender, adjectives that agree, what a viewer does."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

AGREEMENT = {"m": 0, "f": 1, "mp": 2, "fp": 3}  # masculine and feminine, singular and plural


@dataclass(frozen=True, slots=True)
class Noun:
    text: str
    agreement: int  # a value of AGREEMENT
    domain: str

    def join(self, other: "Noun") -> "Noun":
        """Both nouns as one subject: plural, and masculine unless both are feminine."""
        return Noun(f"{self.text} {other.text}", 2 + self.agreement % 2 * (other.agreement % 2), self.domain + other.domain)


@dataclass(frozen=True, slots=True)
class Adjective:
    text: str
    forms: tuple[str, str, str, str]  # in the order of AGREEMENT
    domains: str


@dataclass(frozen=True, slots=True)
class Verb:
    """What a viewer does: on `present` `rest`; impossible de `infinitive`; je pensais `mine`; je `auxiliary` `participle` `my_rest`."""

    text: str
    present: str
    infinitive: str
    mine: str
    auxiliary: str
    participle: tuple[str, str]  # said by a man, by a woman
    rest: str
    my_rest: str


Word = Noun | Adjective | Verb | str
Lexicon = Mapping[str, tuple[Sequence[Word], Sequence[Word]]]  # symbol -> words of praise, words of blame; one list twice: neutral


def nouns(domain: str, listing: str) -> list[Noun]:
    """Reads `scénario m; images fp`."""
    entries = (entry.rsplit(maxsplit=1) for entry in listing.split(";"))
    return [Noun(text.strip(), AGREEMENT[kind], domain) for text, kind in entries]


def adjectives(listing: str) -> list[Adjective]:
    """Reads `réussi rvsf; creux/creuse rf`: the feminine is written where no rule gives it."""
    words = []
    for entry in listing.split(";"):
        text, domains = entry.split()
        masculine, _, feminine = text.partition("/")
        words.append(Adjective(masculine, _forms(masculine, feminine), domains))
    return words


def _forms(masculine: str, feminine: str) -> tuple[str, str, str, str]:
    if not feminine:
        endings = (("e", "e"), ("eux", "euse"), ("f", "ve"), ("", "e"))
        end, feminine_end = next(pair for pair in endings if masculine.endswith(pair[0]))
        feminine = masculine.removesuffix(end) + feminine_end
    plural = masculine if masculine[-1] in "sx" else masculine.removesuffix("al") + "aux" if masculine == "original" else masculine + "s"
    return masculine, feminine, plural, feminine + "s"


def verbs(listing: str) -> list[Verb]:
    """Reads lines `present, infinitive, auxiliary, participle[/feminine], rest`."""
    words = []
    for line in listing.strip().splitlines():
        present, infinitive, auxiliary, participle, rest = (field.strip() for field in line.split(","))
        masculine, _, feminine = participle.partition("/")
        participles = (masculine, feminine or masculine)
        words.append(Verb(infinitive, present, infinitive, _first_person(infinitive), auxiliary, participles, rest, _first_person(rest)))
    return words


def _first_person(text: str) -> str:
    """s'ennuyer -> m'ennuyer, sa montre -> ma montre."""
    return re.sub(r"\bs(?='|e\b|a\b|on\b)", "m", text)
