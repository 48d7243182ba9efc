"""Sparse attention patterns: which keys each query may attend to, as a union of entries.

    pattern = [{ kind = "window", left = 256, right = 256 }, { kind = "global", at = [0] }, { kind = "random", blocks = 3, seed = 0 }]

A query may attend to a key if any entry allows it (an empty pattern allows all) and, in causal attention, if the key is not later.
Positions count within each sequence, so a row does not depend on the rest of the batch. `nn/sparse.py` computes long rows without the
full mask.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from attentif.config import Config, Ints, OneOf, Registry
from attentif.errors import AttentifError
from attentif.nn.seq import Seq

Rows = Annotated[tuple[Ints, ...], Field(strict=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternQuery:
    """Positions of R rows (or blocks of one row) of queries and keys."""

    q_pos: Tensor  # (R, 1, T): their positions
    k_pos: Tensor  # (R, 1 or H, S)
    k_marks: Tensor | None = None  # like k_pos
    lengths: Tensor  # (R,) or (1,): tokens of the sequence
    causal: bool = False
    layer: int = 0
    heads: int = 1


class PatternConfig(Config):
    kind: str

    def allows(self, asked: PatternQuery) -> Tensor:
        """(R, 1 or H, T, S): whether an ordinary query may attend to a key by this entry."""
        raise NotImplementedError


PATTERNS: Registry[PatternConfig] = Registry("pattern")
Pattern = Annotated[tuple[Annotated[PatternConfig, OneOf(PATTERNS)], ...], Field(strict=False)]


@PATTERNS.register
class WindowPattern(PatternConfig):
    """Neighbours only (Beltagy et al. 2020)."""

    kind: Literal["window"] = Field("window", description="neighbours only")
    left: int = Field(ge=0, description="positions before that are seen")
    right: int = Field(0, ge=0, description="positions after that are seen (none if causal)")
    block: int = Field(1, gt=0, description="tokens of a block; left and right count blocks, the query's own is seen whole (BigBird)")

    def allows(self, asked: PatternQuery) -> Tensor:
        offset = (asked.k_pos // self.block)[..., None, :] - (asked.q_pos // self.block)[..., :, None]
        return (offset >= -self.left) & (offset <= self.right)

    def reach(self, step: int, causal: bool) -> tuple[int, int]:
        """Number of keys before and after `step` aligned queries that some of them attend to."""
        inside = 0 if step % self.block == 0 else self.block - 1
        return self.left * self.block + inside, 0 if causal else self.right * self.block + inside


@PATTERNS.register
class GlobalPattern(PatternConfig):
    """Tokens that attend to all and are attended to by all: at fixed positions, or in `Seq.marks`."""

    kind: Literal["global"] = Field("global", description="tokens that attend to all and are attended to by all")
    marked: bool = Field(True, description="include tokens the task marks, such as a question (Longformer)")
    at: Ints = Field((), description="their positions")
    first: int = Field(0, ge=0, description="number of tokens at the start of each sequence")
    last: int = Field(0, ge=0, description="number of tokens at the end of each sequence (not if causal)")
    block: int = Field(1, gt=0, description="tokens of a block; first and last count blocks (BigBird)")
    weight: float = Field(1.0, gt=0, description="weight of each global token in ordinary queries")

    def members(self, pos: Tensor, marks: Tensor | None, lengths: Tensor) -> Tensor:
        """Whether each token is global; `lengths` broadcasts to `pos`."""
        chosen = torch.isin(pos, torch.tensor(self.at, device=pos.device, dtype=pos.dtype)) | (pos < self.first * self.block)
        if self.last:
            chosen = chosen | (pos // self.block >= -(-lengths // self.block) - self.last)
        return chosen if marks is None or not self.marked else chosen | marks

    def allows(self, asked: PatternQuery) -> Tensor:
        return self.members(asked.k_pos, asked.k_marks, asked.lengths[:, None, None])[..., None, :]


@PATTERNS.register
class ShortPattern(PatternConfig):
    """Full attention in short sequences; weights of global tokens apply to the others."""

    kind: Literal["short"] = Field("short", description="full attention in short sequences")
    up_to: int = Field(gt=0, description="longest such sequence")

    def allows(self, asked: PatternQuery) -> Tensor:
        return (asked.lengths <= self.up_to)[:, None, None, None]


@PATTERNS.register
class RandomPattern(PatternConfig):
    """Random blocks of keys for each block of queries, layer and head (Zaheer et al. 2020).

    Never the first or last block of the row, nor the query's own or its neighbours: those are global, or in the window. The draw depends
    on the seed, layer, head and the row's length; in causal attention, on the position instead of the length.
    """

    kind: Literal["random"] = Field("random", description="random blocks of keys for each block of queries, layer and head")
    blocks: int = Field(3, ge=0, description="number of random blocks")
    block: int = Field(64, gt=0, description="tokens of a block")
    seed: int = Field(0, ge=0, description="random seed")
    table: Annotated[tuple[Rows, ...], Field(strict=False)] = Field((), description="fixed blocks, per head (or once), per query block")

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        for number, rows in enumerate(self.table):
            if any(len(set(row)) < len(row) or min(row, default=0) < 0 for row in rows):
                raise ValueError(f"table: the blocks of head {number} must be different, and counted from 0")
        return self

    def draw_blocks(self, length: int, causal: bool, layer: int, heads: int) -> Tensor:
        """(H, M, R): key blocks of each of the M query blocks of a row of `length` tokens; −1: none."""
        count = -(-length // self.block)
        if not self.table:
            return torch.from_numpy(_draw(self.seed, layer, heads, count, self.blocks, causal))
        if count > min(len(rows) for rows in self.table):
            shortest = min(len(rows) for rows in self.table)
            raise AttentifError(f"{length} tokens are {count} blocks of {self.block}; the table of random blocks has rows for {shortest}")
        widest = max((len(row) for rows in self.table for row in rows), default=0)
        table = torch.tensor([[[*row, *[-1] * (widest - len(row))] for row in rows[:count]] for rows in self.table]).view(-1, count, widest)
        table = table.masked_fill(table >= count, -1)
        return table.expand(heads, -1, -1)

    def allows(self, asked: PatternQuery) -> Tensor:
        """(R, H, T, S), each row by its own length."""
        lengths = asked.lengths.tolist()
        rows = max(len(lengths), len(asked.q_pos), len(asked.k_pos))
        seen = []
        for row in range(rows):
            q_pos, k_pos = (pos[row % len(pos), 0] for pos in (asked.q_pos, asked.k_pos))
            seen.append(self.row_mask(q_pos, k_pos, max(lengths[row % len(lengths)], 1), asked))
        return torch.stack(seen)

    def row_mask(self, q_pos: Tensor, k_pos: Tensor, length: int, asked: PatternQuery) -> Tensor:
        """(H, T, S): mark each query's blocks, then look up the block of each key."""
        table = self.draw_blocks(length, asked.causal, asked.layer, asked.heads).to(q_pos.device)
        H, M, _ = table.shape
        wanted = table[:, (q_pos // self.block).clamp(0, M - 1)] % (M + 1)  # −1 goes to an extra column
        ticked = torch.zeros(H, len(q_pos), M + 1, dtype=torch.bool, device=q_pos.device).scatter_(2, wanted, True)
        known = (k_pos >= 0) & (k_pos < M * self.block)
        return ticked[:, :, torch.where(known, k_pos // self.block, 0)] & known


@lru_cache(maxsize=128)
def _draw(seed: int, layer: int, heads: int, count: int, blocks: int, causal: bool) -> np.ndarray:
    """Draw `blocks` distinct blocks for each of `count` blocks and each head, reproducibly."""
    at = np.arange(count)
    total = np.maximum(at - 1, 0) if causal else np.full(count, count)  # number of candidates
    never = np.stack([np.zeros_like(at), *([] if causal else [at - 1, at, at + 1, np.full(count, count - 1)])], 1)
    never = np.sort(np.where((never < 0) | (never >= total[:, None]), count, never), 1)
    repeated = np.concatenate([np.zeros((count, 1), bool), never[:, 1:] == never[:, :-1]], 1)
    taken = np.sort(np.where(repeated, count, never), 1)  # ascending; `count` means none
    left = total - (taken < count).sum(1)
    taken = np.broadcast_to(taken, (heads, *taken.shape))
    drawn = np.full((heads, count, blocks), -1, dtype=np.int64)
    for number in range(blocks):
        noise = _hash(seed, layer, np.arange(heads)[:, None], at, number)
        choice = (noise % np.maximum(left - number, 1).astype(np.uint64)).astype(np.int64)  # among the blocks still free
        for column in range(taken.shape[2]):
            choice = choice + (taken[..., column] <= choice)
        choice = np.where(left > number, choice, count)
        drawn[..., number] = np.where(left > number, choice, -1)
        taken = np.sort(np.concatenate([taken, choice[..., None]], 2), 2)
    return drawn


def _hash(*numbers: int | np.ndarray) -> np.ndarray:
    """64 well mixed bits from whole numbers (SplitMix64, Steele et al. 2014)."""
    z: Any = np.uint64(0)
    with np.errstate(over="ignore"):
        for number in numbers:
            z = z + np.asarray(number).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
    return np.asarray(z)


def global_tokens(pattern: Sequence[PatternConfig], pos: Tensor, marks: Tensor | None, lengths: Tensor) -> Tensor | None:
    """Whether each token is global, like `pos`; None: no entry makes any global."""
    result: Tensor | None = None
    for entry in pattern:
        if isinstance(entry, GlobalPattern):
            members = entry.members(pos, marks, lengths)
            result = members if result is None else result | members
    return result


def log_weights(pattern: Sequence[PatternConfig], pos: Tensor, marks: Tensor | None, lengths: Tensor) -> Tensor | None:
    """ln of the weight of each key for ordinary queries, like `pos`; None: all are 1."""
    heavy = [entry for entry in pattern if isinstance(entry, GlobalPattern) and entry.weight != 1]
    total = [entry.members(pos, marks, lengths) * math.log(entry.weight) for entry in heavy]
    return torch.stack(total).sum(0) if total else None


def weight_bias(pattern: Sequence[PatternConfig], q_pos: Tensor, k_pos: Tensor, marks: Tensor | None, lengths: Tensor) -> Tensor | None:
    """(B or 1, 1, T, S): the log weights as a score bias; zero for global queries and short rows."""
    lengths = lengths[:, None]
    weights = log_weights(pattern, k_pos if k_pos.ndim == 2 else k_pos[None], marks, lengths)
    is_global = global_tokens(pattern, q_pos, marks, lengths)
    if weights is None or is_global is None:
        return None
    for entry in pattern:
        if isinstance(entry, ShortPattern):
            is_global = is_global | (lengths <= entry.up_to)
    return (~is_global[:, None, :, None]) * weights[:, None, None, :]


def compute_mask(
    pattern: Sequence[PatternConfig],
    causal: bool,
    q_pos: Tensor,
    k_pos: Tensor,
    marks: tuple[Tensor | None, Tensor | None] = (None, None),
    *,
    lengths: Tensor | None = None,
    layer: int = 0,
    heads: int = 1,
) -> Tensor | None:
    """(B or 1, 1 or H, T, S) mask for q_pos (B or 1, T) and k_pos (B or 1, S) or (S,); None: no mask.

    `lengths` (B,) are needed by entries that count from the end. Padding is not looked at here: see `compute_batch_mask`.
    """
    k_pos = k_pos if k_pos.ndim == 2 else k_pos[None]
    lengths = q_pos.new_zeros(1) if lengths is None else lengths
    k_marks = None if marks[1] is None else marks[1][:, None]
    asked = PatternQuery(
        q_pos=q_pos[:, None], k_pos=k_pos[:, None], k_marks=k_marks, lengths=lengths, causal=causal, layer=layer, heads=heads
    )
    result: Tensor | None = None
    for entry in pattern:
        seen = entry.allows(asked)
        result = seen if result is None else result | seen
    if (everywhere := global_tokens(pattern, q_pos, marks[0], lengths[:, None])) is not None and result is not None:
        result = result | everywhere[:, None, :, None]
    if causal:
        back = asked.k_pos[..., None, :] <= asked.q_pos[..., :, None]
        result = back if result is None else result & back
    return result


def compute_batch_mask(pattern: Sequence[PatternConfig], causal: bool, seq: Seq, *, layer: int = 0, heads: int = 1) -> Tensor | None:
    """Mask of a padded batch read at once, or None if none is needed.

    Sequences stand at the left of their rows, so a plain causal attention never reaches the padding and needs no mask for it.
    """
    lengths = seq.lengths[:1] if seq.dense else seq.lengths
    mask = compute_mask(pattern, causal, seq.shared_pos, seq.shared_pos, (seq.marks, seq.marks), lengths=lengths, layer=layer, heads=heads)
    if seq.dense:
        return mask
    valid = seq.valid[:, None, None, :]
    return valid if mask is None else mask & valid
