"""The feed-forward network: a mixer that processes each token alone.

plain   y = W₂ a(W₁ x + b₁) + b₂                    (Vaswani et al. 2017, eq. 2)
gated   y = W₂ (a(W₁ x) ⊙ W₃ x)                     (Shazeer 2020, GLU variants)
clamped y = W₂ (g σ(1.702 g) ⊙ (u + 1)),  g = min(W₁ x, 7),  u = W₃ x between -7 and 7     (gpt-oss, OpenAI 2025)
"""

from collections.abc import Callable
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from attentif.kernels.dropout import dropout
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site, check_streamable
from attentif.nn.seq import Seq
from attentif.nn.state import NoState, State

Activation = Literal["relu", "gelu", "gelu-tanh", "gelu-quick", "silu", "reglu", "geglu", "geglu-tanh", "swiglu", "swiglu-clamped"]
CLAMPED, LIMIT = "swiglu-clamped", 7.0
STEEPNESS = 1.702  # of the sigmoid that stands for the normal distribution in a GELU
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu-quick": lambda x: x * torch.sigmoid(STEEPNESS * x),  # Hendrycks & Gimpel 2016; CLIP
    "silu": F.silu,
}
GATED = {"reglu": "relu", "geglu": "gelu", "geglu-tanh": "gelu-tanh", "swiglu": "silu", CLAMPED: "silu"}  # gate -> its activation


def gate_units(activation: str, gate: Tensor, up: Tensor) -> Tensor:
    """The inner units of a gated network."""
    if activation == CLAMPED:
        gate, up = gate.clamp(max=LIMIT), up.clamp(-LIMIT, LIMIT) + 1
        return gate * torch.sigmoid(STEEPNESS * gate) * up
    return ACTIVATIONS[GATED[activation]](gate) * up


@MIXERS.register
class FeedForwardConfig(MixerConfig):
    """Two linear maps around an activation, for each token alone."""

    cost: ClassVar[str] = "T"

    kind: Literal["feed-forward"] = Field("feed-forward", description="two linear maps around an activation")
    hidden: int | None = Field(None, gt=0, description="inner width; by default 4 times the model's, 8/3 if gated")
    activation: Activation = Field(
        "gelu", description="relu, gelu, gelu-tanh, gelu-quick, silu; gated: reglu, geglu, geglu-tanh, swiglu, swiglu-clamped"
    )
    bias: bool = Field(True, description="biases in the linear maps")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout on the inner units")


class FeedForward(Mixer, config=FeedForwardConfig):
    caps = Caps(causal=True, bidirectional=False, streaming="exact")

    def __init__(self, config: FeedForwardConfig, site: Site) -> None:
        super().__init__()
        self.config = config
        gated = config.activation in GATED
        hidden = config.hidden or (8 * site.width // 3 if gated else 4 * site.width)
        self.up = Linear(site.width, hidden, bias=config.bias)
        self.gate = Linear(site.width, hidden, bias=config.bias) if gated else None
        self.out = Linear(hidden, site.width, bias=config.bias)
        self.dropout = config.dropout

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> State:
        return NoState()

    def forward(self, x: Tensor, seq: Seq, state: State | None = None) -> Tensor:
        check_streamable(seq, state)
        name = self.config.activation
        inner = ACTIVATIONS[name](self.up(x)) if self.gate is None else gate_units(name, self.gate(x), self.up(x))
        return self.out(dropout(inner, self.dropout, self.training))
