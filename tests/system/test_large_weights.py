"""A run whose weights are too large for one file is used as any other."""

import json
from pathlib import Path

import pytest
from safetensors import safe_open
from terminal import typed

from attentif.api import load, train
from attentif.errors import RunError
from attentif.training import weights
from attentif.training.progress import Silent

pytestmark = pytest.mark.system
TEXTS = ["film bon 3", "film mauvais 4"]
SETTINGS = {"epochs": 0, "min_steps": 0, "steps": 3, "baselines": False, "threads": 1}


def train_run(path: Path):
    rows = [{"text": f"film {'bon' if n % 2 else 'mauvais'} {n % 7}", "label": "+" if n % 2 else "-"} for n in range(60)]
    return train("reviews", data=rows, out=path, train=SETTINGS, model={"base": "esm-tiny", "layers": 1, "width": 32}, watch=Silent())


def test_weights_in_several_files_have_an_index_and_answer_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [one.scores for one in train_run(tmp_path / "one").predict(TEXTS)]
    monkeypatch.setitem(weights.write_weights.__kwdefaults__, "largest", 30_000)
    path = train_run(tmp_path / "several").path
    assert not (path / "model.safetensors").exists()
    where = json.loads((path / "model.safetensors.index.json").read_text())["weight_map"]
    assert len({*where.values()}) > 1
    for name, file in where.items():
        with safe_open(path / file, "pt") as opened:
            assert name in opened.keys()  # noqa: SIM118  it is no dictionary
    assert [one.scores for one in load(path).predict(TEXTS)] == expected
    assert typed("verify", str(path)).code == 0
    assert typed("list", "runs", "--folder", str(tmp_path)).code == 0
    assert typed("export", str(path), "--to", "hf", str(tmp_path / "hf")).code == 0
    assert typed("predict", str(tmp_path / "hf"), *TEXTS).code == 0
    assert typed("quantize", str(path), str(tmp_path / "small")).code == 0
    assert typed("train", "--resume", str(path), "train.steps=5").code == 0
    (path / sorted({*where.values()})[0]).unlink()
    with pytest.raises(RunError, match="missing"):
        load(path)
