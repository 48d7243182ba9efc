"""A block is a named list of residual sublayers around mixers.

    pre        x + s·f(n(x))             post       n(x + s·f(x))
    branch     x + s·n(f(x))             sandwich   x + s·n'(f(n(x)))             none   x + s·f(x)
    both       n'(x + s·f(n(x)))

s, the weight of the branch, is 1 in most models and ½ in Conformer; without a residual x is left out of the sum. `scale` learns a weight
for each component besides: s ⊙ λ (LayerScale, Touvron et al. 2021).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.config import Config, OneOf
from attentif.errors import ConfigError, within
from attentif.kernels.dropout import dropout
from attentif.nn.linear import StackedLinear
from attentif.nn.mixer import MIXERS, Caps, CrossMixer, Mixer, MixerConfig, Site
from attentif.nn.norm import Placement, apply_norm
from attentif.nn.seq import Seq
from attentif.nn.state import State, StateTree


class SublayerConfig(Config):
    """One residual sublayer."""

    mixer: Annotated[MixerConfig, OneOf(MIXERS)] = Field(description="the mixer")
    placement: Placement | None = Field(None, description="norms: pre, post, both, branch, sandwich, none; by default the stack's")
    residual: bool = Field(True, description="add the input to the output")
    weight: float = Field(1.0, description="factor on the mixer's output")
    scale: float | None = Field(None, ge=0, description="initial value of a learned factor on each component of the branch (LayerScale)")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropout on the mixer's output; by default the model's")


class Sublayer(nn.Module):
    def __init__(self, config: SublayerConfig, site: Site) -> None:
        super().__init__()
        self.placement = config.placement or site.placement
        self.residual, self.weight = config.residual, config.weight
        self.dropout = site.dropout if config.dropout is None else config.dropout
        self.mixer = config.mixer.build(site)
        before = self.placement in ("pre", "both", "sandwich")
        after = self.placement in ("post", "both", "branch", "sandwich")
        self.norm_in = site.norm.build(site.width) if before else nn.Identity()
        self.norm_out = site.norm.build(site.width) if after else nn.Identity()
        self.initial = config.scale
        self.scale = None if config.scale is None else nn.Parameter(torch.full((site.width,), config.scale))

    @torch.no_grad()
    def init_weights(self) -> None:
        if self.scale is not None and self.initial is not None:
            nn.init.constant_(self.scale, self.initial)

    def forward(
        self, x: Tensor, seq: Seq, memory: Tensor | None = None, memory_seq: Seq | None = None, state: State | StateTree | None = None
    ) -> Tensor:
        y = self.branch(x, seq, memory, memory_seq, state)
        if self.residual:
            y = x + y
        return apply_norm(self.norm_out, y, seq) if self.placement in ("post", "both") else y

    def branch(
        self, x: Tensor, seq: Seq, memory: Tensor | None = None, memory_seq: Seq | None = None, state: State | StateTree | None = None
    ) -> Tensor:
        """Compute the branch added to the residual stream: s·λ·f(x) with the norms inside it."""
        x = apply_norm(self.norm_in, x, seq)
        y = self.mixer(x, seq, memory, memory_seq, state) if isinstance(self.mixer, CrossMixer) else self.mixer(x, seq, state)
        if self.placement in ("branch", "sandwich"):
            y = apply_norm(self.norm_out, y, seq)
        if self.training and self.dropout:
            y = dropout(y, self.dropout)
        if self.scale is not None:
            y = self.scale * y
        return y if self.weight == 1.0 else self.weight * y

    def init_state(
        self, batch: int, capacity: int, memory: Tensor | None, memory_seq: Seq | None, *, device: torch.device, dtype: torch.dtype
    ) -> State | StateTree:
        if isinstance(self.mixer, Mixer):
            return self.mixer.init_state(batch, capacity, device=device, dtype=dtype)
        if memory is None or memory_seq is None:
            raise ValueError("the state of a decoder that reads a memory is made from that memory")
        return self.mixer.init_state(memory, memory_seq)


class Block(nn.Module):
    """Sublayers by name, in order."""

    def __init__(self, sublayers: Mapping[str, SublayerConfig], site: Site) -> None:
        super().__init__()
        for name, config in sublayers.items():
            if not re.fullmatch(r"[A-Za-z0-9_-]+", name) or hasattr(self, name):
                raise ConfigError(f"{name}: not a valid name for a sublayer")
            with within(f"{name}: "):
                self.add_module(name, Sublayer(config, site))

    def sublayers(self) -> Iterator[tuple[str, Sublayer]]:
        return ((name, child) for name, child in self.named_children() if isinstance(child, Sublayer))

    def forward(
        self, x: Tensor, seq: Seq, memory: Tensor | None = None, memory_seq: Seq | None = None, state: Mapping[str, Any] | None = None
    ) -> Tensor:
        for name, sublayer in self.sublayers():
            x = sublayer(x, seq, memory, memory_seq, None if state is None else state[name])
        return x


@MIXERS.register
class ParallelConfig(MixerConfig):
    """Sublayers that read the same input; their branches are added (GPT-J, GPT-NeoX)."""

    cost: ClassVar[str] = "that of its branches"

    kind: Literal["parallel"] = Field("parallel", description="sublayers that read the same input; their branches are added")
    branches: dict[str, SublayerConfig] = Field(description="the sublayers by name; by default without norm and dropout")


class Parallel(Mixer, config=ParallelConfig):
    def __init__(self, config: ParallelConfig, site: Site) -> None:
        super().__init__()
        if len(config.branches) < 2:
            raise ConfigError("parallel needs at least two branches")
        for name, branch in config.branches.items():
            if branch.placement in ("post", "both") or not branch.residual:
                raise ConfigError(f"{name}: a branch has no residual: placement cannot be post or both, and residual must stay true")
        self.branches = Block(config.branches, replace(site, placement="none", dropout=0.0))
        if any(isinstance(branch.mixer, CrossMixer) for _, branch in self.branches.sublayers()):
            raise ConfigError("a branch of parallel cannot read the memory")
        self.caps = combine_caps(branch.mixer.caps for _, branch in self.branches.sublayers())

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> StateTree:
        return StateTree(
            (name, branch.init_state(batch, capacity, None, None, device=device, dtype=dtype)) for name, branch in self.branches.sublayers()
        )

    def forward(self, x: Tensor, seq: Seq, state: StateTree | None = None) -> Tensor:
        branches = [branch.branch(x, seq, state=None if state is None else state[name]) for name, branch in self.branches.sublayers()]
        return reduce(torch.add, branches)

    def residual_outputs(self) -> list[nn.Linear | StackedLinear]:
        return [out for _, branch in self.branches.sublayers() for out in branch.mixer.residual_outputs()]


def combine_caps(parts: Iterable[Caps]) -> Caps:
    """Return the capabilities of mixers applied in sequence: those they all have."""
    parts = list(parts)
    if len(parts) == 1:
        return parts[0]
    limits = [caps.max_len for caps in parts if caps.max_len is not None]
    order: list[Literal["exact", "approximate", "none"]] = ["exact", "approximate", "none"]
    return Caps(
        causal=all(caps.causal for caps in parts),
        bidirectional=any(caps.bidirectional for caps in parts),
        streaming=max((caps.streaming for caps in parts), key=order.index, default="exact"),
        packed=all(caps.packed for caps in parts),
        maps=False,
        max_len=min(limits, default=None),
    )
