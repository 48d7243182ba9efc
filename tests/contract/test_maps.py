"""What the tape shows is what the mixer did."""

import pytest
import torch
from cases import CAPS, CASES, MAPS, SELF_CASES, STREAMING_CASES, alone, built_mixer, end_to_end, marks, padded, rows, together
from common import CLOSE, LENGTHS
from families.attention import attention_heads
from torch.testing import assert_close

from attentif.nn.mixers import Attention
from attentif.nn.seq import Seq
from attentif.nn.tape import record

pytestmark = pytest.mark.contract

SHOWN = [name for name in SELF_CASES if CAPS[name].maps]
PATH = ""  # a mixer recorded alone stands at the root


@pytest.mark.parametrize("name", SHOWN)
def test_maps_are_the_naive_weights(name: str) -> None:
    mixer, sequences = built_mixer(name), rows()
    with record(mixer) as tape:
        mixer(padded(sequences), together(name))
    maps = tape.maps(PATH)
    assert maps.shape[0] == len(LENGTHS)
    assert maps.shape[2:] == (max(LENGTHS), max(LENGTHS))
    for row, x in enumerate(sequences):
        T = len(x)
        assert_close(maps[row, :, :T, :T], MAPS[CASES[name][0].kind](mixer, x, marks(name, torch.arange(T))), **CLOSE)
        assert torch.count_nonzero(maps[row, :, T:]) == torch.count_nonzero(maps[row, :, :, T:]) == 0  # padding weighs nothing


ONE_VALUE = [  # a token has one value, whoever looks at it
    name for name in SHOWN if CASES[name][0].kind == "attention" and not getattr(CASES[name][0], "global_projections", False)
]


@pytest.mark.parametrize("name", ONE_VALUE)
def test_attention_maps_reproduce_the_output(name: str) -> None:
    mixer, sequences = built_mixer(name), rows()
    assert isinstance(mixer, Attention)
    with record(mixer) as tape:
        y = mixer(padded(sequences), together(name))
    for row, x in enumerate(sequences):
        T = len(x)
        heads = attention_heads(mixer, x, marks(name, torch.arange(T)))
        mixed = torch.cat([tape.maps(PATH)[row, h, :T, :T] @ v for h, (_, v) in enumerate(heads)], -1)
        assert_close(mixer.out(mixed), y[row, :T], **CLOSE)


@pytest.mark.parametrize("name", SHOWN)
def test_maps_of_a_packed_call_are_those_of_the_padded_one(name: str) -> None:
    mixer, sequences = built_mixer(name), rows()
    with record(mixer) as tape:
        mixer(padded(sequences), together(name))
        mixer(torch.cat(sequences), end_to_end(name))
    assert_close(tape.maps(PATH, call=1), tape.maps(PATH, call=0), **CLOSE)


@pytest.mark.parametrize("name", SHOWN)
def test_one_head_and_some_rows_can_be_asked_for(name: str) -> None:
    mixer = built_mixer(name)
    with record(mixer) as tape:
        mixer(padded(rows()), together(name))
    chosen = torch.tensor([3, 0])
    last = tape.maps(PATH).shape[1] - 1
    assert_close(tape.maps(PATH, head=last, rows=chosen), tape.maps(PATH)[chosen, last:], **CLOSE)


@pytest.mark.parametrize("name", [name for name in SHOWN if name in STREAMING_CASES])
def test_maps_of_pieces_are_rows_of_the_whole_map(name: str) -> None:
    mixer, x = built_mixer(name), torch.stack(rows((10,)))
    with torch.no_grad(), record(mixer) as tape:
        mixer(x, Seq.from_padded([10]))
        state = mixer.init_state(1, 12, device=x.device, dtype=x.dtype)
        mixer(x[:, :6], Seq.from_padded([6]), state)
        mixer(x[:, 6:9], Seq.from_padded([3], start=6), state)
        mixer(x[:, 9:], Seq.from_padded([1], start=9), state)
    whole = tape.maps(PATH, call=0)
    assert_close(tape.maps(PATH, call=1), whole[:, :, :6, :6], **CLOSE)
    assert_close(tape.maps(PATH, call=2), whole[:, :, 6:9, :9], **CLOSE)
    assert_close(tape.maps(PATH, call=3), whole[:, :, 9:], **CLOSE)


def test_nothing_is_recorded_once_the_tape_is_closed() -> None:
    name = "attention-causal"
    mixer = built_mixer(name)
    with record(mixer) as tape:
        pass
    mixer(rows((3,))[0][None], alone(name, 3))
    assert not tape.records
    with pytest.raises(KeyError, match="nothing was recorded"):
        tape.maps(PATH)
