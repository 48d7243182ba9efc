"""The way of a training in CONTRIBUTING.md is the way that the code goes."""

import ast
import re
from pathlib import Path

import pytest

import attentif

SOURCE = Path(attentif.__file__).parent
TEXT = (SOURCE.parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
STEPS = re.findall(r"^    ([a-z_/]+\.py) +([A-Za-z_.]+)  ", TEXT.partition("## The way of a training")[2].partition("## ")[0], re.MULTILINE)
PLACES = [name for name in re.findall(r"`(src/attentif/[\w/.]+)`", TEXT) if "*" not in name]


def test_the_way_has_ten_steps() -> None:
    assert len(STEPS) == 10


@pytest.mark.parametrize(("file", "name"), STEPS)
def test_each_step_is_a_function_of_its_file(file: str, name: str) -> None:
    owner, _, function = name.rpartition(".")
    body = ast.parse((SOURCE / file).read_text(encoding="utf-8")).body
    classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
    names = lambda nodes: {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    if not owner:
        assert function in names(body)
        return
    bases = [base.value.id for base in classes[owner].bases if isinstance(base, ast.Subscript) and isinstance(base.value, ast.Name)]
    assert any(function in names(classes[one].body) for one in [owner, *bases] if one in classes)


@pytest.mark.parametrize("place", PLACES)
def test_each_place_exists(place: str) -> None:
    assert (SOURCE.parent.parent / place).exists()
