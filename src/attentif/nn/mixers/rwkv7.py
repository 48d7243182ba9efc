"""RWKV-7's time-mix: a matrix memory per head, updated by a generalised delta rule (Peng et al. 2025).

    x̄_t^j = μ_j ⊙ x_t + (1 - μ_j) ⊙ x_{t-1}                       token shift, j = r, w, k, v, a, g
    r, k, v = W_r x̄^r, W_k x̄^k, W_v x̄^v
    w = exp(-e^{-½} σ(U_w tanh(D_w x̄^w) + b_w))                   decay of each row of the memory
    α = σ(U_a D_a x̄^a + b_a)                                      in-context learning rate
    κ = normalised, head by head, (k ⊙ ξ)                         the key that is taken out
    k ← k ⊙ (1 + (α - 1) ⊙ ρ)                                     the key that is written
    y = norm_heads(delta_rule(r, w, k, v, -κ, κ ⊙ α)) + (Σ r ⊙ k ⊙ β) v
    out = W_o (y ⊙ U_g σ(D_g x̄^g))

The recurrence is in `kernels/delta_rule.py`; ξ, ρ and β are `removed`, `replaced` and `bonus`. **Limitation**: the published model mixes
the first block's values into later ones, v + (v¹ - v) ⊙ σ(...), which a mixer, seeing only its own input, cannot. Every block here is like
the first one, so released weights cannot be loaded. Initialised as in the authors' training code, matrices as elsewhere here.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.kernels.delta_rule import delta_rule
from attentif.kernels.wkv import Runs
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site
from attentif.nn.seq import Seq
from attentif.nn.shift import ShiftState, mix_ratios, token_shift

LOOKING_BACK = (0.2, 0.9, 0.7, 0.7, 0.9, 0.2)  # of r, w, k, v, a, g: powers of the first shares
EPS = 64e-5  # of the norm of heads


@MIXERS.register
class DeltaMixConfig(MixerConfig):
    """RWKV-7's recurrence: a matrix memory per head whose values are replaced under their keys."""

    cost: ClassVar[str] = "T"

    kind: Literal["rwkv7-time"] = Field("rwkv7-time", description="RWKV-7's time-mix, without the values of the first block")
    head_width: int = Field(64, gt=0, description="width of a head")
    rank: int = Field(64, gt=0, description="rank of the maps to decays and rates")
    gate_rank: int = Field(128, gt=0, description="rank of the map to the gate")


@dataclass(slots=True)
class DeltaMixState(ShiftState):
    memory: Tensor  # (B, H, K, K): rows by key, columns by value


class DeltaMix(Mixer, config=DeltaMixConfig):
    caps = Caps(causal=True, bidirectional=False, streaming="exact")

    def __init__(self, config: DeltaMixConfig, site: Site) -> None:
        super().__init__()
        D, K = site.width, config.head_width
        if D % K:
            raise ConfigError(f"width = {D} is not a multiple of head_width = {K}")
        self.layer, self.layers, self.heads, self.head_width = site.layer, site.layers, D // K, K
        self.mix = nn.Parameter(torch.empty(6, D))
        self.r, self.k, self.v = (Linear(D, D, bias=False) for _ in range(3))
        self.decay_down, self.decay_up = Linear(D, config.rank, bias=False), Linear(config.rank, D)
        self.rate_down, self.rate_up = Linear(D, config.rank, bias=False), Linear(config.rank, D)
        self.gate_down, self.gate_up = Linear(D, config.gate_rank, bias=False), Linear(config.gate_rank, D, bias=False)
        self.removed, self.replaced = (nn.Parameter(torch.empty(D)) for _ in range(2))
        self.bonus = nn.Parameter(torch.empty(self.heads, K))
        self.norm = nn.GroupNorm(self.heads, D, eps=EPS)
        self.out = Linear(D, D, bias=False)
        self.init_weights()

    @torch.no_grad()
    def init_weights(self) -> None:
        D = len(self.removed)
        depth, left = self.layer / max(self.layers - 1, 1), 1 - self.layer / self.layers
        for mix, power in zip(self.mix, LOOKING_BACK, strict=True):
            mix.copy_(mix_ratios(D, power * left))
        for down in (self.decay_down, self.rate_down, self.gate_down):
            nn.init.zeros_(down.weight)
        for up in (self.decay_up, self.rate_up, self.gate_up):
            nn.init.orthogonal_(up.weight, gain=0.1)
        self.decay_up.bias.copy_(-6.5 + 5 * (torch.arange(D) / max(D - 1, 1)) ** (0.85 + depth**0.5))
        nn.init.zeros_(self.rate_up.bias)
        nn.init.constant_(self.removed, 0.85)
        nn.init.ones_(self.replaced)
        nn.init.zeros_(self.bonus)
        self.norm.reset_parameters()

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> DeltaMixState:
        last = torch.zeros(batch, len(self.removed), device=device, dtype=dtype)
        return DeltaMixState(last, self.empty_memory(last))

    def empty_memory(self, like: Tensor) -> Tensor:
        return like.new_zeros(len(like), self.heads, self.head_width, self.head_width)

    def forward(self, x: Tensor, seq: Seq, state: DeltaMixState | None = None) -> Tensor:
        before = token_shift(x, seq, state)
        r, w, k, v, a, g = (torch.lerp(before, x, mix).reshape(-1, x.shape[-1]) for mix in self.mix)  # (N, D)
        r, k, v = self.r(r), self.k(k), self.v(v)
        w = torch.exp(-math.exp(-0.5) * self.decay_up(self.decay_down(w).tanh()).sigmoid())
        a = self.rate_up(self.rate_down(a)).sigmoid()
        kappa = F.normalize(self.split_heads(k * self.removed), dim=-1)
        k = k * (1 + (a - 1) * self.replaced)
        memory = self.empty_memory(x.new_empty(seq.batch, 0)) if state is None else state.memory
        r_, w_, k_, v_, a_ = (self.split_heads(t) for t in (r, w, k, v, a))
        y, memory = delta_rule(r_, w_, k_, v_, -kappa, kappa * a_, memory, Runs(seq.first(), seq.lengths, seq.max_len))
        if state is not None:
            state.memory = memory
        own = (r_ * k_ * self.bonus).sum(-1, keepdim=True) * v_
        y = self.norm(y.flatten(1)) + own.flatten(1)
        return self.out(y * self.gate_up(self.gate_down(g).sigmoid())).view_as(x)

    def split_heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, self.head_width))
