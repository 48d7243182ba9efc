"""Every tensor begins as the table of `nn/init.py` says."""

import math
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from attentif.models import Model, ModelConfig, build
from attentif.nn.ffn import FeedForward
from attentif.nn.init import InitConfig, initialise

WIDTH, LAYERS, VOCAB = 64, 3, 500


def model(kind: str, depth_scaled: bool, std: float = 0.02) -> Model:
    attention = {"mixer": {"kind": "attention", "heads": 4, "qk_norm": {"kind": "rms"}}}
    ffn = {"mixer": {"kind": "feed-forward", "activation": "swiglu"}}
    cross = {"mixer": {"kind": "cross-attention", "heads": 4}}
    frontend = {
        "kind": "tokens",
        "vocab": VOCAB,
        "segments": 200,
        "position": {"kind": "learned", "max_len": 300},
        "norm": {"kind": "layer"},
    }
    bias = {"kind": "relative", "heads": 4, "buckets": 200, "max_distance": 400}
    values: dict[str, Any] = {
        "width": WIDTH,
        "layers": LAYERS,
        "init": {"kind": kind, "depth_scaled": depth_scaled, "std": std},
        "frontend": frontend,
        "target": frontend,
        "encoder": {"bias": bias, "block": {"attn": attention, "ffn": ffn}},
        "decoder": {"block": {"attn": attention, "cross": cross, "ffn": ffn}},
        "head": {"kind": "language", "tied": False, "bias": True},
    }
    torch.manual_seed(0)
    return build(ModelConfig.model_validate(values), dtype=torch.float64)


def expected_std(name: str, tensor: Tensor, kind: str, depth_scaled: bool, std: float) -> float:
    """The table, row by row. 0: all zero; -1: all one."""
    part = name.rsplit(".", 1)[1]
    if part == "bias":
        return 0
    if "norm" in name:
        return -1
    if "bias.table" in name:  # relative
        return std if kind == "normal" else 0
    if "tokens" in name or "segments" in name or "position" in name:
        return std if kind == "normal" else WIDTH**-0.5
    scale = std if kind == "normal" else math.sqrt(2 / sum(tensor.shape))  # of U(±√(6 / (fan_in + fan_out)))
    if depth_scaled and name.endswith("mixer.out.weight"):
        residuals = LAYERS * (3 if name.startswith("decoder") else 2)
        return scale / math.sqrt(residuals)
    return scale


@pytest.mark.parametrize("kind", ["normal", "xavier"])
@pytest.mark.parametrize("depth_scaled", [False, True])
def test_every_tensor_is_what_the_table_says(kind: Literal["normal", "xavier"], depth_scaled: bool) -> None:
    built = model(kind, depth_scaled, std=0.05)
    for name, tensor in built.named_parameters():
        expected = expected_std(name, tensor, kind, depth_scaled, 0.05)
        if expected == 0:
            assert torch.count_nonzero(tensor) == 0, name
        elif expected == -1:
            assert torch.equal(tensor, torch.ones_like(tensor)), name
        else:
            # the standard error of a standard deviation is σ / √(2n); four of them
            assert tensor.std().item() == pytest.approx(expected, rel=4 / math.sqrt(2 * tensor.numel())), name
            assert abs(tensor.mean().item()) < 4 * expected / math.sqrt(tensor.numel()), name
            if kind == "xavier" and tensor.ndim == 2 and "mixer" in name:
                assert tensor.abs().max() <= expected * math.sqrt(3) + 1e-12, name


def test_the_same_seed_gives_the_same_model_and_another_seed_another() -> None:
    first, again = model("normal", True).state_dict(), model("normal", True).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    torch.manual_seed(1)
    assert not torch.equal(build(model("normal", True).config).frontend.tokens.weight.double(), first["frontend.tokens.weight"])


def test_a_mixer_may_set_its_own_parameters_last() -> None:
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def init_weights(self) -> None:
            nn.init.constant_(self.linear.bias, 7.0)

    module = nn.Sequential(Gated(), nn.Linear(3, 3))
    initialise(module, InitConfig())
    assert module[0].linear.bias.tolist() == [7.0] * 3
    assert module[1].bias.tolist() == [0.0] * 3


def test_gated_networks_are_as_large_as_plain_ones() -> None:
    built = model("normal", True)
    assert built.encoder is not None
    ffn = dict(built.encoder.sublayers())["blocks.0.ffn"].mixer
    assert isinstance(ffn, FeedForward)
    assert ffn.up.out_features == 8 * WIDTH // 3
