"""Multi-head self-attention: causal or not, full or sparse, with shared key-value heads.

    q, k, v = W_q x, W_k x, W_v x        y = W_o [head_1 ... head_H]        head_h = attention(q_h, k_g(h), v_g(h))

    x            the sequence                                                       (B, T, D), or packed (N, D)
    W_q, W_o     to queries of H heads of width K, and back                         (H·K, D), (D, H·K)
    W_k, W_v     to keys and values of G heads; g(h) = ⌊h G / H⌋ serves head h      (G·K, D) each

The equation is in `kernels/attention.py`. G = H is multi-head (Vaswani et al. 2017), G = 1 multi-query (Shazeer 2019), between them
grouped-query (Ainslie et al. 2023). A pattern (`nn/pattern.py`) limits the keys to neighbours and global tokens (Beltagy et al. 2020) or
random blocks (Zaheer et al. 2020); long rows then take linear time (`nn/sparse.py`). Global tokens may have their own projections:

    q_i = W_qg x_i for a global i, which attends to W_kg x_j, W_vg x_j of every j; others attend to W_k x_i, W_v x_i

In long texts queries may be sharpened by their position p (Nakanishi 2025; Llama 4):  q_p · (1 + rate · ln(1 + ⌊(p + 1) / every⌋))
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from attentif.config import Config
from attentif.errors import ConfigError
from attentif.kernels.attention import attention, attention_weights
from attentif.nn.bias import BY_POSITION, Bias, DistanceVectors
from attentif.nn.cache import KeyValueState, WindowState
from attentif.nn.distance import DistanceConfig
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, HeadsConfig, Mixer, Site, check_causal, check_streamable, map_index, share_module
from attentif.nn.norm import Norm
from attentif.nn.pattern import GlobalPattern, Pattern, compute_batch_mask, compute_mask, global_tokens, weight_bias
from attentif.nn.ragged import group_by_length
from attentif.nn.rotary import RotaryConfig
from attentif.nn.seq import Seq, unpack
from attentif.nn.sparse import Scores, Sparse, SparsePlan
from attentif.nn.tape import tape_for


class SharpeningConfig(Config):
    """Queries that grow with the logarithm of their position, against attention that fades in long texts."""

    every: int = Field(8192, gt=0, description="positions from one step to the next")
    rate: float = Field(0.1, ge=0, description="growth with the logarithm of the steps")

    def factors(self, pos: Tensor) -> Tensor:
        return 1 + self.rate * torch.log1p(((pos + 1) // self.every).double())


@MIXERS.register
class AttentionConfig(HeadsConfig):
    """Softmax attention."""

    cost: ClassVar[str] = "T²; T·w with a pattern"

    kind: Literal["attention"] = Field("attention", description="softmax attention")
    kv_heads: int | None = Field(None, gt=0, description="heads of keys and values; by default as many (1: multi-query)")
    causal: bool = Field(False, description="attend to earlier positions only")
    pattern: Pattern = Field((), description="sparse pattern: a union of window, global, random and short entries; empty: full")
    global_projections: bool = Field(False, description="separate projections for global tokens (Longformer)")
    rotary: RotaryConfig | None = Field(None, description="rotary positions")
    distances: DistanceConfig | None = Field(None, description="relative positions in the scores (Transformer-XL)")
    qk_norm: Norm | None = Field(None, description="normalise queries and keys")
    qk_norm_of: Literal["head", "own", "all"] = Field(
        "head", description="qk_norm of each head with one gain for all, or own gains (StableLM 2), or of all heads as one vector (OLMo 2)"
    )
    softcap: float | None = Field(None, gt=0, description="bound scores to ± this value by a tanh")
    scale: float | None = Field(None, gt=0, description="factor on the scores; by default 1/√head_width")
    sharpening: SharpeningConfig | None = Field(None, description="queries that grow with their position (Llama 4)")
    sinks: bool = Field(False, description="a learned score of nothing for each head, in the softmax's sum (gpt-oss)")
    key_bias: bool = Field(True, description="if `bias`, also for the keys (Whisper: no); it cannot change a softmax")
    own_bias: Bias | None = Field(None, description="a positional bias of this layer alone, beside no bias of the stack (BEiT)")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout on the weights; slow on CPU, prefer the sublayer's dropout")


@dataclass(frozen=True, slots=True)
class AttentionRecord:
    """What the attention weights of one call are computed from."""

    q: Tensor  # after rotation: (B, H, T, K), or (N, H, K) where the call was packed
    k: Tensor  # including those of the state
    seq: Seq
    k_pos: Tensor | None = None  # (1 or B, S): positions of the keys, with a state
    everywhere: Tensor | None = None  # separately projected keys of global queries


class Attention(Mixer, config=AttentionConfig):
    def __init__(self, config: AttentionConfig, site: Site) -> None:
        super().__init__()
        heads, groups = config.heads, config.kv_heads or config.heads
        if heads % groups:
            raise ConfigError(f"heads = {heads} is not a multiple of kv_heads = {groups}")
        K = site.head_width(heads, config.head_width)
        self.config, self.heads, self.groups, self.head_width, self.layer = config, heads, groups, K, site.layer
        self.scale = config.scale or K**-0.5
        self.sparse = Sparse(config.pattern, causal=config.causal, layer=site.layer, heads=heads)
        self.q = Linear(site.width, heads * K, bias=config.bias)
        self.k = Linear(site.width, groups * K, bias=config.bias and config.key_bias)
        self.v = Linear(site.width, groups * K, bias=config.bias)
        self.out = Linear(heads * K, site.width, bias=config.out_bias)
        self.weighs = any(isinstance(entry, GlobalPattern) and entry.weight != 1 for entry in config.pattern)
        self.sinks = nn.Parameter(torch.zeros(heads)) if config.sinks else None
        if config.sinks and (config.softcap or config.global_projections):
            raise ConfigError("sinks cannot be combined with softcap or with global_projections")
        if config.softcap and self.weighs:
            raise ConfigError("softcap cannot be combined with weights of global tokens")
        if config.global_projections:
            self._refuse_global_projections()
            self.q_global = Linear(site.width, heads * K, bias=config.bias)
            self.k_global = Linear(site.width, groups * K, bias=config.bias)
            self.v_global = Linear(site.width, groups * K, bias=config.bias)
        self.norms_all = config.qk_norm_of == "all"
        self.q_norm, self.k_norm = (self.build_norm(count, K) for count in (heads, groups))
        self.rotary = config.rotary.build(K) if config.rotary else None
        self.turns_input = config.rotary is not None and config.rotary.of == "input"
        if self.turns_input and heads * K != site.width:
            raise ConfigError(f"rotary.of = input needs width = heads · head_width, not {site.width} with {heads} heads of {K}")
        self.distances = config.distances.build(site.width, heads, K) if config.distances else None
        if self.distances is not None and (config.pattern or site.bias is not None or config.own_bias is not None):
            raise ConfigError("distances cannot be combined with a pattern or with a bias")
        if config.own_bias is not None and site.bias is not None:
            raise ConfigError("own_bias cannot be combined with the stack's bias: give one of them")
        self.own_bias = config.own_bias.build() if config.own_bias else None
        bias = self.own_bias or site.bias
        if isinstance(bias, DistanceVectors):
            raise ConfigError("vectors of distances are for disentangled attention alone")
        if bias is not None and bias.heads != heads:
            whose = "the stack's bias" if config.own_bias is None else "own_bias"
            raise ConfigError(f"{whose} has {bias.heads} heads, this attention {heads}")
        if isinstance(bias, BY_POSITION) and config.pattern:
            raise ConfigError("a pattern cannot be combined with a bias that does not follow from the distance: relative-2d, alibi-rounded")
        self.position_bias: nn.Module | None
        share_module(self, "position_bias", bias)
        stretched = self.rotary is not None and self.rotary.by_length  # cached keys keep the angles of a shorter length
        streaming: Literal["exact", "approximate", "none"] = "none" if not config.causal else "approximate" if stretched else "exact"
        limit = getattr(bias, "max_len", None)
        self.caps = Caps(causal=config.causal, bidirectional=not config.causal, streaming=streaming, maps=True, max_len=limit)

    def build_norm(self, heads: int, width: int) -> nn.Module | None:
        """The norm of the queries, or of the keys."""
        norm, of = self.config.qk_norm, self.config.qk_norm_of
        if norm is None:
            return None
        return norm.build_by_head(heads, width) if of == "own" else norm.build(heads * width if of == "all" else width)

    def _refuse_global_projections(self) -> None:
        if not any(isinstance(entry, GlobalPattern) for entry in self.config.pattern):
            raise ConfigError('global_projections need a pattern with global tokens; add { kind = "global", first = 1 } to it')
        if self.config.causal:
            raise ConfigError("global_projections need bidirectional attention; leave them out, or causal")

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> KeyValueState | WindowState:
        """Allocate the cache; with windows alone, only what they still see is stored."""
        check_causal(self.config.causal)
        window = self.sparse.reach(1)[0] + 1 if self.sparse.only_windows else None
        kept = capacity if window is None else min(window, capacity)
        empty = torch.zeros(2, batch, self.groups, kept, self.head_width, device=device, dtype=dtype)
        return KeyValueState(empty[0], empty[1]) if window is None else WindowState(empty[0], empty[1], window)

    def forward(self, x: Tensor, seq: Seq, state: KeyValueState | WindowState | None = None) -> Tensor:
        check_streamable(seq, state)
        placed = self.rotate_input(x, seq) if self.turns_input else x
        q = self.q(placed).unflatten(-1, (self.heads, self.head_width))  # (B, T, H, K), or (N, H, K)
        k = self.k(placed).unflatten(-1, (self.groups, self.head_width))
        v = self.v(x).unflatten(-1, (self.groups, self.head_width))
        at = self.find_global_queries(seq) if self.config.global_projections else None
        if at is None:
            q, k = self.norm_and_rotate(seq, q, k)
            everywhere = None
        else:
            own = self.q_global(x.reshape(-1, x.shape[-1]).index_select(0, at)).unflatten(-1, q.shape[-2:])
            q = q.flatten(0, -3).index_copy(0, at, own).view(q.shape)
            q, k, k_global = self.norm_and_rotate(seq, q, k, self.k_global(x).unflatten(-1, k.shape[-2:]))
            everywhere = (k_global, self.v_global(x).unflatten(-1, v.shape[-2:]))
        if not seq.is_packed:
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            everywhere = None if everywhere is None else (everywhere[0].transpose(1, 2), everywhere[1].transpose(1, 2))
        k_pos = None
        if state is not None:
            k, v, k_pos = state.extend(k, v, seq)
        if (tape := tape_for(self)) is not None:
            shown = None if everywhere is None else everywhere[0].detach()
            kept = k.detach().clone() if isinstance(state, WindowState) else k.detach()  # later steps overwrite the ring
            tape.keep(self, AttentionRecord(q.detach(), kept, seq, k_pos, shown))
        if seq.is_packed:
            return self.out(self.attend_packed(q, k, v, seq, everywhere))
        return self.out(self.attend(q, k, v, seq, k_pos, everywhere))

    def norm_and_rotate(self, seq: Seq, q: Tensor, *keys: Tensor) -> list[Tensor]:
        """Normalise queries and keys, and apply rotary positions."""
        if self.q_norm is not None and self.k_norm is not None:
            q, keys = self.normalize_heads(self.q_norm, q), tuple(self.normalize_heads(self.k_norm, k) for k in keys)
        if self.config.sharpening is not None:
            pos = seq.pos if seq.is_packed else seq.shared_pos
            q = q * self.config.sharpening.factors(pos)[..., None, None].to(q.dtype)
        return [q, *keys] if self.rotary is None or self.turns_input else self.rotary(seq, q, *keys)

    def normalize_heads(self, norm: nn.Module, x: Tensor) -> Tensor:
        """(..., H, K) queries or keys: each head by itself, or all of them as one vector."""
        y: Tensor = norm(x.flatten(-2)).view_as(x) if self.norms_all else norm(x)
        return y

    def rotate_input(self, x: Tensor, seq: Seq) -> Tensor:
        """Apply rotary positions to the input itself."""
        assert self.rotary is not None
        (heads,) = self.rotary(seq, x.unflatten(-1, (self.heads, self.head_width)))
        return heads.flatten(-2)

    def find_global_queries(self, seq: Seq) -> Tensor | None:
        """Return the flat indices of global tokens; None: there are none."""
        at = (self.is_global(seq) & seq.valid).flatten().nonzero().squeeze(1)
        return at if len(at) else None

    def is_global(self, seq: Seq) -> Tensor:
        """(B, T) or (N,): whether each token is global."""
        lengths = seq.lengths[seq.row] if seq.is_packed else seq.lengths[:, None]
        chosen = global_tokens(self.config.pattern, seq.pos, seq.marks, lengths)
        return torch.zeros_like(seq.valid) if chosen is None else chosen

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        seq: Seq,
        k_pos: Tensor | None = None,
        everywhere: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Attend with queries (B, H, T, K) to (B, T, H·K); keys are at `k_pos`, by default 0 ... S − 1."""
        if self.config.pattern and not torch.compiler.is_exporting() and self.sparse.pays(seq.max_len):
            return self.attend_rows(q, k, v, seq, k_pos, everywhere)
        plain = self.config.causal and not self.config.pattern
        causal = plain and seq.offset == 0 and bool(k.shape[2] == q.shape[2])  # a length may be a symbol, in an export
        newest = (plain or self.sparse.only_windows) and q.shape[2] == 1 and seq.offset is not None and k_pos is not None  # sees every key
        options = self.scores()
        q, bias = self.compute_bias(q, seq, k_pos, k)
        y = attention(
            q,
            k,
            v,
            scale=options.scale,
            causal=causal,
            mask=None if causal or newest else self.build_mask(seq, k_pos, k.shape[2]),
            bias=bias,
            softcap=options.softcap,
            sinks=options.sinks,
            dropout=options.dropout,
        )
        if everywhere is not None:
            mask = None if seq.dense else seq.valid[:, None, None, :]
            apart = attention(q, *everywhere, scale=options.scale, mask=mask, bias=bias, softcap=options.softcap, dropout=options.dropout)
            y = torch.where(self.is_global(seq)[:, None, :, None], apart, y)
        return y.transpose(1, 2).flatten(2)

    def attend_rows(
        self, q: Tensor, k: Tensor, v: Tensor, seq: Seq, k_pos: Tensor | None, everywhere: tuple[Tensor, Tensor] | None
    ) -> Tensor:
        """Attend row by row with a sparse pattern, without a mask of all pairs."""
        lengths = seq.lengths.tolist()
        starts = [0] * len(lengths) if seq.start is None else seq.start.tolist()
        firsts = [0] if k_pos is None else k_pos[:, 0].tolist()  # position of each row's first key
        kinds = [t.unbind(0) for t in (q, k, v, *(everywhere or ()))]
        plans: dict[tuple[int, int], SparsePlan | None] = {}  # shared by rows of the same length
        rows = []
        for row, (length, start) in enumerate(zip(lengths, starts, strict=True)):
            first = firsts[row % len(firsts)]
            keys = slice(max(0, -first), start + length - first)
            queries, *others = (t[row] for t in kinds)
            k_, v_, *apart = (t[:, keys] for t in others)
            marks = None if seq.marks is None else seq.marks[row, :length]
            size = (length, k_.shape[1])
            if marks is not None or size not in plans:
                plans[size] = self.sparse.plan(*size, marks, q.device)
            y = self.sparse.attend(queries[:, :length], k_, v_, plans[size], self.scores(), (apart[0], apart[1]) if apart else None)
            rows.append(y.flatten(1))
        y = pad_sequence(rows, batch_first=True) if len(rows) > 1 else rows[0][None]
        return y if y.shape[1] == q.shape[2] else F.pad(y, (0, 0, 0, q.shape[2] - y.shape[1]))

    def attend_packed(self, q: Tensor, k: Tensor, v: Tensor, seq: Seq, everywhere: tuple[Tensor, Tensor] | None) -> Tensor:
        """Map packed (N, H, K) to (N, H·K), padding only here, in groups of similar length."""
        groups = group_by_length(seq)
        parts = []
        for group in groups:
            q_, k_, v_, *apart = (group.pad(t).transpose(1, 2) for t in (q, k, v, *(everywhere or ())))
            parts.append(group.pack(self.attend(q_, k_, v_, group.seq, None, (apart[0], apart[1]) if apart else None)))
        return groups.join(parts)

    def scores(self) -> Scores:
        sinks = None if self.sinks is None else self.sinks[:, None]
        return Scores(self.scale, self.config.softcap, self.config.dropout if self.training else 0.0, self.position_bias, sinks)

    def build_mask(self, seq: Seq, k_pos: Tensor | None, keys: int) -> Tensor | None:
        """(B or 1, 1 or H, T, S): which keys each query may attend to; None: all."""
        pattern, causal = self.config.pattern, self.config.causal
        if k_pos is None or (seq.offset == 0 and keys == seq.pos.shape[1]):
            return compute_batch_mask(pattern, causal, seq, layer=self.layer, heads=self.heads)
        end = torch.tensor([seq.end], device=seq.pos.device)
        mask = compute_mask(pattern, causal, seq.shared_pos, k_pos, lengths=end, layer=self.layer, heads=self.heads)
        return mask if mask is None or not self.sparse.only_windows else mask & (k_pos >= 0)[:, None, None, :]

    def compute_bias(self, q: Tensor, seq: Seq, k_pos: Tensor | None, k: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the queries and the bias added to their scores."""
        if self.distances is None:
            return q, self.bias(seq, k_pos, k)
        k_pos = torch.arange(k.shape[2], device=k.device) if k_pos is None else k_pos
        queries, bias = self.distances(q, seq.shared_pos, k_pos, self.scale)
        return queries, bias

    def bias(self, seq: Seq, k_pos: Tensor | None, k: Tensor) -> Tensor | None:
        """Sum the stack's positional bias and the log weights of the pattern."""
        k_pos = torch.arange(k.shape[2], device=k.device) if k_pos is None else k_pos
        bias = self.scores().position_bias(seq.shared_pos, k_pos, k.dtype)
        if not self.weighs:
            return bias
        lengths = seq.lengths[:1] if seq.dense else seq.lengths
        weights = weight_bias(self.config.pattern, seq.shared_pos, k_pos, seq.marks, lengths)
        return bias if weights is None else weights.to(k.dtype) if bias is None else bias + weights

    def maps(self, record: AttentionRecord, head: int | None = None, rows: Tensor | None = None) -> Tensor:
        q, k, seq, everywhere = record.q, record.k, record.seq, record.everywhere
        if seq.is_packed:
            q, k = (unpack(t, seq).transpose(1, 2) for t in (q, k))
            everywhere = None if everywhere is None else unpack(everywhere, seq).transpose(1, 2)
            seq = Seq.from_padded(seq.lengths, marks=None if seq.marks is None else unpack(seq.marks, seq))
        weights = self.weights(q, k, self.build_mask(seq, record.k_pos, k.shape[2]), seq, record.k_pos, head, rows)
        if everywhere is not None:
            valid = seq.valid[:, None, None, :]
            apart = self.weights(q, everywhere, valid, seq, None, head, rows)
            is_global = self.is_global(seq)[:, None, :, None]
            weights = torch.where(is_global if rows is None else is_global[rows], apart, weights)
        return weights if record.k_pos is None else self.scatter_to_positions(weights, record.k_pos, seq, rows)

    def weights(
        self, q: Tensor, k: Tensor, mask: Tensor | None, seq: Seq, k_pos: Tensor | None, head: int | None, rows: Tensor | None
    ) -> Tensor:
        """Compute the weights (rows, heads, T, S), zero where the query is padding."""
        q, bias = self.compute_bias(q, seq, k_pos, k)
        if not seq.dense:
            queries = seq.valid[:, None, :, None]
            mask = queries if mask is None else mask & queries
        if self.groups < self.heads:
            k = k.repeat_interleave(self.heads // self.groups, 1)
        row, heads = map_index(rows, head)
        return attention_weights(
            q[row, heads],
            k[row, heads],
            scale=self.scale,
            mask=None if mask is None else mask.expand(len(q), self.heads, -1, -1)[row, heads],
            bias=None if bias is None else bias.expand(len(q), self.heads, -1, -1)[row, heads],
            softcap=self.config.softcap,
            sinks=None if self.sinks is None else self.sinks[heads, None],
        )

    @staticmethod
    def scatter_to_positions(weights: Tensor, k_pos: Tensor, seq: Seq, rows: Tensor | None) -> Tensor:
        """Move the weights of keys at `k_pos` to columns 0 ... end − 1."""
        k_pos = k_pos.expand(seq.batch, -1)
        k_pos = (k_pos if rows is None else k_pos[rows]).clamp(min=0)[:, None, None, :].expand_as(weights)
        width = max(seq.end, int(k_pos.max()) + 1)  # keys of padding are past the end
        return weights.new_zeros(*weights.shape[:3], width).scatter_add_(3, k_pos, weights)[..., : seq.end]
