"""What holds for every mixer: how a sequence is batched, cut or watched never changes what it becomes."""

import copy

import pytest
import torch
from cases import CAPS, CASES, ROUNDED, SELF_CASES, SORTED, TWINS, alone, built_mixer, end_to_end, marks, padded, rows, together
from common import CLOSE, LENGTHS, WIDTH
from torch import Tensor
from torch.testing import assert_close

from attentif.errors import ConfigError
from attentif.nn.mixer import MIXERS, Mixer
from attentif.nn.seq import Seq
from attentif.nn.tape import record

pytestmark = pytest.mark.contract

every_mixer = pytest.mark.parametrize("name", SELF_CASES)
LOOKING_AHEAD = [name for name in SELF_CASES if not CAPS[name].causal]
CAUSAL = [name for name in SELF_CASES if CAPS[name].causal]


def one_by_one(name: str, mixer: Mixer, sequences: list[Tensor]) -> list[Tensor]:
    return [mixer(x[None], alone(name, len(x)))[0] for x in sequences]


def twin(name: str, mixer: Mixer, x: Tensor) -> Tensor:
    return TWINS[CASES[name][0].kind](mixer, x, marks(name, torch.arange(len(x))))


def assert_unseen(name: str, gradient: Tensor) -> None:
    """Nothing came from there: no bit of it, or no more than rounding."""
    limit = 1e-12 if CASES[name][0].kind in ROUNDED else 0.0
    assert not gradient.numel() or float(gradient.detach().abs().max()) <= limit


def test_every_kind_of_mixer_has_a_case_and_a_twin() -> None:
    assert {config.kind for config, _ in CASES.values()} >= set(MIXERS)
    assert set(TWINS) >= set(MIXERS)


@every_mixer
def test_ragged_batch_equals_each_row_alone(name: str) -> None:
    mixer, sequences = built_mixer(name), rows()
    batch = mixer(padded(sequences), together(name))
    for row, expected in enumerate(one_by_one(name, mixer, sequences)):
        assert_close(batch[row, : len(expected)], expected, **CLOSE)


@every_mixer
def test_rows_wider_than_the_longest_sequence_change_nothing(name: str) -> None:
    mixer, sequences = built_mixer(name), rows()
    batch = mixer(padded([*sequences, torch.zeros(50, WIDTH, dtype=torch.float64)])[:-1], together(name, width=50))
    for row, expected in enumerate(one_by_one(name, mixer, sequences)):
        assert_close(batch[row, : len(expected)], expected, **CLOSE)


@every_mixer
def test_packed_batch_equals_each_sequence_alone(name: str) -> None:
    mixer, sequences = built_mixer(name), rows()
    assert mixer.caps.packed
    packed = mixer(torch.cat(sequences), end_to_end(name))
    assert_close(packed, torch.cat(one_by_one(name, mixer, sequences)), **CLOSE)


@every_mixer
def test_packed_batch_with_an_empty_sequence_equals_the_others(name: str) -> None:
    mixer, sequences = built_mixer(name), rows((4, 0, 3, 0))
    packed = mixer(torch.cat(sequences), end_to_end(name, (4, 0, 3, 0)))
    assert_close(packed, torch.cat(one_by_one(name, mixer, [x for x in sequences if len(x)])), **CLOSE)


@every_mixer
def test_output_and_gradients_equal_the_naive_twin(name: str) -> None:
    mixer, sequences = built_mixer(name), rows()
    for x in sequences:
        x.requires_grad_()
    parameters = list(mixer.parameters())
    twins = [twin(name, mixer, x) for x in sequences]
    probes = rows(seed=3)  # a different weight for each output, so that no error can cancel another
    expected = torch.autograd.grad(sum((y * p).sum() for y, p in zip(twins, probes, strict=True)), [*sequences, *parameters])

    batch = mixer(padded(sequences), together(name))
    packed = mixer(torch.cat(sequences), end_to_end(name))
    for row, y in enumerate(twins):
        assert_close(batch[row, : len(y)], y, **CLOSE)
    scalars = [(batch * padded(probes)).sum(), (packed * torch.cat(probes)).sum()]
    for scalar in scalars:
        assert_close(torch.autograd.grad(scalar, [*sequences, *parameters]), expected, **CLOSE)


@pytest.mark.parametrize("name", CAUSAL)
def test_nothing_leaks_from_the_future(name: str) -> None:
    mixer = built_mixer(name)
    x = torch.stack(rows((33, 33)))
    changed = x.clone()
    changed[:, 20:] += changed[:, 20:] if CASES[name][0].kind in SORTED else 1
    seq = together(name, (33, 33))
    assert_unseen(name, mixer(x, seq)[:, :20] - mixer(changed, seq)[:, :20])
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(mixer(x, seq)[:, :20].square().sum(), x)
    assert_unseen(name, gradient[:, 20:])
    assert torch.count_nonzero(gradient[:, :20]) > 0


@pytest.mark.parametrize("name", CAUSAL)
def test_nothing_leaks_from_the_future_of_a_packed_sequence_nor_from_its_neighbours(name: str) -> None:
    mixer, x = built_mixer(name), torch.cat(rows()).requires_grad_()
    y = mixer(x, end_to_end(name))
    begin, cut = LENGTHS[0], LENGTHS[0] + 9
    (gradient,) = torch.autograd.grad(y[begin:cut].square().sum(), x)
    assert_unseen(name, gradient[:begin])
    assert_unseen(name, gradient[cut:])
    assert torch.count_nonzero(gradient[begin:cut]) > 0


@pytest.mark.parametrize("name", LOOKING_AHEAD)
def test_a_bidirectional_mixer_really_looks_ahead(name: str) -> None:
    mixer = built_mixer(name)
    assert mixer.caps.bidirectional
    x = torch.stack(rows((33,))).requires_grad_()
    (gradient,) = torch.autograd.grad(mixer(x, together(name, (33,)))[:, :20].square().sum(), x)
    assert torch.count_nonzero(gradient[:, 20:]) > 0


@every_mixer
@pytest.mark.parametrize("fill", [1e6, -1e6])
def test_padding_never_matters_and_stays_finite(name: str, fill: float) -> None:
    mixer, sequences, seq = built_mixer(name), rows(), together(name)
    clean, dirty = padded(sequences), padded(sequences, fill).requires_grad_()
    y = mixer(dirty, seq)
    assert torch.equal(y[seq.valid], mixer(clean, seq)[seq.valid])
    assert y.isfinite().all()
    (gradient,) = torch.autograd.grad(y[seq.valid].square().sum(), dirty)
    assert torch.count_nonzero(gradient[~seq.valid]) == 0


@every_mixer
def test_recording_changes_no_bit(name: str) -> None:
    mixer, x = built_mixer(name), padded(rows())
    unseen = mixer(x, together(name)), mixer(torch.cat(rows()), end_to_end(name))
    with record(mixer) as tape:
        seen = mixer(x, together(name)), mixer(torch.cat(rows()), end_to_end(name))
    assert torch.equal(seen[0], unseen[0])
    assert torch.equal(seen[1], unseen[1])
    assert bool(list(tape)) == mixer.caps.maps or CASES[name][0].kind == "parallel"


@every_mixer
def test_a_mixer_without_maps_says_so(name: str) -> None:
    mixer = built_mixer(name)
    if not mixer.caps.maps:
        with pytest.raises(ConfigError, match="no attention map"):
            mixer.maps(None)


@every_mixer
def test_a_mixer_that_cannot_stream_refuses_a_state(name: str) -> None:
    mixer = built_mixer(name)
    make = lambda: mixer.init_state(2, 8, device=torch.device("cpu"), dtype=torch.float64)
    if mixer.caps.streaming == "none":
        with pytest.raises(ConfigError, match="in chunks"):
            make()
    else:
        make()


@every_mixer
def test_a_deep_copy_computes_the_same_and_is_its_own(name: str) -> None:
    mixer, x, seq = built_mixer(name), padded(rows()), together(name)
    before = mixer(x, seq)
    twin = copy.deepcopy(mixer)
    assert torch.equal(twin(x, seq), before)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(1)
    assert torch.equal(mixer(x, seq), before)
    assert not torch.equal(twin(x, seq), before)


@every_mixer
def test_a_functional_call_uses_the_parameters_it_is_given(name: str) -> None:
    mixer, x, seq = built_mixer(name), padded(rows()), together(name)
    before, other = mixer(x, seq), copy.deepcopy(mixer)
    changed = {key: value + 0.1 for key, value in mixer.named_parameters()}
    other.load_state_dict(mixer.state_dict() | changed)
    assert torch.equal(torch.func.functional_call(mixer, changed, (x, seq)), other(x, seq))
    assert torch.equal(mixer(x, seq), before)


@every_mixer
def test_the_state_dict_names_every_parameter_once(name: str) -> None:
    mixer = built_mixer(name)
    saved = mixer.state_dict()
    assert len({value.data_ptr() for value in saved.values()}) == len(saved)
    assert saved.keys() >= dict(mixer.named_parameters()).keys()


@every_mixer
def test_float32_stays_float32(name: str) -> None:
    mixer, x = built_mixer(name).float(), padded(rows()).float()
    assert mixer(x, together(name)).dtype == torch.float32


def test_rows_of_every_place_can_be_marked_or_not() -> None:
    """The contract's marks reach the mixer: without them the result is another."""
    name = "attention-global-bidirectional"
    mixer, x = built_mixer(name), padded(rows())
    assert not torch.allclose(mixer(x, together(name)), mixer(x, Seq.from_padded(LENGTHS)))
