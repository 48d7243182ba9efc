"""Forecasts: from the vectors of a window to horizon × channels values or quantiles.

    direct      y = W · flatten(x) + b     (PatchTST; or of the last vector, or of the mean)         every step at once
    one step    y_t = W · x_t + b          at every position: what comes next                        rolled out on its own answers

Quantiles are learned with the pinball loss (Koenker & Bassett 1978):  ρ_q(y − ŷ) = max(q (y − ŷ), (q − 1) (y − ŷ)).
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.kernels.dropout import dropout
from attentif.models.heads.base import HEADS, HeadConfig
from attentif.models.heads.pooling import pool_sequence
from attentif.nn.seq import Seq


@HEADS.register
class HorizonHeadConfig(HeadConfig):
    """Forecasts, all steps at once or the next one at every position."""

    kind: Literal["horizon"] = Field("horizon", description="numbers to come: all steps at once, or the next one at every position")
    from_data = ("horizon", "channels", "places", "quantiles")
    pool: Literal["flatten", "last", "mean", "each"] = Field("flatten", description="input vectors; each: predict at every position")
    horizon: int | None = Field(None, gt=0, description="steps given at once; by default the task's")
    channels: int | None = Field(None, gt=0, description="numbers of a step; by default the data's, or 1 where channels are independent")
    places: int | None = Field(None, gt=0, description="number of flattened vectors; by default the look-back's")
    quantiles: int | None = Field(None, gt=0, description="outputs per value: 1, or one per quantile; by default the task's")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropout on the input; by default the model's")

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
        """(B, horizon, channels, quantiles), with T after B where every position predicts its next step."""
        match self.pool:
            case "flatten":
                if seq.is_packed or not seq.dense:
                    raise ValueError("windows of one length are flattened: neither packed nor padded ones")
                x = x.flatten(1)
            case "last" | "mean":
                x = pool_sequence(x, seq, self.pool)
        return self.out(dropout(x, self.dropout, self.training)).unflatten(-1, self.shape)


def pinball(given: Tensor, true: Tensor, quantiles: Tensor) -> Tensor:
    """Pinball loss of the predicted quantiles (..., Q) for `true` (...)."""
    beyond = true[..., None] - given
    return torch.maximum(quantiles * beyond, (quantiles - 1) * beyond)
