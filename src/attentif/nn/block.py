"""A block is a named list of residual sublayers around mixers.

    pre        x + s·f(n(x))             post       n(x + s·f(x))
    branch     x + s·n(f(x))             sandwich   x + s·n'(f(n(x)))             none   x + s·f(x)
    both       n'(x + s·f(n(x)))

s, the weight of the branch, is 1 in most models and ½ in Conformer; without a residual (a plain RNN) x is left out of the sum.
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
from attentif.nn.norm import Placement
from attentif.nn.seq import Seq
from attentif.nn.state import State, StateTree


class SublayerConfig(Config):
    """One residual sublayer."""

    mixer: Annotated[MixerConfig, OneOf(MIXERS)] = Field(description="what it computes")
    placement: Placement | None = Field(
        None, description="where it is normalised: pre, post, both, branch, sandwich, none; by default as the stack"
    )
    residual: bool = Field(True, description="add the input to the output")
    weight: float = Field(1.0, description="factor on the mixer's output")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropped components of the mixer's output; by default the model's")


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

    def forward(
        self, x: Tensor, seq: Seq, memory: Tensor | None = None, memory_seq: Seq | None = None, state: State | StateTree | None = None
    ) -> Tensor:
        y = self.branch(x, seq, memory, memory_seq, state)
        if self.residual:
            y = x + y
        return self.norm_out(y) if self.placement in ("post", "both") else y

    def branch(
        self, x: Tensor, seq: Seq, memory: Tensor | None = None, memory_seq: Seq | None = None, state: State | StateTree | None = None
    ) -> Tensor:
        """What is added to the residual stream: s·f(x) with the norms that stand inside the branch."""
        x = self.norm_in(x)
        y = self.mixer(x, seq, memory, memory_seq, state) if isinstance(self.mixer, CrossMixer) else self.mixer(x, seq, state)
        if self.placement in ("branch", "sandwich"):
            y = self.norm_out(y)
        if self.training and self.dropout:
            y = dropout(y, self.dropout)
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
                raise ConfigError(f"{name}: a sublayer cannot have this name")
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
    """Several sublayers that read the same input, their branches added: GPT-J (one norm before all), GPT-NeoX (one norm each)."""

    cost: ClassVar[str] = "that of its branches"

    kind: Literal["parallel"] = Field("parallel", description="several sublayers that read the same input; their branches are added")
    branches: dict[str, SublayerConfig] = Field(description="the sublayers by name; not normalised and not dropped unless they say so")

    def build(self, site: Site) -> "Parallel":
        return Parallel(self, site)


class Parallel(Mixer):
    def __init__(self, config: ParallelConfig, site: Site) -> None:
        super().__init__()
        if len(config.branches) < 2:
            raise ConfigError("parallel needs two branches at least")
        for name, branch in config.branches.items():
            if branch.placement in ("post", "both") or not branch.residual:
                raise ConfigError(f"{name}: a branch has no residual of its own: it cannot be normalised after its sum, nor leave it out")
        self.branches = Block(config.branches, replace(site, placement="none", dropout=0.0))
        if any(isinstance(branch.mixer, CrossMixer) for _, branch in self.branches.sublayers()):
            raise ConfigError("a branch of parallel cannot read the memory")
        self.caps = combined(branch.mixer.caps for _, branch in self.branches.sublayers())

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> StateTree:
        return StateTree(
            (name, branch.init_state(batch, capacity, None, None, device=device, dtype=dtype)) for name, branch in self.branches.sublayers()
        )

    def forward(self, x: Tensor, seq: Seq, state: StateTree | None = None) -> Tensor:
        branches = [branch.branch(x, seq, state=None if state is None else state[name]) for name, branch in self.branches.sublayers()]
        return reduce(torch.add, branches)

    def residual_outputs(self) -> list[nn.Linear | StackedLinear]:
        return [out for _, branch in self.branches.sublayers() for out in branch.mixer.residual_outputs()]


def combined(parts: Iterable[Caps]) -> Caps:
    """What mixers can do one after the other: what the least able of them can."""
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
