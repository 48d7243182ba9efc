"""Multi-head attention over the sequence itself: causal or not, over all or a pattern, heads sharing keys or not.

    q, k, v = W_q x, W_k x, W_v x        y = W_o [head_1 ... head_H]        head_h = attention(q_h, k_g(h), v_g(h))

    x            the sequence                                                       (B, T, D), or packed (N, D)
    W_q, W_o     to queries of H heads of width K, and back                         (H·K, D), (D, H·K)
    W_k, W_v     to keys and values of G heads; g(h) = ⌊h G / H⌋ serves head h      (G·K, D) each

`kernels/attention.py` has the equation. H queries' heads share G keys' heads: G = H is multi-head (Vaswani et al. 2017), G = 1
multi-query (Shazeer 2019), between them grouped-query (Ainslie et al. 2023). With a pattern (`nn/pattern.py`) a query sees some of the
keys: its neighbours and a few global tokens (Beltagy et al. 2020), or blocks drawn at random besides (Zaheer et al. 2020); long rows
then take time and memory in proportion to their length (`nn/sparse.py`). Global tokens may have projections of their own:

    q_i = W_qg x_i for a global i, which sees W_kg x_j, W_vg x_j of every j; what others see of it is W_k x_i, W_v x_i
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from attentif.errors import ConfigError
from attentif.kernels.attention import attention, attention_weights
from attentif.nn.cache import KeyValueState, WindowState
from attentif.nn.distance import DistanceConfig
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site, refer, refuse_both_ways, refuse_unreadable
from attentif.nn.norm import Norm
from attentif.nn.pattern import Global, Pattern, allowed, global_tokens, mask_for, weight_bias
from attentif.nn.ragged import groups_of
from attentif.nn.rotary import RotaryConfig
from attentif.nn.seq import Seq, unpack
from attentif.nn.sparse import Plan, Scores, Sparse
from attentif.nn.tape import tape_for


@MIXERS.register
class AttentionConfig(MixerConfig):
    """Softmax attention."""

    cost: ClassVar[str] = "T²; T·w with a pattern"

    kind: Literal["attention"] = Field("attention", description="softmax attention")
    heads: int = Field(8, gt=0, description="heads of queries")
    kv_heads: int | None = Field(
        None, gt=0, description="heads of keys and values; by default as many (1: multi-query, between: grouped-query)"
    )
    head_width: int | None = Field(None, gt=0, description="width of a head; by default width / heads")
    causal: bool = Field(False, description="look back only")
    pattern: Pattern = Field((), description="who may look at whom: a union of window, global, random and short entries; empty: everyone")
    global_projections: bool = Field(False, description="queries of global tokens, and what they see, are projected apart (Longformer)")
    rotary: RotaryConfig | None = Field(None, description="rotary positions")
    distances: DistanceConfig | None = Field(None, description="distances in the scores, by projected sinusoids (Transformer-XL)")
    qk_norm: Norm | None = Field(None, description="normalise each head's queries and keys")
    softcap: float | None = Field(None, gt=0, description="scores are kept within ± this value by a tanh")
    scale: float | None = Field(None, gt=0, description="factor on the scores; by default 1/√head_width")
    bias: bool = Field(True, description="biases in the projections to queries, keys and values")
    key_bias: bool = Field(True, description="one for the keys too, where there are biases: it cannot change a softmax (Whisper has none)")
    out_bias: bool = Field(True, description="bias in the output projection")
    dropout: float = Field(
        0.0, ge=0, lt=1, description="dropped weights; on a CPU this leaves the fast kernel: prefer the sublayer's dropout"
    )

    def build(self, site: Site) -> "Attention":
        return Attention(self, site)


@dataclass(frozen=True, slots=True)
class AttentionRecord:
    """What the weights of one call can be worked out from."""

    q: Tensor  # after rotation: (B, H, T, K), or (N, H, K) where the call was packed
    k: Tensor  # with those of the state, where there was one
    seq: Seq
    places: Tensor | None = None  # (1 or B, S): where each key stands, with a state
    everywhere: Tensor | None = None  # keys that global queries see, where those are projected apart


class Attention(Mixer):
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
        self.weighs = any(isinstance(entry, Global) and entry.weight != 1 for entry in config.pattern)
        if config.softcap and self.weighs:
            raise ConfigError("softcap: tokens that weigh more would be capped too; leave out the weight, or the cap")
        if config.global_projections:
            self._refuse_global_projections()
            self.q_global = Linear(site.width, heads * K, bias=config.bias)
            self.k_global = Linear(site.width, groups * K, bias=config.bias)
            self.v_global = Linear(site.width, groups * K, bias=config.bias)
        self.q_norm = config.qk_norm.build(K) if config.qk_norm else None
        self.k_norm = config.qk_norm.build(K) if config.qk_norm else None
        self.rotary = config.rotary.build(K) if config.rotary else None
        self.turns_input = config.rotary is not None and config.rotary.of == "input"
        if self.turns_input and heads * K != site.width:
            raise ConfigError(f"rotary.of: the {site.width} components of the input are no {heads} heads of {K}")
        self.distances = config.distances.build(site.width, heads, K) if config.distances else None
        if self.distances is not None and (config.pattern or site.bias is not None):
            raise ConfigError("distances: scores that know distances take no pattern, and no other bias of positions")
        if site.bias is not None and site.bias.heads != heads:
            raise ConfigError(f"the stack's bias has {site.bias.heads} heads, its attention {heads}")
        self.position_bias: nn.Module | None
        refer(self, "position_bias", site.bias)
        stretched = self.rotary is not None and self.rotary.by_length  # keys in a cache keep the angles of a shorter reading
        streaming: Literal["exact", "approximate", "none"] = "none" if not config.causal else "approximate" if stretched else "exact"
        self.caps = Caps(causal=config.causal, bidirectional=not config.causal, streaming=streaming, maps=True)

    def _refuse_global_projections(self) -> None:
        if not any(isinstance(entry, Global) for entry in self.config.pattern):
            raise ConfigError('global_projections need a pattern with global tokens; add { kind = "global", first = 1 } to it')
        if self.config.causal:
            raise ConfigError("global_projections are for an attention that looks both ways; leave them out, or causal")

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> KeyValueState | WindowState:
        """Of a window alone, only what it still sees is kept, however long the sequence."""
        refuse_both_ways(self.config.causal)
        window = self.sparse.reach(1)[0] + 1 if self.sparse.only_windows else None
        kept = capacity if window is None else min(window, capacity)
        empty = torch.zeros(2, batch, self.groups, kept, self.head_width, device=device, dtype=dtype)
        return KeyValueState(empty[0], empty[1]) if window is None else WindowState(empty[0], empty[1], window)

    def forward(self, x: Tensor, seq: Seq, state: KeyValueState | WindowState | None = None) -> Tensor:
        if state is not None:
            refuse_unreadable(seq)
        placed = self.turned(x, seq) if self.turns_input else x
        q = self.q(placed).unflatten(-1, (self.heads, self.head_width))  # (B, T, H, K), or (N, H, K)
        k = self.k(placed).unflatten(-1, (self.groups, self.head_width))
        v = self.v(x).unflatten(-1, (self.groups, self.head_width))
        at = self.global_queries(seq) if self.config.global_projections else None
        if at is None:
            q, k = self.placed(seq, q, k)
            everywhere = None
        else:
            own = self.q_global(x.reshape(-1, x.shape[-1]).index_select(0, at)).unflatten(-1, q.shape[-2:])
            q = q.flatten(0, -3).index_copy(0, at, own).view(q.shape)
            q, k, k_global = self.placed(seq, q, k, self.k_global(x).unflatten(-1, k.shape[-2:]))
            everywhere = (k_global, self.v_global(x).unflatten(-1, v.shape[-2:]))
        if not seq.is_packed:
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            everywhere = None if everywhere is None else (everywhere[0].transpose(1, 2), everywhere[1].transpose(1, 2))
        places = None
        if state is not None:
            k, v, places = state.extend(k, v, seq)
        if (tape := tape_for(self)) is not None:
            shown = None if everywhere is None else everywhere[0].detach()
            kept = k.detach().clone() if isinstance(state, WindowState) else k.detach()  # later steps write into the ring
            tape.keep(self, AttentionRecord(q.detach(), kept, seq, places, shown))
        if seq.is_packed:
            return self.out(self.attend_packed(q, k, v, seq, everywhere))
        return self.out(self.attend(q, k, v, seq, places, everywhere))

    def placed(self, seq: Seq, q: Tensor, *keys: Tensor) -> list[Tensor]:
        """Queries and keys, normalised and turned by their places."""
        if self.q_norm is not None and self.k_norm is not None:
            q, keys = self.q_norm(q), tuple(self.k_norm(k) for k in keys)
        return [q, *keys] if self.rotary is None or self.turns_input else self.rotary(seq, q, *keys)

    def turned(self, x: Tensor, seq: Seq) -> Tensor:
        """The input itself turned by its places."""
        assert self.rotary is not None
        (heads,) = self.rotary(seq, x.unflatten(-1, (self.heads, self.head_width)))
        return heads.flatten(-2)

    def global_queries(self, seq: Seq) -> Tensor | None:
        """Index, in the flattened places, of the tokens that see all; None where there are none."""
        at = (self.is_global(seq) & seq.valid).flatten().nonzero().squeeze(1)
        return at if len(at) else None

    def is_global(self, seq: Seq) -> Tensor:
        """(B, T) or (N,): the tokens that see all."""
        lengths = seq.lengths[seq.row] if seq.is_packed else seq.lengths[:, None]
        chosen = global_tokens(self.config.pattern, seq.pos, seq.marks, lengths)
        return torch.zeros_like(seq.valid) if chosen is None else chosen

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        seq: Seq,
        places: Tensor | None = None,
        everywhere: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """(B, H, T, K) queries to (B, T, H·K). Keys stand at `places`, by default from the rows' beginnings on."""
        if self.config.pattern and self.sparse.pays(seq.max_len):
            return self.attend_rows(q, k, v, seq, places, everywhere)
        plain = self.config.causal and not self.config.pattern
        causal = plain and seq.offset == 0 and k.shape[2] == q.shape[2]
        newest = (plain or self.sparse.only_windows) and q.shape[2] == 1 and seq.offset is not None and places is not None  # sees all
        options = self.scores()
        q, bias = self.biased(q, seq, places, k)
        y = attention(
            q,
            k,
            v,
            scale=options.scale,
            causal=causal,
            mask=None if causal or newest else self.mask(seq, places, k.shape[2]),
            bias=bias,
            softcap=options.softcap,
            dropout=options.dropout,
        )
        if everywhere is not None:
            mask = None if seq.dense else seq.valid[:, None, None, :]
            apart = attention(q, *everywhere, scale=options.scale, mask=mask, bias=bias, softcap=options.softcap, dropout=options.dropout)
            y = torch.where(self.is_global(seq)[:, None, :, None], apart, y)
        return y.transpose(1, 2).flatten(2)

    def attend_rows(
        self, q: Tensor, k: Tensor, v: Tensor, seq: Seq, places: Tensor | None, everywhere: tuple[Tensor, Tensor] | None
    ) -> Tensor:
        """The same for long rows with a pattern, each by its own length, without a mask of all pairs."""
        lengths = seq.lengths.tolist()
        starts = [0] * len(lengths) if seq.start is None else seq.start.tolist()
        firsts = [0] if places is None else places[:, 0].tolist()  # the place of each row's first key
        kinds = [t.unbind(0) for t in (q, k, v, *(everywhere or ()))]
        plans: dict[tuple[int, int], Plan | None] = {}  # rows of one length share theirs
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
        """(N, H, K) to (N, H·K): padded only here, in groups of similar length."""
        groups = groups_of(seq)
        parts = []
        for group in groups:
            q_, k_, v_, *apart = (group.pad(t).transpose(1, 2) for t in (q, k, v, *(everywhere or ())))
            parts.append(group.pack(self.attend(q_, k_, v_, group.seq, None, (apart[0], apart[1]) if apart else None)))
        return groups.join(parts)

    def scores(self) -> Scores:
        return Scores(self.scale, self.config.softcap, self.config.dropout if self.training else 0.0, self.position_bias)

    def mask(self, seq: Seq, places: Tensor | None, keys: int) -> Tensor | None:
        """Who may look at whom, (B or 1, 1 or H, T, S); None: everyone at everyone."""
        pattern, causal = self.config.pattern, self.config.causal
        if places is None or (seq.offset == 0 and keys == seq.pos.shape[1]):
            return mask_for(pattern, causal, seq, layer=self.layer, heads=self.heads)
        end = torch.tensor([seq.end], device=seq.pos.device)
        mask = allowed(pattern, causal, seq.places, places, lengths=end, layer=self.layer, heads=self.heads)
        return mask if mask is None or not self.sparse.only_windows else mask & (places >= 0)[:, None, None, :]

    def biased(self, q: Tensor, seq: Seq, places: Tensor | None, k: Tensor) -> tuple[Tensor, Tensor | None]:
        """Queries as keys meet them, and what is added to their scores."""
        if self.distances is None:
            return q, self.bias(seq, places, k)
        places = torch.arange(k.shape[2], device=k.device) if places is None else places
        queries, bias = self.distances(q, seq.places, places, self.scale)
        return queries, bias

    def bias(self, seq: Seq, places: Tensor | None, k: Tensor) -> Tensor | None:
        """The stack's bias for these queries and keys, and what weighs more in the pattern."""
        places = torch.arange(k.shape[2], device=k.device) if places is None else places
        bias = self.scores().between(seq.places, places, k.dtype)
        if not self.weighs:
            return bias
        lengths = seq.lengths[:1] if seq.dense else seq.lengths
        weights = weight_bias(self.config.pattern, seq.places, places, seq.marks, lengths)
        return bias if weights is None else weights.to(k.dtype) if bias is None else bias + weights

    def maps(self, record: AttentionRecord, head: int | None = None, rows: Tensor | None = None) -> Tensor:
        q, k, seq, everywhere = record.q, record.k, record.seq, record.everywhere
        if seq.is_packed:
            q, k = (unpack(t, seq).transpose(1, 2) for t in (q, k))
            everywhere = None if everywhere is None else unpack(everywhere, seq).transpose(1, 2)
            seq = Seq.padded(seq.lengths, marks=None if seq.marks is None else unpack(seq.marks, seq))
        weights = self.weights(q, k, self.mask(seq, record.places, k.shape[2]), seq, record.places, head, rows)
        if everywhere is not None:
            valid = seq.valid[:, None, None, :]
            apart = self.weights(q, everywhere, valid, seq, None, head, rows)
            is_global = self.is_global(seq)[:, None, :, None]
            weights = torch.where(is_global if rows is None else is_global[rows], apart, weights)
        return weights if record.places is None else self.at_places(weights, record.places, seq, rows)

    def weights(
        self, q: Tensor, k: Tensor, mask: Tensor | None, seq: Seq, places: Tensor | None, head: int | None, rows: Tensor | None
    ) -> Tensor:
        """(rows, heads, T, S), nothing where the query is padding."""
        q, bias = self.biased(q, seq, places, k)
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
            mask=None if mask is None else mask.expand(len(q), self.heads, -1, -1)[row, heads],
            bias=None if bias is None else bias.expand(len(q), self.heads, -1, -1)[row, heads],
            softcap=self.config.softcap,
        )

    @staticmethod
    def at_places(weights: Tensor, places: Tensor, seq: Seq, rows: Tensor | None) -> Tensor:
        """Weights of keys that stand at `places`, as columns 0 ... end − 1 of the row."""
        places = places.expand(seq.batch, -1)
        places = (places if rows is None else places[rows]).clamp(min=0)[:, None, None, :].expand_as(weights)
        width = max(seq.end, int(places.max()) + 1)  # keys of padding stand past the end
        return weights.new_zeros(*weights.shape[:3], width).scatter_add_(3, places, weights)[..., : seq.end]
