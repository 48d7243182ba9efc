"""A stack: blocks in sequence, an optional shared positional bias, and a final norm."""

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
from attentif.nn.auxiliary import discard_auxiliary
from attentif.nn.bias import Bias
from attentif.nn.block import Block, Sublayer, SublayerConfig, combine_caps
from attentif.nn.mixer import Caps, Site
from attentif.nn.norm import LayerNormConfig, Placement, StackNorm, apply_norm
from attentif.nn.reversible import BlockInputs, check_reversible, run, run_reversibly
from attentif.nn.seq import Seq
from attentif.nn.state import StateTree
from attentif.nn.tape import pause_recording
from attentif.toml import Keys


class BlockConfig(Config):
    """One kind of block among several that alternate."""

    repeat: int = Field(1, gt=0, description="number in a row before the next kind")
    sublayers: dict[str, SublayerConfig] = Field(description="its sublayers by name, in order")


class StackConfig(Config):
    """Identical blocks (`block`), or several kinds that alternate (`blocks`)."""

    layers: int | None = Field(None, ge=0, description="number of blocks; by default the model's. 0: the frontend's output")
    placement: Placement = Field("pre", description="norms of sublayers: pre, post, both, branch, sandwich, none")
    final_norm: bool | None = Field(None, description="a norm after the last block; by default unless placement is post, both or none")
    norm: StackNorm = Field(LayerNormConfig(), description="layer, rms or batch")
    out: int | None = Field(
        None, gt=0, description="width of the output after a last linear map, without a bias; by default no map (OPT-350m)"
    )
    bias: Bias | None = Field(None, description="positional bias of all its attention: alibi, alibi-rounded, relative, relative-2d")
    reversible: bool = Field(False, description="reversible blocks of two sublayers; activations are recomputed (Reformer)")
    halves: Literal["mean", "concat"] = Field("mean", description="output of a reversible stack: mean of its halves, or both")
    block: dict[str, SublayerConfig] = Field({}, description="the sublayers of every block by name, in order")
    blocks: Annotated[tuple[BlockConfig, ...], Field(strict=False)] = Field((), description="kinds of block that alternate")

    @model_validator(mode="after")
    def _check_blocks(self) -> Self:
        if self.layers == 0 and not self.block and not self.blocks:
            return self
        if bool(self.block) == bool(self.blocks):
            raise ValueError("a stack has either `block` (all alike) or `blocks` (alternating)")
        if self.reversible:
            for sublayers in (self.block, *(kind.sublayers for kind in self.blocks)):
                if sublayers:
                    check_reversible(sublayers, self.placement)
        elif self.halves == "concat":
            raise ValueError("`halves` needs reversible = true")
        return self

    def out_width(self, width: int) -> int:
        """Output width for input width `width`."""
        return self.out or self.normed_width(width)

    def normed_width(self, width: int) -> int:
        """The same before the last map, which is what the final norm reads."""
        return 2 * width if self.halves == "concat" else width

    def sublayers(self) -> Iterator[tuple[Keys, SublayerConfig]]:
        """Iterate over the sublayers of every kind of block, with their configuration keys."""
        yield from ((("block", name), sublayer) for name, sublayer in self.block.items())
        for number, kind in enumerate(self.blocks):
            yield from ((("blocks", number, "sublayers", name), sublayer) for name, sublayer in kind.sublayers.items())

    def plan(self, layers: int) -> list[dict[str, SublayerConfig]]:
        """Return the sublayers of each block."""
        if self.block or not layers:
            return [self.block] * layers
        turns = chain.from_iterable([kind.sublayers] * kind.repeat for kind in cycle(self.blocks))
        return list(islice(turns, layers))


class Stack(nn.Module):
    """Blocks in sequence; decoders also read a memory."""

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
        self.width, normed = config.out_width(width), config.normed_width(width)
        self.reversible, self.halves = config.reversible, config.halves
        self.norm = config.norm.build(normed) if last else nn.Identity()
        self.project = nn.Linear(normed, self.width, bias=False) if config.out else nn.Identity()
        self.checkpointing = False  # recompute each block in the backward pass instead of keeping its activations

    def sublayers(self) -> Iterator[tuple[str, Sublayer]]:
        """Iterate over the sublayers with their paths, such as `blocks.0.attn`."""
        for number, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            for name, sublayer in block.sublayers():
                yield f"blocks.{number}.{name}", sublayer

    @property
    def caps(self) -> Caps:
        return combine_caps(sublayer.mixer.caps for _, sublayer in self.sublayers())

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
        states = None if state is None else [state.subtree(f"blocks.{number}.") for number in range(len(self.blocks))]
        if self.reversible:
            return self.finish(self._both_halves(x, BlockInputs(seq, memory, memory_seq), states), seq)
        for number, block in enumerate(self.blocks):
            if self.checkpointing and torch.is_grad_enabled() and states is None:
                x = checkpoint(block, x, seq, memory, memory_seq, use_reentrant=False, context_fn=recompute_contexts)
            else:
                x = block(x, seq, memory, memory_seq, None if states is None else states[number])
        return self.finish(x, seq)

    def finish(self, x: Tensor, seq: Seq) -> Tensor:
        """Apply what follows the last block: the final norm and the last map."""
        y: Tensor = self.project(apply_norm(self.norm, x, seq))
        return y

    def _both_halves(self, x: Tensor, around: BlockInputs, states: list[Any] | None) -> Tensor:
        blocks: Any = self.blocks
        recompute = torch.is_grad_enabled() and states is None
        first, second = run_reversibly(self, blocks, (x, x), around) if recompute else run(blocks, (x, x), around, states)
        return torch.cat([first, second], -1) if self.halves == "concat" else (first + second) / 2


def recompute_contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Contexts for checkpointing: recomputation neither records nor emits losses again."""
    return nullcontext(), _silence(discard_auxiliary())


@contextmanager
def _silence(silence: AbstractContextManager[object]) -> Iterator[None]:
    with pause_recording(), silence:
        yield
