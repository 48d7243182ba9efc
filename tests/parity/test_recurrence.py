"""Recurrent mixers against torch.nn, weights copied: outputs, last states and gradients, ragged too.

float64 on both sides: the same sums in another order, through 40 steps that hardly amplify, agree to some 1e-14; a wrong gate would show
at 1e-2. So 1e-10. The peephole LSTM, which torch.nn does not have, is compared with its equation, written out here step by step.
"""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from attentif.nn.mixer import MixerConfig, Site
from attentif.nn.mixers.bidirectional import Bidirectional, BidirectionalConfig
from attentif.nn.mixers.gru import GRUConfig
from attentif.nn.mixers.lstm import LSTM, LSTMConfig
from attentif.nn.mixers.rnn import RNNConfig
from attentif.nn.recurrent import Recurrent
from attentif.nn.seq import Seq

pytestmark = pytest.mark.parity
CLOSE = {"rtol": 1e-10, "atol": 1e-10}
WIDTH, HIDDEN = 12, 20
LENGTHS = [40, 7, 1, 23]
PAIRS: dict[str, tuple[MixerConfig, type[nn.RNNBase], dict[str, Any]]] = {
    "rnn-tanh": (RNNConfig(), nn.RNN, {"nonlinearity": "tanh"}),
    "rnn-relu": (RNNConfig(activation="relu"), nn.RNN, {"nonlinearity": "relu"}),
    "lstm": (LSTMConfig(), nn.LSTM, {}),
    "gru": (GRUConfig(), nn.GRU, {}),
}
every_pair = pytest.mark.parametrize("name", PAIRS)


def pair(name: str, **more: Any) -> tuple[nn.RNNBase, Any]:
    torch.manual_seed(0)
    config, theirs, options = PAIRS[name]
    oracle = theirs(WIDTH, HIDDEN, batch_first=True, dtype=torch.float64, **options, **more)
    config = BidirectionalConfig(mixer=config) if more else config
    mixer = config.build(Site(width=WIDTH, out_width=2 * HIDDEN if more else HIDDEN)).double()
    return oracle, mixer


def names(theirs: nn.RNNBase, mixer: Recurrent, suffix: str = "_l0") -> tuple[list[Tensor], list[Tensor]]:
    """Their weights and ours, in the same order and of the same shapes. torch.nn adds up two biases where one would do."""
    weights = [getattr(theirs, f"{name}_{part}{suffix}") for name in ("weight", "bias") for part in ("ih", "hh")]
    return weights, [mixer.x.weight, mixer.w_h, mixer.x.bias]


@torch.no_grad()
def copy(theirs: nn.RNNBase, mixer: Recurrent, suffix: str = "_l0") -> None:
    (w, u, b, v), (my_w, my_u, my_b) = names(theirs, mixer, suffix)
    my_w.copy_(w)
    my_u.copy_(u)
    if isinstance(theirs, nn.GRU):  # the candidate's second bias stands inside the reset gate's reach: it cannot be added to the first
        my_b.copy_(torch.cat([(b + v)[: 2 * HIDDEN], b[2 * HIDDEN :]]))
        mixer.b_h.copy_(v[2 * HIDDEN :])
    else:
        my_b.copy_(b + v)


def same_gradients(theirs: nn.RNNBase, mixer: Recurrent, suffix: str = "_l0") -> None:
    (w, u, b, v), (my_w, my_u, my_b) = names(theirs, mixer, suffix)
    assert_close([my_w.grad, my_u.grad, my_b.grad], [w.grad, u.grad, b.grad], **CLOSE)
    if isinstance(theirs, nn.GRU):
        assert_close(mixer.b_h.grad, v.grad[2 * HIDDEN :], **CLOSE)


def inputs(lengths: list[int] = LENGTHS) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(len(lengths), max(lengths), WIDTH, dtype=torch.float64, generator=generator)
    return x.requires_grad_(), x.detach().clone().requires_grad_()


def read_ragged(theirs: nn.RNNBase, x: Tensor) -> tuple[Tensor, Any]:
    packed, last = theirs(pack_padded_sequence(x, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False))
    return pad_packed_sequence(packed, batch_first=True)[0], last


@every_pair
def test_a_batch_agrees_in_outputs_and_gradients(name: str) -> None:
    theirs, mixer = pair(name)
    copy(theirs, mixer)
    x, mine = inputs([40] * 4)
    expected, y = theirs(x)[0], mixer(mine, Seq.from_padded([40] * 4))
    assert_close(y, expected, **CLOSE)
    expected.square().sum().backward()
    y.square().sum().backward()
    assert_close(mine.grad, x.grad, **CLOSE)
    same_gradients(theirs, mixer)


@every_pair
@pytest.mark.parametrize("packed", [False, True])
def test_a_ragged_batch_agrees_in_outputs_and_gradients(name: str, packed: bool) -> None:
    theirs, mixer = pair(name)
    copy(theirs, mixer)
    x, mine = inputs()
    seq = Seq.from_padded(LENGTHS)
    expected = read_ragged(theirs, x)[0][seq.valid]
    y = mixer(mine[seq.valid], Seq.from_packed(LENGTHS)) if packed else mixer(mine, seq)[seq.valid]
    assert_close(y, expected, **CLOSE)
    expected.square().sum().backward()
    y.square().sum().backward()
    assert_close(mine.grad, x.grad, **CLOSE)
    same_gradients(theirs, mixer)


@every_pair
def test_the_state_after_a_ragged_batch_is_the_same_and_carries_on(name: str) -> None:
    theirs, mixer = pair(name)
    copy(theirs, mixer)
    x, mine = inputs()
    state = mixer.init_state(len(LENGTHS), 0, device=x.device, dtype=x.dtype)
    mixer(mine, Seq.from_padded(LENGTHS), state)
    last = read_ragged(theirs, x)[1]
    h, *c = last if name == "lstm" else (last,)
    assert_close(state.h, h[0], **CLOSE)
    if c:
        assert_close(state.c, c[0][0], **CLOSE)
    more = torch.randn(len(LENGTHS), 5, WIDTH, dtype=torch.float64)
    y = mixer(more, Seq.from_padded([5] * len(LENGTHS), start=torch.tensor(LENGTHS)), state)
    assert_close(y, theirs(more, last)[0], **CLOSE)


@every_pair
def test_both_directions_joined_end_to_end_agree(name: str) -> None:
    theirs, mixer = pair(name, bidirectional=True)
    assert isinstance(mixer, Bidirectional)
    copy(theirs, mixer.ahead)
    copy(theirs, mixer.back, "_l0_reverse")
    x, mine = inputs()
    seq = Seq.from_padded(LENGTHS)
    expected, y = read_ragged(theirs, x)[0][seq.valid], mixer(mine, seq)[seq.valid]
    assert_close(y, expected, **CLOSE)
    expected.square().sum().backward()
    y.square().sum().backward()
    assert_close(mine.grad, x.grad, **CLOSE)
    same_gradients(theirs, mixer.ahead)
    same_gradients(theirs, mixer.back, "_l0_reverse")


def test_the_peephole_lstm_is_its_equation() -> None:
    """Gers & Schmidhuber 2000: the input and forget gates see the cell before the step, the output gate the cell after it."""
    torch.manual_seed(0)
    mixer = LSTMConfig(peepholes=True).build(Site(width=WIDTH, out_width=HIDDEN)).double()
    assert isinstance(mixer, LSTM)
    for parameter in mixer.parameters():
        nn.init.normal_(parameter, std=0.4)
    x, mine = inputs()
    W_i, W_f, W_g, W_o = mixer.x.weight.chunk(4)
    U_i, U_f, U_g, U_o = mixer.w_h.chunk(4)
    b_i, b_f, b_g, b_o = mixer.x.bias.chunk(4)
    p_i, p_f, p_o = mixer.peepholes
    rows = []
    for row, length in zip(x, LENGTHS, strict=True):
        h = c = torch.zeros(HIDDEN, dtype=torch.float64)
        for now in row[:length]:
            i = torch.sigmoid(W_i @ now + U_i @ h + p_i * c + b_i)
            f = torch.sigmoid(W_f @ now + U_f @ h + p_f * c + b_f)
            g = torch.tanh(W_g @ now + U_g @ h + b_g)
            c = f * c + i * g
            o = torch.sigmoid(W_o @ now + U_o @ h + p_o * c + b_o)
            h = o * torch.tanh(c)
            rows.append(h)
    seq = Seq.from_padded(LENGTHS)
    expected, y = torch.stack(rows), mixer(mine, seq)[seq.valid]
    assert_close(y, expected, **CLOSE)
    parameters = list(mixer.parameters())
    gradients = torch.autograd.grad(y.square().sum(), [mine, *parameters])
    assert_close(gradients, torch.autograd.grad(expected.square().sum(), [x, *parameters]), **CLOSE)
