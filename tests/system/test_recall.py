"""What a memory must be able to do: attention learns to copy selectively, and Mamba to recall by key.

The other way round, and that a fixed state space does neither, is measured by the experiments L15 and L16 (`test_experiments.py`).
"""

from typing import Any

import pytest

from attentif.data.builtin.recall import associative_recall
from attentif.data.builtin.selective_copying import make_selective_copying
from attentif.lab.small import Generate, Rows, exact_match, train_model

pytestmark = pytest.mark.system

FFN = {"mixer": {"kind": "feed-forward", "activation": "gelu"}}
ATTENTION = {"block": {"attn": {"mixer": {"kind": "attention", "heads": 4, "causal": True}}, "ffn": FFN}, "layers": 3}
MODELS: dict[str, dict[str, Any]] = {
    "attention": {"decoder": ATTENTION, "frontend": {"position": {"kind": "learned", "max_len": 32}}},
    "mamba": {"decoder": {"block": {"ssm": {"mixer": {"kind": "mamba"}}}}},
}


def copying(rows: int, seed: int) -> Rows:
    return make_selective_copying(rows, length=16, copied=4, symbols=6, seed=seed)


def recall(rows: int, seed: int) -> Rows:
    return associative_recall(rows, pairs=3, keys=6, values=6, seed=seed)


def score(name: str, task: Generate) -> float:
    """Share of rows, not seen in training, in which every answer is right."""
    values = {"width": 64, "layers": 2, "init": {"kind": "xavier"}, "head": {"kind": "language", "tied": False}} | MODELS[name]
    values["frontend"] = {"kind": "tokens", "vocab": 12} | values.get("frontend", {})
    share = exact_match(train_model(values, task, steps=600), task(500, 10**6))
    print(f"{name}: {share:.3f}")
    return share


def test_attention_learns_to_copy() -> None:
    assert score("attention", copying) > 0.85


def test_mamba_learns_to_recall() -> None:
    assert score("mamba", recall) > 0.85
