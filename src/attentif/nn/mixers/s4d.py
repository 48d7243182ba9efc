"""The diagonal state space S4D, discretised by zero-order hold (Gu et al. 2022).

    h_t = e^{ΔA} ⊙ h_{t-1} + (e^{ΔA} − 1)/A · x_t,     y_t = 2 Re(C h_t) + D x_t

`kernels/s4d.py` has the recurrence and the convolution, `nn/fixed_state_space.py` what follows y.

Before training (S4D-Lin): A_n = −1/2 + iπn, C ~ N(0, 1/2) in each part, D ~ N(0, 1), Δ between 0.001 and 0.1 (log-uniform).
"""

import math
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from attentif.kernels.s4d import s4d, s4d_advance
from attentif.nn.fixed_state_space import FixedStateSpace, FixedStateSpaceConfig
from attentif.nn.mixer import MIXERS, Site


@MIXERS.register
class S4DConfig(FixedStateSpaceConfig):
    """Fixed diagonal state space."""

    cost: ClassVar[str] = "T log T"

    kind: Literal["s4d"] = Field("s4d", description="fixed diagonal state space (S4D)")


class S4D(FixedStateSpace, config=S4DConfig):
    def __init__(self, config: S4DConfig, site: Site) -> None:
        super().__init__(config, site)
        self.init_weights()

    @torch.no_grad()
    def init_weights(self) -> None:
        super().init_weights()
        self.frequency.copy_(math.pi * torch.arange(self.frequency.shape[1], device=self.frequency.device).expand_as(self.frequency))

    def parameters_of_kernel(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Δ, A, C, D."""
        return torch.exp(self.log_step), self.rates(), torch.view_as_complex(self.C), self.D

    def convolve(self, x: Tensor) -> Tensor:
        return s4d(x, *self.parameters_of_kernel())

    def advance(self, x: Tensor, h: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        return s4d_advance(x, *self.parameters_of_kernel(), h, lengths)
