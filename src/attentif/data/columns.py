"""Roles of columns: given in the configuration, or recognised by name and reported."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from attentif.config import did_you_mean
from attentif.data.config import DataConfig
from attentif.errors import DataError

# Names by which a role is recognised, without case, accents, spaces, hyphens or underscores. For groups, see `groups`.
NAMES: dict[str, tuple[str, ...]] = {
    "text": (
        "text", "texts", "text1", "texta", "review", "reviews", "sentence", "sentence1", "content", "comment", "comments", "document",
        "body", "message", "tweet", "premise", "article", "texte", "avis", "critique", "phrase", "phrase1", "commentaire", "contenu",
        "transcript", "transcription",
    ),
    "label": (
        "label", "labels", "polarity", "class", "sentiment", "target", "category", "rating", "stars",
        "polarite", "classe", "etiquette", "note", "categorie",
    ),
    "value": (
        "value", "score", "rating", "stars", "note", "price", "prix", "valeur", "etoiles", "label", "target", "y", "cible",
    ),
    "labels": ("labels", "label", "tags", "classes", "categories", "genres", "topics", "themes", "etiquettes", "sujets"),
    "pair": ("text2", "textb", "pair", "sentence2", "hypothesis", "phrase2", "texte2"),
    "source": ("source", "src", "en", "english", "input", "anglais"),
    "target": ("target", "tgt", "trg", "fr", "french", "output", "translation", "francais", "cible", "traduction"),
    "summary": ("summary", "abstract", "highlights", "headline", "title", "resume", "titre", "chapeau"),
    "prefix": ("prefix", "task", "instruction", "prefixe", "tache", "consigne"),
    "tokens": ("tokens", "words", "mots", "jetons"),
    "audio": ("audio", "wav", "sound", "file", "path", "filename", "clip", "recording", "son", "fichier", "chemin", "enregistrement"),
    "tags": ("tags", "nertags", "etiquettes", "labels"),
    "image": ("image", "images", "img", "picture", "pictures", "photo", "imagefile", "chemin"),
    "date": (
        "date", "dates", "datetime", "timestamp", "time", "day", "week", "month", "year", "ds", "jour", "semaine", "mois", "annee",
        "horodatage", "heure", "instant", "period", "periode",
    ),
    "question": ("question", "questions", "query", "demande"),
    "answer": ("answer", "answers", "reponse", "reponses"),
    "answers": ("answers", "reponses"),
    "kind": ("kind", "questiontype", "questionkind", "genre"),
    "signal": ("signal", "series", "values", "samples", "valeurs", "mesures"),
}  # fmt: skip
OPTIONS = {  # how to name the column oneself
    "text": "--text NAME",
    "label": "--label NAME",
    "labels": "--label NAME",
    "value": "--label NAME",
    "pair": "data.pair=NAME",
    "source": "data.source=NAME",
    "target": "data.target_column=NAME",
    "summary": "data.columns.summary=NAME",
    "prefix": "data.columns.prefix=NAME",
    "tokens": "data.columns.tokens=NAME",
    "tags": "data.columns.tags=NAME",
    "audio": "data.columns.audio=NAME",
    "date": "data.columns.date=NAME",
    "question": "data.columns.question=NAME",
    "answer": "data.columns.answer=NAME",
    "answers": "data.columns.answers=NAME",
    "kind": "data.columns.kind=NAME",
    "signal": "data.columns.signal=NAME",
    "image": "data.columns.image=NAME",
    "group": "data.group=NAME",
}
ASKED = "--text NAME"  # the same of what is given to `predict`, whatever its role


@dataclass(frozen=True, slots=True)
class Roles:
    """Columns that a task needs. A group is read if configured, or guessed if allowed here."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    lists: Mapping[str, str] = field(default_factory=dict)  # what to say where a value of a role is a list, which it may not be here
    classes: str = "label"  # the role of which every split has each value, in its share
    together: Mapping[str, str] = field(default_factory=dict)  # roles whose rows stay together in a cut, the widest first, in words
    guess_group: bool = False  # a column whose name says that rows belong together decides how splits are cut
    ways: Mapping[str, str] = field(default_factory=dict)  # how to name the column of a role oneself, where it is not as in OPTIONS

    def way(self, role: str) -> str:
        return self.ways.get(role) or OPTIONS[role]


CLASSIFY = Roles(("text", "label"), optional=("pair",), lists={"label": "lists of labels need task.several=true"}, guess_group=True)
LANGUAGE = Roles(("text",))
TRANSLATE = Roles(("source", "target"))
SUMMARISE = Roles(("text", "summary"))
TEXT_TO_TEXT = Roles(("source", "target"), optional=("prefix",))
TAG = Roles(("tokens", "tags"))
ANSWER = Roles(("question", "context", "answers"), together={"title": "title", "context": "passage"})


class NoGroupError(DataError):
    """A file lacks the group column that was asked for; another file may have it."""


def refuse_group(
    config: DataConfig, path: Path, way_out: str = "leave it out, and give files for valid and test where rows belong together"
) -> None:
    """Of files that are no tables."""
    if config.group:
        raise NoGroupError(f"has no named columns, so that none can be the group, {config.group!r} (data.group); {way_out}", file=path)


def find_columns(columns: Sequence[str], path: Path, config: DataConfig, roles: Roles) -> dict[str, str]:
    """The column of each role; an error that lists the columns where one is missing or two would do."""
    found: dict[str, str] = {}
    for role in (*roles.required, *roles.optional, *(["group"] if config.group else [])):
        asked = config.column(role)
        column = _find_named(asked, role, columns, path) if asked else _recognise(role, columns, path, roles)
        if column is not None:
            found[role] = column
    for role, column in found.items():
        if clash := [other for other, name in found.items() if name == column and other < role and "group" not in (other, role)]:
            raise DataError(f"column {column!r} would be both {clash[0]} and {role}; name one: {roles.way(role)}", file=path)
    return found


def _find_named(asked: str, role: str, columns: Sequence[str], path: Path) -> str:
    if asked in columns:
        return asked
    kind = NoGroupError if role == "group" else DataError
    raise kind(f"no column is called {asked!r} (asked for as {role}){did_you_mean(asked, columns)}{_list_names(columns)}", file=path)


def _recognise(role: str, columns: Sequence[str], path: Path, roles: Roles) -> str | None:
    candidates = [column for column in columns if bare(column) in NAMES[role]]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        several = " and ".join(map(repr, candidates))
        raise DataError(f"{several} could each be the {role}; name one: {roles.way(role)}", file=path)
    if role in roles.required:
        raise DataError(f"no column looks like the {role}; name it: {roles.way(role)}{_list_names(columns)}", file=path)
    return None


def _list_names(columns: Sequence[str]) -> str:
    if not columns:
        return "; the file is plain text and has no columns"
    shown = ", ".join(repr(name if len(name) <= 30 else name[:29] + "…") for name in columns[:12])
    more = f" and {len(columns) - 12} more" if len(columns) > 12 else ""
    missing = "; is the header line missing?" if any(len(name) > 60 for name in columns) else ""
    return f"; the columns are {shown}{more}{missing}"


def bare(name: str) -> str:
    letters = unicodedata.normalize("NFKD", name.casefold())
    return "".join(c for c in letters if not unicodedata.combining(c) and c not in " _-.")
