"""The built-in sets of the text tasks: seeded, nothing shared between splits, and as said in their descriptions."""

import re
from collections import Counter
from random import Random

import pytest

from attentif.data.builtin import BUILTIN, dna, entities, instructions, numbers, questions, reports
from attentif.data.conll import decode_list, find_broken
from attentif.data.conll import find_entities as spans
from attentif.data.squad import parse_answers

SMALL = {"train": 400, "valid": 40, "test": 80}


@pytest.mark.parametrize("module", [entities, questions, reports, instructions, dna])
def test_the_same_seed_gives_the_same_rows_and_no_row_is_in_two_splits(module) -> None:
    one, again, other = module.load(0, **SMALL), module.load(0, **SMALL), module.load(1, **SMALL)
    assert one == again != other
    assert BUILTIN[module.SET.name].synthetic
    assert {split: len(next(iter(columns.values()))) for split, columns in one.items()} == SMALL
    roles = [role for role in module.SET.roles if role not in ("tags", "answers", "target", "summary", "label")]
    rows = {split: {*zip(*(columns[role] for role in roles), strict=True)} for split, columns in one.items()}
    assert not rows["train"] & rows["test"]
    assert not rows["valid"] & rows["test"]


@pytest.mark.parametrize("module", [entities, questions, reports, instructions])
def test_french_elides_before_a_vowel(module) -> None:
    unelided = re.compile(r"\b(?:de|le|la|que|je|ne|se|me) (?!huit|onze|hameau)[aeiouyhàâéèêîôœ]\w*", re.IGNORECASE)
    columns = module.load(0, train=2000, valid=40, test=80)["train"]
    for role in ("question", "context", "source", "text", "summary", "target", "tokens"):
        for text in columns.get(role, ()):
            assert not unelided.search(" ".join(decode_list(text)) if role == "tokens" else text), text


def test_entities_are_sound_and_half_of_the_test_has_names_that_training_never_has() -> None:
    splits = entities.load(0, **SMALL)
    for columns in splits.values():
        for tokens, tags in zip(columns["tokens"], columns["tags"], strict=True):
            assert len(decode_list(tokens)) == len(decode_list(tags))
            assert not [*find_broken(decode_list(tags), "IOB2")]
    kinds = Counter(tag.partition("-")[2] for text in splits["train"]["tags"] for tag in decode_list(text))
    assert {"PER", "LOC", "ORG", "DATE"} < set(kinds)
    assert Counter(splits["test"]["group"]) == {entities.KNOWN: 40, entities.NEW: 40}
    held = {name for _, kept in entities.SentenceWriter(0).made.values() for name in kept}
    known = {word for text in splits["train"]["tokens"] for word in decode_list(text)}
    made = {name for names, _ in entities.SentenceWriter(0).made.values() for name in names}
    for tokens, group in zip(splits["test"]["tokens"], splits["test"]["group"], strict=True):
        if group == entities.NEW:
            assert held & set(decode_list(tokens))
    assert not (held - made) & known


def test_the_same_word_is_of_several_types() -> None:
    splits = entities.load(0, **(SMALL | {"train": 2000}))
    types: dict[str, set[str]] = {}
    for tokens, tags in zip(splits["train"]["tokens"], splits["train"]["tags"], strict=True):
        for kind, first, last in spans(decode_list(tags)):
            types.setdefault(" ".join(decode_list(tokens)[first : last + 1]), set()).add(kind)
    assert {"PER", "LOC", "ORG"} <= types["Florence"] | types["Orange"]
    assert sum(len(kinds) > 1 for kinds in types.values()) > 50


def test_answers_stand_where_they_are_said_to() -> None:
    splits = questions.load(0, **SMALL)
    kinds = Counter(splits["test"]["group"])
    assert set(kinds) == {questions.SAME, questions.OTHER, questions.PRONOUN, questions.NONE}
    for columns in splits.values():
        for context, text in zip(columns["context"], columns["answers"], strict=True):
            for answer in parse_answers(text):
                assert context[answer.start : answer.end] == answer.text
    assert sum(text == "[]" for text in splits["train"]["answers"]) / 400 == pytest.approx(0.2, abs=0.05)
    assert not set(splits["train"]["context"]) & set(splits["test"]["context"])


def test_a_summary_says_what_holds_in_the_end() -> None:
    rng = Random(0)
    for _ in range(300):
        text, summary = reports.report(rng)
        if "On parlait d'abord" in text and "il y en a" in text:
            wrong = text.split("On parlait d'abord de ")[1].split(" blessés")[0]
            right = text.split("il y en a ")[1].split(".")[0]
            assert f": {right} blessé" in summary
            assert wrong != right
        if "L'origine est en fait" in text:
            cause = text.split("L'origine est en fait ")[1].split(".")[0]
            assert cause.split(" ", 1)[-1] in summary
        (event,) = re.findall(r", une? (.+?) s'est produit", text)
        assert summary.startswith(f"{event.capitalize()} à ")


def test_numbers_and_verbs_of_the_instructions_are_right() -> None:
    rows = instructions.load(0, **SMALL)["train"]
    by_source = {(p, s): t for p, s, t in zip(rows["prefix"], rows["source"], rows["target"], strict=True)}
    assert Counter(rows["prefix"]) == dict.fromkeys(("traduire", "juger", "résumer", "conjuguer"), 100)
    words = {numbers.french(n): numbers.english(n) for n in range(10_000)}
    assert all(words[source] == target for (prefix, source), target in by_source.items() if prefix == "traduire")
    form = instructions._form
    assert form("chanter", "nous", "futur", negated=False) == "nous chanterons"
    assert form("aimer", "je", "imparfait", negated=False) == "j'aimais"
    assert form("aimer", "je", "présent", negated=True) == "je n'aime pas"
    assert form("parler", "elles", "conditionnel", negated=True) == "elles ne parleraient pas"


def test_a_promoter_has_its_boxes_at_their_distance_on_one_of_the_strands() -> None:
    rng = Random(0)
    wrong = 0
    for _ in range(200):
        text, label, kind = dna.sequence(rng, promoter=True)
        assert label == "promoteur"
        strand = dna.reverse_complement(text) if "other strand" in kind else text
        found = [
            place for place in range(len(strand)) for gap in dna.GAPS
            if _near(strand[place : place + 6], dna.FIRST) and _near(strand[place + 6 + gap : place + 12 + gap], dna.SECOND)
        ]  # fmt: skip
        assert found
        _, label, _ = dna.sequence(rng, promoter=False)
        wrong += label == "leurre"
    assert wrong == 200
    assert dna.reverse_complement("TTGACA") == "TGTCAA"


def _near(letters: str, box: str) -> bool:
    return len(letters) == len(box) and sum(a != b for a, b in zip(letters, box, strict=True)) <= 1
