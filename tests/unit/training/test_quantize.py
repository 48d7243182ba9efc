"""A run in int8: the same answers from a smaller file, its price said, and whatever cannot be rounded refused in one line."""

import json

import pytest
import torch

from attentif.api import load
from attentif.errors import RunError, UsageError
from attentif.models.int8 import int8_tensors, is_int8
from attentif.training.load import load_run_config
from attentif.training.progress import Silent
from attentif.training.quantize import quantize_run
from attentif.training.run import train

TRAIN = {"steps": 8, "batch_tokens": 128, "eval_every": 8, "lr": 0.02, "threads": 1, "baselines": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, threads = tmp_path_factory.mktemp("runs"), torch.get_num_threads()
    rows = [f"{tone} {thing} {number},{label}" for number in range(5) for thing in ("film", "décor", "rôle") for tone, label in
            (("bon", "pos"), ("laid", "neg"), ("beau", "pos"))]  # fmt: skip
    (folder / "avis.csv").write_text("\n".join(["text,label", *rows]))
    shared = {"data": {"train": str(folder / "avis.csv")}, "task": {"kind": "classify"}, "train": TRAIN}
    shared |= {"tokenizer": {"kind": "word", "vocab": 60, "min_count": 1}}
    for name, width in (("encoder", 64), ("narrow", 16)):
        model = {"base": "encoder-tiny", "width": width, "layers": 2, "encoder": {"block": {"attn": {"mixer": {"heads": 2}}}}}
        model["encoder"]["block"]["ffn"] = {"mixer": {"hidden": 2 * width if width > 16 else 24}}
        train(load_run_config(shared | {"model": model}), out=folder / name, display=Silent())
    yield folder
    torch.set_num_threads(threads)


def test_a_quantised_run_answers_as_before_from_a_smaller_file(folder, tmp_path):
    found = quantize_run(folder / "encoder", tmp_path / "int8", display=Silent())
    before, after = load(folder / "encoder"), load(tmp_path / "int8")
    assert is_int8(after.model)
    assert not is_int8(before.model)
    assert found.maps == len({name.rpartition(".")[0] for name in int8_tensors(after.model)}) == 12
    assert found.bytes[1] < 0.45 * found.bytes[0]
    texts = ["bon film 1", "laid décor 7"]
    assert [p.output for p in after.predict(texts)] == [p.output for p in before.predict(texts)]
    report = json.loads((tmp_path / "int8" / "results.json").read_text())["quantized"]
    assert report["scored_on"] == "valid"
    assert report["after"]["accuracy"] == pytest.approx(after.evaluate(split="valid").scores["accuracy"])
    assert report["before"]["accuracy"] == pytest.approx(before.evaluate(split="valid").scores["accuracy"])


def test_precision_int8_rounds_a_run_as_it_is_loaded(folder, tmp_path):
    quantize_run(folder / "encoder", tmp_path / "int8", display=Silent())
    kept, rounded = int8_tensors(load(tmp_path / "int8").model), int8_tensors(load(folder / "encoder", precision="int8").model)
    assert kept.keys() == rounded.keys()
    assert all(torch.equal(kept[name], rounded[name]) for name in kept)


def test_what_cannot_be_quantised_is_refused(folder, tmp_path):
    with pytest.raises(UsageError, match="large enough"):
        quantize_run(folder / "narrow", tmp_path / "int8", display=Silent())
    with pytest.raises(UsageError, match="the run itself"):
        quantize_run(folder / "encoder", folder / "encoder", display=Silent())
    quantize_run(folder / "encoder", tmp_path / "int8", display=Silent())
    with pytest.raises(UsageError, match="already"):
        quantize_run(tmp_path / "int8", tmp_path / "twice", display=Silent())
    with pytest.raises(UsageError, match="int8 is for a CPU"):
        load(folder / "encoder", precision="int8", device="cuda")


def test_damaged_bytes_are_refused(folder, tmp_path):
    quantize_run(folder / "encoder", tmp_path / "int8", display=Silent())
    file = tmp_path / "int8" / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)
    with pytest.raises(RunError):
        load(tmp_path / "int8")
