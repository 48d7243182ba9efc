"""A process of several dies or hangs: the others end with its name, and the launcher's restart goes on."""

import json
import os
import subprocess
import sys

import pytest
import toy

pytestmark = pytest.mark.kill

OPTIONS = {"steps": 12, "accumulate": 2, "checkpoint_every": 2, "shard": "full", "balance": []}


def launch(folder, options, restarts):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", f"--max-restarts={restarts}"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    work = [*command, toy.__file__, str(folder), json.dumps([("run", options)])]
    return subprocess.run(work, env=environment, capture_output=True, text=True, timeout=100)


def said(done):
    return [line for line in done.stderr.splitlines() if line.startswith("error:")]


def test_a_killed_process_is_named_once_and_the_restart_ends_as_if_nothing_had_happened(tmp_path):
    done = launch(tmp_path / "killed", OPTIONS | {"fail": ["die", 9]}, restarts=1)
    assert done.returncode == 0, done.stderr
    assert len(said(done)) == 1
    assert "process 1 of 2" in said(done)[0]
    assert f"--resume {tmp_path / 'killed' / 'run'}" in said(done)[0]
    assert launch(tmp_path / "whole", OPTIONS, restarts=0).returncode == 0
    whole, killed = (tmp_path / name / "run" / "model.safetensors" for name in ("whole", "killed"))
    assert whole.read_bytes() == killed.read_bytes()


def test_a_hanging_process_ends_the_others_within_the_limit(tmp_path):
    done = launch(tmp_path, OPTIONS | {"fail": ["hang", 9], "stall": 0.05}, restarts=0)
    assert done.returncode == 1
    assert [line for line in said(done) if "process 1 of 2" in line and "hangs" in line]
    assert len(said(done)) == 1
