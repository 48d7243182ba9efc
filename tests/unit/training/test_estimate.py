"""What a run would take, before it is run."""

from pathlib import Path

import pytest
import torch
from torch import nn

from attentif.models import Batch, Input, build, resolve
from attentif.nn.seq import Seq
from attentif.training.config import TrainConfig
from attentif.training.estimate import _block_inputs, _kept_for_backward, _recomputed, estimate, plan_steps
from attentif.training.load import load_run_config


def test_the_first_limit_ends_the_run() -> None:
    assert plan_steps(TrainConfig(epochs=2.5), per_epoch=10, seconds=1.0) == 25
    assert plan_steps(TrainConfig(epochs=2.5, steps=7), per_epoch=10, seconds=1.0) == 7
    assert plan_steps(TrainConfig(minutes=0.5, epochs=100), per_epoch=10, seconds=2.0) == 15


def test_activations_are_what_the_backward_pass_needs() -> None:
    linear = nn.Linear(8, 4)
    x = torch.ones(16, 8)
    with _kept_for_backward(linear) as kept:
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


def test_gradient_checkpointing_counts_the_inputs_of_all_blocks_and_one_block_at_work() -> None:
    config = resolve({"base": "encoder-tiny", "width": 16, "layers": 6, "dropout": 0.0}).with_sizes(vocab=11, classes=2)
    batch = Batch(Input(torch.ones(2, 8, dtype=torch.long), Seq.padded([8, 8])))

    def kept(checkpointing: bool) -> int:
        model = build(config)
        model.checkpointing = checkpointing
        with _kept_for_backward(model) as stored, _block_inputs(model) as inputs:
            logits = model(batch)
        del logits
        return sum(stored.values()) + (_recomputed(model, inputs) if checkpointing else 0)

    inputs = 6 * 2 * 8 * 16 * 4  # six blocks, two rows of eight tokens, width 16, four bytes
    assert inputs + kept(False) / 6 * 0.8 < kept(True) < inputs + kept(False) / 6 * 1.5  # one block of six, and what stands around them
