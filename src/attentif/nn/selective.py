"""Initialisation of selective state spaces, as in the authors' code (Gu & Dao 2023; Dao & Gu 2024)."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

STEP_MIN, STEP_MAX = 0.001, 0.1  # Δ before training


@torch.no_grad()
def init_selective(linears: Iterable[nn.Linear], conv: Tensor, conv_bias: Tensor | None, step_bias: Tensor) -> None:
    """Initialise `linears` and the convolution ~ U(±fan_in^−½), and Δ log-uniformly."""
    for linear in linears:
        nn.init.uniform_(linear.weight, -(linear.in_features**-0.5), linear.in_features**-0.5)
    for parameter in (conv, conv_bias):
        if parameter is not None:
            nn.init.uniform_(parameter, -(conv.shape[1] ** -0.5), conv.shape[1] ** -0.5)
    nn.init.uniform_(step_bias, math.log(STEP_MIN), math.log(STEP_MAX))
    step = step_bias.exp()
    step_bias.copy_(step + torch.log(-torch.expm1(-step)))  # the inverse of softplus
