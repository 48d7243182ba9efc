"""Recurrent cells, and both directions of anything that looks back."""

from typing import Any

import torch
from common import SITE, WIDTH, Case, Twin, make
from families.plain import shift_twin
from torch import Tensor

from attentif.nn.mixers.bidirectional import Bidirectional, BidirectionalConfig
from attentif.nn.mixers.gru import GRU, GRUConfig
from attentif.nn.mixers.lstm import LSTM, LSTMConfig
from attentif.nn.mixers.rnn import RNN, RNNConfig

CASES: dict[str, Case] = {
    "rnn-tanh": (RNNConfig(), SITE),
    "rnn-relu": (RNNConfig(activation="relu"), SITE),
    "rnn-narrow": (RNNConfig(hidden=10), SITE),
    "lstm": (LSTMConfig(), SITE),
    "lstm-peepholes": (LSTMConfig(peepholes=True), SITE),
    "lstm-wide": (LSTMConfig(hidden=21), SITE),
    "lstm-projected": (LSTMConfig(peepholes=True, project=True), SITE),
    "gru": (GRUConfig(), SITE),
    "gru-narrow": (GRUConfig(hidden=5), SITE),
    "bidirectional-lstm-concat": (BidirectionalConfig(), SITE),
    "bidirectional-gru-sum": (BidirectionalConfig(mixer=GRUConfig(), join="sum"), SITE),
    "bidirectional-rnn-project": (BidirectionalConfig(mixer=RNNConfig(hidden=9), join="project"), SITE),
    "bidirectional-shift-project": (make(BidirectionalConfig, mixer={"kind": "shift"}, join="project"), SITE),
}


def walked(mixer: RNN | LSTM | GRU, x: Tensor) -> Tensor:
    """One step after the other, each gate written out."""
    N, w, u, b = mixer.hidden, mixer.x.weight, mixer.w_h, mixer.x.bias
    blocks = [slice(k * N, k * N + N) for k in range(mixer.gates)]
    h, c = x.new_zeros(N), x.new_zeros(N)
    steps = []
    for now in x:
        parts = [w[k] @ now + b[k] for k in blocks]
        held = [u[k] @ h for k in blocks]
        match mixer:
            case RNN():
                total = parts[0] + held[0]
                h = (
                    (total.exp() - (-total).exp()) / (total.exp() + (-total).exp())
                    if mixer.config.activation == "tanh"
                    else total.clamp(min=0)
                )
            case LSTM():
                peep = mixer.peepholes if mixer.peepholes is not None else x.new_zeros(3, N)
                i = 1 / (1 + (-(parts[0] + held[0] + peep[0] * c)).exp())
                f = 1 / (1 + (-(parts[1] + held[1] + peep[1] * c)).exp())
                c = f * c + i * (parts[2] + held[2]).tanh()
                h = c.tanh() / (1 + (-(parts[3] + held[3] + peep[2] * c)).exp())
            case GRU():
                r, z = (1 / (1 + (-(parts[k] + held[k])).exp()) for k in (0, 1))
                h = (1 - z) * (parts[2] + r * (held[2] + mixer.b_h)).tanh() + z * h
        steps.append(h)
    return torch.stack(steps)


def recurrent_twin(mixer: Any, x: Tensor, marks: Tensor | None = None) -> Tensor:
    y = walked(mixer, x)
    return y if mixer.out is None else mixer.out(y)


def bidirectional_twin(mixer: Bidirectional, x: Tensor, marks: Tensor | None = None) -> Tensor:
    twin = shift_twin if mixer.config.mixer.kind == "shift" else recurrent_twin
    ahead, back = twin(mixer.ahead, x), twin(mixer.back, x.flip(0)).flip(0)
    if mixer.config.join == "sum":
        return ahead + back
    both = torch.cat([ahead, back], -1)
    assert both.shape[-1] == (2 * WIDTH if mixer.config.join == "project" else WIDTH)
    return both if mixer.out is None else both @ mixer.out.weight.T + mixer.out.bias


TWINS: dict[str, Twin] = {"rnn": recurrent_twin, "lstm": recurrent_twin, "gru": recurrent_twin, "bidirectional": bidirectional_twin}
