"""What holds for every mixer that reads a sequence in pieces: the state belongs to the caller, and the pieces make the whole."""

import pytest
import torch
from cases import CAPS, SELF_CASES, STREAMING_CASES, built_mixer, padded, rows
from common import CLOSE, WIDTH
from torch import Tensor
from torch.testing import assert_close

from attentif.errors import AttentifError
from attentif.nn.mixer import Mixer
from attentif.nn.mixers.attention import KeyValueState
from attentif.nn.seq import Seq
from attentif.nn.state import State, StateTree
from attentif.nn.tape import record

pytestmark = pytest.mark.contract

streaming = pytest.mark.parametrize("name", STREAMING_CASES)
PIECES = (5, 1, 1, 12, 1, 4)  # 24 tokens
PREFIX, LENGTHS = (3, 9, 1, 6), (7, 16, 6, 10)  # ragged prompts, and the whole sequences


def empty(mixer: Mixer, batch: int, capacity: int) -> State | StateTree:
    return mixer.init_state(batch, capacity, device=torch.device("cpu"), dtype=torch.float64)


KEEPING = [  # a place for every token
    name for name in STREAMING_CASES if empty(built_mixer(name), 1, 16).bytes() > empty(built_mixer(name), 1, 8).bytes()
]


def read_in_pieces(mixer: Mixer, x: Tensor, state: State | StateTree) -> Tensor:
    outputs, start = [], 0
    for piece in x.split(PIECES, 1):
        width = piece.shape[1]
        outputs.append(mixer(piece, Seq.from_padded([width] * len(x), start=start), state))
        start += width
    return torch.cat(outputs, 1)


def whole(mixer: Mixer, x: Tensor) -> Tensor:
    return mixer(x, Seq.from_padded([x.shape[1]] * len(x)))


@streaming
def test_pieces_read_with_a_state_equal_the_whole(name: str) -> None:
    mixer, x = built_mixer(name), torch.stack(rows((24, 24, 24)))
    with torch.no_grad():
        assert_close(read_in_pieces(mixer, x, empty(mixer, 3, 24)), whole(mixer, x), **CLOSE)


@streaming
def test_gradients_through_a_state_equal_those_of_the_whole(name: str) -> None:
    mixer, x = built_mixer(name), torch.stack(rows((24, 24))).requires_grad_()
    probe = torch.stack(rows((24, 24), seed=5))
    wanted = [x, *mixer.parameters()]
    pieces = torch.autograd.grad((read_in_pieces(mixer, x, empty(mixer, 2, 30)) * probe).sum(), wanted)
    assert_close(pieces, torch.autograd.grad((whole(mixer, x) * probe).sum(), wanted), **CLOSE)


@streaming
@pytest.mark.parametrize("gradients", [False, True])
def test_ragged_prefill_then_steps_equal_the_whole(name: str, gradients: bool) -> None:
    mixer, sequences = built_mixer(name), rows(LENGTHS)
    expected = [whole(mixer, x[None])[0] for x in sequences]
    state, start = empty(mixer, len(sequences), 20), torch.tensor(PREFIX)
    with torch.set_grad_enabled(gradients):
        y = mixer(padded([x[:n] for x, n in zip(sequences, PREFIX, strict=True)]), Seq.from_padded(PREFIX), state)
        for row, n in enumerate(PREFIX):
            assert_close(y[row, :n], expected[row][:n], **CLOSE)
        for _ in range(4):
            step = torch.stack([x[place] for x, place in zip(sequences, start.tolist(), strict=True)])[:, None]
            y = mixer(step, Seq.from_padded([1] * len(sequences), start=start), state)
            assert_close(y[:, 0], torch.stack([out[place] for out, place in zip(expected, start.tolist(), strict=True)]), **CLOSE)
            start = start + 1


@streaming
@pytest.mark.parametrize("gradients", [False, True])
def test_ragged_pieces_after_ragged_pieces_equal_the_whole(name: str, gradients: bool) -> None:
    mixer, sequences = built_mixer(name), rows(LENGTHS)
    expected = [whole(mixer, x[None])[0] for x in sequences]
    rest = [n - m for n, m in zip(LENGTHS, PREFIX, strict=True)]
    assert len(set(rest)) > 1
    state = empty(mixer, len(sequences), 16)
    with torch.set_grad_enabled(gradients):
        mixer(padded([x[:n] for x, n in zip(sequences, PREFIX, strict=True)]), Seq.from_padded(PREFIX), state)
        tails = padded([x[n:] for x, n in zip(sequences, PREFIX, strict=True)], fill=1e6)
        y = mixer(tails, Seq.from_padded(rest, start=torch.tensor(PREFIX)), state)
    for row, (begin, count) in enumerate(zip(PREFIX, rest, strict=True)):
        assert_close(y[row, :count], expected[row][begin:], **CLOSE)


@streaming
def test_rows_that_have_ended_stand_still_while_others_go_on(name: str) -> None:
    mixer, sequences = built_mixer(name), rows((4, 6))
    state = empty(mixer, 2, 6)
    with torch.no_grad():
        mixer(torch.stack([x[:4] for x in sequences]), Seq.from_padded([4, 4]), state)
        for place in (4, 5):
            step = torch.stack([torch.full((1, WIDTH), 1e6, dtype=torch.float64), sequences[1][place : place + 1]])
            y = mixer(step, Seq.from_padded([0, 1], 1, start=torch.tensor([4, place])), state)
        assert_close(y[1, 0], whole(mixer, sequences[1][None])[0, 5], **CLOSE)
        again = mixer(sequences[0][None, :1], Seq.from_padded([1], start=4), state.select(torch.tensor([0])))
        longer = torch.cat([sequences[0], sequences[0][:1]])
        assert_close(again[0, 0], whole(mixer, longer[None])[0, 4], **CLOSE)


@streaming
def test_selected_rows_go_on_as_if_alone(name: str) -> None:
    """Also when the longest row was dropped: what lies beyond the places of those that stay is never seen."""
    mixer, sequences = built_mixer(name), rows(LENGTHS)
    expected = [whole(mixer, x[None])[0] for x in sequences]
    with torch.no_grad():
        state = empty(mixer, len(sequences), 20)
        mixer(padded([x[:n] for x, n in zip(sequences, PREFIX, strict=True)]), Seq.from_padded(PREFIX), state)
        for chosen in ([2], [0, 0], [3, 0, 2, 3]):
            kept = state.select(torch.tensor(chosen))
            start = torch.tensor([PREFIX[row] for row in chosen])
            step = torch.stack([sequences[row][PREFIX[row]] for row in chosen])[:, None]
            y = mixer(step, Seq.from_padded([1] * len(chosen), start=start), kept)
            assert_close(y[:, 0], torch.stack([expected[row][PREFIX[row]] for row in chosen]), **CLOSE)


@streaming
def test_a_snapshot_goes_back_to_where_it_was_taken(name: str) -> None:
    mixer, x = built_mixer(name), torch.stack(rows((12,)))
    other = torch.stack(rows((12,), seed=9))
    with torch.no_grad():
        state = empty(mixer, 1, 12)
        mixer(x[:, :6], Seq.from_padded([6]), state)
        kept = state.snapshot()
        mixer(other[:, 6:], Seq.from_padded([6], start=6), state)
        assert_close(mixer(x[:, 6:], Seq.from_padded([6], start=6), kept), whole(mixer, x)[:, 6:], **CLOSE)


@pytest.mark.parametrize("name", KEEPING)
def test_reading_again_from_an_earlier_place_forgets_what_came_after(name: str) -> None:
    mixer, x = built_mixer(name), torch.stack(rows((12,)))
    with torch.no_grad():
        state = empty(mixer, 1, 20)
        mixer(torch.cat([x[:, :6], torch.full((1, 9, WIDTH), 3.0, dtype=torch.float64)], 1), Seq.from_padded([15]), state)
        steps = [mixer(x[:, place : place + 1], Seq.from_padded([1], start=place), state) for place in range(6, 12)]
        assert_close(torch.cat(steps, 1), whole(mixer, x)[:, 6:], **CLOSE)


@streaming
def test_a_detached_state_keeps_its_values_and_forgets_its_history(name: str) -> None:
    mixer, x = built_mixer(name), torch.stack(rows((12,))).requires_grad_()
    state = empty(mixer, 1, 12)
    mixer(x[:, :6], Seq.from_padded([6]), state)
    y = mixer(x[:, 6:], Seq.from_padded([6], start=6), state.detach())
    assert_close(y, whole(mixer, x)[:, 6:], **CLOSE)
    (gradient,) = torch.autograd.grad(y.square().sum(), x)
    assert torch.count_nonzero(gradient[:, :6]) == 0
    assert torch.count_nonzero(gradient[:, 6:]) > 0


@streaming
def test_recording_pieces_changes_no_bit(name: str) -> None:
    mixer, x = built_mixer(name), torch.stack(rows((24, 24)))
    with torch.no_grad():
        unseen = read_in_pieces(mixer, x, empty(mixer, 2, 24))
        with record(mixer):
            seen = read_in_pieces(mixer, x, empty(mixer, 2, 24))
    assert torch.equal(seen, unseen)


@pytest.mark.parametrize("name", [name for name in SELF_CASES if CAPS[name].streaming != "none"])
def test_packed_input_with_a_state_is_refused(name: str) -> None:
    mixer = built_mixer(name)
    with pytest.raises(ValueError, match="packed"):
        mixer(torch.cat(rows((2, 3))), Seq.from_packed([2, 3]), empty(mixer, 2, 8))


@streaming
def test_marks_with_a_state_are_refused(name: str) -> None:
    mixer = built_mixer(name)
    seq = Seq.from_padded([3], marks=torch.ones(1, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="marked"):
        mixer(torch.stack(rows((3,))), seq, empty(mixer, 1, 8))


@pytest.mark.parametrize("name", KEEPING)
def test_running_past_the_capacity_raises_and_writes_nothing(name: str) -> None:
    mixer, x = built_mixer(name), torch.stack(rows((6, 6)))
    with torch.no_grad():
        state = empty(mixer, 2, 5)
        mixer(x[:, :4], Seq.from_padded([4, 4]), state)
        with pytest.raises(AttentifError, match=r"6 tokens.*5"):
            mixer(x[:, 4:], Seq.from_padded([2, 2], start=4), state)
        with pytest.raises(AttentifError, match="capacity"):
            mixer(x[:, 4:], Seq.from_padded([1, 2], start=torch.tensor([4, 4])), state)
        mixer(x[:, 4:], Seq.from_padded([1, 0], 2, start=4), state)  # padding needs no room
        assert_close(
            mixer(x[1:, 4:5], Seq.from_padded([1], start=4), state.select(torch.tensor([1]))), whole(mixer, x[1:, :5])[:, 4:], **CLOSE
        )


@pytest.mark.parametrize("ragged", [False, True])
def test_buffers_are_written_in_place_only_without_gradients(ragged: bool) -> None:
    mixer, x = built_mixer("attention-causal"), torch.stack(rows((6, 6)))
    seq = Seq.from_padded([3, 2] if ragged else [3, 3], 3)
    state = empty(mixer, 2, 6)
    assert isinstance(state, KeyValueState)
    buffer = state.k
    with torch.no_grad():
        mixer(x[:, :3], seq, state)
    assert state.k is buffer
    kept = buffer.clone()
    mixer(x[:, 3:], Seq.from_padded([3, 2] if ragged else [3, 3], 3, start=torch.tensor([3, 2]) if ragged else 3), state)
    assert state.k is not buffer
    assert torch.equal(buffer, kept)


def test_a_state_tells_its_size_in_bytes() -> None:
    mixer = built_mixer("attention-grouped-causal")
    assert empty(mixer, 3, 10).bytes() == 2 * 3 * 2 * 10 * 4 * 8  # keys and values, rows, groups, places, head width, float64


def test_ntk_scaling_streams_exactly_as_long_as_the_trained_length() -> None:
    mixer, x = built_mixer("attention-rotary-ntk"), torch.stack(rows((8, 8)))
    assert mixer.caps.streaming == "approximate"
    state = empty(mixer, 2, 8)
    y = [mixer(x[:, place : place + 1], Seq.from_padded([1, 1], start=place), state) for place in range(8)]
    assert_close(torch.cat(y, 1), whole(mixer, x), **CLOSE)
