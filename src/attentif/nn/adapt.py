"""Adapters: a trained model learns something new in small matrices beside its own, which stay as they are.

    y = W x + b + (α/r) B A x          merged: W' = W + (α/r) B A                                     LoRA (Hu et al. 2021, eq. 3)

    W, b     a linear map of the model, frozen                                                        (O, I), (O,)
    A        drawn as torch draws a linear map                                                        (r, I)
    B        zero at the start, so that the model answers as before, to the bit                       (O, r)
    r, α     rank and strength; rank-stabilised, the factor is α/√r (Kalajdzievski 2023)
    x        of the adapter's branch alone, with dropout in training

W x and B A x are computed apart, so that training makes no gradient of W's size. Whatever reads a map's `weight` itself (the absorbed form
of latent attention, filters that are made from it) reads W', without the dropout. Maps that stand stacked in one tensor (experts) have
an A and a B each. A map is changed where it stands, its name and its place in the model stay: the mixers know nothing of it.
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
from attentif.nn.naming import begins, chosen, ends, short

ALIASES = {"query": "q", "key": "k", "value": "v", "output": "out"}
Names = Annotated[tuple[str, ...], Field(strict=False), BeforeValidator(lambda given: (given,) if isinstance(given, str) else given)]


class AdaptConfig(Config):
    """Small matrices that learn beside the frozen ones of `model.from`; the run keeps them alone."""

    kind: Literal["lora"] = Field("lora", description="low-rank adapters")
    rank: int = Field(8, gt=0, description="columns of B and rows of A: more learn more, and are more to keep")
    alpha: float = Field(16.0, gt=0, description="strength: what the adapters add is multiplied by alpha / rank")
    stabilised: bool = Field(False, description="alpha / √rank instead: a high rank then learns as fast as a low one")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropped inputs of the adapters")
    targets: Names = Field(
        ("q", "v"), min_length=1, description='linear maps that get one, such as "q", "ffn.up", "encoder.6-11.*.out"; "*": all'
    )
    also: Names = Field(("head",), description="parts that are trained whole beside them")

    @property
    def strength(self) -> float:
        return self.alpha / (self.rank**0.5 if self.stabilised else self.rank)


class LowRank(nn.Module):
    """What an adapted map has beside its own parameters. A map becomes one by a change of its class, and is plain again once merged."""

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


class LowRankLinear(LowRank, Linear):  # type: ignore[override]  # a property stands where torch has an attribute
    def forward(self, input: Tensor) -> Tensor:
        inner = self.config.strength * linear(self.drop(input), self.lora_a)
        return linear(input, self.base, self.bias) + linear(inner, self.lora_b)


class LowRankStacked(LowRank, StackedLinear):  # type: ignore[misc]
    def forward(self, rows: Tensor, sizes: list[int]) -> Tensor:
        inner = self.config.strength * grouped_linear(self.drop(rows), self.lora_a, None, sizes)
        return grouped_linear(rows, self.base, self.bias, sizes) + grouped_linear(inner, self.lora_b, None, sizes)


# ------------------------------------------------------------------------------------------------------------- who learns


def adapt(model: nn.Module, config: AdaptConfig) -> None:
    """Freeze the model, give its targets adapters (drawn from torch's current random state), and let these and `also` learn."""
    targets, also = targets_of(model, config), also_of(model, config)
    model.requires_grad_(False)
    for name in also:
        model.get_parameter(name).requires_grad_()
    for name in targets:
        _give_adapter(model.get_submodule(name), config)


def freeze(model: nn.Module, parts: tuple[str, ...]) -> None:
    """These parts learn nothing: they take no gradient and no memory of the optimiser's."""
    with within("freeze: "):
        frozen = chosen(parts, dict(model.named_parameters()), begins, _part)
    for name in frozen:
        model.get_parameter(name).requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError("freeze: nothing is left to train")


def targets_of(model: nn.Module, config: AdaptConfig) -> list[str]:
    """The paths of the linear maps that get adapters; a name that is none of them is refused."""
    names = [".".join(ALIASES.get(word, word) for word in name.split(".")) for name in config.targets]
    with within("targets: "):
        return chosen(names, linear_maps(model), ends, lambda path: short(path)[-1])


def also_of(model: nn.Module, config: AdaptConfig) -> list[str]:
    """The parameters of the parts that are trained whole; a part may have none, as a head tied to the embedding."""
    parameters = dict(model.named_parameters())
    modules = [name for name, _ in model.named_modules() if name]
    with within("also: "):
        return [name for name in chosen(config.also, [*modules, *parameters], begins, _part) if name in parameters]


def _part(path: str) -> str:
    """What an error shows of a parameter's path: its part of the model, and its block."""
    first, *rest = short(path)
    return f"{first}.{rest[0]}" if rest and rest[0].isdigit() else first


def linear_maps(model: nn.Module) -> dict[str, nn.Linear | StackedLinear]:
    """The linear maps of all mixers by their paths."""
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
    """Every adapted map."""
    return (module for module in model.modules() if isinstance(module, LowRank))


@torch.no_grad()
def merge(model: nn.Module) -> None:
    """Add each B A to its W: a plain model, as fast as any, all of whose parameters can learn again."""
    for module in list(adapters(model)):
        module.base.copy_(module.weight)
        del module.lora_a, module.lora_b
        plain = module.plain
        del module.plain, module.config
        module.__class__ = plain  # type: ignore[assignment]
    model.requires_grad_()


# ------------------------------------------------------------------------------------------------------------ what is kept


def own_tensors(model: nn.Module) -> dict[str, Tensor]:
    """What a run keeps: every tensor, but for those that an adapted model has, unchanged, from its base."""
    base = _of_the_base(model)
    return {name: tensor for name, tensor in model.state_dict().items() if name not in base}


def load_own(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Take back what `own_tensors` gave; RuntimeError where it does not fit, as torch's own."""
    absent, unexpected = model.load_state_dict(tensors, strict=False)
    missing = sorted(set(absent) - _of_the_base(model))
    if missing or unexpected:
        raise RuntimeError(f"missing: {', '.join(missing[:8]) or 'none'}; unexpected: {', '.join(unexpected[:8]) or 'none'}")


def _of_the_base(model: nn.Module) -> set[str]:
    if not any(True for _ in adapters(model)):
        return set()
    return {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
