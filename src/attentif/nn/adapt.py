"""Low-rank adapters: small trainable matrices beside the frozen weights of a trained model.

    y = W x + b + (α/r) B A x          merged: W' = W + (α/r) B A                                     LoRA (Hu et al. 2021, eq. 3)

    W, b     a linear map of the model, frozen                                                        (O, I), (O,)
    A        drawn as torch draws a linear map                                                        (r, I)
    B        zero at the start, so that the model answers as before, bit for bit                      (O, r)
    r, α     rank and strength; rank-stabilised, the factor is α/√r (Kalajdzievski 2023)
    x        of the adapter's branch alone, with dropout in training

W x and B A x are computed separately, so training needs no gradient of W's size. Code that reads a map's `weight` itself (the absorbed form
of latent attention) gets W', without the dropout. Stacked maps (experts) have an A and a B each. Maps are adapted in place and keep their
names, so mixers need not know.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import torch
from pydantic import BeforeValidator, Field
from torch import Tensor, nn

from attentif.config import Config
from attentif.errors import ConfigError, within
from attentif.kernels.dropout import dropout
from attentif.kernels.grouped import grouped_linear
from attentif.kernels.linear import linear
from attentif.nn.linear import Linear, StackedLinear
from attentif.nn.mixer import CrossMixer, Mixer
from attentif.nn.naming import ends_with, select_paths, shorten, starts_with

ALIASES = {"query": "q", "key": "k", "value": "v", "output": "out"}
Names = Annotated[tuple[str, ...], Field(strict=False), BeforeValidator(lambda given: (given,) if isinstance(given, str) else given)]


class AdaptConfig(Config):
    """Low-rank adapters on top of `model.from`; the run stores the trained tensors alone."""

    kind: Literal["lora"] = Field("lora", description="low-rank adapters")
    rank: int = Field(8, gt=0, description="rank: columns of B and rows of A")
    alpha: float = Field(16.0, gt=0, description="scale: adapter outputs are multiplied by alpha / rank")
    stabilised: bool = Field(False, description="scale by alpha / √rank instead (rsLoRA)")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout on the adapters' inputs")
    targets: Names = Field(("q", "v"), min_length=1, description='adapted maps: "q", "ffn.up", "encoder.6-11.*.out"; "*": all')
    also: Names = Field(("head",), description="parts trained in full")

    @property
    def strength(self) -> float:
        return self.alpha / (self.rank**0.5 if self.stabilised else self.rank)


class LowRank(nn.Module):
    """Mixin of an adapted linear map. Adapting changes the map's class, merging changes it back."""

    plain: type[nn.Module]
    config: AdaptConfig
    lora_a: Tensor
    lora_b: Tensor

    @property
    def base(self) -> Tensor:
        """W."""
        weight = self._parameters["weight"]
        assert weight is not None
        return weight

    @property
    def weight(self) -> Tensor:
        """W' = W + (α/r) B A."""
        return self.base + self.config.strength * (self.lora_b @ self.lora_a)

    def drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.config.dropout, self.training)


class LowRankLinear(LowRank, Linear):  # type: ignore[override]  # a property overrides torch's attribute
    def forward(self, input: Tensor) -> Tensor:
        inner = self.config.strength * linear(self.drop(input), self.lora_a, None, self.products)
        return linear(input, self.base, self.bias, self.products) + linear(inner, self.lora_b, None, self.products)


class LowRankStacked(LowRank, StackedLinear):  # type: ignore[misc]
    def forward(self, rows: Tensor, sizes: list[int]) -> Tensor:
        inner = self.config.strength * grouped_linear(self.drop(rows), self.lora_a, None, sizes, self.products)
        own = grouped_linear(rows, self.base, self.bias, sizes, self.products)
        return own + grouped_linear(inner, self.lora_b, None, sizes, self.products)


def adapt(model: nn.Module, config: AdaptConfig) -> None:
    """Freeze the model, add adapters to its targets, and leave these and `also` trainable."""
    targets, also = find_targets(model, config), find_trainable(model, config)
    model.requires_grad_(False)
    for name in also:
        model.get_parameter(name).requires_grad_()
    for name in targets:
        _give_adapter(model.get_submodule(name), config)


def freeze(model: nn.Module, parts: tuple[str, ...]) -> None:
    """Exclude these parts from training: no gradient, no optimiser state."""
    with within("freeze: "):
        frozen = select_paths(parts, dict(model.named_parameters()), starts_with, _part)
    for name in frozen:
        model.get_parameter(name).requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError("freeze: nothing is left to train")


def find_targets(model: nn.Module, config: AdaptConfig) -> list[str]:
    """Return the paths of the linear maps that get adapters; an unknown name is an error."""
    names = [".".join(ALIASES.get(word, word) for word in name.split(".")) for name in config.targets]
    with within("targets: "):
        return select_paths(names, find_linear_maps(model), ends_with, lambda path: shorten(path)[-1])


def find_trainable(model: nn.Module, config: AdaptConfig) -> list[str]:
    """Return the parameters trained in full; a tied head has none of its own."""
    parameters = dict(model.named_parameters())
    modules = [name for name, _ in model.named_modules() if name]
    with within("also: "):
        return [name for name in select_paths(config.also, [*modules, *parameters], starts_with, _part) if name in parameters]


def _part(path: str) -> str:
    """Shorten a parameter's path to its part and block, for error messages."""
    first, *rest = shorten(path)
    return f"{first}.{rest[0]}" if rest and rest[0].isdigit() else first


def find_linear_maps(model: nn.Module) -> dict[str, nn.Linear | StackedLinear]:
    """Return the linear maps of all mixers by path."""
    mixers = [name for name, module in model.named_modules() if isinstance(module, Mixer | CrossMixer)]
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | StackedLinear) and any(name.startswith(f"{mixer}." if mixer else "") for mixer in mixers)
    }


def _give_adapter(module: nn.Module, config: AdaptConfig) -> None:
    weight: Any = module.weight
    *stacked, out, inp = weight.shape
    like = {"device": weight.device, "dtype": weight.dtype}
    module.plain, module.config = type(module), config  # type: ignore[assignment]
    module.lora_a = nn.Parameter(torch.empty(*stacked, config.rank, inp, **like))
    module.lora_b = nn.Parameter(torch.zeros(*stacked, out, config.rank, **like))
    nn.init.uniform_(module.lora_a, -(inp**-0.5), inp**-0.5)
    module.__class__ = LowRankStacked if isinstance(module, StackedLinear) else LowRankLinear


def adapters(model: nn.Module) -> Iterator[LowRank]:
    """Iterate over the adapted maps."""
    return (module for module in model.modules() if isinstance(module, LowRank))


@torch.no_grad()
def merge(model: nn.Module) -> None:
    """Add each B A to its W. The result is a plain model whose parameters all require gradients."""
    for module in list(adapters(model)):
        module.base.copy_(module.weight)
        del module.lora_a, module.lora_b
        plain = module.plain
        del module.plain, module.config
        module.__class__ = plain  # type: ignore[assignment]
    model.requires_grad_()


def saved_state_dict(model: nn.Module) -> dict[str, Tensor]:
    """Return the tensors a run stores: all but the frozen ones of an adapted model."""
    base = _frozen_names(model)
    return {name: tensor for name, tensor in model.state_dict().items() if name not in base}


def load_saved_state_dict(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load what `saved_state_dict` returned; RuntimeError on missing or unexpected tensors."""
    absent, unexpected = model.load_state_dict(tensors, strict=False)
    missing = sorted(set(absent) - _frozen_names(model))
    if missing or unexpected:
        raise RuntimeError(f"missing: {', '.join(missing[:8]) or 'none'}; unexpected: {', '.join(unexpected[:8]) or 'none'}")


def _frozen_names(model: nn.Module) -> set[str]:
    if not any(True for _ in adapters(model)):
        return set()
    return {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
