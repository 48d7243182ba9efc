"""The parts of a report that tasks share."""

import pytest

from attentif.data.builtin import dna, entities, needle, numbers, questions, tones
from attentif.tasks.base import Evaluation
from attentif.tasks.embeddings.word_vectors import words_sections
from attentif.tasks.report import group_name
from attentif.tasks.seq2seq.report import written_sections
from attentif.view.blocks import TableBlock
from attentif.view.words import Text

SMALL = {
    "dna": lambda: dna.load(train=2, valid=2, test=300),
    "entities": lambda: entities.load(train=20, valid=20, test=20),
    "needle": lambda: needle.load(0, needle.NeedleOptions(train=2, valid=2, test=60)),
    "numbers": lambda: numbers.load(train=200, valid=20, test=20),
    "questions": lambda: questions.load(train=2, valid=2, test=60),
    "tones": lambda: tones.load(train=2, valid=2, test=40),
}


@pytest.mark.parametrize("name", SMALL)
def test_groups_of_a_built_in_set_have_a_french_name(name):
    groups = set(SMALL[name]()["test"]["group"])
    assert len(groups) > 1
    for group in groups:
        named = group_name(group)
        assert isinstance(named, Text)
        assert named.en == group
        assert named.fr != group


def test_groups_of_a_file_are_called_as_they_are():
    assert group_name("Amélie, Paris") == "Amélie, Paris"


def test_an_answer_without_a_word_is_shown_as_such():
    shown = {"source": "un", "written": "", "reference": "one"}
    details = {"by_length": [], "by_length_metric": "bleu", "wrong": [], "answers": [shown], "signatures": {"bleu": "x"}}
    evaluation = Evaluation({"bleu": 0.0}, examples=1, details=details)
    (section,) = written_sections(evaluation, Text("Traductions", "Translations"), ["source", "written", "reference"])
    table = section.body[0]
    assert isinstance(table, TableBlock)
    assert table.rows == [["un", "∅", "one"]]


def test_cosines_have_a_comma_in_french():
    near = {"words": 10_000_000, "neighbours": [["roi", [["reine", 0.5], ["trône", 0.25]]]], "map": {}}
    table = words_sections(Evaluation({}, details=near))[0].body[0]
    assert isinstance(table, TableBlock)
    assert table.rows == [["roi", Text("reine 0,50 ; trône 0,25", "reine 0.50, trône 0.25")]]
