"""The mixer protocol: a mixer maps a sequence to a sequence.

Attention, recurrences, state spaces, convolutions and feed-forward networks are mixers. A decoding step is `forward` with T = 1 and a
state.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.config import Config, Registry
from attentif.errors import ConfigError
from attentif.nn.linear import StackedLinear
from attentif.nn.norm import LayerNormConfig, NormConfig, Placement
from attentif.nn.seq import Seq
from attentif.nn.state import State, StateTree, same_layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Capabilities of a mixer: declared here, verified by `tests/contract`."""

    causal: bool  # outputs do not depend on later inputs
    bidirectional: bool  # outputs may depend on both sides
    streaming: Literal["exact", "approximate", "none"]  # whether chunks read with a state give the same result
    packed: bool = True  # reads packed sequences
    maps: bool = False  # can return its weights
    max_len: int | None = None  # longest sequence it can read


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where a mixer is built: the model's sizes and defaults it depends on."""

    width: int
    layer: int = 0  # index of this block
    layers: int = 1  # number of blocks
    dropout: float = 0.0
    norm: NormConfig = field(default_factory=LayerNormConfig)
    placement: Placement = "pre"
    out_width: int | None = None  # width of the output, if not `width`; mixers that support it have an attribute `out_width`
    memory_width: int | None = None  # width of the memory of a CrossMixer
    bias: nn.Module | None = None  # the stack's shared positional bias

    def head_width(self, heads: int, given: int | None) -> int:
        """Return K: the configured width of a head, by default width / heads."""
        if given is None and self.width % heads:
            raise ConfigError(f"width = {self.width} is not a multiple of heads = {heads}; give head_width")
        return given or self.width // heads


class Recordable(nn.Module):
    """Base of modules a tape can record: all mixers, and heads with attention weights."""

    caps: Caps

    def __init_subclass__(cls, config: "type[MixerConfig] | None" = None) -> None:
        """Let `AttentionConfig().build(site)` build `class Attention(Mixer, config=AttentionConfig)`."""
        super().__init_subclass__()
        if config is not None:
            config.mixer_class = cls

    def maps(self, record: Any, head: int | None = None, rows: Tensor | None = None) -> Tensor:
        """Compute the weights (rows, heads, T, S) from a record of the tape; zero on padding."""
        raise ConfigError(f"{type(self).__name__} has no attention map")

    def resume(self, state: Any, ended: Sequence[Any]) -> Any:
        """Initialise `state` from the encoder's final states."""
        if len(ended) != 1 or not same_layout(state, ended[0]):
            raise ConfigError(f"{type(self).__name__} needs exactly one mixer of its own kind and size to continue from")
        return ended[0].snapshot()

    def residual_outputs(self) -> Sequence[nn.Linear | StackedLinear]:
        """Return the projections into the residual stream, which deep stacks scale down at init."""
        return [out] if isinstance(out := getattr(self, "out", None), nn.Linear | StackedLinear) else []


class Mixer(Recordable):
    """Maps x (B, T, D), or packed (N, D), to the same shape. Padding may hold any finite number."""

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> State | StateTree:
        """Return an empty state for `batch` sequences of at most `capacity` tokens."""
        raise ConfigError(f"{type(self).__name__} cannot read a sequence in chunks: it is bidirectional")

    def forward(self, x: Tensor, seq: Seq, state: Any = None) -> Tensor:
        raise NotImplementedError


class CrossMixer(Recordable):
    """Maps a sequence to a sequence while reading another one, the memory, with its own `Seq`."""

    def init_state(self, memory: Tensor, memory_seq: Seq) -> State:
        """Project the memory once for all steps; beams of one source share it."""
        raise NotImplementedError

    def forward(self, x: Tensor, seq: Seq, memory: Tensor | None, memory_seq: Seq | None, state: Any = None) -> Tensor:
        raise NotImplementedError


class MixerConfig(Config):
    """Base of all mixer configurations."""

    cost: ClassVar[str] = ""  # time against the length T (and S, the memory's), for `attentif list mixers`
    reads_bias: ClassVar[str] = ""  # kind of the stack's bias that it cannot be built without

    mixer_class: ClassVar[Any]  # set by the mixer: see Recordable

    kind: str

    def build(self, site: Site) -> Mixer | CrossMixer:
        mixer: Mixer | CrossMixer = self.mixer_class(self, site)
        return mixer


class HeadsConfig(MixerConfig):
    """Options of mixers with heads."""

    heads: int = Field(8, gt=0, description="number of heads")
    head_width: int | None = Field(None, gt=0, description="width of a head; by default width / heads")
    bias: bool = Field(True, description="biases in the projections to queries, keys and values")
    out_bias: bool = Field(True, description="bias in the output projection")


MIXERS: Registry[MixerConfig] = Registry("mixer")


def share_module(owner: nn.Module, name: str, module: nn.Module | None) -> None:
    """Let `owner` use a module that is registered elsewhere, without registering it again."""
    object.__setattr__(owner, name, module)


def map_index(rows: Tensor | None, head: int | None) -> tuple[Any, slice]:
    """Index of the requested rows and heads of a map; None: all of them."""
    return slice(None) if rows is None else rows, slice(None) if head is None else slice(head, head + 1)


def check_streamable(seq: Seq, state: object) -> None:
    """Refuse input that cannot be read with a state, where there is one."""
    if state is None:
        return
    if seq.is_packed:
        raise ValueError("packed input cannot be read with a state: pad it (Seq.from_padded)")
    if seq.marks is not None:
        raise ValueError("marked tokens cannot be read with a state: the marks of earlier chunks are not kept")


def check_causal(causal: bool) -> None:
    """Refuse a key-value cache for attention that is not causal."""
    if not causal:
        raise ConfigError("bidirectional attention cannot read a sequence in chunks; make it causal")
