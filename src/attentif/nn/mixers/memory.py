"""Causal attention over a window, and over the nearest keys of a bounded external memory.

    local_t  = attention of q_t over the tokens    t − window < j ≤ t
    memory_t = attention of q_t over its `top` nearest keys among    t − window − size < j ≤ t − window      (`kernels/nearest.py`)
    y_t = W_o [ g_h memory_t + (1 − g_h) local_t ]_h        g_h = σ(b_h), learned, one for each head; 0 while the memory is empty

Wu et al. 2022, Memorizing Transformers, section 3.1. The memory is defined by distance alone, so results do not depend on where a text is
split. As in the paper it is external: gradients flow through the queries, not through its keys and values; and it has no positions,
while the stack's bias, if any, applies to the local part.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.kernels.attention import attention, attention_weights
from attentif.kernels.nearest import nearest, nearest_weights
from attentif.nn.cache import write_ring
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, HeadsConfig, Mixer, Site, check_streamable, share_module
from attentif.nn.norm import Norm
from attentif.nn.ragged import group_by_length
from attentif.nn.seq import Seq, unpack
from attentif.nn.state import State
from attentif.nn.tape import tape_for

Kept = tuple[Tensor, Tensor, Tensor]  # keys and values (B, H, S, K), and their positions (B or 1, S)
CHUNK = 128  # queries searched together


@MIXERS.register
class MemoryConfig(HeadsConfig):
    """Attention over recent tokens and over the nearest of a memory of earlier ones."""

    cost: ClassVar[str] = "T·(w+size)"

    kind: Literal["memory"] = Field("memory", description="attention over near tokens and over the nearest of a memory of far ones")
    window: int = Field(128, gt=0, description="size of the window, the current token included")
    size: int = Field(512, gt=0, description="earlier tokens held by the memory")
    top: int = Field(32, gt=0, description="nearest memory entries each head reads")
    qk_norm: Norm | None = Field(None, description="normalise each head's queries and keys, as the paper does")
    scale: float | None = Field(None, gt=0, description="factor on the scores; by default 1/√head_width")


@dataclass(slots=True)
class RingState(State):
    """Ring buffer of the last keys and values; position p is at index p mod its size."""

    k: Tensor  # (B, H, window + size, K)
    v: Tensor  # (B, H, window + size, K)

    def before(self, start: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values in order of position, the last one being that before `start` (B,)."""
        room = self.k.shape[2]
        slots = (start[:, None] + torch.arange(room, device=start.device)) % room
        index = slots[:, None, :, None].expand_as(self.k)
        return self.k.gather(2, index), self.v.gather(2, index)

    def positions_at(self, now: Tensor) -> Tensor:
        """(B or 1, slots): position held by each slot if `now` (B or 1, 1) is the last; < 0: none."""
        room = self.k.shape[2]
        return now - (now - torch.arange(room, device=now.device)) % room

    def write(self, k: Tensor, v: Tensor, seq: Seq) -> None:
        """Write keys and values (B, H, T, K); keep the last that fit."""
        self.k, self.v = write_ring(self.k, k, seq), write_ring(self.v, v, seq)


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    q: Tensor  # (B, H, T, K)
    k: Tensor  # (B, H, S, K): the call's own keys are the last T
    seq: Seq


class Memory(Mixer, config=MemoryConfig):
    caps = Caps(causal=True, bidirectional=False, streaming="exact", maps=True)

    def __init__(self, config: MemoryConfig, site: Site) -> None:
        super().__init__()
        K = site.head_width(config.heads, config.head_width)
        self.config, self.heads, self.head_width, self.scale = config, config.heads, K, config.scale or K**-0.5
        self.q, self.k, self.v = (Linear(site.width, config.heads * K, bias=config.bias) for _ in range(3))
        self.out = Linear(config.heads * K, site.width, bias=config.out_bias)
        self.q_norm = config.qk_norm.build(K) if config.qk_norm else None
        self.k_norm = config.qk_norm.build(K) if config.qk_norm else None
        self.gate = nn.Parameter(torch.zeros(config.heads))  # b_h
        if site.bias is not None and site.bias.heads != config.heads:
            raise ConfigError(f"the stack's bias has {site.bias.heads} heads, this attention {config.heads}")
        self.position_bias: nn.Module | None
        share_module(self, "position_bias", site.bias)

    def init_weights(self) -> None:
        nn.init.zeros_(self.gate)

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> RingState:
        room = self.config.window + self.config.size
        empty = torch.zeros(2, batch, self.heads, room, self.head_width, device=device, dtype=dtype)
        return RingState(empty[0], empty[1])

    def forward(self, x: Tensor, seq: Seq, state: RingState | None = None) -> Tensor:
        check_streamable(seq, state)
        q, k, v = (project(x).unflatten(-1, (self.heads, self.head_width)) for project in (self.q, self.k, self.v))
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        if seq.is_packed:
            return self.out(self._forward_packed(q, k, v, seq))
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))  # (B, H, T, K)
        step = state is not None and q.shape[2] == 1 and not torch.is_grad_enabled()  # reads the state in place
        tape = tape_for(self)
        keys, values = k, v
        if state is not None:
            if not step or tape is not None:
                past_k, past_v = state.before(torch.zeros_like(seq.lengths) if seq.start is None else seq.start)
                keys, values = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
            state.write(k, v, seq)
        if tape is not None:
            tape.keep(self, MemoryRecord(q.detach(), keys.detach(), seq))
        if state is None or not step:
            return self.out(self._attend(q, keys, values, seq))
        ring = (state.k, state.v, state.positions_at(seq.shared_pos))
        return self.out(self._combine(q, seq.shared_pos, ring, ring).transpose(1, 2).flatten(2))

    def _forward_packed(self, q: Tensor, k: Tensor, v: Tensor, seq: Seq) -> Tensor:
        """Map packed (N, H, K) to (N, H·K), padded in groups of similar length."""
        if (tape := tape_for(self)) is not None:
            whole_q, whole_k = (unpack(t.detach(), seq).transpose(1, 2) for t in (q, k))
            tape.keep(self, MemoryRecord(whole_q, whole_k, Seq.from_padded(seq.lengths)))
        groups = group_by_length(seq)
        parts = []
        for group in groups:
            q_, k_, v_ = (group.pad(t).transpose(1, 2) for t in (q, k, v))
            parts.append(group.pack(self._attend(q_, k_, v_, group.seq)))
        return groups.join(parts)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, seq: Seq) -> Tensor:
        """Attend with queries (B, H, T, K); the last T keys are their own. To (B, T, H·K)."""
        T, before = q.shape[2], k.shape[2] - q.shape[2]
        reach = self.config.window + self.config.size
        q_pos, k_pos = _positions(seq, before)
        parts = []
        for begin in range(0, T, CHUNK):
            end = min(begin + CHUNK, T)
            near = slice(max(0, before + begin - self.config.window + 1), before + end)
            far = slice(max(0, before + begin - reach + 1), max(0, before + end - self.config.window))
            keys = [(k[:, :, part], v[:, :, part], k_pos[:, part]) for part in (near, far)]
            parts.append(self._combine(q[:, :, begin:end], q_pos[:, begin:end], *keys))
        y = parts[0] if len(parts) == 1 else torch.cat(parts, 2)
        return y.transpose(1, 2).flatten(2)

    def _combine(self, q: Tensor, q_pos: Tensor, near: Kept, far: Kept) -> Tensor:
        """Combine window and memory attention of queries, given keys that cover both."""
        k, v, k_pos = near
        seen, bias = self._window_mask(q_pos, k_pos), self._bias(q_pos, k_pos, q.dtype)
        local = attention(q, k, v, scale=self.scale, mask=seen, bias=bias)
        k, v, k_pos = far
        held = self._memory_mask(q_pos, k_pos)
        empty = not k_pos.numel()
        recalled = torch.zeros_like(local) if empty else nearest(q, k, v, held, scale=self.scale, top=self.config.top)
        return torch.lerp(local, recalled, self._gates(held))

    def _gates(self, held: Tensor) -> Tensor:
        """(B or 1, H, T, 1): weight of the memory, 0 where it is empty."""
        return torch.sigmoid(self.gate)[:, None, None] * held.any(-1, keepdim=True)

    def _window_mask(self, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """(B or 1, 1, T, S): keys inside the window of each query."""
        back = (q_pos[:, :, None] - k_pos[:, None])[:, None]
        return (back >= 0) & (back < self.config.window) & (k_pos[:, None, None] >= 0)

    def _memory_mask(self, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """(B or 1, 1, T, S): keys inside the memory of each query."""
        back = (q_pos[:, :, None] - k_pos[:, None])[:, None] - self.config.window
        return (back >= 0) & (back < self.config.size) & (k_pos[:, None, None] >= 0)

    def _bias(self, q_pos: Tensor, k_pos: Tensor, dtype: torch.dtype) -> Tensor | None:
        if self.position_bias is None:
            return None
        bias: Tensor = self.position_bias(q_pos, k_pos).to(dtype)
        return bias

    def maps(self, record: MemoryRecord, head: int | None = None, rows: Tensor | None = None) -> Tensor:
        """Weights of both attentions, combined by the gates."""
        q, k, seq = record.q, record.k, record.seq
        q_pos, k_pos = _positions(seq, k.shape[2] - q.shape[2])
        held = self._memory_mask(q_pos, k_pos)
        local = attention_weights(q, k, scale=self.scale, mask=self._window_mask(q_pos, k_pos), bias=self._bias(q_pos, k_pos, q.dtype))
        far = nearest_weights(q, k, held, scale=self.scale, top=self.config.top)
        weights = torch.lerp(local, far, self._gates(held)).masked_fill(~seq.valid[:, None, :, None], 0.0)
        first = k_pos[:, :1]  # the place of the first key; column p of a map is position p
        columns = (torch.arange(seq.end, device=k.device) - first).expand(len(q), -1)
        known = (columns >= 0)[:, None, None]
        weights = weights.gather(-1, columns.clamp(min=0)[:, None, None].expand(*weights.shape[:3], -1)) * known
        heads = slice(None) if head is None else slice(head, head + 1)
        return weights[slice(None) if rows is None else rows, heads]


def _positions(seq: Seq, before: int) -> tuple[Tensor, Tensor]:
    """Positions of the queries (B or 1, T) and of their keys, `before` of them earlier; < 0: none."""
    q_pos = seq.shared_pos
    earlier = q_pos[:, :1] - torch.arange(before, 0, -1, device=q_pos.device)
    return q_pos, torch.cat([earlier, q_pos], 1)
