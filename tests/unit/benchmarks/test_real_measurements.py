"""What `make real` trains."""

import ast
from pathlib import Path

import pytest
from benchmarks import real

from attentif.recipes import recipe_names

# of your own sounds (spoken_digits stands for it), of weights that nobody may download, of ratings that no set here has
BRINGS_NO_DATA = {"speech", "camembert-allocine", "regress"}


def first_words() -> set[str]:
    """Of every text in the measurements: a command begins with the name of its recipe."""
    texts = (
        node.value
        for file in Path(next(iter(real.__path__))).glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return {words[0] for text in texts if (words := text.split())}


@pytest.mark.parametrize("recipe", sorted(set(recipe_names()) - BRINGS_NO_DATA))
def test_every_recipe_is_trained_in_full(recipe: str) -> None:
    assert recipe in first_words(), f"no measurement of benchmarks/real trains the recipe {recipe!r}"
