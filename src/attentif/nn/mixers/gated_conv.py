"""A gated long convolution: Hyena (Poli et al. 2023, definition 3.1).

    x⁰, x¹ ... xⁿ⁻¹, v = c(W_in x)                   c: a short causal convolution of each component
    z ← v,   then for i = n-1 ... 1:   z ← h^i * (x^i ⊙ z) + d^i ⊙ x^i ⊙ z
    y = W_out (x⁰ ⊙ z)

    n        order: so many gates, and one long convolution between each and the next
    h^i      filter, an implicit function of the distance t:  h^i_t = f^i(t) ⊙ e^{-δ t / horizon}
    f        a small network of sines on (t, cos ω t, sin ω t), its last layer linear
    δ        decays, from fast to slow over the components: a filter keeps 1 % of its height after 0.3 to 1.5 horizons
    d        weight of the token itself

As in the authors' code, a gate precedes each filter and one follows the last. Filters are functions of the distance, so any length can be
read; they fade beyond the horizon. Convolutions use FFTs. Streaming is exact, but stores the filters' inputs for every token.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import AttentifError
from attentif.kernels.conv import causal_conv
from attentif.kernels.long_conv import long_conv, long_conv_at
from attentif.nn.cache import write_at
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site, check_streamable
from attentif.nn.ragged import group_by_length
from attentif.nn.seq import Seq
from attentif.nn.state import State

FASTEST, SLOWEST, LEFT = 0.3, 1.5, 0.01  # horizons at which filters have decayed to this share


@MIXERS.register
class GatedConvConfig(MixerConfig):
    """Gated long convolutions whose filters are given by a small network."""

    cost: ClassVar[str] = "T log T"

    kind: Literal["gated-conv"] = Field("gated-conv", description="gated long convolution (Hyena)")
    order: int = Field(2, ge=2, description="number of gates, with a long convolution between two")
    conv: int = Field(3, ge=2, description="taps of the short convolution before the gates")
    horizon: int = Field(1024, gt=0, description="distance in tokens at which filters fade")
    filter_width: int = Field(64, gt=0, description="width of the filter network")
    filter_layers: int = Field(3, ge=1, description="sine layers of the filter network")
    bands: int = Field(8, ge=1, description="frequencies in its input")
    frequency: float = Field(10.0, gt=0, description="initial frequency of its sines")


class Filters(nn.Module):
    """The filters h, as a function of the distance."""

    def __init__(self, config: GatedConvConfig, width: int) -> None:
        super().__init__()
        self.config, self.width, count = config, width, config.order - 1
        sizes = [1 + 2 * config.bands] + [config.filter_width] * config.filter_layers
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in pairwise(sizes))
        self.frequency = nn.Parameter(torch.full((config.filter_width,), config.frequency))
        self.out = nn.Linear(config.filter_width, count * width, bias=False)

    def decays(self, like: Tensor) -> Tensor:
        """δ, (D,)."""
        fast, slow = (-math.log(LEFT) / horizons for horizons in (FASTEST, SLOWEST))
        return torch.linspace(fast, slow, self.width, device=like.device, dtype=like.dtype)

    def forward(self, length: int) -> Tensor:
        """(order - 1, length, D)."""
        weight = self.out.weight
        t = torch.arange(length, device=weight.device, dtype=weight.dtype)[:, None] / self.config.horizon
        omega = 2 * math.pi * torch.linspace(1e-4, self.config.bands - 1, self.config.bands, device=t.device, dtype=t.dtype)
        x = torch.cat([t, torch.cos(omega * t), torch.sin(omega * t)], 1)
        for layer in self.layers:
            x = torch.sin(self.frequency * layer(x))
        return self.out(x).view(length, -1, self.width).transpose(0, 1) * torch.exp(-self.decays(t) * t)


@dataclass(frozen=True, slots=True)
class Taps:
    """Filters for the whole capacity of a state, computed once and shared by all rows."""

    h: Tensor  # (order - 1, capacity, D)


@dataclass(slots=True)
class GatedConvState(State):
    """Inputs of the convolutions for every token read; index p of a row is its token p."""

    entries: Tensor  # (B, capacity, (order + 1) D): before the short convolution
    inner: Tensor  # (B, capacity, (order - 1) D): what the long filters read
    taps: Taps

    def check(self, seq: Seq) -> None:
        if seq.end > self.entries.shape[1]:
            raise AttentifError(
                f"{seq.end} tokens do not fit in a state made for {self.entries.shape[1]}: give init_state a larger capacity"
            )


class GatedConv(Mixer, config=GatedConvConfig):
    caps = Caps(causal=True, bidirectional=False, streaming="exact")

    def __init__(self, config: GatedConvConfig, site: Site) -> None:
        super().__init__()
        self.config, self.width = config, site.width
        D, entries = site.width, (config.order + 1) * site.width
        self.entry = Linear(D, entries)
        self.short = nn.Parameter(torch.empty(entries, config.conv))
        self.short_bias = nn.Parameter(torch.empty(entries))
        self.filters = Filters(config, D)
        self.direct = nn.Parameter(torch.empty(config.order - 1, D))
        self.out = Linear(D, D)
        self.init_weights()

    @torch.no_grad()
    def init_weights(self) -> None:
        """Initialise the short taps and the filter network as torch does; its sines need values near 1."""
        for weight in (self.short, self.short_bias):
            nn.init.uniform_(weight, -(self.config.conv**-0.5), self.config.conv**-0.5)
        for layer in (*self.filters.layers, self.filters.out):
            layer.reset_parameters()
        nn.init.constant_(self.filters.frequency, self.config.frequency)
        nn.init.normal_(self.direct)

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> GatedConvState:
        order = self.config.order
        empty = torch.zeros(batch, capacity, 2 * order * self.width, device=device, dtype=dtype)
        with torch.no_grad():
            taps = Taps(self.filters(capacity).to(dtype))
        entries, inner = empty.split([(order + 1) * self.width, (order - 1) * self.width], 2)
        return GatedConvState(entries, inner, taps)

    def forward(self, x: Tensor, seq: Seq, state: GatedConvState | None = None) -> Tensor:
        entry = self.entry(x)
        if state is None:
            tail = x.new_zeros(seq.batch, self.config.conv - 1, len(self.short))
        else:
            check_streamable(seq, state)
            state.check(seq)
            tail = self.read_tail(state, seq)
            state.entries = write_at(state.entries, entry, seq)
        flat = entry.reshape(-1, entry.shape[-1])
        parts = causal_conv(flat, self.short, self.short_bias, tail, seq.first(), seq.lengths)  # zero on padding
        *gates, z = parts.view_as(entry).chunk(self.config.order + 1, -1)
        if state is not None:
            return self.out(gates[0] * self.apply_filters_with_state(gates[1:], z, seq, state))
        filters = self.filters(seq.max_len)
        if not seq.is_packed:
            return self.out(gates[0] * self.apply_filters(gates[1:], z, filters))
        groups = group_by_length(seq)
        done = [g.pack(self.apply_filters([g.pad(gate) for gate in gates[1:]], mask_padding(g.pad(z), g.seq), filters)) for g in groups]
        return self.out(gates[0] * groups.join(done)) if done else self.out(gates[0] * z)

    def apply_filters(self, gates: list[Tensor], z: Tensor, filters: Tensor) -> Tensor:
        """Apply gates and filters to rows from position 0."""
        length = filters.shape[1]
        for gate, h, direct in zip(reversed(gates), filters, self.direct, strict=True):
            z = gate * z
            past = long_conv(z[:, :length], h)
            if z.shape[1] > length:  # rows padded beyond the longest sequence
                past = nn.functional.pad(past, (0, 0, 0, z.shape[1] - length))
            z = past + direct * z
        return z

    def read_tail(self, state: GatedConvState, seq: Seq) -> Tensor:
        """(B, conv - 1, (order + 1) D): the inputs before this call, zero before position 0."""
        before = self.config.conv - 1
        start = torch.zeros_like(seq.lengths) if seq.start is None else seq.start
        places = start[:, None] + torch.arange(-before, 0, device=start.device)
        known = state.entries.gather(1, places.clamp(min=0)[..., None].expand(-1, -1, len(self.short)))
        return known * (places >= 0)[..., None]

    def apply_filters_with_state(self, gates: list[Tensor], z: Tensor, seq: Seq, state: GatedConvState) -> Tensor:
        """Apply gates and filters to tokens that continue a state."""
        filters = self.filters(seq.end) if torch.is_grad_enabled() else state.taps.h[:, : seq.end]
        inner = list(state.inner.chunk(self.config.order - 1, -1))
        for number, (gate, h, direct) in enumerate(zip(reversed(gates), filters, self.direct, strict=True)):
            z = gate * z
            inner[number] = write_at(inner[number], z, seq)
            known = inner[number][:, : seq.end]
            if z.shape[1] == 1:
                past = long_conv_at(known, h, seq.shared_pos[:, 0])[:, None]
            else:
                at = seq.pos.clamp(max=seq.end - 1)[..., None].expand_as(z)
                past = long_conv(mask_beyond_end(known, seq), h).gather(1, at)
            z = past + direct * z
        state.inner = torch.cat(inner, -1) if torch.is_grad_enabled() else state.inner
        return z


def mask_padding(z: Tensor, seq: Seq) -> Tensor:
    """Zero on padding."""
    return z if seq.dense else z * seq.valid[..., None]


def mask_beyond_end(known: Tensor, seq: Seq) -> Tensor:
    """Zero what lies beyond the newest token of each row: it was read before a roll-back."""
    if seq.offset is not None and seq.dense:
        return known
    ends = seq.lengths if seq.start is None else seq.start + seq.lengths
    return known * (torch.arange(known.shape[1], device=known.device) < ends[:, None])[..., None]
