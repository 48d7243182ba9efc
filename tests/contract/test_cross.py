"""What holds for every mixer that reads another sequence: neither side's batching matters, and the memory is projected once."""

import copy
from dataclasses import fields

import pytest
import torch
from cases import CASES, CROSS_CASES, MAPS, TWINS, built, padded, rows
from common import CLOSE, LENGTHS, MEMORY_WIDTH, SOURCE_LENGTHS
from torch import Tensor
from torch.testing import assert_close

from attentif.nn.mixer import CrossMixer
from attentif.nn.mixers.cross import MemoryState
from attentif.nn.seq import Seq
from attentif.nn.tape import record

pytestmark = pytest.mark.contract

every_cross_mixer = pytest.mark.parametrize("name", CROSS_CASES)


def built_cross(name: str) -> CrossMixer:
    mixer = built(name)
    assert isinstance(mixer, CrossMixer)
    return mixer


def twin(name: str, mixer: CrossMixer, x: Tensor, memory: Tensor) -> Tensor:
    return TWINS[CASES[name][0].kind](mixer, x, memory)


def memories() -> list[Tensor]:
    return rows(SOURCE_LENGTHS, MEMORY_WIDTH, seed=4)


def layouts(sequences: list[Tensor], fill: float = 0.0) -> dict[str, tuple[Tensor, Seq]]:
    lengths = [len(x) for x in sequences]
    return {"padded": (padded(sequences, fill), Seq.from_padded(lengths)), "packed": (torch.cat(sequences), Seq.from_packed(lengths))}


@every_cross_mixer
@pytest.mark.parametrize("target", ["padded", "packed"])
@pytest.mark.parametrize("source", ["padded", "packed"])
def test_every_layout_equals_the_naive_twin_in_output_and_gradients(name: str, target: str, source: str) -> None:
    mixer, sequences, sources = built_cross(name), rows(), memories()
    for x in (*sequences, *sources):
        x.requires_grad_()
    wanted = [*sequences, *sources, *mixer.parameters()]
    twins = [twin(name, mixer, x, memory) for x, memory in zip(sequences, sources, strict=True)]
    probes = rows(seed=3)
    expected = torch.autograd.grad(sum((y * p).sum() for y, p in zip(twins, probes, strict=True)), wanted)

    y = mixer(*layouts(sequences)[target], *layouts(sources)[source])
    wanted_outputs, seq = layouts(twins)[target]
    assert_close(y[seq.valid], wanted_outputs[seq.valid], **CLOSE)
    assert_close(torch.autograd.grad((y * layouts(probes)[target][0]).sum(), wanted), expected, **CLOSE)


@every_cross_mixer
def test_padding_of_either_side_never_matters(name: str) -> None:
    mixer, seq, memory_seq = built_cross(name), Seq.from_padded(LENGTHS), Seq.from_padded(SOURCE_LENGTHS)
    clean = mixer(padded(rows()), seq, padded(memories()), memory_seq)
    x, memory = padded(rows(), 1e6).requires_grad_(), padded(memories(), 1e6).requires_grad_()
    dirty = mixer(x, seq, memory, memory_seq)
    assert torch.equal(dirty[seq.valid], clean[seq.valid])
    assert dirty.isfinite().all()
    gradients = torch.autograd.grad(dirty[seq.valid].square().sum(), [x, memory])
    assert torch.count_nonzero(gradients[0][~seq.valid]) == torch.count_nonzero(gradients[1][~memory_seq.valid]) == 0


@every_cross_mixer
@pytest.mark.parametrize("source", ["padded", "packed"])
def test_steps_with_a_state_equal_the_whole(name: str, source: str) -> None:
    mixer, x = built_cross(name), torch.stack(rows((6,) * len(SOURCE_LENGTHS)))
    memory, memory_seq = layouts(memories())[source]
    whole = mixer(x, Seq.from_padded([6] * len(x)), memory, memory_seq)
    state = mixer.init_state(memory, memory_seq)
    steps = [mixer(x[:, t : t + 1], Seq.from_padded([1] * len(x), start=t), None, None, state) for t in range(6)]
    assert_close(torch.cat(steps, 1), whole, **CLOSE)


@every_cross_mixer
@pytest.mark.parametrize("gradients", [False, True])
def test_ragged_prefill_then_steps_equal_each_row_alone(name: str, gradients: bool) -> None:
    """Also of rows that are taken in another order, or have ended while others go on."""
    mixer, sources, sequences = built_cross(name), memories(), rows((6, 9, 5, 7))
    expected = [twin(name, mixer, x, memory) for x, memory in zip(sequences, sources, strict=True)]
    prompts = (3, 5, 1, 4)
    with torch.set_grad_enabled(gradients):
        state = mixer.init_state(padded(sources), Seq.from_padded(SOURCE_LENGTHS))
        y = mixer(padded([x[:n] for x, n in zip(sequences, prompts, strict=True)], fill=1e6), Seq.from_padded(prompts), None, None, state)
        for row, n in enumerate(prompts):
            assert_close(y[row, :n], expected[row][:n], **CLOSE)
        order = [2, 0, 3]
        state, start = state.select(torch.tensor(order)), torch.tensor([prompts[row] for row in order])
        ended = torch.full_like(sequences[0][:2], 1e6)
        piece = torch.stack([sequences[2][1:3], ended, sequences[3][4:6]])
        mixer(piece, Seq.from_padded([2, 0, 2], 2, start), None, None, state)
        step = torch.stack([sequences[row][place : place + 1] for row, place in zip(order, (3, 3, 6), strict=True)])
        kept = state.snapshot()
        for state_ in (state, kept):
            y = mixer(step, Seq.from_padded([1, 1, 1], start=torch.tensor([3, 3, 6])), None, None, state_)
            assert_close(y[:, 0], torch.stack([expected[2][3], expected[0][3], expected[3][6]]), **CLOSE)


@every_cross_mixer
def test_nothing_leaks_from_the_future(name: str) -> None:
    mixer, x = built_cross(name), torch.stack(rows((9,) * len(SOURCE_LENGTHS))).requires_grad_()
    y = mixer(x, Seq.from_padded([9] * len(x)), padded(memories()), Seq.from_padded(SOURCE_LENGTHS))
    (gradient,) = torch.autograd.grad(y[:, :5].square().sum(), x)
    assert torch.count_nonzero(gradient[:, 5:]) == 0
    assert torch.count_nonzero(gradient[:, :5]) > 0


@every_cross_mixer
def test_an_empty_target_and_an_empty_memory_leave_the_others_alone(name: str) -> None:
    mixer, sequences, sources = built_cross(name), rows((4, 0, 3)), rows((5, 2, 0), MEMORY_WIDTH, seed=4)
    for target in ("padded", "packed"):
        for source in ("padded", "packed"):
            x, seq = layouts(sequences)[target]
            y = mixer(x, seq, *layouts(sources)[source])
            assert_close(y[:4] if seq.is_packed else y[0], twin(name, mixer, sequences[0], sources[0]), **CLOSE)
            assert y.isfinite().all()


@every_cross_mixer
@pytest.mark.parametrize(
    "choices",
    [
        [[0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]],  # three beams a source
        [[0, 0, 1, 1, 2, 2, 3, 3], [1, 0, 2, 2, 5, 4, 7, 7]],  # ... chosen among themselves
        [[0, 0, 1, 1, 2, 2, 3, 3], [2, 3, 6, 7]],  # ... two sources are done
        [[0, 0, 1, 1, 2, 2, 3, 3], [0, 3, 7]],  # ... one beam of three sources is left
        [[3, 1, 1, 0]],  # any rows, in any order
        [[0, 0, 1, 0]],
        [[2], [0, 0, 0]],
    ],
)
def test_selected_rows_read_the_memory_of_their_own_source(name: str, choices: list[list[int]]) -> None:
    mixer, sources = built_cross(name), memories()
    state, owners = mixer.init_state(padded(sources), Seq.from_padded(SOURCE_LENGTHS)), list(range(len(sources)))
    for rows_ in choices:
        state, owners = state.select(torch.tensor(rows_)), [owners[row] for row in rows_]
    x = torch.stack(rows((2,) * len(owners)))
    y = mixer(x, Seq.from_padded([2] * len(owners)), None, None, state)
    assert_close(y, torch.stack([twin(name, mixer, x[row], sources[owner]) for row, owner in enumerate(owners)]), **CLOSE)
    with record(mixer) as tape:
        mixer(x, Seq.from_padded([2] * len(owners)), None, None, state)
    assert_close(tape.maps("").sum(-1), torch.ones_like(tape.maps("")[..., 0]), **CLOSE)


def test_beams_share_the_memory_of_their_source() -> None:
    state = built_cross("cross-attention").init_state(padded(memories()), Seq.from_padded(SOURCE_LENGTHS))
    assert isinstance(state, MemoryState)
    beams = state.select(torch.arange(len(SOURCE_LENGTHS)).repeat_interleave(3))
    assert beams.k.data_ptr() == state.k.data_ptr()
    reordered = beams.select(torch.tensor([2, 0, 0, 3, 3, 4, 8, 7, 6, 9, 10, 11]))
    assert reordered.k.data_ptr() == state.k.data_ptr()
    assert reordered.snapshot().k.data_ptr() == state.k.data_ptr()


@every_cross_mixer
def test_maps_are_the_naive_weights_in_every_layout(name: str) -> None:
    mixer, sequences, sources = built_cross(name), rows(), memories()
    memory, memory_seq = layouts(sources)["padded"]
    for target in ("padded", "packed"):
        x, seq = layouts(sequences)[target]
        unseen = mixer(x, seq, memory, memory_seq)
        with record(mixer) as tape:
            y = mixer(x, seq, memory, memory_seq)
        assert torch.equal(y, unseen)
        maps, valid = tape.maps(""), Seq.from_padded(LENGTHS).valid
        for row, (x_, memory_) in enumerate(zip(sequences, sources, strict=True)):
            assert_close(maps[row, :, : len(x_), : len(memory_)], MAPS[CASES[name][0].kind](mixer, x_, memory_), **CLOSE)
        assert torch.count_nonzero(maps.transpose(1, 2)[~valid]) == 0
        assert torch.count_nonzero(maps.permute(0, 3, 1, 2)[~memory_seq.valid]) == 0
        last = maps.shape[1] - 1
        assert_close(tape.maps("", head=last, rows=torch.tensor([1])), maps[1:2, last:], **CLOSE)


@every_cross_mixer
def test_refusals(name: str) -> None:
    mixer, memory_seq = built_cross(name), Seq.from_padded(SOURCE_LENGTHS)
    state = mixer.init_state(padded(memories()), memory_seq)
    with pytest.raises(ValueError, match="packed"):
        mixer(torch.cat(rows()), Seq.from_packed(LENGTHS), None, None, state)
    with pytest.raises(ValueError, match="memory"):
        mixer(padded(rows()), Seq.from_padded(LENGTHS), None, None)


@every_cross_mixer
def test_a_deep_copy_and_a_functional_call_compute_the_same(name: str) -> None:
    mixer = built_cross(name)
    inputs = padded(rows()), Seq.from_padded(LENGTHS), padded(memories()), Seq.from_padded(SOURCE_LENGTHS)
    changed = {key: value + 0.1 for key, value in mixer.named_parameters()}
    other = copy.deepcopy(mixer)
    assert torch.equal(other(*inputs), mixer(*inputs))
    other.load_state_dict(mixer.state_dict() | changed)
    assert torch.equal(torch.func.functional_call(mixer, changed, inputs), other(*inputs))


@every_cross_mixer
def test_gradients_reach_the_memory_through_a_state(name: str) -> None:
    mixer, x = built_cross(name), padded(rows())
    memory, seq = padded(memories()).requires_grad_(), Seq.from_padded(LENGTHS)
    memory_seq = Seq.from_padded(SOURCE_LENGTHS)
    whole = torch.autograd.grad(mixer(x, seq, memory, memory_seq)[seq.valid].square().sum(), memory)
    state = mixer.init_state(memory, memory_seq)
    assert_close(torch.autograd.grad(mixer(x, seq, None, None, state)[seq.valid].square().sum(), memory), whole, **CLOSE)
    detached = state.detach()
    assert not any(isinstance(v := getattr(detached, field.name), Tensor) and v.requires_grad for field in fields(detached))
