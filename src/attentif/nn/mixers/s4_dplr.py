"""The original S4 (Gu et al. 2022): HiPPO's matrix as diagonal plus low rank, discretised bilinearly.

    h_t = Ā h_{t-1} + B̄ x_t,     y_t = 2 Re(C h_t) + D x_t,     Ā, B̄ from A = Λ − P P* and B by the bilinear rule

`kernels/s4_dplr.py` has the recurrence and the convolution, `nn/fixed_state_space.py` what follows y. Λ, P, B, C, D and Δ are all learned;
Re Λ < 0 and one low-rank factor for both sides keep the recurrence stable (Goel et al. 2022).

Before training: A and B are HiPPO-LegS, whose state holds the coefficients of the past in Legendre polynomials; C ~ N(0, 1/2) in each part,
D ~ N(0, 1), Δ between 0.001 and 0.1 (log-uniform).
"""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.kernels.s4_dplr import Parameters, hippo_legs, s4_dplr, s4_dplr_advance
from attentif.nn.fixed_state_space import FixedStateSpace, FixedStateSpaceConfig
from attentif.nn.mixer import MIXERS, Site


@MIXERS.register
class S4DPLRConfig(FixedStateSpaceConfig):
    """Fixed state space, diagonal plus low rank."""

    cost: ClassVar[str] = "T log T"

    kind: Literal["s4-dplr"] = Field("s4-dplr", description="fixed state space, diagonal plus low rank, begun as HiPPO (the original S4)")


class S4DPLR(FixedStateSpace, config=S4DPLRConfig):
    def __init__(self, config: S4DPLRConfig, site: Site) -> None:
        super().__init__(config, site)
        self.P = nn.Parameter(torch.empty_like(self.C))
        self.B = nn.Parameter(torch.empty_like(self.C))
        self.init_weights()

    @torch.no_grad()
    def init_weights(self) -> None:
        super().init_weights()
        rates, low, written = hippo_legs(self.config.state)
        self.frequency.copy_(rates.imag)
        self.P.copy_(torch.view_as_real(low))
        self.B.copy_(torch.view_as_real(written))

    def parameters_of_kernel(self) -> Parameters:
        P, B, C = (torch.view_as_complex(t) for t in (self.P, self.B, self.C))
        return torch.exp(self.log_step), self.rates(), P, B, C, self.D

    def convolve(self, x: Tensor) -> Tensor:
        return s4_dplr(x, *self.parameters_of_kernel())

    def advance(self, x: Tensor, h: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        return s4_dplr_advance(x, self.parameters_of_kernel(), h, lengths)
