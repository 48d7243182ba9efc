"""What a memory must be able to do: attention and Mamba learn to copy selectively and to recall by key; a fixed state space does not."""

from typing import Any

import pytest

from attentif.data.builtin.recall import associative_recall
from attentif.data.builtin.selective_copying import selective_copying
from attentif.lab.small import Generate, Rows, solved, trained

pytestmark = pytest.mark.system

FFN = {"mixer": {"kind": "feed-forward", "activation": "gelu"}}
ATTENTION = {"block": {"attn": {"mixer": {"kind": "attention", "heads": 4, "causal": True}}, "ffn": FFN}, "layers": 3}
MODELS: dict[str, dict[str, Any]] = {
    "attention": {"decoder": ATTENTION, "frontend": {"position": {"kind": "learned", "max_len": 32}}},
    "mamba": {"decoder": {"block": {"ssm": {"mixer": {"kind": "mamba"}}}}},
    "s4d": {"decoder": {"block": {"ssm": {"mixer": {"kind": "s4", "state": 32}}}}},
}


def copying(rows: int, seed: int) -> Rows:
    return selective_copying(rows, length=16, copied=4, symbols=6, seed=seed)


def recall(rows: int, seed: int) -> Rows:
    return associative_recall(rows, pairs=3, keys=6, values=6, seed=seed)


def score(name: str, task: Generate) -> float:
    """Share of rows, not seen in training, in which every answer is right."""
    values = {"width": 64, "layers": 2, "init": {"kind": "xavier"}, "head": {"kind": "language", "tied": False}} | MODELS[name]
    values["frontend"] = {"kind": "tokens", "vocab": 12} | values.get("frontend", {})
    share = solved(trained(values, task, steps=600), task(500, 10**6))
    print(f"{name}: {share:.3f}")
    return share


both = pytest.mark.parametrize("task", [copying, recall])


@both
@pytest.mark.parametrize("name", ["attention", "mamba"])
def test_attention_and_mamba_learn_it(name: str, task: Generate) -> None:
    assert score(name, task) > 0.85


@both
def test_a_fixed_state_space_does_not(task: Generate) -> None:
    assert score("s4d", task) < 0.7
