"""Multi-head latent attention (MLA): keys and values are expanded from one short latent per token.

    c_t, p_t = split(W_kv x_t)         c̃ = norm(c)        k̃_t = R(t) p_t          the latent, and a key for positions that all heads share
    q_t^h = [W_q^h x_t, R(t) W_p^h x_t]                   k_t^h = [W_k^h c̃_t, k̃_t]         v_t^h = W_v^h c̃_t
    y_t = W_o [head_1 ... head_H]                         head_h = attention(q^h, k^h, v^h)

    R        rotation by the position (`nn/rotary.py`); only this part of the keys knows of positions
    K, P, V  widths of a head's content, of its rotary part, and of its values
    R_kv     width of c;  with `q_rank`, queries come from a latent of their own, q = W norm(W' x)

DeepSeek-AI 2024: DeepSeek-V2, section 2.1; V3 is the same. The expanded form above serves training and prefill. Decoding uses the absorbed
form, q·W_k c̃ = (W_kᵀ q)·c̃ and Σ w W_v c̃ = W_v Σ w c̃, which never expands keys and values of earlier tokens.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.kernels.attention import attention, attention_weights
from attentif.nn.cache import KeyValueState
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site, check_causal, check_streamable, map_index
from attentif.nn.norm import Norm, RMSNormConfig
from attentif.nn.pattern import compute_batch_mask, compute_mask
from attentif.nn.ragged import map_groups
from attentif.nn.rotary import RotaryConfig
from attentif.nn.seq import Seq, unpack
from attentif.nn.tape import tape_for


@MIXERS.register
class LatentConfig(MixerConfig):
    """Softmax attention that caches one short vector per token."""

    cost: ClassVar[str] = "T²"

    kind: Literal["latent"] = Field("latent", description="softmax attention whose state is one short vector a token (MLA)")
    heads: int = Field(8, gt=0, description="heads")
    head_width: int | None = Field(None, gt=0, description="width of a head without its rotary part; by default width / heads")
    value_width: int | None = Field(None, gt=0, description="width of a head's values; by default head_width")
    rotary_width: int | None = Field(None, gt=0, description="width of the rotary part of queries and keys; by default half of head_width")
    kv_rank: int | None = Field(None, gt=0, description="width of the latent of keys and values; by default 4 times head_width")
    q_rank: int | None = Field(None, gt=0, description="width of the latent of queries; by default none")
    causal: bool = Field(True, description="attend to earlier positions only")
    rotary: RotaryConfig = Field(RotaryConfig(pairs="adjacent"), description="rotary positions")
    norm: Norm = Field(RMSNormConfig(eps=1e-6), description="norm of the latents")
    scale: float | None = Field(None, gt=0, description="factor on the scores; by default 1/√(head_width + rotary_width)")
    bias: bool = Field(False, description="biases in the projections to latents")
    out_bias: bool = Field(False, description="bias in the output projection")


class LatentState(KeyValueState):
    """Its `k` is the latent c̃ (B, 1, capacity, R_kv) and its `v` the rotary key k̃ (B, 1, capacity, P)."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class LatentRecord:
    """Queries and keys of either form, whose products are the same."""

    q: Tensor  # (B, H, T, K + P), or packed (N, H, K + P); absorbed: (B, H, T, R_kv + P)
    k: Tensor  # the same for S keys; absorbed: (B, 1, S, R_kv + P)
    seq: Seq


class Latent(Mixer, config=LatentConfig):
    def __init__(self, config: LatentConfig, site: Site) -> None:
        super().__init__()
        H, D = config.heads, site.width
        self.config, self.heads = config, H
        self.K = site.head_width(H, config.head_width)
        self.V = config.value_width or self.K
        self.P = config.rotary_width or max(self.K // 4 * 2, 2)
        self.rank = config.kv_rank or 4 * self.K
        self.scale = config.scale or (self.K + self.P) ** -0.5
        queries = H * (self.K + self.P)
        self.q_down = Linear(D, config.q_rank, bias=config.bias) if config.q_rank else None
        self.q_norm = config.norm.build(config.q_rank) if config.q_rank else nn.Identity()
        self.q = Linear(config.q_rank or D, queries, bias=False)
        self.kv_down = Linear(D, self.rank + self.P, bias=config.bias)
        self.kv_norm = config.norm.build(self.rank)
        self.k = Linear(self.rank, H * self.K, bias=False)
        self.v = Linear(self.rank, H * self.V, bias=False)
        self.out = Linear(H * self.V, D, bias=config.out_bias)
        if config.rotary.of != "heads":
            raise ConfigError("rotary.of must be heads: latent attention rotates queries and keys")
        self.rotary = config.rotary.build(self.P)
        streaming: Literal["exact", "approximate", "none"] = "approximate" if self.rotary.by_length else "exact"
        self.caps = Caps(causal=config.causal, bidirectional=not config.causal, streaming=streaming if config.causal else "none", maps=True)

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> LatentState:
        check_causal(self.config.causal)
        empty = lambda width: torch.zeros(batch, 1, capacity, width, device=device, dtype=dtype)
        return LatentState(empty(self.rank), empty(self.P))

    def forward(self, x: Tensor, seq: Seq, state: LatentState | None = None) -> Tensor:
        check_streamable(seq, state)
        q, q_place, c, k_place = self.project(x, seq)
        if seq.is_packed:
            return self.out(self.attend_packed(q, q_place, c, k_place, seq))
        q, q_place, c, k_place = (t.transpose(1, 2) for t in (q, q_place, c, k_place))
        k_pos = None
        if state is not None:
            c, k_place, k_pos = state.extend(c, k_place, seq)
        attend = self.attend_absorbed if state is not None and q.shape[2] == 1 else self.attend_expanded
        return self.out(attend(q, q_place, c, k_place, seq, k_pos))

    def project(self, x: Tensor, seq: Seq) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return q (..., H, K), its rotary part (..., H, P), the latent (..., 1, R) and rotary key (..., 1, P)."""
        below = x if self.q_down is None else self.q_norm(self.q_down(x))
        q, q_place = self.q(below).unflatten(-1, (self.heads, self.K + self.P)).split([self.K, self.P], -1)
        c, k_place = self.kv_down(x).unsqueeze(-2).split([self.rank, self.P], -1)
        q_place, k_place = self.rotary(seq, q_place, k_place)
        return q, q_place, self.kv_norm(c), k_place

    def expand_keys_values(self, c: Tensor, k_place: Tensor) -> tuple[Tensor, Tensor]:
        """Expand latents (..., R) and rotary keys (..., P) to keys (..., H, K + P) and values (..., H, V)."""
        k, v = self.k(c).unflatten(-1, (self.heads, self.K)), self.v(c).unflatten(-1, (self.heads, self.V))
        return torch.cat([k, k_place.unsqueeze(-2).expand(*k.shape[:-1], self.P)], -1), v

    def attend_expanded(self, q: Tensor, q_place: Tensor, c: Tensor, k_place: Tensor, seq: Seq, k_pos: Tensor | None = None) -> Tensor:
        """Attend in the expanded form: queries (B, H, T, ·) and latents (B, 1, S, ·) to (B, T, H·V)."""
        q = torch.cat([q, q_place], -1)
        k, v = (t.transpose(1, 2) for t in self.expand_keys_values(c.squeeze(1), k_place.squeeze(1)))
        self.keep(q, k, seq)
        return self.attend(q, k, v, seq, k_pos)

    def attend_packed(self, q: Tensor, q_place: Tensor, c: Tensor, k_place: Tensor, seq: Seq) -> Tensor:
        """Attend with packed tokens (N, ...), padded only here, in groups of similar length."""
        q = torch.cat([q, q_place], -1)
        k, v = self.expand_keys_values(c.squeeze(1), k_place.squeeze(1))
        self.keep(q, k, seq)
        return map_groups(lambda *padded: self.attend(*(t.transpose(1, 2) for t in padded[:3]), *padded[3:]), seq, q, k, v)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, seq: Seq, k_pos: Tensor | None = None) -> Tensor:
        """Softmax attention; values are zero-padded to the width of keys, as the fused kernel needs."""
        wide = max(q.shape[-1], v.shape[-1])
        q, k, v = (t if t.shape[-1] == wide else F.pad(t, (0, wide - t.shape[-1])) for t in (q, k, v))
        causal = self.config.causal and seq.offset == 0 and k.shape[2] == q.shape[2]
        y = attention(q, k, v, scale=self.scale, causal=causal, mask=None if causal else self.build_mask(seq, k_pos))
        return y[..., : self.V].transpose(1, 2).flatten(2)

    def attend_absorbed(self, q: Tensor, q_place: Tensor, c: Tensor, k_place: Tensor, seq: Seq, k_pos: Tensor | None) -> Tensor:
        """Attend in the absorbed form for one query (T = 1), directly over the latents."""
        H = self.heads
        by_head = lambda linear, width: linear.weight.view(H, width, self.rank)
        q = torch.einsum("bhk,hkr->bhr", q.squeeze(2), by_head(self.k, self.K))
        q, k = torch.cat([q, q_place.squeeze(2)], -1), torch.cat([c, k_place], -1)  # (B, H, R + P), (B, 1, S, R + P)
        self.keep(q.unsqueeze(2), k, seq)
        newest = seq.offset is not None  # the query is the newest token of every row
        mask = None if newest else self.build_mask(seq, k_pos)
        weights = attention_weights(q.unsqueeze(1), k, scale=self.scale, mask=mask).squeeze(1)  # (B, H, S), heads as queries of one head
        read = weights @ c.squeeze(1)  # (B, H, R)
        return torch.einsum("bhr,hvr->bhv", read, by_head(self.v, self.V)).flatten(1).unsqueeze(1)

    def build_mask(self, seq: Seq, k_pos: Tensor | None) -> Tensor | None:
        """(B, 1, T, S): which keys each query may attend to; None: all."""
        return (
            compute_batch_mask((), self.config.causal, seq)
            if k_pos is None
            else compute_mask((), self.config.causal, seq.shared_pos, k_pos)
        )

    def keep(self, q: Tensor, k: Tensor, seq: Seq) -> None:
        if (tape := tape_for(self)) is not None:
            tape.keep(self, LatentRecord(q.detach(), k.detach(), seq))

    def maps(self, record: LatentRecord, head: int | None = None, rows: Tensor | None = None) -> Tensor:
        q, k, seq = record.q, record.k, record.seq
        if seq.is_packed:
            q, k, seq = unpack(q, seq).transpose(1, 2), unpack(k, seq).transpose(1, 2), Seq.from_padded(seq.lengths)
        k_pos = None if k.shape[2] == q.shape[2] and seq.offset == 0 else torch.arange(k.shape[2], device=k.device)[None]
        mask = self.build_mask(seq, k_pos)
        if not seq.dense:
            queries = seq.valid[:, None, :, None]
            mask = queries if mask is None else mask & queries
        row, heads = map_index(rows, head)
        k = k.expand(-1, self.heads, -1, -1)
        return attention_weights(
            q[row, heads], k[row, heads], scale=self.scale, mask=None if mask is None else mask.expand(len(q), -1, -1, -1)[row]
        )
