"""The protocol: a mixer maps a sequence to a sequence.

Attention of every kind, recurrences, state spaces and convolutions are mixers; so is a feed-forward network, which ignores its
neighbours. A decoding step is `forward` with T = 1 and a state.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from attentif.config import Config, Registry
from attentif.errors import ConfigError
from attentif.nn.linear import StackedLinear
from attentif.nn.norm import LayerNormConfig, NormConfig, Placement
from attentif.nn.seq import Seq
from attentif.nn.state import State, StateTree, alike


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """What a mixer can do: declared here, checked by `tests/contract`."""

    causal: bool  # an output depends on nothing later
    bidirectional: bool  # an output may depend on both sides
    streaming: Literal["exact", "approximate", "none"]  # read in pieces with a state, it gives the same / nearly the same
    packed: bool = True  # reads packed sequences
    maps: bool = False  # can show its weights
    max_len: int | None = None  # longest sequence it can read


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where in a model a mixer stands: what it needs to know to be built."""

    width: int
    layer: int = 0  # this block's number
    layers: int = 1  # of so many
    dropout: float = 0.0
    norm: NormConfig = field(default_factory=LayerNormConfig)
    placement: Placement = "pre"
    out_width: int | None = None  # width of what it returns, where not `width`; a mixer that can do this has an `out_width` of its own
    memory_width: int | None = None  # width of what a CrossMixer reads
    bias: nn.Module | None = None  # the stack's `Bias(q_pos, k_pos)`, shared by all its attention

    def head_width(self, heads: int, given: int | None) -> int:
        """K: the width that a mixer's configuration gives each head, by default an equal share of the model's."""
        if given is None and self.width % heads:
            raise ConfigError(f"width = {self.width} is not a multiple of heads = {heads}; give head_width")
        return given or self.width // heads


class Shown(nn.Module):
    """What every mixer answers about itself, and whatever else can show its weights."""

    caps: Caps

    def maps(self, record: Any, head: int | None = None, rows: Tensor | None = None) -> Tensor:
        """Weights (rows, heads, T, S), worked out from what the tape kept. Padding weighs nothing."""
        raise ConfigError(f"{type(self).__name__} has no attention map")

    def resume(self, state: Any, ended: Sequence[Any]) -> Any:
        """`state`, made by `init_state`, as it is where mixers that ended in other states are gone on from: the bridge to a decoder."""
        if len(ended) != 1 or not alike(state, ended[0]):
            raise ConfigError(f"{type(self).__name__} cannot go on from here: it needs one mixer of its own kind and size to come from")
        return ended[0].snapshot()

    def residual_outputs(self) -> Sequence[nn.Linear | StackedLinear]:
        """The projections that write into the residual stream: deep stacks start them smaller."""
        return [out] if isinstance(out := getattr(self, "out", None), nn.Linear | StackedLinear) else []


class Mixer(Shown):
    """Maps x (B, T, D), or packed (N, D), to the same shape. Padding may hold any finite number, before and after."""

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> State | StateTree:
        """An empty memory for `batch` sequences of at most `capacity` tokens."""
        raise ConfigError(f"{type(self).__name__} cannot read a sequence in pieces: it looks at both sides")

    def forward(self, x: Tensor, seq: Seq, state: Any = None) -> Tensor:
        raise NotImplementedError


class CrossMixer(Shown):
    """Maps a sequence to a sequence while reading another one, the memory, which has a `Seq` of its own."""

    def init_state(self, memory: Tensor, memory_seq: Seq) -> State:
        """What can be worked out from the memory once; beams of one source share it."""
        raise NotImplementedError

    def forward(self, x: Tensor, seq: Seq, memory: Tensor | None, memory_seq: Seq | None, state: Any = None) -> Tensor:
        raise NotImplementedError


class MixerConfig(Config):
    """Base of every mixer's configuration."""

    cost: ClassVar[str] = ""  # time against the length T (and S, the memory's), for `attentif list mixers`

    kind: str

    def build(self, site: Site) -> Mixer | CrossMixer:
        raise NotImplementedError


MIXERS: Registry[MixerConfig] = Registry("mixer")


def refer(owner: nn.Module, name: str, module: nn.Module | None) -> None:
    """Let `owner` use a module that lives elsewhere: no parameter is listed, saved or counted twice."""
    object.__setattr__(owner, name, module)


def refuse_unreadable(seq: Seq) -> None:
    """What cannot be read with a state."""
    if seq.is_packed:
        raise ValueError("packed input cannot be read with a state: pad it (Seq.padded)")
    if seq.marks is not None:
        raise ValueError("marked tokens cannot be read with a state: the marks of earlier pieces are not kept")


def refuse_both_ways(causal: bool) -> None:
    """What attention must be for its keys and values to be kept."""
    if not causal:
        raise ConfigError("attention that looks both ways cannot read a sequence in pieces; make it causal")
