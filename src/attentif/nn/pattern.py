"""Who may look at whom, as a union of entries.

    pattern = [{ kind = "window", left = 256, right = 256 }, { kind = "global", at = [0] }, { kind = "random", blocks = 3, seed = 0 }]

A query may look at a key if some entry allows it (an empty pattern allows all), and, in a causal attention, if the key is not later.
Positions count within each sequence, so what a row sees never depends on its neighbours in the batch. `nn/sparse.py` computes long rows
without ever making the whole mask.
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

from attentif.config import Config, OneOf, Registry
from attentif.errors import AttentifError
from attentif.nn.seq import Seq

Places = Annotated[tuple[int, ...], Field(strict=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What an entry is asked about: R rows (or blocks of one row) of queries and keys."""

    q_pos: Tensor  # (R, 1, T): their places
    k_pos: Tensor  # (R, 1 or H, S)
    k_marks: Tensor | None = None  # like k_pos
    lengths: Tensor  # (R,) or (1,): tokens of the sequence
    causal: bool = False
    layer: int = 0
    heads: int = 1


class PatternConfig(Config):
    kind: str

    def sees(self, asked: Asked) -> Tensor:
        """(R, 1 or H, T, S): whether this entry lets an ordinary query look at a key."""
        raise NotImplementedError


PATTERNS: Registry[PatternConfig] = Registry("pattern")
Pattern = Annotated[tuple[Annotated[PatternConfig, OneOf(PATTERNS)], ...], Field(strict=False)]


@PATTERNS.register
class Window(PatternConfig):
    """Neighbours only (Beltagy et al. 2020)."""

    kind: Literal["window"] = Field("window", description="neighbours only")
    left: int = Field(ge=0, description="places before that are seen")
    right: int = Field(0, ge=0, description="places after that are seen (a causal attention sees none)")
    block: int = Field(1, gt=0, description="left and right count blocks of so many tokens, the query's own block seen whole (BigBird)")

    def sees(self, asked: Asked) -> Tensor:
        offset = (asked.k_pos // self.block)[..., None, :] - (asked.q_pos // self.block)[..., :, None]
        return (offset >= -self.left) & (offset <= self.right)

    def reach(self, step: int, causal: bool) -> tuple[int, int]:
        """Keys before the first and after the last of `step` queries that begin at a multiple of `step`, which some of them see."""
        inside = 0 if step % self.block == 0 else self.block - 1
        return self.left * self.block + inside, 0 if causal else self.right * self.block + inside


@PATTERNS.register
class Global(PatternConfig):
    """Some tokens see all and are seen by all: those at fixed places, and those the task marked in `Seq.marks`."""

    kind: Literal["global"] = Field("global", description="tokens that see all and are seen by all")
    marked: bool = Field(True, description="those that the task marks are among them: the tokens of a question (Longformer)")
    at: Places = Field((), description="their places")
    first: int = Field(0, ge=0, description="so many at the beginning of each sequence")
    last: int = Field(0, ge=0, description="so many at the end of each sequence (not in a causal attention)")
    block: int = Field(1, gt=0, description="first and last count blocks of so many tokens, the last of which may not be full (BigBird)")
    weight: float = Field(1.0, gt=0, description="how many times tokens that are not global count each of them")

    def members(self, pos: Tensor, marks: Tensor | None, lengths: Tensor) -> Tensor:
        """Which tokens are global; `lengths` broadcasts to `pos`."""
        chosen = torch.isin(pos, torch.tensor(self.at, device=pos.device, dtype=pos.dtype)) | (pos < self.first * self.block)
        if self.last:
            chosen = chosen | (pos // self.block >= -(-lengths // self.block) - self.last)
        return chosen if marks is None or not self.marked else chosen | marks

    def sees(self, asked: Asked) -> Tensor:
        return self.members(asked.k_pos, asked.k_marks, asked.lengths[:, None, None])[..., None, :]


@PATTERNS.register
class Short(PatternConfig):
    """Everyone, in sequences that are not worth a pattern; weights of global tokens are for the others."""

    kind: Literal["short"] = Field("short", description="everyone, in short sequences")
    up_to: int = Field(gt=0, description="tokens of the longest of them")

    def sees(self, asked: Asked) -> Tensor:
        return (asked.lengths <= self.up_to)[:, None, None, None]


@PATTERNS.register
class Random(PatternConfig):
    """Blocks of keys drawn for each block of queries, layer and head (Zaheer et al. 2020).

    They are never the first nor the last block of the row, nor the query's own or its neighbours: those are global, or in the window.
    The draw depends on the seed, the layer, the head and the row's own length; in a causal attention, on the place instead of the length.
    """

    kind: Literal["random"] = Field("random", description="blocks of keys drawn for each block of queries, layer and head")
    blocks: int = Field(3, ge=0, description="blocks drawn; fewer where the row has no more")
    block: int = Field(64, gt=0, description="tokens of a block")
    seed: int = Field(0, ge=0, description="of the draw")
    table: Annotated[tuple[Annotated[tuple[Places, ...], Field(strict=False)], ...], Field(strict=False)] = Field(
        (), description="instead of a draw: for each head (or once for all), for each block of queries, the blocks it sees"
    )

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        for number, rows in enumerate(self.table):
            if any(len(set(row)) < len(row) or min(row, default=0) < 0 for row in rows):
                raise ValueError(f"table: the blocks of head {number} must be different from each other, and counted from 0")
        return self

    def drawn(self, length: int, causal: bool, layer: int, heads: int) -> Tensor:
        """(H, M, R): the blocks that each of the M blocks of a row of `length` tokens sees; −1 where it sees fewer."""
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

    def sees(self, asked: Asked) -> Tensor:
        """(R, H, T, S), each row by its own length."""
        lengths = asked.lengths.tolist()
        rows = max(len(lengths), len(asked.q_pos), len(asked.k_pos))
        seen = []
        for row in range(rows):
            q_pos, k_pos = (pos[row % len(pos), 0] for pos in (asked.q_pos, asked.k_pos))
            seen.append(self.seen_in_row(q_pos, k_pos, max(lengths[row % len(lengths)], 1), asked))
        return torch.stack(seen)

    def seen_in_row(self, q_pos: Tensor, k_pos: Tensor, length: int, asked: Asked) -> Tensor:
        """(H, T, S): every query's blocks are ticked off in a row of blocks, then looked up for each key."""
        table = self.drawn(length, asked.causal, asked.layer, asked.heads).to(q_pos.device)
        H, M, _ = table.shape
        wanted = table[:, (q_pos // self.block).clamp(0, M - 1)] % (M + 1)  # −1 goes to the column too many
        ticked = torch.zeros(H, len(q_pos), M + 1, dtype=torch.bool, device=q_pos.device).scatter_(2, wanted, True)
        known = (k_pos >= 0) & (k_pos < M * self.block)
        return ticked[:, :, torch.where(known, k_pos // self.block, 0)] & known


@lru_cache(maxsize=128)
def _draw(seed: int, layer: int, heads: int, count: int, blocks: int, causal: bool) -> np.ndarray:
    """`blocks` different ones for each of `count` blocks and each head: the same on every machine and with every version."""
    at = np.arange(count)
    total = np.maximum(at - 1, 0) if causal else np.full(count, count)  # candidates are below this
    never = np.stack([np.zeros_like(at), *([] if causal else [at - 1, at, at + 1, np.full(count, count - 1)])], 1)
    never = np.sort(np.where((never < 0) | (never >= total[:, None]), count, never), 1)
    repeated = np.concatenate([np.zeros((count, 1), bool), never[:, 1:] == never[:, :-1]], 1)
    taken = np.sort(np.where(repeated, count, never), 1)  # ascending; `count` stands for none
    left = total - (taken < count).sum(1)
    taken = np.broadcast_to(taken, (heads, *taken.shape))
    drawn = np.full((heads, count, blocks), -1, dtype=np.int64)
    for number in range(blocks):
        noise = _hash(seed, layer, np.arange(heads)[:, None], at, number)
        choice = (noise % np.maximum(left - number, 1).astype(np.uint64)).astype(np.int64)  # among those not taken yet
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
    """Which tokens are global, like `pos`; None where no entry makes any so."""
    result: Tensor | None = None
    for entry in pattern:
        if isinstance(entry, Global):
            members = entry.members(pos, marks, lengths)
            result = members if result is None else result | members
    return result


def log_weights(pattern: Sequence[PatternConfig], pos: Tensor, marks: Tensor | None, lengths: Tensor) -> Tensor | None:
    """ln of how many times a token that is not global counts each, like `pos`; None where it is once."""
    heavy = [entry for entry in pattern if isinstance(entry, Global) and entry.weight != 1]
    total = [entry.members(pos, marks, lengths) * math.log(entry.weight) for entry in heavy]
    return torch.stack(total).sum(0) if total else None


def weight_bias(pattern: Sequence[PatternConfig], q_pos: Tensor, k_pos: Tensor, marks: Tensor | None, lengths: Tensor) -> Tensor | None:
    """(B or 1, 1, T, S): the same as a bias on the scores, none for queries that are global and in short sequences."""
    lengths = lengths[:, None]
    weights = log_weights(pattern, k_pos if k_pos.ndim == 2 else k_pos[None], marks, lengths)
    is_global = global_tokens(pattern, q_pos, marks, lengths)
    if weights is None or is_global is None:
        return None
    for entry in pattern:
        if isinstance(entry, Short):
            is_global = is_global | (lengths <= entry.up_to)
    return (~is_global[:, None, :, None]) * weights[:, None, None, :]


def allowed(
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
    """(B or 1, 1 or H, T, S) for places (B or 1, T) and (B or 1, S) or (S,), or None where everything is allowed.

    `lengths` (B,) are needed by entries that count from the end. Padding is not looked at here: see `mask_for`.
    """
    k_pos = k_pos if k_pos.ndim == 2 else k_pos[None]
    lengths = q_pos.new_zeros(1) if lengths is None else lengths
    k_marks = None if marks[1] is None else marks[1][:, None]
    asked = Asked(q_pos=q_pos[:, None], k_pos=k_pos[:, None], k_marks=k_marks, lengths=lengths, causal=causal, layer=layer, heads=heads)
    result: Tensor | None = None
    for entry in pattern:
        seen = entry.sees(asked)
        result = seen if result is None else result | seen
    if (everywhere := global_tokens(pattern, q_pos, marks[0], lengths[:, None])) is not None and result is not None:
        result = result | everywhere[:, None, :, None]
    if causal:
        back = asked.k_pos[..., None, :] <= asked.q_pos[..., :, None]
        result = back if result is None else result & back
    return result


def mask_for(pattern: Sequence[PatternConfig], causal: bool, seq: Seq, *, layer: int = 0, heads: int = 1) -> Tensor | None:
    """The mask of a padded batch that is read whole, or None where none is needed.

    Sequences stand at the left of their rows, so a plain causal attention never reaches the padding and needs no mask for it.
    """
    lengths = seq.lengths[:1] if seq.dense else seq.lengths
    mask = allowed(pattern, causal, seq.places, seq.places, (seq.marks, seq.marks), lengths=lengths, layer=layer, heads=heads)
    if seq.dense:
        return mask
    valid = seq.valid[:, None, None, :]
    return valid if mask is None else mask & valid
