"""Multi-head attention over the sequence itself: causal or not, over all or a pattern, heads sharing keys or not.

    q, k, v = W_q x, W_k x, W_v x        y = W_o [head_1 ... head_H]        head_h = attention(q_h, k_g(h), v_g(h))

`kernels/attention.py` has the equation. H queries' heads share G keys' heads: G = H is multi-head (Vaswani et al. 2017), G = 1
multi-query (Shazeer 2019), between them grouped-query (Ainslie et al. 2023).
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import AttentifError, ConfigError
from attentif.kernels.attention import attention, attention_weights
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site, refer, refuse_unreadable
from attentif.nn.norm import Norm
from attentif.nn.pattern import Pattern, allowed, mask_for
from attentif.nn.ragged import groups_of
from attentif.nn.rotary import RotaryConfig
from attentif.nn.seq import Seq, unpack
from attentif.nn.state import State
from attentif.nn.tape import tape_for


@MIXERS.register
class AttentionConfig(MixerConfig):
    """Softmax attention."""

    cost: ClassVar[str] = "T²"

    kind: Literal["attention"] = Field("attention", description="softmax attention")
    heads: int = Field(8, gt=0, description="heads of queries")
    kv_heads: int | None = Field(
        None, gt=0, description="heads of keys and values; by default as many (1: multi-query, between: grouped-query)"
    )
    head_width: int | None = Field(None, gt=0, description="width of a head; by default width / heads")
    causal: bool = Field(False, description="look back only")
    pattern: Pattern = Field((), description="who may look at whom: a union of window and global entries; empty: everyone")
    rotary: RotaryConfig | None = Field(None, description="rotary positions")
    qk_norm: Norm | None = Field(None, description="normalise each head's queries and keys")
    softcap: float | None = Field(None, gt=0, description="scores are kept within ± this value by a tanh")
    scale: float | None = Field(None, gt=0, description="factor on the scores; by default 1/√head_width")
    bias: bool = Field(True, description="biases in the projections to queries, keys and values")
    out_bias: bool = Field(True, description="bias in the output projection")
    dropout: float = Field(
        0.0, ge=0, lt=1, description="dropped weights; on a CPU this leaves the fast kernel: prefer the sublayer's dropout"
    )

    def build(self, site: Site) -> "Attention":
        return Attention(self, site)


@dataclass(slots=True)
class KeyValueState(State):
    """Keys and values of every token read so far; place p of a row is its token p."""

    k: Tensor  # (B, G, capacity, K)
    v: Tensor  # (B, G, capacity, K)

    def extend(self, k: Tensor, v: Tensor, seq: Seq) -> tuple[Tensor, Tensor]:
        """Put (B, G, T, K) keys and values at their places and return those of every place up to the furthest of these.

        Places beyond it are empty, or hold what was read before a roll-back: no query of this call may see them.
        """
        if seq.end > self.k.shape[2]:
            raise AttentifError(f"{seq.end} tokens do not fit in a state made for {self.k.shape[2]}: give init_state a larger capacity")
        self.k, self.v = self._put(self.k, k, seq), self._put(self.v, v, seq)
        return self.k[:, :, : seq.end], self.v[:, :, : seq.end]

    @staticmethod
    def _put(old: Tensor, new: Tensor, seq: Seq) -> Tensor:
        """In place without gradients, in a new buffer with them."""
        if seq.offset is not None and seq.dense:
            if torch.is_grad_enabled():
                return torch.cat([old[:, :, : seq.offset], new, old[:, :, seq.end :]], 2)
            old[:, :, seq.offset : seq.end] = new
            return old
        at = (seq.row[seq.valid], seq.pos[seq.valid])  # padding is written nowhere
        by_place, values = old.transpose(1, 2), new.transpose(1, 2)[seq.valid]
        if torch.is_grad_enabled():
            return by_place.index_put(at, values).transpose(1, 2)
        by_place[at] = values
        return old


@dataclass(frozen=True, slots=True)
class AttentionRecord:
    """What the weights of one call can be worked out from."""

    q: Tensor  # after rotation: (B, H, T, K), or (N, H, K) where the call was packed
    k: Tensor  # with those of the state, where there was one
    seq: Seq


class Attention(Mixer):
    def __init__(self, config: AttentionConfig, site: Site) -> None:
        super().__init__()
        heads, groups = config.heads, config.kv_heads or config.heads
        if heads % groups:
            raise ConfigError(f"heads = {heads} is not a multiple of kv_heads = {groups}")
        if config.head_width is None and site.width % heads:
            raise ConfigError(f"width = {site.width} is not a multiple of heads = {heads}; give head_width")
        K = config.head_width or site.width // heads
        self.config, self.heads, self.groups, self.head_width = config, heads, groups, K
        self.scale = config.scale or K**-0.5
        self.q = Linear(site.width, heads * K, bias=config.bias)
        self.k = Linear(site.width, groups * K, bias=config.bias)
        self.v = Linear(site.width, groups * K, bias=config.bias)
        self.out = Linear(heads * K, site.width, bias=config.out_bias)
        self.q_norm = config.qk_norm.build(K) if config.qk_norm else None
        self.k_norm = config.qk_norm.build(K) if config.qk_norm else None
        self.rotary = config.rotary.build(K) if config.rotary else None
        if site.bias is not None and site.bias.heads != heads:
            raise ConfigError(f"the stack's bias has {site.bias.heads} heads, its attention {heads}")
        self.position_bias: nn.Module | None
        refer(self, "position_bias", site.bias)
        stretched = self.rotary is not None and self.rotary.by_length  # keys in a cache keep the angles of a shorter reading
        streaming: Literal["exact", "approximate", "none"] = "none" if not config.causal else "approximate" if stretched else "exact"
        self.caps = Caps(causal=config.causal, bidirectional=not config.causal, streaming=streaming, maps=True)

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> KeyValueState:
        if not self.config.causal:
            raise ConfigError("attention that looks both ways cannot read a sequence in pieces; make it causal")
        empty = torch.zeros(2, batch, self.groups, capacity, self.head_width, device=device, dtype=dtype)
        return KeyValueState(empty[0], empty[1])

    def forward(self, x: Tensor, seq: Seq, state: KeyValueState | None = None) -> Tensor:
        if state is not None:
            refuse_unreadable(seq)
        q = self.q(x).unflatten(-1, (self.heads, self.head_width))  # (B, T, H, K), or (N, H, K)
        k = self.k(x).unflatten(-1, (self.groups, self.head_width))
        v = self.v(x).unflatten(-1, (self.groups, self.head_width))
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        if self.rotary is not None:
            q, k = self.rotary(seq, q, k)
        if not seq.is_packed:
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        if state is not None:
            k, v = state.extend(k, v, seq)
        if (tape := tape_for(self)) is not None:
            tape.keep(self, AttentionRecord(q.detach(), k.detach(), seq))
        return self.out(self.attend_packed(q, k, v, seq) if seq.is_packed else self.attend(q, k, v, seq))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, seq: Seq) -> Tensor:
        """(B, H, T, K) queries, and keys from the rows' beginnings on, to (B, T, H·K)."""
        whole = seq.offset == 0 and k.shape[2] == q.shape[2]
        causal = self.config.causal and not self.config.pattern and whole
        newest = self.config.causal and not self.config.pattern and q.shape[2] == 1 and seq.offset is not None  # sees every key
        y = attention(
            q,
            k,
            v,
            scale=self.scale,
            causal=causal,
            mask=None if causal or newest else self.mask(seq, k.shape[2]),
            bias=self.bias(seq, k.shape[2], q.dtype),
            softcap=self.config.softcap,
            dropout=self.config.dropout if self.training else 0.0,
        )
        return y.transpose(1, 2).flatten(2)

    def attend_packed(self, q: Tensor, k: Tensor, v: Tensor, seq: Seq) -> Tensor:
        """(N, H, K) to (N, H·K): padded only here, in groups of similar length."""
        groups = groups_of(seq)
        parts = []
        for group in groups:
            q_, k_, v_ = (group.pad(t).transpose(1, 2) for t in (q, k, v))
            parts.append(group.pack(self.attend(q_, k_, v_, group.seq)))
        return groups.join(parts)

    def mask(self, seq: Seq, keys: int) -> Tensor | None:
        """Who may look at whom, (B, 1, T, S), for keys 0 ... keys - 1 of each row; None: everyone at everyone."""
        if seq.offset == 0 and keys == seq.pos.shape[1]:
            return mask_for(self.config.pattern, self.config.causal, seq)
        return allowed(self.config.pattern, self.config.causal, seq.places, torch.arange(keys, device=seq.pos.device))

    def bias(self, seq: Seq, keys: int, dtype: torch.dtype) -> Tensor | None:
        """The stack's bias for these queries and keys 0 ... keys - 1 of each row."""
        if self.position_bias is None:
            return None
        bias: Tensor = self.position_bias(seq.places, torch.arange(keys, device=seq.pos.device)).to(dtype)
        return bias

    def maps(self, record: AttentionRecord, head: int | None = None, rows: Tensor | None = None) -> Tensor:
        q, k, seq = record.q, record.k, record.seq
        if seq.is_packed:
            q, k = (unpack(t, seq).transpose(1, 2) for t in (q, k))
            seq = Seq.padded(seq.lengths, marks=None if seq.marks is None else unpack(seq.marks, seq))
        mask, bias = self.mask(seq, k.shape[2]), self.bias(seq, k.shape[2], q.dtype)
        if not seq.dense:
            queries = seq.valid[:, None, :, None]
            mask = queries if mask is None else mask & queries
        if self.groups < self.heads:
            k = k.repeat_interleave(self.heads // self.groups, 1)
        row = slice(None) if rows is None else rows
        heads = slice(None) if head is None else slice(head, head + 1)
        return attention_weights(
            q[row, heads],
            k[row, heads],
            scale=self.scale,
            mask=None if mask is None else mask.expand(len(q), -1, -1, -1)[row],
            bias=None if bias is None else bias.expand(len(q), -1, -1, -1)[row, heads],
            softcap=self.config.softcap,
        )
