"""Fine-tuning as a user types it: the course's recipe, adapters, merging; and pruning a mixture of experts."""

import json
from pathlib import Path

import pytest

from attentif.cli.main import run as attentif

pytestmark = pytest.mark.system

SHORT = ["train.epochs=0", "train.steps=4", "train.eval_every=4", "train.threads=1"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    things = ["film", "récit", "décor", "dialogue", "rôle"]
    tones = (("bon", "pos"), ("long", "neg"))
    rows = [f"Le {a} est {tone} et le {b} aussi.,{label}" for a in things for b in things for tone, label in tones]
    Path("avis.csv").write_text("\n".join(["text,label", *rows]))


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = attentif(list(words))
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_the_courses_recipe_adapters_and_their_merging(capsys: pytest.CaptureFixture[str]) -> None:
    recipe = ["train", "camembert-allocine", "--data", "avis.csv"]
    code, _, err = answer(capsys, *recipe)
    assert code == 2
    assert err.startswith("error: recipe camembert-allocine: model: there is none; name what to begin with, a checkpoint's folder or a run")

    assert (
        answer(capsys, "train", "masked", "--data", "avis.csv", *SHORT, "model.layers=2", "train.baselines=false", "--out", "body")[0] == 0
    )
    recipe += ["model.from=body", "train.baselines=false", *SHORT]
    code, out, err = answer(capsys, *recipe, "train.layer_decay=0.9", 'train.freeze=["frontend"]', "--out", "full", "--json")
    assert code == 0, err
    assert json.loads(out)["cost"]["learning"] < sum(json.loads(out)["cost"]["parameters"].values())

    code, out, _ = answer(capsys, *recipe, "adapt.rank=2", "--dry-run")
    assert code == 0
    assert "learning" in out
    code, _, err = answer(capsys, *recipe, "adapt.rank=2", "--out", "lora")
    assert code == 0, err
    assert "parameters are trainable" in err
    assert sorted(path.name for path in Path("lora").glob("*.safetensors")) == ["adapter.safetensors"]

    code, out, _ = answer(capsys, "merge", "lora", "merged")
    assert (code, out.strip()) == (0, "merged")
    answers = [answer(capsys, "predict", run, "Le film est bon.", "--json")[1] for run in ("lora", "merged")]
    assert answers[0] == answers[1]
    code, _, err = answer(capsys, "merge", "full", "other")
    assert (code, err) == (2, "error: full: has no adapters: it is a plain run already\n")


def test_a_mixture_of_experts_is_pruned_to_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    mixer = "model.encoder.block.ffn.mixer={kind='experts', experts=4, top_k=1, hidden=16}"
    small = [
        "task.linear=none",
        "model.base=encoder-tiny",
        "model.layers=1",
        "model.width=32",
        "train.min_steps=0",
        mixer,
        "train.baselines=false",
        *SHORT,
    ]
    code, _, err = answer(capsys, "train", "reviews", "--data", "avis.csv", *small, "--out", "mixture")
    assert code == 0, err
    code, out, _ = answer(capsys, "prune", "mixture", "smaller", "--experts", "2")
    assert code == 0
    assert "encoder.blocks.0.ffn" in out
    assert out.rstrip().endswith("run     smaller")
    assert answer(capsys, "evaluate", "smaller", "--json")[0] == 0
    code, out, _ = answer(capsys, "prune", "smaller", "smallest", "--json")
    assert code == 0
    assert json.loads(out)["removed"]["encoder.blocks.0.ffn"].keys() <= {"0", "1"}
    code, _, err = answer(capsys, "prune", "smallest", "none")
    assert (code, err.count("\n")) == (2, 1)
    assert "has 1 expert, of which a token uses 1: 0 cannot stay" in err
