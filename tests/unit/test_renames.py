"""Old keys are still read, under their present names."""

import pytest

from attentif.config import Document, Layer
from attentif.renames import rename_keys
from attentif.tasks import ClassifyConfig
from attentif.training.weights import present_names


@pytest.mark.parametrize(
    ("old", "present"),
    [
        ({"model": {"members": 5}}, {"model": {}, "train": {"ensemble": 5}}),
        ({"model": {"frontend": {"evidence": 4}}}, {"model": {"frontend": {"features": 4}}}),
        ({"task": {"hidden": 0.1}}, {"task": {"word_dropout": 0.1}}),
        ({"task": {"evidence": True, "blend": True}}, {"task": {"linear": "stacked"}}),
        ({"task": {"evidence": False, "blend": True}}, {"task": {"linear": "averaged"}}),
        ({"task": {"evidence": False}}, {"task": {"linear": "none"}}),
        (
            {"model": {"decoder": {"blocks": [{"sublayers": {"ssm": {"mixer": {"kind": "s4", "state": 4}}}}]}}},
            {"model": {"decoder": {"blocks": [{"sublayers": {"ssm": {"mixer": {"kind": "s4d", "state": 4}}}}]}}},
        ),
    ],
)
def test_an_old_key_is_read_as_the_present_one(old: dict, present: dict) -> None:
    assert rename_keys(old) == present


def test_the_present_key_wins_and_nothing_else_changes() -> None:
    values = {"task": {"kind": "classify", "evidence": True, "linear": "none"}, "train": {"lr": 1e-3}}
    assert rename_keys(values) == {"task": {"kind": "classify", "linear": "none"}, "train": {"lr": 1e-3}}
    assert values["task"]["evidence"] is True


def test_an_old_word_of_the_command_line_changes_what_a_recipe_says() -> None:
    layers = [Layer({"task": {"kind": "classify", "linear": "stacked"}}, "recipe"), Layer({"task": {"evidence": False}}, "words")]
    assert ClassifyConfig.model_validate(Document(layers).values["task"]).linear == "none"


def test_tensors_of_old_runs_are_found_by_their_present_names() -> None:
    assert present_names(["frontend.evidence.weight", "head.out.weight"]) == {
        "frontend.features.weight": "frontend.evidence.weight",
        "head.out.weight": "head.out.weight",
    }
