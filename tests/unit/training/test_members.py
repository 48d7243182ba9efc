"""Members learn side by side as each would alone, and are kept, resumed and refused like any model."""

import json

import pytest
import torch
from torch.testing import assert_close
from toy import Words

from attentif.api import export_model, load
from attentif.errors import ConfigError
from attentif.training import run as runs
from attentif.training.load import load_run_config
from attentif.training.rundir import RunFolder
from attentif.training.signals import StoppedError
from attentif.training.weights import read_tensors

MEMBER = "others.0."


def config(folder, **changes):
    rows = [f"{tone} film {number},{label}" for number in range(40) for tone, label in (("bon", "pos"), ("triste", "neg"))]
    (folder / "avis.csv").write_text("\n".join(["text,label", *rows]))
    values = {
        "data": {"train": str(folder / "avis.csv")},
        "task": {"kind": "classify"},
        "tokenizer": {"kind": "word", "vocab": 60},
        "model": {"base": "encoder-tiny", "width": 16, "layers": 1, "dropout": 0.0, "members": 2},
        "train": {"steps": 8, "batch_tokens": 64, "log_every": 2, "eval_every": 4, "lr": 0.01, "clip": 0.05, "layer_decay": 0.5},
    }
    return load_run_config({part: values.get(part, {}) | changes.get(part, {}) for part in {**values, **changes}})


def test_a_member_learns_what_it_would_have_learned_alone(tmp_path, monkeypatch):
    """Without dropout, so that chance has no part in it; clipped at every step, and the layers at rates of their own."""
    began: dict[str, torch.Tensor] = {}  # the second member
    fresh_model = runs.fresh_model

    def alike(*given):
        model = fresh_model(*given)
        if began:
            model.load_state_dict(began)
        else:
            began.update({name: tensor.clone() for name, tensor in model.members[1].state_dict().items()})
        return model

    monkeypatch.setattr(runs, "fresh_model", alike)
    both = runs.train(config(tmp_path), out=tmp_path / "both", display=Words())
    alone = runs.train(config(tmp_path, model={"members": 1}), out=tmp_path / "alone", display=Words())
    found, wanted = read_tensors(both.weights), read_tensors(alone.weights)
    for name, tensor in wanted.items():
        assert not torch.equal(tensor, began[name])
        # the same operations in the same order, but for a division by two and its inverse, which round nothing
        assert_close(found[MEMBER + name], tensor, rtol=1e-6, atol=1e-7)


def test_a_stopped_run_of_members_goes_on_to_the_same_weights(tmp_path):
    wanted = config(tmp_path, model={"dropout": 0.1}, train={"ema": 0.9, "patience": 3})
    whole = runs.train(wanted, out=tmp_path / "whole", display=Words())
    with pytest.raises(StoppedError):
        runs.train(wanted, out=tmp_path / "parts", display=Words(stop_at=4))
    parts = runs.resume(tmp_path / "parts", display=Words())
    assert parts.weights.read_bytes() == whole.weights.read_bytes()


def test_a_run_of_members_is_used_and_says_so(tmp_path):
    folder = runs.train(config(tmp_path, task={"evidence": True, "vectors": True}), out=tmp_path / "run", display=Words())
    run = load(folder.path)
    assert len(run.model.members) == 2
    assert run.note.startswith("answers are the mean of 2 networks; ")
    assert "the mean of 2 networks" in folder.readme.read_text()
    assert "la moyenne de 2 réseaux" in folder.report.read_text()
    assert run.predict(["bon film"])[0].output == "pos"
    assert run.maps("bon film").maps
    one = sum(tensor.numel() for name, tensor in read_tensors(folder.weights).items() if not name.startswith(MEMBER))
    assert sum(json.loads(folder.results.read_text())["cost"]["parameters"].values()) == 2 * one


def test_members_begin_with_one_body_and_make_one(tmp_path):
    first = runs.train(config(tmp_path), out=tmp_path / "first", display=Words())
    words = Words()
    data = {"train": str(tmp_path / "avis.csv")}
    more = {"data": data, "model": {"from": str(first.path)}, "task": {"kind": "masked"}, "train": {"steps": 2}}
    runs.train(load_run_config(more), out=tmp_path / "masked", display=words)  # a task that averages nothing
    assert any("its head and others left out" in line for line in words.lines)
    again = {"model": {"from": str(tmp_path / "masked"), "members": 2}, "task": {"kind": "classify"}, "train": {"steps": 1, "lr": 1e-9}}
    folder = runs.train(load_run_config(more | again), out=tmp_path / "again", display=Words())
    tensors = read_tensors(folder.weights)
    name = "frontend.tokens.weight"
    assert_close(tensors[name], tensors[MEMBER + name], rtol=1e-5, atol=1e-6)
    assert not torch.equal(tensors["head.out.weight"], tensors[MEMBER + "head.out.weight"])


def test_what_cannot_be_averaged_is_refused_before_the_data_are_read(tmp_path):
    wanted = config(tmp_path, task={"kind": "masked"})
    (tmp_path / "avis.csv").unlink()
    with pytest.raises(ConfigError, match=r"model\.members: what masked answers here is not made of numbers"):
        runs.train(wanted, out=tmp_path / "run", display=Words())


def test_an_average_is_not_exported(tmp_path):
    folder = runs.train(config(tmp_path), out=tmp_path / "run", display=Words())
    with pytest.raises(ConfigError, match=r"model\.members: no family"):
        export_model(folder.path, tmp_path / "hf")
    assert not (tmp_path / "hf").exists()
    assert RunFolder.open(folder.path).finished
