"""From a comparison to runs: the data are read once, and every model is sized on them."""

from pathlib import Path

import pytest

from attentif.config import Layer
from attentif.lab.compare.cache_key import MeasurementFile
from attentif.lab.compare.plan import plan
from attentif.lab.compare.suite import load_suite


@pytest.mark.parametrize("recipe", ["reviews", "masked"])
def test_models_that_read_the_same_data_are_sized_with_the_task_that_read_them(recipe: str, tmp_path: Path) -> None:
    """Their loss needs what the data taught: the tokenizer, its special tokens."""
    models = [{"name": name, "base": "encoder-tiny", "layers": layers} for name, layers in (("shallow", 1), ("deep", 2))]
    values = {"recipe": recipe, "models": models, "seeds": 1, "change": {"data": {"limit": 40}, "train": {"steps": 2}}}
    (part,) = load_suite([Layer(values, "test")]).parts
    planned = plan(part, threads=1, kept=MeasurementFile(tmp_path / "sizes.json"), say=lambda _: None)
    shallow, deep = planned.models
    assert 0 < shallow.flops_per_token < deep.flops_per_token
