"""The plain recurrent network: the output is the state (Elman 1990).

    h_t = φ(W x_t + U h_{t-1} + b),     φ = tanh or ReLU

    x, h     input, and the state                (B, D), (B, N)
    W, U     input's and state's part            (N, D), (N, N)

With ReLU, U is initialised to the identity (Le et al. 2015).
"""

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.kernels.cells import rnn_step
from attentif.kernels.rnn import rnn
from attentif.nn.mixer import MIXERS, Site
from attentif.nn.recurrent import Recurrent, RecurrentConfig


@MIXERS.register
class RNNConfig(RecurrentConfig):
    """A plain recurrent network."""

    kind: Literal["rnn"] = Field("rnn", description="a plain recurrent network")
    activation: Literal["tanh", "relu"] = Field("tanh", description="tanh or relu")


class RNN(Recurrent, config=RNNConfig):
    gates = 1

    def __init__(self, config: RNNConfig, site: Site) -> None:
        super().__init__(config, site)
        self.config = config
        self.init_weights()

    @torch.no_grad()
    def init_weights(self) -> None:
        super().init_weights()
        if self.config.activation == "relu" and not self.w_h.is_meta:
            nn.init.eye_(self.w_h)

    def step(self, gates: Tensor, state: Sequence[Tensor]) -> tuple[Tensor]:
        (h,) = state
        return (rnn_step(gates, h, self.w_h, self.config.activation),)

    def run(self, gates: Tensor, state: Sequence[Tensor], begin: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        (h,) = state
        return rnn(gates, h, self.w_h, self.config.activation, begin, lengths)
