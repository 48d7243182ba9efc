"""Pruning a mixture of experts: the least used go, their price is said, and what is left is a run."""

import json
import shutil

import pytest
import torch

from attentif.api import load
from attentif.errors import RunError, UsageError
from attentif.models.experts import mixtures
from attentif.training.load import load_run_config
from attentif.training.manifest import accept_files
from attentif.training.progress import Silent
from attentif.training.rewrite import prune_run
from attentif.training.run import train
from attentif.training.weights import write_weights

TRAIN = {"steps": 8, "batch_tokens": 128, "eval_every": 8, "lr": 0.02, "threads": 1}
EXPERTS = {"kind": "experts", "experts": 6, "top_k": 2, "hidden": 8, "router_bias": True}


def experts_of(model):
    return [mixer.config.experts for _, mixer in mixtures(model).values()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, threads = tmp_path_factory.mktemp("runs"), torch.get_num_threads()
    rows = [f"{tone} {thing} {number},{label}" for number in range(5) for thing in ("film", "décor", "rôle") for tone, label in
            (("bon", "pos"), ("laid", "neg"), ("beau", "pos"))]  # fmt: skip
    (folder / "avis.csv").write_text("\n".join(["text,label", *rows]))
    shared = {"data": {"train": str(folder / "avis.csv")}, "task": {"kind": "classify"}}
    shared |= {"tokenizer": {"kind": "word", "vocab": 60, "min_count": 1}}
    model = {"base": "encoder-tiny", "width": 16, "layers": 2}
    block = {"attn": {"mixer": {"heads": 2}}}
    for name, ffn in (
        ("plain", {}),
        ("mixture", {"ffn": {"mixer": EXPERTS}}),
        ("grouped", {"ffn": {"mixer": EXPERTS | {"groups": 2, "top_groups": 1}}}),
    ):
        settings = {"train": TRAIN | {"baselines": name == "mixture"}, "model": model | {"encoder": {"block": block | ffn}}}
        train(load_run_config(shared | settings), out=folder / name, display=Silent())
    loaded = load(folder / "mixture")  # one expert of each mixture that nobody wants
    for number, (_, mixer) in enumerate(mixtures(loaded.model).values()):
        mixer.router.bias.data[2 + number] = -100.0
    write_weights(folder / "mixture" / "model.safetensors", loaded.model)
    accept_files(folder / "mixture")
    yield folder
    torch.set_num_threads(threads)


def test_experts_that_nobody_uses_go_at_no_cost(folder, tmp_path):
    found = prune_run(folder / "mixture", tmp_path / "smaller", display=Silent())
    assert {path: list(gone.values()) for path, gone in found.removed.items()} == {f"encoder.blocks.{n}.ffn": [0.0] for n in (0, 1)}
    before, after = load(folder / "mixture"), load(tmp_path / "smaller")
    assert experts_of(before.model) == [6, 6]
    assert experts_of(after.model) == [5, 5]
    assert after.evaluate(split="valid").scores == pytest.approx(before.evaluate(split="valid").scores, abs=1e-6)
    assert found.before["valid"] == found.after["valid"] == after.results["valid"]["accuracy"]
    assert found.parameters == tuple(sum(run.model.sizes().values()) for run in (before, after))
    assert found.parameters[1] < found.parameters[0]


def test_what_is_left_is_a_finished_run_with_scores_of_its_own(folder, tmp_path):
    found = prune_run(folder / "mixture", tmp_path / "smaller", experts=2, display=Silent())
    run, results = load(tmp_path / "smaller"), json.loads((tmp_path / "smaller" / "results.json").read_text())
    assert experts_of(run.model) == [2, 2]
    assert results["scores"] == run.evaluate().scores
    assert found.after["test"] == results["scores"]["accuracy"]
    assert {path: len(gone) for path, gone in results["pruned"]["removed"].items()} == {f"encoder.blocks.{n}.ffn": 4 for n in (0, 1)}
    assert [len(results["baselines"]), results["steps"], results["cost"]["seconds"] > 0] == [3, 8, True]
    assert "expert" in (tmp_path / "smaller" / "README.md").read_text()
    assert (tmp_path / "smaller" / "report.html").stat().st_size > 1e5
    assert load_run_config(tmp_path / "smaller").made.data == load_run_config(folder / "mixture").made.data


def test_groups_lose_as_many_each(folder, tmp_path):
    found = prune_run(folder / "grouped", tmp_path / "smaller", display=Silent())
    assert all([expert // 3 for expert in gone] == [0, 1] for gone in found.removed.values())
    with pytest.raises(UsageError, match=r"encoder\.blocks\.0\.ffn.*6.*2.*2: 5"):
        prune_run(folder / "grouped", tmp_path / "other", experts=5, display=Silent())


@pytest.mark.parametrize(
    ("run", "experts", "words"),
    [
        ("plain", None, "has no mixture of experts: there is nothing to prune"),
        ("mixture", 1, "of which a token uses 2: 1 cannot stay"),
        ("mixture", 6, "has 6 experts, of which a token uses 2: 6 cannot stay"),
    ],
)
def test_what_cannot_be_pruned_is_refused(folder, tmp_path, run, experts, words):
    with pytest.raises(UsageError, match=words):
        prune_run(folder / run, tmp_path / "out", experts=experts, display=Silent())
    assert not (tmp_path / "out").exists()


def test_an_unfinished_run_and_other_data_are_refused(folder, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(folder / "mixture", run)
    (tmp_path / "avis.csv").write_text((folder / "avis.csv").read_text().replace("bon", "gai"))
    (run / "config.toml").write_text((run / "config.toml").read_text().replace(str(folder / "avis.csv"), str(tmp_path / "avis.csv")))
    accept_files(run)
    with pytest.raises(RunError, match=r"changed.*trained"):
        prune_run(run, tmp_path / "out", display=Silent())
    (run / "results.json").unlink()
    with pytest.raises(RunError, match="--resume"):
        prune_run(run, tmp_path / "out", display=Silent())
    assert not (tmp_path / "out").exists()
