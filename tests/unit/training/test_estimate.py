"""What a run would take, before it is run."""

from pathlib import Path

import pytest
import torch
from torch import nn

from attentif.models import Batch, Input, build, resolve
from attentif.nn.seq import Seq
from attentif.training.config import TrainConfig
from attentif.training.estimate import (
    NETWORK,
    _count_recomputed,
    _record_block_inputs,
    _track_saved_tensors,
    estimate,
    launch_commands,
    plan_steps,
    spread,
)
from attentif.training.load import load_run_config


def test_the_first_limit_ends_the_run() -> None:
    assert plan_steps(TrainConfig(epochs=2.5), per_epoch=10, seconds=1.0) == 25
    assert plan_steps(TrainConfig(epochs=2.5, steps=7), per_epoch=10, seconds=1.0) == 7
    assert plan_steps(TrainConfig(minutes=0.5, epochs=100), per_epoch=10, seconds=2.0) == 15


def test_activations_are_what_the_backward_pass_needs() -> None:
    linear = nn.Linear(8, 4)
    x = torch.ones(16, 8)
    with _track_saved_tensors(linear) as kept:
        y = linear(x).tanh()  # the matrix product keeps x, the tanh its result; the weight is no activation
    assert sum(kept.values()) == (16 * 8 + 16 * 4) * 4
    del y


def test_sizes_follow_from_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "avis.csv"
    file.write_text("text,label\n" + "".join(f"film {n} {'bon' if n % 2 else 'mauvais'},{n % 2}\n" for n in range(100)))
    table = {
        "data": {"train": str(file)},
        "task": {"kind": "classify"},
        "tokenizer": {"kind": "word", "min_count": 1},
        "model": {"base": "encoder-tiny", "width": 16, "layers": 1},
        "train": {"epochs": 3.0, "batch_tokens": 64, "threads": 1, "ema": 0.9},
    }
    said: list[str] = []
    found = estimate(load_run_config(table), said.append)
    parameters = sum(found.parameters.values())
    assert found.memory["weights"] == found.memory["gradients"] == found.memory["average"] == 4 * parameters
    assert found.memory["optimizer"] == pytest.approx(8 * parameters, rel=0.01)  # and a step counter for each tensor
    assert sum(found.examples.values()) == 100
    assert found.epochs == pytest.approx(3.0)
    assert found.tokens == 3 * 5 * found.examples["train"]  # [CLS] film 12 bon [SEP]
    assert found.seconds > 0
    assert any("text from column 'text'" in line for line in said)
    assert list(tmp_path.iterdir()) == [file]


def test_shards_divide_what_is_kept_and_gather_a_block_at_a_time() -> None:
    memory = {"weights": 1000, "gradients": 1000, "optimizer": 2000, "activations": 800}
    settings = TrainConfig(steps=10, accumulate=4)
    whole, full = (spread(shard, 4, memory, [100] * 8, settings, 10, 40.0) for shard in ("none", "full"))
    assert whole.memory == memory | {"activations": 800, "buckets": 1000}
    assert full.memory == {"weights": 250, "gradients": 250, "optimizer": 500, "activations": 800, "gathered": 2 * (200 + 200)}
    assert whole.traffic == 2 * 1000 * 3 // 4
    assert full.traffic == (2 * 800 + 200 + 1000) * 3 // 4  # a batch a process: its blocks twice, the rest once, gradients once
    assert whole.seconds == pytest.approx(10.0 + 10 * whole.traffic * 8 / (NETWORK * 1e9))


def test_commands_for_several_machines_start_the_same_configuration() -> None:
    torchrun, slurm = launch_commands(["reviews", "train.shard=full"], 8, 2)
    assert "--nnodes 2 --nproc-per-node 4" in torchrun
    assert slurm.count("attentif train reviews train.shard=full") == 1
    assert "--signal=TERM" in slurm


def test_gradient_checkpointing_counts_the_inputs_of_all_blocks_and_one_block_at_work() -> None:
    config = resolve({"base": "encoder-tiny", "width": 16, "layers": 6, "dropout": 0.0}).with_sizes(vocab=11, classes=2)
    batch = Batch(Input(torch.ones(2, 8, dtype=torch.long), Seq.from_padded([8, 8])))

    def kept(checkpointing: bool) -> int:
        model = build(config)
        model.checkpointing = checkpointing
        with _track_saved_tensors(model) as stored, _record_block_inputs(model) as inputs:
            logits = model(batch)
        del logits
        return sum(stored.values()) + (_count_recomputed(model, inputs) if checkpointing else 0)

    inputs = 6 * 2 * 8 * 16 * 4  # six blocks, two rows of eight tokens, width 16, four bytes
    assert inputs + kept(False) / 6 * 0.8 < kept(True) < inputs + kept(False) / 6 * 1.5  # one block of six, and what stands around them


def test_a_large_table_is_worked_out_from_some_of_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "avis.csv"
    file.write_text("text,label\n" + "".join(f"film {n} {'bon' if n % 2 else 'mauvais'},{n % 2}\n" for n in range(500)))
    table = {
        "data": {"train": str(file)},
        "task": {"kind": "classify"},
        "tokenizer": {"kind": "word", "min_count": 1},
        "model": {"base": "encoder-tiny", "width": 16, "layers": 1},
        "train": {"epochs": 3.0, "batch_tokens": 64, "threads": 1},
    }
    whole = estimate(load_run_config(table), lambda line: None)
    monkeypatch.setattr("attentif.training.estimate.SAMPLE", 200)
    monkeypatch.setattr("attentif.training.estimate.SMALL", 0)
    part = estimate(load_run_config(table), lambda line: None)
    assert (whole.encoded, part.encoded) == (400, 200)
    assert part.examples == whole.examples
    assert part.tokens == pytest.approx(whole.tokens, rel=0.05)
    assert part.steps == pytest.approx(whole.steps, rel=0.1)
    assert part.peak > 0
