"""Long short-term memory: a cell with input, forget and output gates (Hochreiter & Schmidhuber 1997).

    i, f, o = σ(W x_t + U h_{t-1} + b),  a block of rows each        g = tanh(W_g x_t + U_g h_{t-1} + b_g)
    c_t = f ⊙ c_{t-1} + i ⊙ g                                        h_t = o ⊙ tanh(c_t)

    x        input                                               (B, D)
    h, c     output and cell                                     (B, N) each
    W, U     input's and output's part of i, f, g and o          (4N, D), (4N, N)

With peepholes the gates see the cell as well (Gers & Schmidhuber 2000): i and f add p ⊙ c_{t-1} inside σ, o adds p ⊙ c_t.
The forget gate's bias is initialised to 1 (Jozefowicz et al. 2015), peepholes to 0.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.kernels.cells import lstm_gates, lstm_step
from attentif.kernels.lstm import lstm
from attentif.nn.mixer import MIXERS, Site
from attentif.nn.recurrent import CellState, Gated, RecurrentConfig


@MIXERS.register
class LSTMConfig(RecurrentConfig):
    """Long short-term memory."""

    kind: Literal["lstm"] = Field("lstm", description="long short-term memory")
    peepholes: bool = Field(False, description="the gates see the cell, each unit its own")


class LSTM(Gated, config=LSTMConfig):
    gates = 4
    gate_names = ("input", "forget", "candidate", "output", "cell")
    state_class = CellState

    def __init__(self, config: LSTMConfig, site: Site) -> None:
        super().__init__(config, site)
        self.config = config
        self.peepholes = nn.Parameter(torch.zeros(3, self.hidden)) if config.peepholes else None
        self.init_weights()

    @torch.no_grad()
    def init_weights(self) -> None:
        super().init_weights()
        nn.init.ones_(self.x.bias[self.hidden : 2 * self.hidden])
        if self.peepholes is not None:
            nn.init.zeros_(self.peepholes)

    def step(self, gates: Tensor, state: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        h, c = state
        return lstm_step(gates, h, c, self.w_h, self.peepholes)

    def step_with_gates(self, gates: Tensor, state: Sequence[Tensor]) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        h, c = state
        shown = lstm_gates(gates, h, c, self.w_h, self.peepholes)
        *_, o, c = shown
        return shown, (o * torch.tanh(c), c)

    def run(self, gates: Tensor, state: Sequence[Tensor], begin: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        h, c = state
        return lstm(gates, h, c, self.w_h, self.peepholes, begin, lengths)
