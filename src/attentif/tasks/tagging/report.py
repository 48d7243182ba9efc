"""Tagging's part of the report: what became of the entities, sentences with their entities and the model's."""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import NotRequired, TypedDict

from attentif.data.conll import OUTSIDE, find_entities
from attentif.tasks.answers import Evaluation
from attentif.tasks.details import Sliced, details_of
from attentif.tasks.report import RIGHT_OR_WRONG, WHERE, slices
from attentif.view.blocks import Block, Cell, FigureBlock, Paragraph, Section, TableBlock, TokensBlock
from attentif.view.words import IN_WORDS, Text, Words, count, metric, percent

Span = tuple[str, int, int]  # type, first, last
ENTITY_SCORES = ("entity_precision", "entity_recall", "entity_f1")


def in_brackets(text: str, places: Sequence[Span]) -> str:
    """ "[PER Marie Curie] est née à [LOC Varsovie]": `places` are characters, the end not included."""
    pieces, done = [], 0
    for kind, start, end in places:
        pieces += [text[done:start], f"[{kind} {text[start:end]}]"]
        done = end
    return "".join([*pieces, text[done:]])


def outcomes(true: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> dict[str, dict[str, int]]:
    """By type: entities found exactly (right), with other borders, as another type, missed; and those invented, where there is none."""
    types: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(("right", "border", "type", "missed", "invented", "found"), 0))
    for own, answer in zip(true, found, strict=True):
        known, given = find_entities(own), find_entities(answer)
        for entity in known:
            types[entity[0]][_fate(entity, given)] += 1
        for entity in given:
            types[entity[0]]["found"] += 1
            if not any(_touch(entity, other) for other in known):
                types[entity[0]]["invented"] += 1
    return {kind: types[kind] for kind in sorted(types)}


def _fate(entity: Span, given: Sequence[Span]) -> str:
    if entity in given:
        return "right"
    touching = [other for other in given if _touch(entity, other)]
    if any(other[0] == entity[0] for other in touching):
        return "border"
    return "type" if touching else "missed"


def _touch(one: Span, other: Span) -> bool:
    return one[1] <= other[2] and other[1] <= one[2]


class TaggedExample(TypedDict):
    words: list[str]
    true: list[str]
    found: list[str]
    place: str


class EntityDetails(TypedDict):
    types: dict[str, dict[str, int]]  # what becomes of the entities of each type
    broken: int  # tags of the model that break the scheme
    crf: bool


class TagDetails(Sliced):
    by_length_metric: str
    scheme: str
    labels: list[str]
    wrong: list[TaggedExample]
    right: list[TaggedExample]
    wrong_count: int
    entities: NotRequired[EntityDetails]


def tag_sections(evaluation: Evaluation) -> list[Section]:
    if (details := details_of(evaluation, TagDetails)) is None:
        return []
    sections = []
    if (found := details.get("entities")) and found["types"]:
        sections.append(Section(Text("Ce que deviennent les entités", "What becomes of the entities"), _types(found, details["scheme"])))
    if blocks := slices(details, details["by_length_metric"], unit=IN_WORDS):
        sections.append(Section(WHERE, blocks))
    if details["wrong"]:
        sections.append(Section(Text("Erreurs", "Errors"), _sentences(details["wrong"], both=True)))
    if details["right"]:
        sections.append(Section(Text("Phrases bien étiquetées", "Sentences tagged correctly"), _sentences(details["right"], both=False)))
    return sections


def _types(details: EntityDetails, scheme: str) -> list[Block]:
    from attentif.view.figures.tags import entity_fates

    rows: list[list[Cell]] = []
    for kind, own in details["types"].items():
        there = own["right"] + own["border"] + own["type"] + own["missed"]
        p, r = own["right"] / max(own["found"], 1), own["right"] / max(there, 1)
        rows.append([kind, percent(p), percent(r), percent(2 * own["right"] / max(own["found"] + there, 1)), count(there)])
    heads: list[Words] = [Text("type", "type"), *(metric(key).name for key in ENTITY_SCORES), Text("entités", "entities")]
    about = Text(
        "Une entité est juste si son type, son premier et son dernier mot le sont. À gauche, celles que le modèle a inventées.",
        "An entity is right where its type, its first and its last word are. To the left, those that the model made up.",
    )
    drawn = FigureBlock(Text("Par type d'entité", "By type of entity"), partial(entity_fates, details["types"]), about)
    if details["crf"]:
        how = Text("les étiquettes d'une phrase sont choisies ensemble (CRF)", "the tags of a sentence are chosen together (CRF)")
    else:
        how = Text("chaque étiquette est choisie seule", "each tag is chosen by itself")
    broken = Text(
        "Étiquettes du modèle qui ne respectent pas le schéma {scheme} : {broken} ; {how}.",
        "Tags of the model that break the scheme {scheme}: {broken}; {how}.",
    ).with_(scheme=scheme, broken=count(details["broken"]), how=how)
    return [drawn, TableBlock(heads, rows), Paragraph(broken, "note")]


def _sentences(entries: Sequence[TaggedExample], *, both: bool) -> list[Block]:
    heads: list[Words] = [Text("réponse du modèle", "the model's answer")]
    if not both:
        return [TableBlock(heads, [[_show_tags(entry["words"], entry["found"], entry["true"])] for entry in entries])]
    about = Text("Le type d'une entité suit son dernier mot.", "The type of an entity follows its last word.")
    heads = [*heads, Text("référence", "reference"), Text("où", "where")]
    rows: list[list[Cell]] = [
        [_show_tags(e["words"], e["found"], e["true"]), _show_tags(e["words"], e["true"], e["found"]), e["place"]] for e in entries
    ]
    return [Paragraph(about), RIGHT_OR_WRONG, TableBlock(heads, rows)]


def _show_tags(words: list[str], tags: list[str], other: list[str]) -> Cell:
    """A sentence whose entities are shaded, by whether `other` has them too; of tags that are no entities, those that differ."""
    spans, rest = find_entities(tags), set(find_entities(other))
    if not spans and not rest and any("-" not in tag and tag != OUTSIDE for tag in tags):
        shown = [f"{word}⟨{tag}⟩ " if tag != own else f"{word} " for word, tag, own in zip(words, tags, other, strict=True)]
        return TokensBlock(shown, [0.0 if tag == own else -1.0 for tag, own in zip(tags, other, strict=True)], whole=1.0)
    texts, values = [f"{word} " for word in words], [0.0] * len(words)
    for span in spans:
        kind, first, last = span
        texts[last] = f"{words[last]}⟨{kind}⟩ "
        values[first : last + 1] = [0.5 if span in rest else -1.0] * (last + 1 - first)
    return TokensBlock(texts, values, whole=1.0)
