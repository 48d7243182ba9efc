"""The steps to come: from the vectors of what was read to horizon × channels numbers, or as many quantiles of each.

    direct      y = W · flatten(x) + b     (PatchTST; or of the last vector, or of the mean)         every step at once
    one step    y_t = W · x_t + b          at every place: what comes next                           rolled out on its own answers

Quantiles are learned with the pinball loss (Koenker & Bassett 1978):  ρ_q(y − ŷ) = max(q (y − ŷ), (q − 1) (y − ŷ)).
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.kernels.dropout import dropout
from attentif.models.heads.base import HEADS, HeadConfig
from attentif.models.heads.pooling import pooled
from attentif.nn.seq import Seq


@HEADS.register
class HorizonHeadConfig(HeadConfig):
    """Numbers to come, all steps at once or one at every place."""

    kind: Literal["horizon"] = Field("horizon", description="numbers to come: all steps at once, or the next one at every place")
    from_data = ("horizon", "channels", "places", "quantiles")
    pool: Literal["flatten", "last", "mean", "each"] = Field(
        "flatten", description="what is read: all vectors end to end, the last, their mean; each: the next step at every place"
    )
    horizon: int | None = Field(None, gt=0, description="steps given at once; by default the task's")
    channels: int | None = Field(None, gt=0, description="numbers of a step; by default the data's, or 1 where channels are independent")
    places: int | None = Field(None, gt=0, description="vectors that are read, where they are flattened; by default the look-back's")
    quantiles: int | None = Field(None, gt=0, description="numbers given for each: 1, or one a quantile; by default the task's")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropped components of what is read; by default the model's")

    def build(self, width: int, embedding: nn.Embedding | None, dropout: float) -> "HorizonHead":
        return HorizonHead(self, width, dropout)


class HorizonHead(nn.Module):
    def __init__(self, config: HorizonHeadConfig, width: int, dropout: float) -> None:
        super().__init__()
        if config.horizon is None or config.channels is None or config.quantiles is None:
            raise ConfigError("head: horizon, channels and quantiles are not known yet; give them, or train on series")
        if config.pool == "flatten" and config.places is None:
            raise ConfigError("head.places: how many vectors are flattened is not known yet; give it, or train on series")
        self.pool, self.dropout = config.pool, dropout if config.dropout is None else config.dropout
        self.shape = (config.horizon, config.channels, config.quantiles)
        width = width * (config.places or 1) if config.pool == "flatten" else width
        self.out = nn.Linear(width, config.horizon * config.channels * config.quantiles)

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        """(B, horizon, channels, quantiles), or (B, T, horizon, channels, quantiles) where every place gives its next."""
        match self.pool:
            case "flatten":
                if seq.is_packed or not seq.dense:
                    raise ValueError("windows of one length are flattened: neither packed nor padded ones")
                x = x.flatten(1)
            case "last" | "mean":
                x = pooled(x, seq, self.pool)
        return self.out(dropout(x, self.dropout, self.training)).unflatten(-1, self.shape)


def pinball(given: Tensor, true: Tensor, quantiles: Tensor) -> Tensor:
    """The loss of each of the quantiles (..., Q) given for `true` (...)."""
    beyond = true[..., None] - given
    return torch.maximum(quantiles * beyond, (quantiles - 1) * beyond)
