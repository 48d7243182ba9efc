"""Cross-attention: queries from the decoder, keys and values from the memory.

    q = W_q x,   k, v = W_k m, W_v m        y = W_o [attention(q_h, k_h, v_h)]_h                 (Vaswani et al. 2017, section 3.2.3)

    x        the decoder's sequence                                       (B, T, D)
    m        the memory: what was read, every position of it seen by all  (B, S, M)

The equation is in `kernels/attention.py`; keys and values are computed once and stored in the state.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import torch
from pydantic import Field
from torch import Tensor

from attentif.errors import ConfigError
from attentif.kernels.attention import attention, attention_weights
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, CrossMixer, HeadsConfig, Site, check_streamable, map_index
from attentif.nn.seq import Seq, unpack
from attentif.nn.state import State, select_sources
from attentif.nn.tape import tape_for


@MIXERS.register
class CrossAttentionConfig(HeadsConfig):
    """Softmax attention to the memory."""

    cost: ClassVar[str] = "T·S"

    kind: Literal["cross-attention"] = Field("cross-attention", description="softmax attention to the memory (the encoder's output)")
    scale: float | None = Field(None, gt=0, description="factor on the scores; by default 1/√head_width")
    key_bias: bool = Field(True, description="if `bias`, also for the keys (Whisper: no); it cannot change a softmax")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout on the weights; slow on CPU")


@dataclass(slots=True)
class MemoryState(State):
    """Projected keys and values of the memory; `fanout` beams share one of its rows."""

    k: Tensor  # (B, H, S, K)
    v: Tensor  # (B, H, S, K)
    valid: Tensor | None  # (B, S); None: no padding
    fanout: int = 1

    def select(self, rows: Tensor) -> Self:
        sources, fanout = select_sources(rows, self.fanout, len(self.k))
        if sources is None:
            return type(self)(self.k, self.v, self.valid, fanout)
        k, v = self.k.index_select(0, sources), self.v.index_select(0, sources)
        return type(self)(k, v, None if self.valid is None else self.valid.index_select(0, sources), fanout)

    def source_lengths(self) -> list[int]:
        """Places of each row of the memory."""
        found: list[int] = [self.k.shape[2]] * len(self.k) if self.valid is None else self.valid.sum(1).tolist()
        return found

    def snapshot(self) -> Self:
        return self  # it is never modified


@dataclass(frozen=True, slots=True)
class CrossRecord:
    q: Tensor  # (B, H, T, K), B the decoder's rows
    k: Tensor  # (B / fanout, H, S, K)
    valid: Tensor | None
    seq: Seq
    fanout: int


class CrossAttention(CrossMixer, config=CrossAttentionConfig):
    caps = Caps(causal=True, bidirectional=False, streaming="exact", maps=True)

    def __init__(self, config: CrossAttentionConfig, site: Site) -> None:
        super().__init__()
        K = site.head_width(config.heads, config.head_width)
        if site.memory_width is None:
            raise ConfigError("cross-attention needs a memory: use it in the decoder of an encoder-decoder")
        self.config, self.heads, self.head_width = config, config.heads, K
        self.scale = config.scale or K**-0.5
        self.q = Linear(site.width, config.heads * K, bias=config.bias)
        self.k = Linear(site.memory_width, config.heads * K, bias=config.bias and config.key_bias)
        self.v = Linear(site.memory_width, config.heads * K, bias=config.bias)
        self.out = Linear(config.heads * K, site.width, bias=config.out_bias)

    def init_state(self, memory: Tensor, memory_seq: Seq) -> MemoryState:
        k, v = (project(memory).unflatten(-1, (self.heads, self.head_width)) for project in (self.k, self.v))
        if memory_seq.is_packed:
            k, v = unpack(k, memory_seq), unpack(v, memory_seq)
            memory_seq = Seq.from_padded(memory_seq.lengths)
        k, v = k.transpose(1, 2), v.transpose(1, 2)
        if not torch.is_grad_enabled():  # every step reads them: head by head, as they will lie
            k, v = k.contiguous(), v.contiguous()
        return MemoryState(k, v, None if memory_seq.dense else memory_seq.valid)

    def forward(self, x: Tensor, seq: Seq, memory: Tensor | None, memory_seq: Seq | None, state: MemoryState | None = None) -> Tensor:
        if state is not None:
            check_streamable(seq, state)
        elif memory is None or memory_seq is None:
            raise ValueError("cross-attention needs either the memory and its Seq or a state made from them")
        else:
            state = self.init_state(memory, memory_seq)
        q = self.q(x).unflatten(-1, (self.heads, self.head_width))
        q = (unpack(q, seq) if seq.is_packed else q).transpose(1, 2)  # (B, H, T, K)
        if (tape := tape_for(self)) is not None:
            tape.keep(self, CrossRecord(q.detach(), state.k.detach(), state.valid, seq, state.fanout))
        y = self.attend(q, state)
        return self.out(y.flatten(0, 1).index_select(0, seq.padded_index(seq.max_len)) if seq.is_packed else y)

    def attend(self, q: Tensor, state: MemoryState) -> Tensor:
        """Map queries (B, H, T, K) to (B, T, H·K); beams of a source are read as one longer row."""
        rows, T = q.shape[0], q.shape[2]
        if state.fanout > 1:
            q = q.unflatten(0, (-1, state.fanout)).transpose(1, 2).flatten(2, 3)  # (B / fanout, H, fanout·T, K)
        mask = None if state.valid is None else state.valid[:, None, None, :]
        y = attention(q, state.k, state.v, scale=self.scale, mask=mask, dropout=self.config.dropout if self.training else 0.0)
        return y.transpose(1, 2).reshape(rows, T, self.heads * self.head_width)

    def maps(self, record: CrossRecord, head: int | None = None, rows: Tensor | None = None) -> Tensor:
        k, valid = record.k.repeat_interleave(record.fanout, 0), record.valid
        row, heads = map_index(rows, head)
        mask = record.seq.padded_mask()[:, None, :, None].expand(-1, -1, -1, k.shape[2])
        if valid is not None:
            mask = mask & valid.repeat_interleave(record.fanout, 0)[:, None, None, :]
        return attention_weights(record.q[row, heads], k[row, heads], scale=self.scale, mask=mask[row])
