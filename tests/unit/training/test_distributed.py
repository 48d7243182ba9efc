import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import toy

from attentif.errors import ConfigError
from attentif.training.distributed import Ranks, device_of
from attentif.training.weights import read_tensors

OPTIONS = {"steps": 15, "log_every": 1, "dropout": 0.0, "eval_every": 5, "ema": 0.9, "rows": 88}
STOPPED = OPTIONS | {"accumulate": 4, "dropout": 0.1}
BALANCE = [{"kind": "kl", "weight": 0.1}, {"kind": "switch", "weight": 0.1}, {"kind": "z"}, {"kind": "bias", "rate": 0.01}]
FULL = {"shard": "full"}
ROUTED = OPTIONS | {"accumulate": 4, "balance": BALANCE}
PLAIN = OPTIONS | {"balance": [], "checkpoint_every": 5, "patience": 100}
SHARDED = {
    "full-adamw": PLAIN | {"accumulate": 3, "dropout": 0.0},  # 3 batches are cut for 2 processes
    "full-muon": PLAIN | {"accumulate": 4, "optimizer": "muon", "recompute": True},
    "full-bf16": PLAIN | {"accumulate": 4, "dropout": 0.0, "precision": "bf16"},
    "full-routed": ROUTED,
}
FEWER = PLAIN | {"accumulate": 4, "optimizer": "muon", "ema": 0.9}
# of the 11 batches of an epoch the last step has 3, or 1, or all: two processes cannot share them evenly
ACCUMULATE = (4, 10, 22)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The runs of two processes, all in one launch: importing torch takes longer than they do."""
    folder = tmp_path_factory.mktemp("two")
    runs = [(f"by-{number}", OPTIONS | {"accumulate": number}) for number in ACCUMULATE]
    runs += [("whole", STOPPED), ("parts", STOPPED | {"interrupt": 7}), ("parts", STOPPED)]
    runs += [("routed", ROUTED)]
    runs += [(name, options | {"shard": "full"}) for name, options in SHARDED.items()]
    runs += [("shards", STOPPED | FULL), ("in-parts", STOPPED | FULL | {"interrupt": 7}), ("in-parts", STOPPED | FULL)]
    runs += [("fewer", FEWER | FULL | {"interrupt": 7})]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", toy.__file__]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([*command, str(folder), json.dumps(runs)], env=environment, capture_output=True, text=True, timeout=120)
    return folder, done.stderr


def losses(run):
    found = [json.loads(line) for line in (Path(run) / "metrics.jsonl").read_text().splitlines()]
    return [(row["loss"], row["grad_norm"], row["tokens"]) for row in found if "split" not in row]


@pytest.mark.parametrize("accumulate", ACCUMULATE)
def test_two_processes_give_the_losses_of_one(tmp_path, two, accumulate):
    toy.run(tmp_path, **OPTIONS | {"accumulate": accumulate})
    np.testing.assert_allclose(losses(two[0] / f"by-{accumulate}"), losses(tmp_path), rtol=1e-5)


@pytest.mark.parametrize("name", SHARDED)
def test_two_processes_with_shards_give_the_losses_of_one(tmp_path, two, name):
    toy.run(tmp_path, **SHARDED[name])
    np.testing.assert_allclose(losses(two[0] / name), losses(tmp_path), rtol=1e-5 if "routed" not in name else 1e-4)
    ours, theirs = (read_tensors(run / "model.safetensors") for run in (tmp_path, two[0] / name))
    assert ours.keys() == theirs.keys()
    for key, tensor in ours.items():  # AdamW makes a step of full size of a gradient that is nothing but rounding
        torch.testing.assert_close(theirs[key], tensor, rtol=0, atol=2e-3)


def test_shards_of_two_processes_are_gone_on_with_by_two_or_by_one(tmp_path, two):
    folder, _ = two
    assert (folder / "shards" / "model.safetensors").read_bytes() == (folder / "in-parts" / "model.safetensors").read_bytes()
    newest = sorted((folder / "fewer" / "checkpoints").glob("step-*"))[-1]
    assert [file.name for file in sorted(newest.glob("model*"))] == ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    words = toy.Words()
    toy.run(folder / "fewer", display=words, **FEWER)
    assert any("2 processes, now 1" in line for line in words.lines)
    toy.run(tmp_path, **FEWER)
    np.testing.assert_allclose(losses(folder / "fewer"), losses(tmp_path), rtol=1e-5)


def test_two_processes_balance_experts_as_one_does(tmp_path, two):
    """Each holds some of a step's batches: the counts that they learn from are those of all."""
    toy.run(tmp_path, **ROUTED)
    runs = tmp_path, two[0] / "routed"
    np.testing.assert_allclose(*(losses(run) for run in runs), rtol=1e-4)
    rows = [[json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()] for run in runs]
    for one, other in zip(*rows, strict=True):
        if "split" not in one:
            assert one["balance"] == pytest.approx(other["balance"], rel=1e-4)
            assert one["expert_shares"] == other["expert_shares"]
    biases = [tensor for name, tensor in read_tensors(tmp_path / "model.safetensors").items() if name.endswith("choice_bias")]
    assert len(biases) == 2
    for bias in biases:
        assert 0 < float(bias.abs().max()) <= 15 * 0.01 + 1e-6  # one move a step
    same = [tensor for name, tensor in read_tensors(two[0] / "routed" / "model.safetensors").items() if name.endswith("choice_bias")]
    assert all(torch.equal(one, other) for one, other in zip(biases, same, strict=True))


def test_a_signal_to_one_of_two_processes_stops_both_and_the_run_goes_on_to_the_same_end(two):
    folder, said = two
    assert said.count("stopped at step 7;") == 6  # two of each run that is interrupted
    assert (folder / "whole" / "model.safetensors").read_bytes() == (folder / "parts" / "model.safetensors").read_bytes()


def test_a_process_alone_sums_and_gathers_its_own():
    ranks = Ranks()
    assert ranks.sum([1.5, 2.0]) == [1.5, 2.0]
    assert ranks.gather({"a": 1}) == [{"a": 1}]
    assert ranks.broadcast("x") == "x"


@pytest.mark.parametrize("name", ["tpu9", "cuda:99", "meta"])
def test_a_device_that_is_not_there_is_refused(name):
    with pytest.raises(ConfigError, match=r"train\.device"):
        device_of(name)


def test_auto_is_a_device_that_is_there():
    assert device_of("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
