"""Two stages in one command: the body learns from texts without labels, then goes on under the task's head."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
import torch

from attentif.errors import ConfigError
from attentif.training.estimate import estimate
from attentif.training.load import load_run_config
from attentif.training.progress import Silent
from attentif.training.run import resume, train
from attentif.training.signals import StoppedError
from attentif.training.weights import read_tensors

FILMS = ["film", "récit", "acteur", "décor", "scénario", "dialogue"]
MODEL = {"base": "encoder-tiny", "width": 16, "layers": 1, "encoder": {"block": {"attn": {"mixer": {"heads": 2}}}}}
STAGE = {"task": {"kind": "masked", "context": 16, "share": 0.3}, "steps": 5, "batch_tokens": 256, "eval_every": 5, "lr": 0.01}
TRAIN = {"steps": 5, "batch_tokens": 128, "log_every": 2, "eval_every": 5, "checkpoint_every": 2, "lr": 0.01, "threads": 1}


class Stops(Silent):
    """Presses Ctrl-C at the nth step that is shown, of whichever stage."""

    def __init__(self, after):
        self.left = after

    def show(self, status):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    rows = [f"{tone} {thing} {n},{label}" for n in range(12) for thing in FILMS for tone, label in (("bon", "pos"), ("triste", "neg"))]
    for name, own in (("train", rows[:100]), ("valid", rows[100:120]), ("test", rows[120:])):
        (folder / f"{name}.csv").write_text("\n".join(["text,label", *own]))
    (folder / "more.txt").write_text("\n".join(f"un autre texte {thing} sans note" for thing in FILMS * 4))
    data = {name: str(folder / f"{name}.csv") for name in ("train", "valid", "test")}
    return {
        "data": data,
        "task": {"kind": "classify"},
        "tokenizer": {"kind": "word", "vocab": 80, "min_count": 1},
        "model": MODEL,
        "pretrain": STAGE,
        "train": TRAIN,
    }


@pytest.fixture(scope="module")
def whole(tables, tmp_path_factory):
    """An undisturbed run of both stages."""
    torch.set_num_threads(1)
    return train(load_run_config(tables), name="films", out=tmp_path_factory.mktemp("whole") / "run", display=Silent())


def test_the_first_stage_is_a_run_inside_the_run(whole):
    assert (whole.path / "pretrain" / "report.html").is_file()
    stage = load_run_config(whole.path / "pretrain")
    assert (stage.task.kind, stage.train.steps, stage.train.checkpoint_every, stage.pretrain) == ("masked", 5, 2, None)
    assert (whole.path / "pretrain" / "tokenizer.json").read_bytes() == (whole.path / "tokenizer.json").read_bytes()
    results = json.loads(whole.results.read_text())
    assert results["pretrain"]["task"] == "masked"
    assert results["task"] == "classify"


def test_it_reads_the_texts_of_the_training_split_and_no_other(whole, tables):
    read = {json.loads(line)["text"] for line in (whole.path / "pretrain.jsonl").read_text().splitlines()}
    texts = {name: {line.split(",")[0] for line in Path(file).read_text().splitlines()[1:]} for name, file in tables["data"].items()}
    assert read == texts["train"]
    assert not read & (texts["valid"] | texts["test"])
    assert "on 100 texts of the training split, none of validation or test" in whole.report.read_text()


def test_the_first_stage_may_drop_less(tables, tmp_path):
    """It has more to learn from; the stage of the task keeps the model's own share."""
    made = load_run_config(tables | {"model": MODEL | {"dropout": 0.5}, "pretrain": STAGE | {"dropout": 0.1}})
    folder = train(made, name="films", out=tmp_path / "run", display=Silent()).path
    assert load_run_config(folder / "pretrain").model.dropout == 0.1
    assert load_run_config(folder).model.dropout == 0.5


def test_the_body_of_the_second_stage_is_that_of_the_first(tables, whole, tmp_path):
    config = load_run_config(tables)
    still = config.replace(train=config.train.replace(lr=1e-30, weight_decay=0.0))
    train(still, name="films", out=tmp_path / "run", display=Silent())
    first, second = (read_tensors(tmp_path / "run" / part / "model.safetensors") for part in ("pretrain", "."))
    assert {name for name in second if not name.startswith("head.")} == {name for name in first if not name.startswith("head.")}
    for name, tensor in second.items():
        assert name.startswith("head.") or torch.equal(tensor, first[name])


@pytest.mark.parametrize("after", [2, 7])
def test_stopped_in_either_stage_it_ends_with_the_same_bits(tables, whole, tmp_path, after):
    with pytest.raises(StoppedError, match=f"attentif train --resume {tmp_path / 'run'}$"):
        train(load_run_config(tables), name="films", out=tmp_path / "run", display=Stops(after))
    resume(tmp_path / "run", display=Silent())
    for part in ("pretrain", "."):
        assert (tmp_path / "run" / part / "model.safetensors").read_bytes() == (whole.path / part / "model.safetensors").read_bytes()


def test_killed_before_its_first_stage_was_made_it_goes_on(whole, tmp_path):
    shutil.copytree(whole.path, tmp_path / "run")
    for name in ("pretrain", "checkpoints"):
        shutil.rmtree(tmp_path / "run" / name)
    for name in ("model.safetensors", "results.json"):
        (tmp_path / "run" / name).unlink()
    (tmp_path / "run" / ".pretrain.0.tmp").mkdir()  # what a process killed while it made the stage's folder leaves behind
    resume(tmp_path / "run", display=Silent())
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == whole.weights.read_bytes()
    assert not list((tmp_path / "run").glob(".*.tmp"))


class Dies(Silent):
    """The process dies in the middle of a step: nothing is saved, nothing is said."""

    def show(self, status):
        if status.step == 4:
            raise SystemExit(9)


def test_dead_in_the_first_stage_it_goes_on_from_the_last_checkpoint_to_the_same_bits(tables, whole, tmp_path):
    with pytest.raises(SystemExit):
        train(load_run_config(tables), name="films", out=tmp_path / "run", display=Dies())
    assert [path.name for path in (tmp_path / "run" / "pretrain" / "checkpoints").iterdir()] == ["step-00000002"]
    assert not (tmp_path / "run" / "checkpoints").exists()
    resume(tmp_path / "run", display=Silent())
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == whole.weights.read_bytes()


def test_unlabelled_files_are_read_by_the_tokenizer_and_the_stage(tables, tmp_path):
    more = tables["data"]["train"].replace("train.csv", "more.txt")
    both = tables | {"pretrain": STAGE | {"data": more}}
    run = train(load_run_config(both), out=tmp_path / "run", display=Silent())
    assert "sans" in (run.path / "tokenizer.json").read_text()
    assert load_run_config(run.path / "pretrain").data.train == [str(run.path / "pretrain.jsonl"), more]
    assert f"and on {more}" in run.report.read_text()


def test_segments_that_the_first_stage_needs_stay_for_the_second(tables):
    pairs = tables | {"pretrain": STAGE | {"task": {"kind": "masked", "next_sentence": True, "context": 16}}}
    found = estimate(load_run_config(pairs), lambda _: None)
    assert found.pretrain.parameters["encoder"] == found.parameters["encoder"]
    assert found.pretrain.parameters["embedding"] == found.parameters["embedding"]
    assert found.pretrain.steps == STAGE["steps"]


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ({"task": {"kind": "language"}, "steps": 2}, "pretrain: .*language predicts the next token"),
        ({"task": {"kind": "masked"}}, "pretrain.*one of epochs, steps and minutes"),
        ({"task": {"kind": "masked"}, "steps": 2, "seed": 3}, "pretrain.seed: unknown key"),
    ],
)
def test_what_cannot_be_a_first_stage_is_refused_before_any_data_are_read(tables, tmp_path, stage, words):
    missing = tables | {"data": {"train": "nowhere.csv"}, "pretrain": stage}
    with pytest.raises(ConfigError, match=words):
        train(load_run_config(missing), out=tmp_path / "run", display=Silent())
