"""What a memory must be able to do: attention and Mamba learn to copy selectively and to recall by key; a fixed state space does not."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attentif.data.builtin.recall import IGNORED, associative_recall, selective_copying
from attentif.models import Batch, Input, Model, ModelConfig, build
from attentif.nn.seq import Seq

pytestmark = pytest.mark.system

FFN = {"mixer": {"kind": "feed-forward", "activation": "gelu"}}
ATTENTION = {"block": {"attn": {"mixer": {"kind": "attention", "heads": 4, "causal": True}}, "ffn": FFN}, "layers": 3}
MODELS: dict[str, dict[str, Any]] = {
    "attention": {"decoder": ATTENTION, "frontend": {"position": {"kind": "learned", "max_len": 32}}},
    "mamba": {"decoder": {"block": {"ssm": {"mixer": {"kind": "mamba"}}}}},
    "s4d": {"decoder": {"block": {"ssm": {"mixer": {"kind": "s4", "state": 32}}}}},
}
ROWS, STEPS, RATE = 32, 600, 3e-3  # of training
Task = Callable[[int, int], tuple[np.ndarray, np.ndarray]]


def copying(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return selective_copying(rows, length=16, copied=4, symbols=6, seed=seed)


def recall(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return associative_recall(rows, pairs=3, keys=6, values=6, seed=seed)


def trained(name: str, task: Task) -> Model:
    torch.manual_seed(0)
    values = {"width": 64, "layers": 2, "init": {"kind": "xavier"}, "head": {"kind": "language", "tied": False}} | MODELS[name]
    values["frontend"] = {"kind": "tokens", "vocab": 12} | values.get("frontend", {})
    model = build(ModelConfig.model_validate(values)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=STEPS, pct_start=0.1)
    for step in range(STEPS):
        logits, targets = answers(model, task, ROWS, step)
        F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    return model.eval()


def answers(model: Model, task: Task, rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    tokens, targets = map(torch.from_numpy, task(rows, seed))
    logits, _ = model(Batch(Input(tokens, Seq.padded([tokens.shape[1]] * rows))))
    return logits, targets


def solved(name: str, task: Task) -> float:
    """Share of rows, not seen in training, in which every answer is right."""
    model = trained(name, task)
    with torch.no_grad():
        logits, targets = answers(model, task, 500, 10**6)
    right = (logits.argmax(-1) == targets) | (targets == IGNORED)
    share = float(right.all(1).float().mean())
    print(f"{name}, {task.__name__}: {share:.3f}")
    return share


both = pytest.mark.parametrize("task", [copying, recall])


@both
@pytest.mark.parametrize("name", ["attention", "mamba"])
def test_attention_and_mamba_learn_it(name: str, task: Task) -> None:
    assert solved(name, task) > 0.85


@both
def test_a_fixed_state_space_does_not(task: Task) -> None:
    assert solved("s4d", task) < 0.7
