"""State spaces: what is refused when built, what holds before training, and what the tape can show."""

import pytest
import torch
from torch.testing import assert_close

from attentif.errors import ConfigError
from attentif.nn.mixer import Mixer, MixerConfig, Site
from attentif.nn.mixers.mamba import MambaConfig
from attentif.nn.mixers.mamba2 import Mamba2Config
from attentif.nn.mixers.s4_dplr import S4DPLRConfig
from attentif.nn.mixers.s4d import S4DConfig
from attentif.nn.selective import STEP_MAX, STEP_MIN
from attentif.nn.seq import Seq
from attentif.nn.tape import record

SITE = Site(width=16)
CONFIGS = [S4DConfig(state=4), S4DPLRConfig(state=4), MambaConfig(state=4), Mamba2Config(state=4, head_width=8)]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (S4DConfig(state=3), "state = 3: conjugate pairs need an even number"),
        (S4DConfig(step_min=0.5), "step_min = 0.5 is above step_max = 0.1"),
        (Mamba2Config(head_width=5), "head_width = 5 does not divide the inner width, 32"),
        (Mamba2Config(head_width=8, groups=3), "4 heads are not a multiple of groups = 3"),
    ],
)
def test_what_cannot_work_is_refused_when_built(config: MixerConfig, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        config.build(SITE)


@pytest.mark.parametrize("config", CONFIGS[2:])
def test_step_sizes_begin_within_their_bounds(config: MixerConfig) -> None:
    mixer = config.build(SITE)
    step = torch.nn.functional.softplus(mixer.step.bias)
    assert (step >= STEP_MIN * 0.99).all()
    assert (step <= STEP_MAX * 1.01).all()


@pytest.mark.parametrize("config", CONFIGS)
def test_the_state_does_not_grow(config: MixerConfig) -> None:
    mixer = config.build(SITE)
    assert isinstance(mixer, Mixer)
    sizes = [mixer.init_state(2, capacity, device=torch.device("cpu"), dtype=torch.float32).bytes() for capacity in (1, 100_000)]
    assert sizes[0] == sizes[1] > 0


@pytest.mark.parametrize("config", CONFIGS[2:])
def test_a_map_from_the_middle_of_a_sequence_is_refused(config: MixerConfig) -> None:
    mixer, x = config.build(SITE), torch.randn(1, 6, 16)
    assert isinstance(mixer, Mixer)
    state = mixer.init_state(1, 6, device=x.device, dtype=x.dtype)
    with torch.no_grad():
        mixer(x[:, :4], Seq.from_padded([4]), state)
        with record(mixer) as tape:
            mixer(x[:, 4:], Seq.from_padded([2], start=4), state)
    with pytest.raises(ConfigError, match=r"tape.*opened"):
        tape.maps("")


def test_the_map_of_one_channel_of_mamba_reproduces_its_scan() -> None:
    """With eight inner channels each group of the map is one channel."""
    torch.manual_seed(0)
    mixer, x = MambaConfig(state=3, expand=1).build(Site(width=8)).double(), torch.randn(1, 9, 8, dtype=torch.float64)
    seen: dict[str, torch.Tensor] = {}
    mixer.select.register_forward_pre_hook(lambda _, args: seen.update(u=args[0]))
    mixer.out.register_forward_pre_hook(lambda _, args: seen.update(y=args[0]))
    with torch.no_grad(), record(mixer) as tape:
        mixer(x, Seq.from_padded([9]))
        scanned = torch.einsum("hts,sh->th", tape.maps("")[0], seen["u"])
        assert_close(scanned * torch.nn.functional.silu(mixer.gate(x[0])), seen["y"][0], rtol=1e-11, atol=1e-11)
