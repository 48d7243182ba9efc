"""Interruptions and damaged files: whatever happens, a run ends as if nothing had, or says what is wrong."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import toy

from attentif.training.checkpoint import Checkpoints, DamagedError, verify

pytestmark = pytest.mark.kill

KILLS, FLIPS, TRUNCATIONS = 100, 1000, 300
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def test_a_run_killed_at_any_moment_ends_with_the_weights_of_an_undisturbed_one(tmp_path):
    command = [sys.executable, str(Path(__file__).with_name("kill_many.py")), str(tmp_path), str(KILLS)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["hits"] >= KILLS
    assert found["resumed"] > KILLS // 2  # most kills came after a checkpoint
    assert found["differences"] == []


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A checkpoint with every kind of file."""
    path = tmp_path_factory.mktemp("damage") / "run"
    toy.train(path, toy.settings(steps=6, ema=0.9, patience=5))
    (newest, *_) = Checkpoints(path / "checkpoints").paths()
    assert sorted(file.stem for file in newest.iterdir()) == ["average", "best", "manifest", "model", "optimizer", "state"]
    return newest


def detected(file, damaged):
    """Whether the checkpoint is refused with these bytes in one of its files."""
    whole = file.read_bytes()
    file.write_bytes(damaged)
    try:
        verify(file.parent)
    except DamagedError:
        return True
    finally:
        file.write_bytes(whole)
    return False


def test_every_flipped_bit_is_detected(saved):
    dice, files = random.Random(0), sorted(saved.iterdir())
    for number in range(FLIPS):
        file = files[number % len(files)]
        damaged = bytearray(file.read_bytes())
        damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
        assert detected(file, bytes(damaged)), file
    verify(saved)


def test_every_truncation_is_detected(saved):
    dice, files = random.Random(0), sorted(saved.iterdir())
    for number in range(TRUNCATIONS):
        file = files[number % len(files)]
        whole = file.read_bytes()
        assert detected(file, whole[: dice.randrange(len(whole))]), file
    verify(saved)


def test_every_missing_file_is_detected(saved, tmp_path):
    for file in saved.iterdir():
        copy = shutil.copytree(saved, tmp_path / file.name / saved.name)
        (copy / file.name).unlink()
        with pytest.raises(DamagedError):
            verify(copy)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_a_long_evaluation_saves_and_leaves_at_once(tmp_path, number, code):
    """The evaluation takes eight seconds, and is left without a score."""
    runs = [("run", {"eval_every": 4, "pause": 0.5})]
    command = [sys.executable, toy.__file__, str(tmp_path), json.dumps(runs)]
    process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    metrics = tmp_path / "run" / "metrics.jsonl"
    while not metrics.is_file() and process.poll() is None:  # the line of step 3 is written: the evaluation is next
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == code
    assert "stopped at step 4; resume with: attentif train --resume" in said
    (newest,) = Checkpoints(tmp_path / "run" / "checkpoints").sound()
    assert newest.name == "step-00000004"
    assert "valid" not in metrics.read_text()
