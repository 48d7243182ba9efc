"""Losses and a bias that keep the experts of a mixture evenly used.

    kl        Σ_i P_i log(P_i E)                       the KL divergence of the mean probabilities from the uniform ones
    switch    E Σ_i f_i P_i                            (Fedus et al. 2021, eq. 4): 1 if all are equal
    z         mean over tokens of (log Σ_i e^{l_i})²   (Zoph et al. 2022, eq. 5): the router's logits stay small
    bias      b_i ← b_i + u sign(mean f − f_i)         (Wang et al. 2024), after each step of the optimiser: no loss, no gradient

    E        number of experts
    l, p     the router's logits, and its scores brought to sum 1            (N, E)
    P_i      mean of p_i over the tokens: what gradients flow through
    f_i      share of the choices that fell on expert i
    b        added to the scores when experts are chosen, and only then
    u        rate

Several may be combined: `balance = [{ kind = "switch", weight = 0.01 }, { kind = "z", weight = 0.001 }]`. A loss is a mean over the tokens
of a batch, padding excluded; the loss of a step is the mean over its batches, weighted by the task's counts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from attentif.config import Config, OneOf, Registry


@dataclass(frozen=True, slots=True)
class Routing:
    """The router's decisions for the tokens of one call, padding excluded."""

    logits: Tensor  # (N, E)
    probabilities: Tensor  # (N, E): normalised scores
    chosen: Tensor  # (N, k)
    weights: Tensor  # (N, k)

    @property
    def counts(self) -> Tensor:
        """(E,): how often each expert was chosen."""
        return torch.bincount(self.chosen.flatten(), minlength=self.logits.shape[1])

    @property
    def shares(self) -> Tensor:
        """(E,): the counts divided by their sum."""
        return self.counts.to(self.probabilities.dtype) / max(self.chosen.numel(), 1)

    def mean(self, values: Tensor) -> Tensor:
        """Mean over the tokens; 0 where there are none."""
        return values.sum(0) / max(len(values), 1)

    def detach(self) -> "Routing":
        return Routing(self.logits.detach(), self.probabilities.detach(), self.chosen, self.weights.detach())


def evenness(shares: Sequence[float]) -> float:
    """Normalised entropy of the shares: 1 if all experts are used equally, 0 if one takes all."""
    if len(shares) == 1:
        return 1.0
    return -sum(share * math.log(share) for share in shares if share > 0) / math.log(len(shares))


class BalanceConfig(Config):
    kind: str


BALANCES: Registry[BalanceConfig] = Registry("balance")
Balance = Annotated[tuple[Annotated[BalanceConfig, OneOf(BALANCES)], ...], Field(strict=False)]


class BalanceLoss(BalanceConfig):
    """A balancing term of the loss."""

    weight: float

    def loss(self, routing: Routing) -> Tensor:
        """The unweighted loss."""
        raise NotImplementedError


@BALANCES.register
class KLConfig(BalanceLoss):
    """KL to uniform."""

    kind: Literal["kl"] = Field("kl", description="KL divergence of the mean probabilities from the uniform ones")
    weight: float = Field(0.01, ge=0, description="weight of this loss")

    def loss(self, routing: Routing) -> Tensor:
        mean = routing.mean(routing.probabilities)
        known = mean.clamp(min=torch.finfo(mean.dtype).tiny)  # avoid infinite gradients of unused experts
        return (mean * (known * len(mean)).log()).sum()


@BALANCES.register
class SwitchConfig(BalanceLoss):
    """Shares times probabilities."""

    kind: Literal["switch"] = Field("switch", description="shares of the choices times mean probabilities (Fedus et al. 2021)")
    weight: float = Field(0.01, ge=0, description="weight of this loss")

    def loss(self, routing: Routing) -> Tensor:
        return routing.logits.shape[1] * (routing.shares * routing.mean(routing.probabilities)).sum()


@BALANCES.register
class ZLossConfig(BalanceLoss):
    """Small logits."""

    kind: Literal["z"] = Field("z", description="keeps the router's logits small (Zoph et al. 2022)")
    weight: float = Field(0.001, ge=0, description="weight of this loss")

    def loss(self, routing: Routing) -> Tensor:
        return routing.mean(routing.logits.logsumexp(-1).square())


@BALANCES.register
class RouterBiasConfig(BalanceConfig):
    """No loss: a bias on the choice of experts."""

    kind: Literal["bias"] = Field("bias", description="no loss: a bias on the choice, updated after each step (Wang et al. 2024)")
    rate: float = Field(0.001, gt=0, description="update of each expert's bias per step")
