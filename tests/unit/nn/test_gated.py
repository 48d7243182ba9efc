"""RWKV, gated convolutions and gated recurrences: what the contract does not say."""

import math

import pytest
import torch
from torch.testing import assert_close

from attentif.errors import ConfigError
from attentif.models import build, resolve
from attentif.nn.mixer import MIXERS, Site
from attentif.nn.mixers.gated_conv import GatedConvConfig
from attentif.nn.mixers.gated_recurrence import GatedRecurrenceConfig
from attentif.nn.mixers.rwkv import ChannelMixConfig, TimeMixConfig
from attentif.nn.mixers.rwkv7 import DeltaMixConfig
from attentif.nn.seq import Seq

SITE = Site(width=16, layer=1, layers=4)


def test_rwkv_169m_has_the_parameters_of_the_released_model() -> None:
    """Counted from transformers' RwkvForCausalLM with the released configuration; table 2 of the paper rounds to 169 M."""
    model = build(resolve({"base": "rwkv-169m"}), device="meta")
    assert sum(parameter.numel() for parameter in model.parameters()) == 169_342_464


def test_rwkv_begins_as_the_released_model() -> None:
    first, last = (TimeMixConfig().build(Site(width=8, layer=layer, layers=3)) for layer in (0, 2))
    assert_close(first.mix_k, torch.arange(8) / 8)
    assert_close(last.mix_v, (torch.arange(8) / 8) ** (1 / 3) + 0.3)
    assert_close(first.decay[[0, -1]], torch.tensor([-5.0, 3.0]))
    assert_close(first.bonus[:3], math.log(0.3) + torch.tensor([0.0, 0.5, -0.5]))


def test_rg_lru_begins_with_long_memories() -> None:
    mixer = GatedRecurrenceConfig(hidden=1000).build(SITE)
    kept = torch.exp(-8 * torch.nn.functional.softplus(mixer.decay.detach()))
    assert 0.9 <= float(kept.min()) < 0.91
    assert 0.998 < float(kept.max()) <= 0.99901


def test_blocks_that_do_not_divide_the_state_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"= 10.*multiple.*= 4"):
        GatedRecurrenceConfig(hidden=10, blocks=4).build(SITE)


def test_filters_fade_within_the_horizon() -> None:
    mixer = GatedConvConfig(horizon=20).build(SITE)
    h = mixer.filters(200).detach()
    assert h.shape == (1, 200, 16)
    assert float(h[:, 100:].abs().max()) < 1e-5 * float(h[:, :20].abs().max())


@pytest.mark.parametrize(
    "config", [TimeMixConfig(), ChannelMixConfig(), DeltaMixConfig(head_width=8), GatedRecurrenceConfig()], ids=lambda config: config.kind
)
def test_the_state_is_as_large_for_a_long_text_as_for_a_short_one(config: TimeMixConfig) -> None:
    mixer = config.build(SITE)
    short, long = (mixer.init_state(2, capacity, device=torch.device("cpu"), dtype=torch.float32) for capacity in (8, 8000))
    assert short.bytes() == long.bytes()


def test_saturated_gates_keep_finite_gradients() -> None:
    """Where r = 0 the state is kept whole and √(1 - a²) has no derivative."""
    mixer = GatedRecurrenceConfig().build(SITE)
    with torch.no_grad():
        mixer.gate_biases[1] = -1e4
    x = torch.randn(1, 6, 16, requires_grad=True)
    mixer(x, Seq.from_padded([6])).square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("kind", ["rwkv-time", "rwkv-channel", "rwkv7-time", "gated-recurrence", "gated-conv"])
def test_a_new_mixer_has_outputs_of_a_sensible_size(kind: str) -> None:
    torch.manual_seed(0)
    mixer = MIXERS[kind].model_validate({"kind": kind}).build(Site(width=64))
    y = mixer(torch.randn(2, 50, 64), Seq.from_padded([50, 50]))
    assert 0.01 < float(y.detach().std()) < 10


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"= 16.*head_width = 5"):
        DeltaMixConfig(head_width=5).build(SITE)
