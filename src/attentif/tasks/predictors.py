"""Predictors map batches to logits. A plain network, or a wrapper around several.

    Ensemble      z = 1/M Σ_m z_m          the mean over networks that learned side by side (Lakshminarayanan et al. 2017)
    Stacked       z = a z_net + b z_lin    a network on top of a linear model (stacked generalisation, Wolpert 1992)

For classes, softmax(z) of an ensemble is the normalised geometric mean of its networks' probabilities. The weights of a stack are 1 while
the network learns, and are then chosen on validation; without a linear model a is the inverse of a temperature.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

import torch
from torch import Tensor, nn

from attentif.models import Batch, Model, ModelConfig
from attentif.nn.seq import Seq


class Predictor(Protocol):
    """Map a batch to logits, and to the Seq of what they stand for."""

    def __call__(self, batch: Batch) -> tuple[Tensor, Seq]: ...


class Ensemble(nn.Module):
    """Average the logits of several networks of one shape."""

    def __init__(self, networks: Sequence[Model]) -> None:
        super().__init__()
        self.members = nn.ModuleList(networks)

    @property
    def networks(self) -> list[Model]:
        return [member for member in self.members if isinstance(member, Model)]

    @property
    def config(self) -> ModelConfig:
        """The configuration of each network."""
        return self.networks[0].config

    def forward(self, batch: Batch) -> tuple[Tensor, Seq]:
        answers = [network(batch) for network in self.networks]
        return torch.stack([logits for logits, _ in answers]).mean(0), answers[0][1]

    def sizes(self) -> dict[str, int]:
        """Parameters by part, of all networks."""
        return {part: len(self.members) * number for part, number in self.networks[0].sizes().items()}


@dataclass(frozen=True, slots=True)
class LinearBatch(Batch):
    """A batch with the logits of a linear model; plain networks ignore them."""

    linear: Tensor = field(default_factory=lambda: torch.zeros(0))  # the linear model's logits (B, C), or forecasts (B, horizon, C)

    def to(self, device: torch.device | str) -> Self:
        return replace(Batch.to(self, device), linear=self.linear.to(device, non_blocking=True))


@dataclass(frozen=True, slots=True)
class Stacked:
    """Weighted sum of a network's logits and those of a linear model, which a `LinearBatch` brings."""

    network: Predictor
    network_weight: float = 1.0
    linear_weight: float = 1.0

    @property
    def networks(self) -> list[Model]:
        return networks_of(self.network)

    def __call__(self, batch: Batch) -> tuple[Tensor, Seq]:
        if not isinstance(batch, LinearBatch):
            raise TypeError("a stacked predictor needs the logits of the linear model: a LinearBatch")
        logits, seq = self.network(batch)
        return self.network_weight * logits + self.linear_weight * batch.linear, seq


Trainable = Model | Ensemble  # what a run trains and keeps


def networks_of(predictor: Predictor) -> list[Model]:
    """Return the plain networks of a predictor."""
    return getattr(predictor, "networks", None) or [predictor]  # a plain network knows of no wrapper


def first_network(predictor: Predictor) -> Model:
    """Return the only network, or the first of several: the one that is inspected."""
    return networks_of(predictor)[0]
