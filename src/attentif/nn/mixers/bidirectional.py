"""A causal mixer applied in both directions (Schuster & Paliwal 1997).

    →y = f(x)           ←y = reverse(f'(reverse(x)))           f and f' alike, with weights of their own

    concat    y = [→y ; ←y], each of half the width        sum    y = →y + ←y        project    y = W [→y ; ←y] + b

Each sequence is reversed by its own length, so padding stays behind it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.config import OneOf
from attentif.errors import ConfigError
from attentif.nn.linear import Linear, StackedLinear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site
from attentif.nn.seq import Seq


@MIXERS.register
class BidirectionalConfig(MixerConfig):
    """A causal mixer in both directions."""

    cost: ClassVar[str] = "that of its mixer"

    kind: Literal["bidirectional"] = Field("bidirectional", description="a causal mixer in both directions")
    mixer: Annotated[MixerConfig, OneOf(MIXERS)] = Field(
        default_factory=lambda: MIXERS["lstm"].model_validate({}), description="the causal mixer; by default an lstm"
    )
    join: Literal["concat", "sum", "project"] = Field("concat", description="concat (half the width each), sum, or project (linear)")


class Bidirectional(Mixer, config=BidirectionalConfig):
    def __init__(self, config: BidirectionalConfig, site: Site) -> None:
        super().__init__()
        self.config = config
        width = site.out_width or site.width
        if config.join == "concat":
            if width % 2:
                raise ConfigError(f"join = concat needs an even width, not {width}; use join = sum or project")
            width //= 2
        self.ahead = self._direction(site, width)
        self.back = self._direction(site, width)
        self.out = Linear(2 * width, width) if config.join == "project" else None
        self.out_width = site.out_width or site.width
        caps = self.ahead.caps
        self.caps = Caps(causal=False, bidirectional=True, streaming="none", packed=caps.packed, max_len=caps.max_len)

    def _direction(self, site: Site, width: int) -> Mixer:
        kind = self.config.mixer.kind
        mixer = self.config.mixer.build(site if width == site.width else replace(site, out_width=width))
        if not isinstance(mixer, Mixer) or not mixer.caps.causal:
            raise ConfigError(f"bidirectional needs a causal mixer, and {kind} is not")
        if getattr(mixer, "out_width", site.width) != width:
            raise ConfigError(f"{kind} cannot return width {width} from {site.width}, as join = concat needs; use join = sum or project")
        return mixer

    def forward(self, x: Tensor, seq: Seq, state: None = None) -> Tensor:
        mirrored = seq if seq.marks is None else replace(seq, marks=seq.reverse(seq.marks))
        ahead, back = self.ahead(x, seq), seq.reverse(self.back(seq.reverse(x), mirrored))
        if self.config.join == "sum":
            return ahead + back
        both = torch.cat([ahead, back], -1)
        return both if self.out is None else self.out(both)

    def residual_outputs(self) -> Sequence[nn.Linear | StackedLinear]:
        return super().residual_outputs() or [*self.ahead.residual_outputs(), *self.back.residual_outputs()]
