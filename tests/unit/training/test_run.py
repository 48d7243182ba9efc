import json
import os

import pytest
from toy import Words

from attentif.api import load
from attentif.errors import ConfigError, RunError, UsageError
from attentif.training.load import load_run_config
from attentif.training.run import resume, train
from attentif.training.rundir import RunFolder
from attentif.training.signals import StoppedError

FILMS = ["film", "récit", "acteur", "décor", "scénario", "dialogue"]


@pytest.fixture
def config(tmp_path):
    """A classifier of 80 short reviews, so small that it trains in a second."""
    rows = [
        f"{tone} {thing} {number},{label}" for number in range(7) for thing in FILMS for tone, label in (("bon", "pos"), ("triste", "neg"))
    ]
    (tmp_path / "avis.csv").write_text("\n".join(["text,label", *rows]))
    return load_run_config(
        {
            "data": {"train": str(tmp_path / "avis.csv")},
            "task": {"kind": "classify"},
            "tokenizer": {"kind": "word", "vocab": 40},
            "model": {"base": "encoder-tiny", "width": 16, "layers": 1},
            "train": {"steps": 8, "batch_tokens": 64, "log_every": 2, "eval_every": 4, "checkpoint_every": 3, "lr": 0.01},
        }
    )


def test_a_run_is_a_complete_folder(config, tmp_path):
    folder = train(config, name="films", out=tmp_path / "run", display=Words())
    names = [
        "README.md",
        "checkpoints",
        "config.toml",
        "lock",
        "manifest.json",
        "metrics.jsonl",
        "model.safetensors",
        "report.html",
        "results.json",
        "task.json",  # what the data taught: the classes, the calibration
        "tokenizer.json",
    ]
    assert sorted(os.listdir(folder.path)) == names
    results = json.loads(folder.results.read_text())
    assert results["metric"] in results["scores"]
    assert len(results["baselines"]) == 3
    assert results["steps"] == 8
    assert results["cost"]["tokens"] > 0
    assert "finished" in folder.readme.read_text()


def test_a_finished_run_says_so_and_is_left_alone(config, tmp_path):
    folder = train(config, out=tmp_path / "run", display=Words())
    before = {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")}
    words = Words()
    resume(folder.path, display=words)
    assert "is finished" in words.lines[-1]
    assert {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")} == before


@pytest.mark.parametrize("task", [{}, {"linear": "stacked", "vectors": True, "word_dropout": 0.1}], ids=["plain", "evidence"])
def test_a_stopped_run_goes_on_from_its_folder_alone_to_the_same_weights(config, tmp_path, task):
    config = config.replace(task=config.task.replace(**task))
    whole = train(config, out=tmp_path / "whole", display=Words())
    with pytest.raises(StoppedError, match=r"attentif train --resume .*parts"):
        train(config, out=tmp_path / "parts", display=Words(stop_at=4))
    parts = RunFolder.open(tmp_path / "parts")
    assert not parts.finished
    assert "--resume" in parts.readme.read_text()
    assert parts.latest_weights().parent.name == "step-00000004"
    assert load(parts.path).predict(["bon film"])[0].output in ("pos", "neg")  # before it is finished
    assert resume(parts.path, display=Words()).finished
    assert parts.weights.read_bytes() == whole.weights.read_bytes()
    assert parts.latest_weights() == parts.weights


def test_the_written_configuration_trains_the_same_model_again(config, tmp_path):
    first = train(config, name="films", out=tmp_path / "first", display=Words())
    second = train(load_run_config(first.config), name="again", out=tmp_path / "second", display=Words())
    assert first.weights.read_bytes() == second.weights.read_bytes()
    assert load_run_config(first.path).made.recipe == "films"
    assert load_run_config(second.path).made.recipe == "again"
    assert load_run_config(first.path).replace(made=None) == load_run_config(second.path).replace(made=None)


def test_data_that_changed_since_are_refused(config, tmp_path):
    with pytest.raises(StoppedError):
        train(config, out=tmp_path / "run", display=Words(stop_at=4))
    with (tmp_path / "avis.csv").open("a") as file:
        file.write("\nbon film de plus,pos")
    with pytest.raises(RunError, match="data are"):
        resume(tmp_path / "run", display=Words())


def test_an_existing_run_is_refused_before_the_data_are_read(config, tmp_path):
    train(config, out=tmp_path / "run", display=Words())
    (tmp_path / "avis.csv").unlink()
    with pytest.raises(UsageError, match="--force"):
        train(config, out=tmp_path / "run", display=Words())


def test_shards_that_an_optimiser_cannot_use_are_refused_before_the_data_are_read(config, tmp_path):
    (tmp_path / "avis.csv").unlink()
    settings = config.train.replace(shard="full", optimizer="adafactor")
    with pytest.raises(ConfigError, match=r"train\.shard: adafactor"):
        train(config.replace(train=settings), out=tmp_path / "run", display=Words())


def test_a_command_that_its_launcher_starts_again_goes_on_with_the_run_that_it_began(config, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "seven")
    began = train(config, out=tmp_path / "run", display=Words())
    weights = began.weights.read_bytes()
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    words = Words()
    assert train(config, out=tmp_path / "run", force=True, display=words).path == began.path
    assert any("is finished" in line for line in words.lines)
    assert began.weights.read_bytes() == weights
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "eight")  # another launch does not touch it
    with pytest.raises(UsageError, match="--force"):
        train(config, out=tmp_path / "run", display=Words())


def test_a_board_that_is_not_installed_is_refused_before_the_data_are_read(config, tmp_path, monkeypatch):
    (tmp_path / "avis.csv").unlink()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"attentif\[tensorboard\]"):
        train(config.replace(train=config.train.replace(tensorboard=True)), out=tmp_path / "run", display=Words())


def test_what_is_no_run_cannot_be_resumed(tmp_path):
    with pytest.raises(RunError, match="is not a run"):
        resume(tmp_path, display=Words())
