"""Rotary scalings, relative buckets and ALiBi against the implementations that checkpoints were trained with."""

from typing import Any

import pytest
import torch
from torch.testing import assert_close
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.falcon.modeling_falcon import build_alibi_tensor as falcon_alibi
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.t5.modeling_t5 import T5Attention

from attentif.nn.bias import ALiBiConfig, RelativeBias, RelativeConfig, RoundedALiBiConfig, alibi_slopes
from attentif.nn.rotary import RotaryConfig
from attentif.nn.seq import Seq

pytestmark = pytest.mark.parity

TRAINED, HEAD_WIDTH, BASE = 64, 16, 10000.0
SCALINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # theirs, ours
    "linear": ({"rope_type": "linear", "factor": 4.0}, {"kind": "linear", "factor": 4.0}),
    "ntk": ({"rope_type": "dynamic", "factor": 3.0}, {"kind": "ntk", "factor": 3.0, "trained": TRAINED}),
    "yarn": (
        {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": TRAINED, "beta_fast": 16.0, "beta_slow": 0.5},
        {"kind": "yarn", "factor": 8.0, "trained": TRAINED, "fast": 16.0, "slow": 0.5},
    ),
    "llama3": (
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "original_max_position_embeddings": TRAINED,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
        },
        {"kind": "llama3", "factor": 8.0, "trained": TRAINED},
    ),
}


def llama(rope: dict[str, Any]) -> LlamaConfig:
    places = TRAINED * 8 if "original_max_position_embeddings" in rope else TRAINED
    parameters = {"rope_theta": BASE, **rope}
    return LlamaConfig(hidden_size=4 * HEAD_WIDTH, num_attention_heads=4, max_position_embeddings=places, rope_parameters=parameters)


@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.parametrize("length", [10, 64, 200])
def test_scaled_frequencies_and_amplitudes_agree(name: str, length: int) -> None:
    rope, scaling = SCALINGS[name]
    theta, amplitude = ROPE_INIT_FUNCTIONS[rope["rope_type"]](llama(rope), torch.device("cpu"), seq_len=length)
    mine = RotaryConfig.model_validate({"base": BASE, "scaling": scaling}).build(HEAD_WIDTH)
    assert_close(mine.frequencies(torch.tensor(length)).float(), theta, rtol=1e-6, atol=1e-9)
    assert mine.config.scaling is not None
    assert mine.config.scaling.amplitude() == pytest.approx(amplitude)


@pytest.mark.parametrize("name", ["none", *SCALINGS])
@pytest.mark.parametrize("length", [10, 100])
def test_turned_queries_and_keys_agree(name: str, length: int) -> None:
    rope, scaling = SCALINGS.get(name, ({"rope_type": "default"}, None))
    torch.manual_seed(0)
    q, k = torch.randn(2, 4, length, HEAD_WIDTH), torch.randn(2, 2, length, HEAD_WIDTH)
    seq = Seq.from_padded([length, length])
    cos, sin = LlamaRotaryEmbedding(llama(rope))(q, seq.pos)
    theirs = apply_rotary_pos_emb(q, k, cos, sin)
    mine = RotaryConfig.model_validate({"base": BASE, "scaling": scaling}).build(HEAD_WIDTH)
    turned = [x.transpose(1, 2) for x in mine(seq, q.transpose(1, 2), k.transpose(1, 2))]
    assert_close(turned, list(theirs), rtol=1e-4, atol=5e-5)  # they work the angles out in float32, which loses the phase of late places


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 20), (16, 64)])
def test_relative_buckets_agree_with_t5(bidirectional: bool, buckets: int, max_distance: int) -> None:
    offsets = torch.arange(-300, 301)
    mine = RelativeBias(RelativeConfig(heads=2, buckets=buckets, max_distance=max_distance, bidirectional=bidirectional))
    theirs = T5Attention._relative_position_bucket(offsets, bidirectional, buckets, max_distance)
    assert torch.equal(mine.bucket(offsets), theirs)


@pytest.mark.parametrize("heads", [1, 2, 4, 6, 8, 12, 16, 20])
def test_alibi_differs_from_blooms_by_a_constant_for_each_query(heads: int) -> None:
    """Bloom adds m·k where the paper adds −m·(q − k): the softmax over keys cannot tell them apart."""
    theirs = build_alibi_tensor(torch.ones(1, 7), heads, torch.float32).view(heads, 1, 7)
    mine = ALiBiConfig(heads=heads).build()(torch.arange(7), torch.arange(7))
    difference = torch.where(torch.ones(7, 7).tril().bool(), theirs - mine, torch.nan)
    assert_close(difference.nan_to_num(), (difference[:, :, :1]).expand(-1, -1, 7).tril(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("heads", [4, 16, 71])
def test_rounded_alibi_differs_from_falcons_by_a_constant_for_each_query(heads: int) -> None:
    """In long texts, too, whose places bfloat16 does not tell apart."""
    theirs = falcon_alibi(torch.ones(1, 700, dtype=torch.long), heads, torch.float32).view(heads, 1, 700) / 8
    mine = RoundedALiBiConfig(heads=heads, scale=1 / 8).build()(torch.tensor([5, 300, 699]), torch.arange(700))
    difference = torch.where(torch.arange(700) <= torch.tensor([[5], [300], [699]]), theirs - mine, torch.nan)
    assert_close(difference.nan_to_num(), torch.where(difference.isnan(), 0.0, difference[:, :, :1]), rtol=0, atol=1e-5)
    assert not torch.equal(mine, ALiBiConfig(heads=heads).build()(torch.tensor([5, 300, 699]), torch.arange(700)) / 8)


def test_alibi_slopes_are_those_of_the_paper() -> None:
    assert alibi_slopes(8) == [2**-h for h in range(1, 9)]
    assert alibi_slopes(16) == pytest.approx([2 ** (-h / 2) for h in range(1, 17)])
