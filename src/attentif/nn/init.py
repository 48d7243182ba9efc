"""Initialisation of every tensor.

| tensor                                             | normal                          | xavier                               |
|----------------------------------------------------|---------------------------------|--------------------------------------|
| weight of a linear map (each of stacked ones)      | N(0, std²)                      | U(±√(6 / (fan_in + fan_out)))        |
| ... that writes into the residual stream           | N(0, std² / R) if depth_scaled  | the same, divided by √R if depth_scaled |
| embedding of tokens, segments; learned positions   | N(0, std²)                      | N(0, 1/D)                            |
| relative bias (T5, BEiT)                           | N(0, std²)                      | 0                                    |
| gain of a norm                                     | 1                               | 1                                    |
| every bias                                         | 0                               | 0                                    |

R is the number of residual sublayers of the stack (2 a block in GPT, 3 in the decoder of 2017), so that the sum of their outputs
does not grow with depth (Radford et al. 2019). `xavier` is Glorot & Bengio 2010, with embeddings as Vaswani et al. 2017 scale them.
A mixer initialises its other parameters in `init_weights`, called last.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from pydantic import Field
from torch import nn
from torch.overrides import TorchFunctionMode

from attentif.config import Config
from attentif.nn.bias import RelativeBias, RelativePlane
from attentif.nn.linear import StackedLinear
from attentif.nn.stack import Stack


class InitConfig(Config):
    """Weight initialisation; `attentif/nn/init.py` lists every tensor."""

    kind: Literal["normal", "xavier"] = Field("normal", description="normal (GPT, BERT) or xavier (2017)")
    std: float = Field(0.02, gt=0, description="standard deviation of `normal`")
    depth_scaled: bool = Field(True, description="scale down residual output projections with depth")


@torch.no_grad()
def initialise(model: nn.Module, config: InitConfig) -> None:
    """Initialise every parameter of `model` as in the table above, from torch's random state."""
    for module in model.modules():
        if isinstance(module, nn.Linear | StackedLinear):
            _linear(module, config)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=config.std if config.kind == "normal" else module.embedding_dim**-0.5)
        elif isinstance(module, nn.LayerNorm | nn.RMSNorm):
            module.reset_parameters()
    for module in model.modules():
        if isinstance(module, RelativeBias | RelativePlane) and config.kind == "xavier":
            nn.init.zeros_(module.table.weight)
        if isinstance(module, Stack) and config.depth_scaled:
            _scale_outputs(module)
    for module in model.modules():
        if callable(own := getattr(module, "init_weights", None)):
            own()


@contextmanager
def on_meta_device() -> Iterator[None]:
    """Build modules with shapes but without weights."""
    with torch.device("meta"), _Unfilled():
        yield


class _Unfilled(TorchFunctionMode):
    """Skip torch.nn.init on `meta`: there is nothing to fill, and it would import torch's compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", None) == "torch.nn.init" or func in (torch.Tensor.fill_, torch.Tensor.zero_):
            return kwargs["tensor"] if kwargs and "tensor" in kwargs else args[0]
        return func(*args, **(kwargs or {}))


def _linear(module: nn.Linear | StackedLinear, config: InitConfig) -> None:
    for matrix in module.weight if isinstance(module, StackedLinear) else [module.weight]:
        if config.kind == "normal":
            nn.init.normal_(matrix, std=config.std)
        else:
            nn.init.xavier_uniform_(matrix)
    if module.bias is not None:
        nn.init.zeros_(module.bias)


def _scale_outputs(stack: Stack) -> None:
    outputs = [out for _, sublayer in stack.sublayers() for out in sublayer.mixer.residual_outputs()]
    for out in outputs:
        out.weight /= math.sqrt(len(outputs))
