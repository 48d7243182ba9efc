"""What holds for every mixer with adapters: it answers as it did until they learn, and as its merged form ever after."""

import copy

import pytest
import torch
from cases import CAPS, CASES, SELF_CASES, STREAMING_CASES, built, end_to_end, is_cross, padded, rows, together
from common import CLOSE, MEMORY_WIDTH, SOURCE_LENGTHS
from torch import Tensor, nn
from torch.func import functional_call
from torch.testing import assert_close

from attentif.nn.adapt import AdaptConfig, LowRank, adapt, adapters, find_linear_maps, merge
from attentif.nn.mixer import CrossMixer, Mixer
from attentif.nn.seq import Seq
from attentif.nn.tape import record

pytestmark = pytest.mark.contract

ADAPT = AdaptConfig(rank=3, alpha=5.0, targets=("*",), also=())
KINDS = {config.kind: name for name, (config, _) in reversed(CASES.items())}  # the first case of each
every_kind = pytest.mark.parametrize("name", KINDS.values(), ids=KINDS)


def adapted(name: str, *, learned: bool = True) -> Mixer | CrossMixer:
    mixer = built(name)
    adapt(mixer, ADAPT)
    for module in adapters(mixer) if learned else ():
        nn.init.normal_(module.lora_b, std=0.3)
    return mixer


def layouts(name: str) -> list[tuple[Tensor, ...]]:
    """What the mixer is called with, padded and packed."""
    sequences = rows()
    found: list[tuple[Tensor, ...]] = [(padded(sequences), together(name)), (torch.cat(sequences), end_to_end(name))]
    if not is_cross(name):
        return found
    memory = padded(rows(SOURCE_LENGTHS, MEMORY_WIDTH, seed=4)), Seq.from_padded(SOURCE_LENGTHS)
    return [(*given, *memory) for given in found]


def test_every_mixer_has_a_linear_map_to_adapt() -> None:
    assert all(find_linear_maps(built(name)) for name in CASES)


@every_kind
def test_new_adapters_change_no_bit(name: str) -> None:
    mixer, base = adapted(name, learned=False), built(name).requires_grad_(False)  # torch multiplies frozen tensors in an order of its own
    for given in layouts(name):
        assert torch.equal(mixer(*given), base(*given))


@every_kind
def test_output_and_gradients_equal_the_equation(name: str) -> None:
    """W' = W + (α/r) B A, put in the place of the weight of a mixer without adapters."""
    mixer, plain = adapted(name), built(name)
    learned = {path: module for path, module in mixer.named_modules() if isinstance(module, LowRank)}
    wanted = [tensor for module in learned.values() for tensor in (module.lora_a, module.lora_b)]
    for given in layouts(name):
        weights = {f"{path}.weight": module.base + 5.0 / 3 * (module.lora_b @ module.lora_a) for path, module in learned.items()}
        y, expected = mixer(*given), functional_call(plain, weights, given)
        assert_close(y, expected, **CLOSE)
        probe = torch.randn(y.shape, dtype=y.dtype, generator=torch.Generator().manual_seed(5))
        assert_close(torch.autograd.grad((y * probe).sum(), wanted), torch.autograd.grad((expected * probe).sum(), wanted), **CLOSE)


@every_kind
def test_merged_equals_unmerged_and_is_a_plain_mixer(name: str) -> None:
    mixer = adapted(name)
    merged = copy.deepcopy(mixer)
    merge(merged)
    assert list(merged.state_dict()) == list(built(name).state_dict())
    assert [type(module) for module in merged.modules()] == [type(module) for module in built(name).modules()]
    for given in layouts(name):
        assert_close(mixer(*given), merged(*given), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in STREAMING_CASES if name in KINDS.values()])
def test_reading_with_a_state_equals_the_merged_whole(name: str) -> None:
    mixer, x = adapted(name), torch.stack(rows((12, 12)))
    assert isinstance(mixer, Mixer)
    merged = copy.deepcopy(mixer)
    merge(merged)
    with torch.no_grad():
        state = mixer.init_state(2, 12, device=torch.device("cpu"), dtype=torch.float64)
        pieces, start = [], 0
        for piece in x.split((7, 1, 1, 3), 1):
            pieces.append(mixer(piece, Seq.from_padded([piece.shape[1]] * 2, start=start), state))
            start += piece.shape[1]
        assert_close(torch.cat(pieces, 1), merged(x, Seq.from_padded([12, 12])), **CLOSE)


@pytest.mark.parametrize("name", [name for name in SELF_CASES if name in KINDS.values() and CAPS[name].maps])
def test_recording_changes_no_bit_and_shows_the_merged_maps(name: str) -> None:
    mixer, given = adapted(name), layouts(name)[0]
    merged = copy.deepcopy(mixer)
    merge(merged)
    with torch.no_grad():
        with record(mixer) as tape:
            y = mixer(*given)
        assert torch.equal(y, mixer(*given))
        with record(merged) as expected:
            merged(*given)
        assert_close(tape.maps(""), expected.maps(""), **CLOSE)
