"""A stack: blocks one after the other, a shared bias of positions, a last norm."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain, cycle, islice
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attentif.config import Config
from attentif.errors import within
from attentif.nn.aside import unheard
from attentif.nn.bias import Bias
from attentif.nn.block import Block, Sublayer, SublayerConfig, combined
from attentif.nn.mixer import Caps, Site
from attentif.nn.norm import LayerNormConfig, Norm, Placement
from attentif.nn.reversible import Surroundings, refuse_irreversible, run, run_reversibly
from attentif.nn.seq import Seq
from attentif.nn.state import StateTree
from attentif.nn.tape import paused
from attentif.toml import Keys


class BlockConfig(Config):
    """One of several kinds of block that alternate in a stack."""

    repeat: int = Field(1, gt=0, description="how many of these in a row before the next kind")
    sublayers: dict[str, SublayerConfig] = Field(description="its sublayers by name, in order")


class StackConfig(Config):
    """Blocks all alike (`block`), or several kinds that take turns until there are `layers` of them (`blocks`)."""

    layers: int | None = Field(None, gt=0, description="number of blocks; by default the model's layers")
    placement: Placement = Field("pre", description="where sublayers are normalised: pre, post, both, branch, sandwich, none")
    final_norm: bool | None = Field(None, description="a norm after the last block; by default where placement is not post, both or none")
    norm: Norm = Field(LayerNormConfig(), description="how they are normalised")
    bias: Bias | None = Field(None, description="positions as a bias on the scores of all its attention: alibi or relative")
    reversible: bool = Field(
        False, description="two halves that blocks of two sublayers change in turn; activations are worked out again, not kept (Reformer)"
    )
    halves: Literal["mean", "concat"] = Field(
        "mean", description="what a reversible stack gives: the mean of its halves, or both (twice the width)"
    )
    block: dict[str, SublayerConfig] = Field({}, description="the sublayers of every block by name, in order")
    blocks: Annotated[tuple[BlockConfig, ...], Field(strict=False)] = Field((), description="kinds of block that take turns")

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if bool(self.block) == bool(self.blocks):
            raise ValueError("a stack has either `block` (all alike) or `blocks` (taking turns)")
        if self.reversible:
            for sublayers in (self.block, *(kind.sublayers for kind in self.blocks)):
                if sublayers:
                    refuse_irreversible(sublayers, self.placement)
        elif self.halves == "concat":
            raise ValueError("only a reversible stack has `halves`: say reversible = true, or leave them out")
        return self

    def out_width(self, width: int) -> int:
        """Width of what it gives, where it reads `width`."""
        return 2 * width if self.halves == "concat" else width

    def sublayers(self) -> Iterator[tuple[Keys, SublayerConfig]]:
        """Every sublayer of every kind of block, with its place in the configuration."""
        yield from ((("block", name), sublayer) for name, sublayer in self.block.items())
        for number, kind in enumerate(self.blocks):
            yield from ((("blocks", number, "sublayers", name), sublayer) for name, sublayer in kind.sublayers.items())

    def plan(self, layers: int) -> list[dict[str, SublayerConfig]]:
        """The sublayers of each block."""
        if self.block:
            return [self.block] * layers
        turns = chain.from_iterable([kind.sublayers] * kind.repeat for kind in cycle(self.blocks))
        return list(islice(turns, layers))


class Stack(nn.Module):
    """What a `StackConfig` builds: vectors through `blocks`, one after the other, the memory beside them where there is one."""

    def __init__(self, config: StackConfig, *, width: int, layers: int, dropout: float, memory_width: int | None = None) -> None:
        super().__init__()
        self.bias = config.bias.build() if config.bias else None
        blocks = []
        for layer, sublayers in enumerate(config.plan(layers)):
            site = Site(
                width=width,
                layer=layer,
                layers=layers,
                dropout=dropout,
                norm=config.norm,
                placement=config.placement,
                memory_width=memory_width,
                bias=self.bias,
            )
            with within(f"blocks.{layer}."):
                blocks.append(Block(sublayers, site))
        self.blocks = nn.ModuleList(blocks)
        last = config.placement not in ("post", "both", "none") if config.final_norm is None else config.final_norm
        self.width = config.out_width(width)  # of what it gives
        self.reversible, self.halves = config.reversible, config.halves
        self.norm = config.norm.build(self.width) if last else nn.Identity()
        self.checkpointing = False  # recompute each block in the backward pass instead of keeping its activations

    def sublayers(self) -> Iterator[tuple[str, Sublayer]]:
        """Every sublayer with its path: `blocks.0.attn`."""
        for number, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            for name, sublayer in block.sublayers():
                yield f"blocks.{number}.{name}", sublayer

    @property
    def caps(self) -> Caps:
        return combined(sublayer.mixer.caps for _, sublayer in self.sublayers())

    def init_state(
        self,
        batch: int,
        capacity: int,
        memory: Tensor | None = None,
        memory_seq: Seq | None = None,
        *,
        device: torch.device,
        dtype: torch.dtype,
    ) -> StateTree:
        states: dict[str, Any] = {}
        for path, sublayer in self.sublayers():
            states[path] = sublayer.init_state(batch, capacity, memory, memory_seq, device=device, dtype=dtype)
        return StateTree(states)

    def forward(
        self, x: Tensor, seq: Seq, memory: Tensor | None = None, memory_seq: Seq | None = None, state: StateTree | None = None
    ) -> Tensor:
        states = None if state is None else [state.below(f"blocks.{number}.") for number in range(len(self.blocks))]
        if self.reversible:
            return self.norm(self._both_halves(x, Surroundings(seq, memory, memory_seq), states))
        for number, block in enumerate(self.blocks):
            if self.checkpointing and torch.is_grad_enabled() and states is None:
                x = checkpoint(block, x, seq, memory, memory_seq, use_reentrant=False, context_fn=once)
            else:
                x = block(x, seq, memory, memory_seq, None if states is None else states[number])
        return self.norm(x)

    def _both_halves(self, x: Tensor, around: Surroundings, states: list[Any] | None) -> Tensor:
        blocks: Any = self.blocks
        recompute = torch.is_grad_enabled() and states is None
        first, second = run_reversibly(self, blocks, (x, x), around) if recompute else run(blocks, (x, x), around, states)
        return torch.cat([first, second], -1) if self.halves == "concat" else (first + second) / 2


def once() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Contexts for a computation and for its repetition in the backward pass, in which nothing is recorded or said a second time."""
    return nullcontext(), _again(unheard())


@contextmanager
def _again(silence: AbstractContextManager[object]) -> Iterator[None]:
    with paused(), silence:
        yield
