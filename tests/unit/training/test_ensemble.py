"""The networks of an ensemble learn side by side as each would alone; the whole is kept, resumed and refused like any model."""

import json
import tomllib

import pytest
import torch
from torch.testing import assert_close
from toy import Words

from attentif.api import export_model, load
from attentif.config import Layer, to_toml
from attentif.errors import ConfigError
from attentif.training import run as runs
from attentif.training.backbone import FirstNetwork
from attentif.training.load import load_run_config
from attentif.training.rundir import RunFolder
from attentif.training.signals import StoppedError
from attentif.training.weights import read_tensors, write_tensors

FIRST, SECOND = "members.0.", "members.1."


def config(folder, **changes):
    rows = [f"{tone} film {number},{label}" for number in range(40) for tone, label in (("bon", "pos"), ("triste", "neg"))]
    (folder / "avis.csv").write_text("\n".join(["text,label", *rows]))
    values = {
        "data": {"train": str(folder / "avis.csv")},
        "task": {"kind": "classify"},
        "tokenizer": {"kind": "word", "vocab": 60},
        "model": {"base": "encoder-tiny", "width": 16, "layers": 1, "dropout": 0.0},
        "train": {
            "steps": 8,
            "batch_tokens": 64,
            "log_every": 2,
            "eval_every": 4,
            "lr": 0.01,
            "clip": 0.05,
            "layer_decay": 0.5,
            "ensemble": 2,
        },
    }
    return load_run_config({part: values.get(part, {}) | changes.get(part, {}) for part in {**values, **changes}})


def test_a_network_learns_what_it_would_have_learned_alone(tmp_path, monkeypatch):
    """Without dropout, so that chance has no part in it; clipped at every step, and the layers at rates of their own."""
    began: dict[str, torch.Tensor] = {}  # the second network
    fresh_model = runs.fresh_model

    def alike(*given):
        model = fresh_model(*given)
        if began:
            model.load_state_dict(began)
        else:
            began.update({name: tensor.clone() for name, tensor in model.networks[1].state_dict().items()})
        return model

    monkeypatch.setattr(runs, "fresh_model", alike)
    both = runs.train(config(tmp_path), out=tmp_path / "both", display=Words())
    alone = runs.train(config(tmp_path, train={"ensemble": 1}), out=tmp_path / "alone", display=Words())
    found, wanted = read_tensors(both.weights), read_tensors(alone.weights)
    for name, tensor in wanted.items():
        assert not torch.equal(tensor, began[name])
        # the same operations in the same order, but for a division by two and its inverse, which round nothing
        assert_close(found[SECOND + name], tensor, rtol=1e-6, atol=1e-7)


def test_a_stopped_ensemble_goes_on_to_the_same_weights(tmp_path):
    wanted = config(tmp_path, model={"dropout": 0.1}, train={"ema": 0.9, "patience": 3})
    whole = runs.train(wanted, out=tmp_path / "whole", display=Words())
    with pytest.raises(StoppedError):
        runs.train(wanted, out=tmp_path / "parts", display=Words(stop_at=4))
    parts = runs.resume(tmp_path / "parts", display=Words())
    assert parts.weights.read_bytes() == whole.weights.read_bytes()
    assert not parts.checkpoints().paths()  # of a finished ensemble: they would be many times its weights


def test_an_ensemble_is_used_and_says_so(tmp_path):
    folder = runs.train(config(tmp_path, task={"linear": "stacked", "vectors": True}), out=tmp_path / "run", display=Words())
    run = load(folder.path)
    assert len(run.model.networks) == 2
    assert run.note.startswith("answers are the mean of 2 networks; ")
    assert "the mean of 2 networks" in folder.readme.read_text()
    assert "la moyenne de 2 réseaux" in folder.report.read_text()
    assert run.predict(["bon film"])[0].output == "pos"
    assert run.maps("bon film").maps
    one = sum(tensor.numel() for name, tensor in read_tensors(folder.weights).items() if name.startswith(FIRST))
    assert sum(json.loads(folder.results.read_text())["cost"]["parameters"].values()) == 2 * one


def test_an_ensemble_begins_with_one_base_model_and_lends_its_first_network(tmp_path):
    first = runs.train(config(tmp_path), out=tmp_path / "first", display=Words())
    words = Words()
    data = {"train": str(tmp_path / "avis.csv")}
    more = {"data": data, "model": {"from": str(first.path)}, "task": {"kind": "masked"}, "train": {"steps": 2}}
    runs.train(load_run_config(more), out=tmp_path / "masked", display=words)  # a task that averages nothing
    assert any("its head left out" in line for line in words.lines)
    settings = {"steps": 1, "lr": 1e-9, "ensemble": 2}
    again = {"model": {"from": str(tmp_path / "masked")}, "task": {"kind": "classify"}, "train": settings}
    folder = runs.train(load_run_config(more | again), out=tmp_path / "again", display=Words())
    tensors = read_tensors(folder.weights)
    name = "frontend.tokens.weight"
    assert_close(tensors[FIRST + name], tensors[SECOND + name], rtol=1e-5, atol=1e-6)
    assert not torch.equal(tensors[FIRST + "head.out.weight"], tensors[SECOND + "head.out.weight"])


def test_what_cannot_be_averaged_is_refused_before_the_data_are_read(tmp_path):
    wanted = config(tmp_path, task={"kind": "masked"})
    (tmp_path / "avis.csv").unlink()
    with pytest.raises(ConfigError, match=r"train\.ensemble: .*masked"):
        runs.train(wanted, out=tmp_path / "run", display=Words())


def test_an_average_is_not_exported(tmp_path):
    folder = runs.train(config(tmp_path), out=tmp_path / "run", display=Words())
    with pytest.raises(ConfigError, match=r"train\.ensemble"):
        export_model(folder.path, tmp_path / "hf")
    assert not (tmp_path / "hf").exists()
    assert RunFolder.open(folder.path).finished


def test_the_old_key_of_an_ensemble_is_still_read(tmp_path):
    wanted = config(tmp_path)
    values = tomllib.loads(to_toml(wanted))
    values["model"]["members"] = values["train"].pop("ensemble")
    assert load_run_config(values) == wanted
    assert load_run_config(values, [Layer({"train": {"ensemble": 3}}, "words")]).train.ensemble == 3


def test_an_old_run_folder_of_several_networks_opens_and_goes_on(tmp_path):
    """Its first network stood at the root of the file, the rest under `others`, and their number in [model]."""
    folder = runs.train(config(tmp_path), out=tmp_path / "run", display=Words())
    wanted = [answer.scores for answer in load(folder.path).predict(["bon film", "triste film"])]
    old = {name.removeprefix(FIRST).replace(SECOND, "others.0."): tensor for name, tensor in read_tensors(folder.weights).items()}
    write_tensors(folder.weights, old)
    text = folder.config.read_text().replace("ensemble = 2\n", "").replace("[model]\n", "[model]\nmembers = 2\n")
    folder.config.write_text(text)
    (folder.path / "manifest.json").unlink()  # as before there was one
    folder.config.write_text(folder.config.read_text().replace("format = 3\n", ""))
    assert [answer.scores for answer in load(folder.path).predict(["bon film", "triste film"])] == wanted
    assert {*FirstNetwork(old)} == {name.removeprefix(FIRST) for name in read_tensors(folder.weights) if name.startswith(FIRST)}
