"""Interventions on a model's computation, undone when the context exits.

    with intervene(model, [HeadsOff("encoder.blocks.0.attn", (1,)), AttentionScale(2.0)]):
        run.predict([text])

What a change does to the answer is causal evidence; what attention shows is not (Jain & Wallace 2019).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attentif.errors import UsageError
from attentif.inspect.activations import activations
from attentif.inspect.heads import count_heads, without_heads
from attentif.models import Batch, Model
from attentif.models.frontends import TokenFrontend
from attentif.nn.block import Block, Sublayer
from attentif.nn.mixers.attention import Attention
from attentif.nn.mixers.cross import CrossAttention
from attentif.nn.mixers.experts import Experts

Undo = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a model's computation."""

    def apply(self, model: Model, undo: ExitStack) -> None:
        """Apply the change; register its undo with `undo`."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class HeadsOff(Change):
    """Zero these heads of one attention."""

    path: str
    heads: tuple[int, ...]

    def apply(self, model: Model, undo: ExitStack) -> None:
        undo.enter_context(without_heads(model, {self.path: self.heads}))


@dataclass(frozen=True, slots=True)
class PartOff(Change):
    """Skip a sublayer ("encoder.blocks.0.ffn") or a whole block ("encoder.blocks.0")."""

    path: str

    def apply(self, model: Model, undo: ExitStack) -> None:
        module = _module(model, self.path, (Sublayer, Block))
        undo.callback(module.register_forward_hook(lambda _, inputs, __: inputs[0]).remove)


@dataclass(frozen=True, slots=True)
class ResidualOff(Change):
    """Remove the residual connection of a sublayer; without a path, of every sublayer."""

    path: str | None = None

    def apply(self, model: Model, undo: ExitStack) -> None:
        chosen = _of_type(model, Sublayer) if self.path is None else [_module(model, self.path, (Sublayer,))]
        for sublayer in chosen:
            _set(sublayer, "residual", False, undo)


@dataclass(frozen=True, slots=True)
class PositionsOff(Change):
    """Remove all position information: vectors, rotation, bias."""

    def apply(self, model: Model, undo: ExitStack) -> None:
        for frontend in (model.frontend, model.target):
            position = getattr(frontend, "position", None)
            if isinstance(position, nn.Module):
                undo.callback(position.register_forward_hook(lambda _, __, output: torch.zeros_like(output)).remove)
        for attention in _of_type(model, Attention):
            if not attention.turns_input:
                _set(attention, "rotary", None, undo)
            _set(attention, "position_bias", None, undo)


@dataclass(frozen=True, slots=True)
class AttentionScale(Change):
    """Multiply attention scores by `factor` (above 1: sharper); `unscaled` drops 1/√d_k."""

    factor: float = 1.0
    unscaled: bool = False

    def apply(self, model: Model, undo: ExitStack) -> None:
        for attention in (*_of_type(model, Attention), *_of_type(model, CrossAttention)):
            _set(attention, "scale", self.factor * (1.0 if self.unscaled else attention.scale), undo)


@dataclass(frozen=True, slots=True)
class MaskOff(Change):
    """Remove the causal mask."""

    def apply(self, model: Model, undo: ExitStack) -> None:
        causal = [attention for attention in _of_type(model, Attention) if attention.config.causal and not attention.config.pattern]
        if not causal:
            raise UsageError("no attention of this model has a causal mask to take away")
        for attention in causal:
            _set(attention, "config", attention.config.replace(causal=False), undo)


@dataclass(frozen=True, slots=True)
class ExpertOff(Change):
    """Never route to this expert of one mixture."""

    path: str
    expert: int

    def apply(self, model: Model, undo: ExitStack) -> None:
        mixer = _module(model, self.path, (Sublayer,)).mixer
        if not isinstance(mixer, Experts) or not 0 <= self.expert < mixer.config.experts:
            raise UsageError(f"there is no expert {self.expert} at {self.path}")
        if mixer.config.experts - 1 < mixer.config.top_k:
            raise UsageError(f"{self.path} has no expert to spare: a token uses {mixer.config.top_k}")

        def close(_: nn.Module, __: Any, output: Tensor) -> Tensor:
            return output.index_fill(-1, torch.tensor([self.expert]), float("-inf"))

        undo.callback(mixer.router.register_forward_hook(close).remove)


@dataclass(frozen=True, slots=True)
class TokenVector(Change):
    """Replace the vector of the token at `place` by another token's, or by zero (`token` None)."""

    place: int
    token: int | None = None

    def apply(self, model: Model, undo: ExitStack) -> None:
        frontend = model.frontend
        if not isinstance(frontend, TokenFrontend):
            raise UsageError("only models that read tokens have a vector to replace")
        table = frontend.tokens.weight.detach()
        if self.token is not None and not 0 <= self.token < len(table):
            raise UsageError(f"the vocabulary has tokens 0 to {len(table) - 1}, not {self.token}")
        vector = torch.zeros_like(table[0]) if self.token is None else table[self.token]

        def replace_vector(_: nn.Module, __: Any, output: Tensor) -> Tensor:
            if self.place >= output.shape[-2]:
                return output
            changed = output.clone()
            changed[..., self.place, :] = vector
            return changed

        undo.callback(frontend.tokens.register_forward_hook(replace_vector).remove)


@dataclass(frozen=True, slots=True)
class Patch(Change):
    """Activation patching: the stream at `place` is that at `place_there` in another batch."""

    path: str
    place: int
    other: Batch
    place_there: int

    def apply(self, model: Model, undo: ExitStack) -> None:
        sublayer = _module(model, self.path, (Sublayer,))
        stream = activations(model, self.other)[self.path].stream
        if self.place_there >= stream.shape[1]:
            raise UsageError(f"the other text has positions 0 to {stream.shape[1] - 1}, not {self.place_there}")
        vector = stream[0, self.place_there].detach()

        def patch(_: nn.Module, __: Any, output: Tensor) -> Tensor:
            if self.place >= output.shape[-2]:
                return output
            changed = output.clone()
            changed[..., self.place, :] = vector
            return changed

        undo.callback(sublayer.register_forward_hook(patch).remove)


@contextmanager
def intervene(model: Model, changes: Sequence[Change]) -> Iterator[None]:
    """Compute with these changes inside the context."""
    with ExitStack() as undo:
        for change in changes:
            change.apply(model, undo)
        yield


@dataclass(frozen=True, slots=True)
class HeadEffect:
    """Effect of removing one head on a measure."""

    path: str
    head: int
    effect: float


def rank_heads(model: Model, measure: Callable[[], float]) -> list[HeadEffect]:
    """Return every head with the drop of `measure()` when it is removed, largest first."""
    whole = measure()
    found = []
    for path, heads in count_heads(model).items():
        for head in range(heads):
            with without_heads(model, {path: [head]}):
                found.append(HeadEffect(path, head, whole - measure()))
    return sorted(found, key=lambda one: -abs(one.effect))


def _module(model: nn.Module, path: str, types: tuple[type, ...]) -> Any:
    """Return the sublayer or block at a path."""
    known = {name: module for name, module in model.named_modules() if isinstance(module, types)}
    if path not in known:
        raise UsageError(f"there is no part {path!r}; there are: {', '.join(known)}")
    return known[path]


def _of_type(model: nn.Module, kind: type[Any]) -> list[Any]:
    return [module for module in model.modules() if isinstance(module, kind)]


def _set(module: nn.Module, name: str, value: Any, undo: ExitStack) -> None:
    """Replace an attribute, also where torch keeps it as a submodule."""
    held = module._modules if name in module._modules else module.__dict__
    before = held[name]
    held[name] = value
    undo.callback(held.__setitem__, name, before)
