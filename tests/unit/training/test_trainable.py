"""Adapters, freezing and layer-wise rates in whole runs: what learns, what is kept, what is refused."""

import json
import shutil

import pytest
import torch
from safetensors.torch import save_file
from toy import Words

from attentif.api import load
from attentif.errors import ConfigError, RunError, UsageError
from attentif.training.estimate import estimate
from attentif.training.load import load_run_config
from attentif.training.manifest import accept_files
from attentif.training.progress import Silent
from attentif.training.rewrite import merge_run
from attentif.training.run import resume, train
from attentif.training.signals import StoppedError
from attentif.training.weights import read_tensors

TRAIN = {"steps": 6, "batch_tokens": 128, "eval_every": 3, "checkpoint_every": 2, "lr": 0.02, "threads": 1, "baselines": False}
MODEL = {"base": "encoder-tiny", "width": 16, "layers": 2, "encoder": {"block": {"attn": {"mixer": {"heads": 2}}}}}
TEXTS = ["Le film est bon", "Un long récit triste"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, threads = tmp_path_factory.mktemp("files"), torch.get_num_threads()
    things = ["film", "récit", "acteur", "décor", "scénario", "dialogue"]
    tones = [("bon", "pos"), ("triste", "neg"), ("beau", "pos"), ("laid", "neg")]
    rows = [f"{tone} {thing} {number},{label}" for number in range(4) for thing in things for tone, label in tones]
    (folder / "avis.csv").write_text("\n".join(["text,label", *rows]))
    tables = {"task": {"kind": "masked"}, "tokenizer": {"kind": "word", "vocab": 60, "min_count": 1}, "model": MODEL}
    train(load_run_config(tables | {"data": {"train": str(folder / "avis.csv")}, "train": TRAIN}), out=folder / "base", display=Silent())
    yield folder
    torch.set_num_threads(threads)


def configured(files, *, base="base", adapt=None, **settings):
    tables = {"data": {"train": str(files / "avis.csv")}, "task": {"kind": "classify"}, "model": {"from": str(files / base)}}
    more = {} if adapt is None else {"adapt": adapt}
    return load_run_config(tables | more | {"train": TRAIN | settings})


@pytest.fixture(scope="module")
def adapted(files):
    """A finished run of adapters."""
    words = Words()
    folder = train(configured(files, adapt={"rank": 2, "targets": ["query", "v"], "dropout": 0.1}), out=files / "lora", display=words)
    assert any("parameters are trainable" in line for line in words.lines)
    return folder


def test_a_run_of_adapters_keeps_them_alone(adapted, files):
    kept = read_tensors(adapted.adapter)
    assert not adapted.weights.exists()
    assert {name.split(".")[0] for name in kept} == {"encoder", "head"}
    assert {name.split(".")[-1] for name in kept if name.startswith("encoder.")} == {"lora_a", "lora_b"}
    for checkpoint in adapted.checkpoints().paths():
        assert read_tensors(checkpoint / "model.safetensors").keys() == kept.keys()
    config = load_run_config(adapted.path)
    assert (config.adapt.rank, config.model.from_) == (2, str(files / "base"))
    cost = json.loads(adapted.results.read_text())["cost"]
    assert cost["learning"] == sum(tensor.numel() for tensor in kept.values()) < sum(cost["parameters"].values())
    assert "of which" in adapted.report.read_text()
    assert "adapter.safetensors" in adapted.readme.read_text()


def test_the_base_is_untouched_and_the_loaded_model_is_base_plus_adapters(adapted, files):
    base, kept, model = read_tensors(files / "base" / "model.safetensors"), read_tensors(adapted.adapter), load(adapted.path).model
    tensors = model.state_dict()
    for name in base.keys() - {name for name in base if name.startswith("head.")}:
        place = name.removesuffix("weight")
        added = 8.0 * kept[f"{place}lora_b"] @ kept[f"{place}lora_a"] if f"{place}lora_a" in kept else 0
        torch.testing.assert_close(tensors[name], base[name] + added)
    assert not any("lora" in name for name in tensors)


@pytest.mark.parametrize(
    "settings", [{"ema": 0.9, "patience": 3, "gradient_checkpointing": True}, {"optimizer": "muon", "layer_decay": 0.8}]
)
def test_a_run_of_adapters_that_was_stopped_ends_with_the_same_bits(files, tmp_path, settings):
    config = configured(files, adapt={"rank": 2, "targets": ["*"], "dropout": 0.1}, **settings)
    whole = train(config, out=tmp_path / "whole", display=Silent())
    with pytest.raises(StoppedError):
        train(config, out=tmp_path / "parts", display=Words(stop_at=3))
    assert load(tmp_path / "parts").predict(TEXTS)  # while it goes on, its newest checkpoint
    parts = resume(tmp_path / "parts", display=Silent())
    assert parts.adapter.read_bytes() == whole.adapter.read_bytes()


def test_merged_it_is_a_plain_run_that_needs_no_base(adapted, files, tmp_path):
    shutil.copytree(adapted.path, tmp_path / "lora")
    merged = merge_run(tmp_path / "lora", tmp_path / "merged")
    ours, theirs = load(adapted.path), load(merged.path)
    assert all(torch.equal(tensor, ours.model.state_dict()[name]) for name, tensor in theirs.model.state_dict().items())
    assert theirs.predict(TEXTS) == ours.predict(TEXTS)
    assert (theirs.results["scores"], theirs.config.adapt) == (ours.results["scores"], None)
    assert not merged.adapter.exists()
    train(configured(files, base=str(merged.path)), out=tmp_path / "on", display=Silent())  # and can be begun with
    for run, out, words in [
        (merged.path, tmp_path / "again", "has no adapters: it is a plain run already"),
        (tmp_path / "lora", tmp_path / "lora", "is the run itself"),
        (tmp_path / "lora", merged.path, "exists"),
    ]:
        with pytest.raises(UsageError, match=words):
            merge_run(run, out)


def test_a_base_that_changed_or_went_is_refused(adapted, files, tmp_path):
    base = tmp_path / "base"
    shutil.copytree(files / "base", base)
    run = tmp_path / "lora"
    shutil.copytree(adapted.path, run)
    (run / "config.toml").write_text((run / "config.toml").read_text().replace(str(files / "base"), str(base)))
    accept_files(run)
    assert load(run).predict(TEXTS) == load(adapted.path).predict(TEXTS)  # it may move
    tensors = read_tensors(base / "model.safetensors")
    tensors["encoder.norm.weight"] += 1e-6
    save_file(tensors, base / "model.safetensors")
    accept_files(base)
    with pytest.raises(RunError, match=r"started.*adapters"):
        load(run)
    shutil.rmtree(base)
    with pytest.raises(RunError, match=r"model.from"):
        load(run)


def test_adapters_are_no_body_to_begin_with(adapted, files):
    with pytest.raises(ConfigError, match=r"adapters.*merge"):
        configured(files, base="lora")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"model": MODEL, "tokenizer": {"kind": "word", "vocab": 60}},
            "adapt: .*model.from",
        ),
        ({"train": TRAIN | {"freeze": ["frontend"]}}, "train.freeze: "),
        ({"pretrain": {"task": {"kind": "masked"}, "steps": 2}}, "adapt: .*model.from"),
        ({"adapt": {"rank": 0}}, "adapt.rank: must be greater than 0"),
        ({"adapt": {"targets": []}}, "adapt.targets"),
        ({"adapt": {"rnk": 2}}, "adapt.rnk: unknown key; did you mean 'rank'"),
    ],
)
def test_contradictions_are_refused_in_one_line(files, changes, words):
    tables = {"data": {"train": str(files / "avis.csv")}, "task": {"kind": "classify"}, "model": {"from": str(files / "base")}}
    with pytest.raises(ConfigError, match=words) as refused:
        load_run_config(tables | {"adapt": {"rank": 2}, "train": TRAIN} | changes)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"adapt": {"targets": ["qq"]}}, "adapt.targets: nothing here is called 'qq'"),
        ({"adapt": {"also": ["haed"]}}, "adapt.also: nothing here is called 'haed'; there are .*; did you mean 'head'"),
        ({"freeze": ["encoder.0-2"]}, "train.freeze: nothing here is called 'encoder.2'"),
        ({"freeze": ["*"]}, "train.freeze: nothing is left to train"),
    ],
)
def test_names_that_are_none_are_refused_before_data_are_read(files, tmp_path, more, words):
    config = configured(files, **more)
    config = config.replace(data=config.data.replace(train=str(tmp_path / "nowhere.csv")))
    for start in (lambda: train(config, out=tmp_path / "run", display=Silent()), lambda: estimate(config, lambda _: None)):
        with pytest.raises(ConfigError, match=words):
            start()
    assert not (tmp_path / "run").exists()


def test_a_single_name_needs_no_list(files):
    assert configured(files, freeze="frontend").train.freeze == ("frontend",)
    assert configured(files, adapt={"targets": "q"}).adapt.targets == ("q",)


def test_a_fresh_head_must_learn(files, tmp_path):
    with pytest.raises(ConfigError, match='"head"'):
        train(configured(files, adapt={"also": []}), out=tmp_path / "run", display=Silent())


def test_frozen_parts_stay_as_they_were(files, tmp_path):
    config = configured(files, freeze=["frontend", "encoder.0"], weight_decay=0.5)
    with pytest.raises(StoppedError):
        train(config, out=tmp_path / "run", display=Words(stop_at=3))
    folder = resume(tmp_path / "run", display=Silent())
    base, ours = read_tensors(files / "base" / "model.safetensors"), read_tensors(folder.weights)
    for name in ours:
        frozen = name.startswith(("frontend.", "encoder.blocks.0."))
        assert name.startswith("head.") or torch.equal(ours[name], base[name]) == frozen, name
    state = read_tensors(next(folder.checkpoints().sound()) / "optimizer.safetensors")
    assert len({key.split(".")[1] for key in state}) == sum(not name.startswith(("frontend.", "encoder.blocks.0.")) for name in ours)


def test_a_dry_run_counts_what_learns(files):
    whole, frozen, small = (
        estimate(config, lambda _: None)
        for config in (configured(files), configured(files, freeze=["frontend", "encoder.0"]), configured(files, adapt={"rank": 2}))
    )
    assert whole.learning == sum(whole.parameters.values()) > frozen.learning > small.learning
    for found in (whole, frozen, small):
        assert found.memory["gradients"] == 4 * found.learning
        assert 8 * found.learning <= found.memory["optimizer"] < 8 * found.learning + 1000
