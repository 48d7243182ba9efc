"""Reformer's LSH and chunked attention (Kitaev et al. 2020); see `kernels/chunked.py`.

`reformer`: queries and keys are one projection, and each query looks only at keys likely to be near it.

    q = W_qk x,   k = scale · q / |q|,   v = W_v x
    tokens are hashed (`kernels/lsh.py`), sorted by bucket then place, and cut into chunks; a chunk sees itself and its neighbours;
    several rounds of hashing join into one softmax; a token's own key, always the nearest, is left out unless it is alone

`chunked`: q, k, v as in any attention, in chunks of neighbours in the text, which see themselves and the chunks around them.

In both, chunks form a circle. Buckets and chunks depend on each sequence's own length. In a causal `reformer`, later tokens influence only
*which* earlier tokens a query attends to, as in the paper; streaming is therefore approximate: a step gives what the last token of the
whole text up to it would get, and earlier outputs are not revised.
"""

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from attentif.config import Ints
from attentif.errors import ConfigError
from attentif.kernels.chunked import Chunks, chunked_attention, chunked_weights
from attentif.kernels.lsh import Factors, bucket_factors, lsh_buckets, lsh_order
from attentif.nn.cache import KeyValueState
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site, check_causal, check_streamable
from attentif.nn.reversible import reuse_choice
from attentif.nn.seq import Seq
from attentif.nn.tape import tape_for


class _InChunks(MixerConfig):
    """Options of both kinds."""

    heads: int = Field(8, gt=0, description="heads")
    head_width: int | None = Field(None, gt=0, description="width of a head; by default width / heads")
    causal: bool = Field(False, description="attend to earlier positions only")
    chunk: int = Field(64, gt=0, description="tokens in a chunk")
    before: int = Field(1, ge=0, description="previous chunks attended to")
    after: int = Field(0, ge=0, description="following chunks attended to")
    bias: bool = Field(False, description="biases in the projections to queries, keys and values")
    out_bias: bool = Field(False, description="bias in the output projection")

    def resolve_head_width(self, site: Site) -> int:
        if self.causal and self.after:
            raise ConfigError(f"after = {self.after}: causal attention cannot attend to later chunks")
        return site.head_width(self.heads, self.head_width)


@MIXERS.register
class ReformerConfig(_InChunks):
    """LSH attention: each token attends to tokens in the same hash buckets."""

    cost: ClassVar[str] = "T log T"

    kind: Literal["reformer"] = Field("reformer", description="LSH attention: tokens look at those whose vectors point the same way")
    rounds: int = Field(4, gt=0, description="rounds of hashing")
    buckets: Ints = Field((), description="buckets of a round, even; several numbers are multiplied; by default about 2 per chunk")
    seed: int = Field(0, ge=0, description="random seed of the hash")
    redraw: bool = Field(False, description="draw new hashes at every training step, as in the paper")
    scale: float = Field(1.0, gt=0, description="length of the keys")
    eps: float = Field(1e-6, ge=0, description="added to a key's mean square in its norm")


@MIXERS.register
class ChunkedConfig(_InChunks):
    """Attention inside chunks of neighbours: Reformer's local layers."""

    cost: ClassVar[str] = "T·chunk"

    kind: Literal["chunked"] = Field("chunked", description="attention inside chunks of neighbours (Reformer's local layers)")


@dataclass(slots=True)
class ReformerState(KeyValueState):
    buckets: Tensor  # (B, H, R, capacity)
    sizes: Tensor  # (B,): of how many buckets those are; a longer text has more, and is then hashed anew


@dataclass(frozen=True, slots=True)
class ChunkedRecord:
    """What the attention weights of one call are computed from."""

    q: Tensor  # (N, H, K)
    k: Tensor
    order: Tensor
    rows: Tensor
    seq: Seq
    skipped: int  # tokens before the first key


class _Attention(Mixer):
    """Shared attention, once queries, keys, values and an order of the tokens are known."""

    def __init__(self, config: _InChunks, site: Site, *, own: bool, streaming: Literal["exact", "approximate"]) -> None:
        super().__init__()
        self.heads, self.head_width = config.heads, config.resolve_head_width(site)
        self.v = Linear(site.width, self.heads * self.head_width, bias=config.bias)
        self.out = Linear(self.heads * self.head_width, site.width, bias=config.out_bias)
        self.how = Chunks(config.chunk, config.before, config.after, config.causal, own)
        self.caps = Caps(causal=config.causal, bidirectional=not config.causal, streaming=streaming if config.causal else "none", maps=True)

    def split_heads(self, x: Tensor) -> Tensor:
        """(..., H·K) to (..., H, K)."""
        return x.unflatten(-1, (self.heads, self.head_width))

    def allocate(self, batch: int, capacity: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Allocate keys and values (B, H, capacity, K), contiguous by token as the kernel reads them."""
        check_causal(self.how.causal)
        room = torch.zeros(2, batch, capacity, self.heads, self.head_width, device=device, dtype=dtype).transpose(2, 3)
        return room[0], room[1]

    def attend(self, q: Tensor, k: Tensor, v: Tensor, order: Tensor, rows: Tensor, seq: Seq, skipped: int = 0) -> Tensor:
        """(..., H, K) to (..., D); `skipped` tokens precede the first key."""
        flat_q, flat_k, flat_v = (t.reshape(-1, self.heads, self.head_width) for t in (q, k, v))
        if (tape := tape_for(self)) is not None:
            tape.keep(self, ChunkedRecord(flat_q.detach(), flat_k.detach(), order, rows, seq, skipped))
        y: Tensor = self.out(chunked_attention(flat_q, flat_k, flat_v, order, rows, self.how).view(*q.shape[:-2], -1))
        return y

    def maps(self, record: ChunkedRecord, head: int | None = None, rows: Tensor | None = None) -> Tensor:
        seq, chosen = record.seq, record.rows if rows is None else record.rows[rows]
        queries = seq.max_len if seq.is_packed else seq.pos.shape[1]
        keys = queries if seq.offset == 0 else seq.end
        maps = record.q.new_zeros(len(chosen), self.heads, queries, keys)
        for number, row in enumerate(chosen):
            weights = chunked_weights(record.q, record.k, record.order, row, self.how)
            maps[number, :, : weights.shape[1], record.skipped : record.skipped + weights.shape[2]] = weights
        return maps if head is None else maps[:, head : head + 1]


def _rows(begin: Tensor, length: Tensor, q_begin: Tensor, start: Tensor | int, room: Tensor | int) -> Tensor:
    """The kernel's row descriptors (B, 5)."""
    return torch.stack([torch.as_tensor(t, device=begin.device).expand(len(begin)) for t in (begin, length, q_begin, start, room)], 1)


def _whole(seq: Seq) -> Tensor:
    """Row descriptors of sequences read at once."""
    return _rows(seq.first(), seq.lengths, seq.first(), 0, seq.lengths if seq.is_packed else seq.pos.shape[1])


class Reformer(_Attention, config=ReformerConfig):
    def __init__(self, config: ReformerConfig, site: Site) -> None:
        super().__init__(config, site, own=False, streaming="approximate")
        if any(factor < 2 or factor % 2 for factor in config.buckets):
            raise ConfigError(f"buckets = {list(config.buckets)} must be even numbers of at least 2")
        self.config = config
        self.qk = Linear(site.width, self.heads * self.head_width, bias=config.bias)
        self.rotation_cache: dict[Any, Tensor] = {}  # derived from the seed, so neither parameters nor buffers

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> ReformerState:
        k, v = self.allocate(batch, capacity, device, dtype)
        buckets = torch.zeros(batch, self.heads, self.config.rounds, capacity, device=device, dtype=torch.int32)
        return ReformerState(k, v, buckets, torch.zeros(batch, device=device, dtype=torch.long))

    def forward(self, x: Tensor, seq: Seq, state: ReformerState | None = None) -> Tensor:
        q, v = self.split_heads(self.qk(x)), self.split_heads(self.v(x))
        k = q * (q.square().mean(-1, keepdim=True) + self.config.eps).rsqrt() * (self.config.scale * self.head_width**-0.5)
        if state is None:
            rows, seed = _whole(seq), self.next_seed()
            return self.attend(q, k, v, reuse_choice(lambda: self.sort_tokens(k, rows, seed)), rows, seq)
        check_streamable(seq, state)
        state.extend(k.transpose(1, 2), v.transpose(1, 2), seq)
        k, v = state.k.transpose(1, 2), state.v.transpose(1, 2)
        start, capacity = torch.zeros_like(seq.lengths) if seq.start is None else seq.start, k.shape[1]
        begin = torch.arange(seq.batch, device=x.device) * capacity
        rows = _rows(begin, start + seq.lengths, seq.first(), start, capacity)
        return self.attend(q, k, v, self.sort_with_state(k, rows, state), rows, seq)

    def next_seed(self) -> int:
        """Draw a seed outside `reuse_choice`: a recomputed block draws equally often."""
        return int(torch.randint(1 << 62, ())) if self.training and self.config.redraw else self.config.seed

    def sort_tokens(self, k: Tensor, rows: Tensor, seed: int) -> Tensor:
        """Order the tokens of whole sequences by bucket."""
        k = k.detach().reshape(-1, self.heads, self.head_width)
        factors = [self.factors(length) for length in rows[:, 1].tolist()]
        buckets = torch.empty(len(k) * self.heads * self.config.rounds, dtype=torch.int32, device=k.device)
        self.hash(k, rows, factors, seed, buckets)
        return lsh_order(buckets, rows, self.heads, self.config.rounds, max(map(prod, factors), default=1))

    def sort_with_state(self, k: Tensor, rows: Tensor, state: ReformerState) -> Tensor:
        """Order the tokens of continued sequences; only new tokens are hashed."""
        factors = [self.factors(length) for length in rows[:, 1].tolist()]
        sizes = torch.tensor([prod(factor) for factor in factors], device=k.device)
        fresh = rows.clone()
        fresh[sizes != state.sizes, 3] = 0
        if torch.is_grad_enabled():
            state.buckets = state.buckets.clone()
        state.buckets, state.sizes = state.buckets.contiguous(), sizes
        self.hash(k.detach().reshape(-1, self.heads, self.head_width), fresh, factors, self.config.seed, state.buckets.view(-1))
        return lsh_order(state.buckets.view(-1), rows, self.heads, self.config.rounds, int(sizes.max()))

    def factors(self, length: int) -> Factors:
        return self.config.buckets or bucket_factors(length, self.config.chunk)

    def hash(self, k: Tensor, rows: Tensor, factors: list[Factors], seed: int, out: Tensor) -> None:
        """Hash rows with equal bucket counts together, as they share rotations."""
        for same in dict.fromkeys(factors):
            members = [row for row, own in enumerate(factors) if own == same]
            lsh_buckets(k, self.rotations(same, seed, k), same, rows[members], out)

    def rotations(self, factors: Factors, seed: int, k: Tensor) -> Tensor:
        """(H, R, K, directions)"""
        key = (factors, k.dtype, k.device)
        if seed == self.config.seed and key in self.rotation_cache:
            return self.rotation_cache[key]
        shape = (self.heads, self.head_width, self.config.rounds, sum(factors) // 2)
        drawn = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        rotations = drawn.transpose(1, 2).contiguous().to(k.device, k.dtype)
        if seed == self.config.seed:
            self.rotation_cache[key] = rotations
        return rotations


class Chunked(_Attention, config=ChunkedConfig):
    def __init__(self, config: ChunkedConfig, site: Site) -> None:
        super().__init__(config, site, own=True, streaming="exact")
        self.config = config
        self.q = Linear(site.width, self.heads * self.head_width, bias=config.bias)
        self.k = Linear(site.width, self.heads * self.head_width, bias=config.bias)

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> KeyValueState:
        return KeyValueState(*self.allocate(batch, capacity, device, dtype))

    def forward(self, x: Tensor, seq: Seq, state: KeyValueState | None = None) -> Tensor:
        q, k, v = (self.split_heads(project(x)) for project in (self.q, self.k, self.v))
        q = q * self.head_width**-0.5
        if state is None:
            rows = _whole(seq)
            order = Seq.from_packed(rows[:, 4].repeat_interleave(self.heads)).pos.int()  # in text order, for every head
            return self.attend(q, k, v, order, rows, seq)
        check_streamable(seq, state)
        state.extend(k.transpose(1, 2), v.transpose(1, 2), seq)
        start = torch.zeros_like(seq.lengths) if seq.start is None else seq.start
        first = max(int(start.min()) // self.how.size - self.how.before, 0) * self.how.size  # first key any of these queries sees
        k, v = state.k[:, :, first : seq.end].transpose(1, 2), state.v[:, :, first : seq.end].transpose(1, 2)
        room = seq.end - first
        order = torch.arange(room, device=x.device, dtype=torch.int32).repeat(seq.batch * self.heads)
        begin = torch.arange(seq.batch, device=x.device) * room
        rows = _rows(begin, start + seq.lengths - first, seq.first(), start - first, room)
        return self.attend(q, k, v, order, rows, seq, first)
