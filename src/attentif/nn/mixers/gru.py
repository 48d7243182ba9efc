"""The gated recurrent unit: one state, which a gate mixes with a candidate (Cho et al. 2014).

    r, z = σ(W x_t + U h_{t-1} + b),  a block of rows each           n = tanh(W_n x_t + b_n + r ⊙ (U_n h_{t-1} + v))
    h_t = (1 - z) ⊙ n + z ⊙ h_{t-1}

    x, h     input, and the state, which is the output                       (B, D), (B, N)
    r, z     how much of the state the candidate sees, how much of it stays  (B, N) each
    W, U     input's and state's part of r, z and n                          (3N, D), (3N, N)

The reset gate r acts after the product with U_n, as in torch.nn.GRU and cuDNN, where one product serves all gates; in the paper it acts on
h_{t-1} before it. z weighs the old state, as in torch.nn.GRU.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.kernels.cells import gru_gates, gru_step
from attentif.kernels.gru import gru
from attentif.nn.mixer import MIXERS, Site
from attentif.nn.recurrent import Gated, RecurrentConfig


@MIXERS.register
class GRUConfig(RecurrentConfig):
    """The gated recurrent unit."""

    kind: Literal["gru"] = Field("gru", description="the gated recurrent unit")


class GRU(Gated, config=GRUConfig):
    gates = 3
    gate_names = ("reset", "update", "candidate")

    def __init__(self, config: GRUConfig, site: Site) -> None:
        super().__init__(config, site)
        self.config = config
        self.b_h = nn.Parameter(torch.zeros(self.hidden))
        self.init_weights()

    @torch.no_grad()
    def init_weights(self) -> None:
        super().init_weights()
        nn.init.zeros_(self.b_h)

    def step(self, gates: Tensor, state: Sequence[Tensor]) -> tuple[Tensor]:
        (h,) = state
        return (gru_step(gates, h, self.w_h, self.b_h),)

    def step_with_gates(self, gates: Tensor, state: Sequence[Tensor]) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        (h,) = state
        shown = gru_gates(gates, h, self.w_h, self.b_h)
        _, z, n = shown
        return shown, (n + z * (h - n),)

    def run(self, gates: Tensor, state: Sequence[Tensor], begin: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        (h,) = state
        return gru(gates, h, self.w_h, self.b_h, begin, lengths)
