"""The same model, wider or narrower.

    width       every other size follows: heads keep their width (or as near to it as divides the new one) and keys their number of queries,
                hidden layers, factored embeddings and the like keep their ratio to the width
    hidden      the feed-forward networks alone, by a factor: the finest grain
    layers      of every stack, by the same ratio

What is said of one head, of a state or of a rank stays as it is: it is part of the architecture. A width that some part of the model
refuses, or at which heads would be half as wide or half as wide again, is not offered.
"""

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from attentif.config import join_keys
from attentif.errors import ConfigError
from attentif.models import Model, ModelConfig, build
from attentif.models.heads.language import LanguageHead
from attentif.nn.init import on_meta_device
from attentif.nn.linear import StackedLinear
from attentif.nn.mixer import MIXERS, Site
from attentif.nn.mixers.experts import Experts
from attentif.toml import Keys

FEED_FORWARD = ("feed-forward", "experts", "rwkv-channel", "window-mlp")  # mixers whose hidden layer may have any width
FOLLOWS = ("hidden", "score_width")  # sizes of a mixer that are in proportion to the model's width
HEADS, LOOSE_HEADS = 1.5, 4.0  # how many times wider or narrower heads may become, and may where nothing else is possible


@dataclass(frozen=True, slots=True)
class Parameters:
    """How many, and where."""

    body: int  # outside the tables of tokens and places and the map onto the vocabulary
    embedding: int  # in them; a tied map counts once
    active: int  # of `body`, those that one token uses: fewer only where there are experts


def parameters(model: Model) -> Parameters:
    """Of a model with or without weights (`build(config, device="meta")`)."""
    sizes = model.sizes()
    apart = sizes["embedding"]
    if isinstance(model.head, LanguageHead) and model.head.linear is not None:
        apart += model.head.linear.weight.numel()
    body = sum(sizes.values()) - apart
    idle = 0.0
    for module in model.modules():
        if isinstance(module, Experts):
            owned = sum(p.numel() for part in module.children() if isinstance(part, StackedLinear) for p in part.parameters())
            idle += owned * (1 - module.config.top_k / module.config.experts)
    return Parameters(body=body, embedding=apart, active=body - round(idle))


class Sizing:
    """A model that can be had at other sizes."""

    def __init__(self, model: ModelConfig) -> None:
        self.model, self.values = model, model.model_dump()
        self.ratios = {path: hidden / model.width for path, hidden in self._hidden_layers()}  # of the feed-forward networks

    @property
    def fine(self) -> bool:
        """Whether there is a hidden layer to adjust."""
        return bool(self.ratios)

    @property
    def layers(self) -> int:
        """Blocks of the deepest stack."""
        return max(stack.layers or self.model.layers for stack in (self.model.encoder, self.model.decoder) if stack is not None)

    def round_factor(self, width: int, hidden: float, grain: int) -> float:
        """The factor as it is once the widest hidden layer is a multiple of the grain."""
        widest = max(self.ratios.values()) * width
        return max(grain, grain * round(widest * hidden / grain)) / widest

    def at(
        self, width: int, *, hidden: float | None = None, layers: int | None = None, grain: int = 1, loose: bool = False
    ) -> ModelConfig | None:
        """The model at this size, or None where it cannot have it; hidden layers are rounded to multiples of the grain.

        `loose`: heads may become much wider or narrower."""
        values = copy.deepcopy(self.values)
        values["width"] = width
        if not all(self._fit(table, width, loose) for _, table in _mixers(values)):
            return None
        for name in ("encoder", "decoder"):
            if (stack := values[name]) is not None:
                if stack["bias"] is not None and "heads" in stack["bias"]:
                    stack["bias"]["heads"] = self._heads(stack["bias"]["heads"], width, loose) or 1
                if stack["layers"] is not None:
                    stack["layers"] = self._depth(stack["layers"], layers)
        values["layers"] = self._depth(values["layers"], layers)
        if hidden is not None:
            for path, ratio in self.ratios.items():
                _table(values, path)["hidden"] = max(grain, grain * round(ratio * width * hidden / grain))
        self._fit_frontends(values, width)
        try:
            return ModelConfig.model_validate(values)
        except (ConfigError, ValueError):
            return None

    def changes(self, other: ModelConfig) -> dict[str, Any]:
        """What is different, by its key in a run's configuration: {"model.width": 144}."""
        before, after = dict(_leaves(self.values)), dict(_leaves(other.model_dump()))
        return {f"model.{join_keys(path)}": value for path, value in after.items() if value != before.get(path)}

    def _hidden_layers(self) -> Iterator[tuple[Keys, int]]:
        for path, table in _mixers(self.values):
            if table["kind"] in FEED_FORWARD:
                with on_meta_device():
                    mixer: Any = MIXERS[table["kind"]].model_validate(table).build(Site(width=self.model.width))
                yield path, mixer.out.weight.shape[-1]

    def _depth(self, before: int, layers: int | None) -> int:
        return before if layers is None else max(1, round(before * layers / self.layers))

    def _fit(self, table: dict[str, Any], width: int, loose: bool) -> bool:
        """Bring a mixer's own sizes to another width; False where it would be another architecture."""
        for key in FOLLOWS:
            if isinstance(table.get(key), int):
                table[key] = max(1, round(table[key] * width / self.model.width))
        if "heads" in table:
            before = table["heads"]
            given = table.get("head_width") or table.get("value_width")
            heads = max(1, round(before * width / self.model.width)) if given else self._heads(before, width, loose)
            if heads is None:
                return False
            table["heads"] = heads
            if (shared := table.get("kv_heads")) is not None:
                table["kv_heads"] = _nearest_divisor(heads, heads * shared / before)
        elif "head_width" in table:
            table["head_width"] = _nearest_divisor(width * table.get("expand", 1), table["head_width"])
        return True

    def _heads(self, heads: int, width: int, loose: bool) -> int | None:
        """So many that each is about as wide as it was."""
        before = self.model.width / heads
        found = _nearest_divisor(width, width / before, even=before % 2 == 0)
        ratio, most = width / found / before, LOOSE_HEADS if loose else HEADS
        return found if 1 / most <= ratio <= most or (found == 1 and ratio < 1) else None

    def _fit_frontends(self, values: dict[str, Any], width: int) -> None:
        for frontend in (values["frontend"], values["target"]):
            if frontend is None:
                continue
            own = frontend.get("embedding")
            if own is not None:
                frontend["embedding"] = max(2, 2 * round(own * width / self.model.width / 2))
            position = frontend.get("position")
            if position is not None and position.get("widths") is not None:
                total = frontend.get("embedding") or width
                rows = round(position["widths"][0] * total / sum(position["widths"]))
                position["widths"] = (rows, total - rows)


def build_on_meta(model: ModelConfig) -> Model:
    """With shapes and no weights: milliseconds."""
    return build(model, device="meta")


def _nearest_divisor(number: int, wanted: float, even: bool = False) -> int:
    """The divisor of a number that is nearest to what is wanted, by its ratio; `even`: what is left after the division is."""
    divisors = [d for d in range(1, number + 1) if number % d == 0]
    chosen = [d for d in divisors if (number // d) % 2 == 0] if even else []
    return min(chosen or divisors, key=lambda d: abs(math.log(d / wanted)))


def _mixers(values: Any, path: Keys = ()) -> Iterator[tuple[Keys, dict[str, Any]]]:
    """Every mixer's table, those inside other mixers too."""
    items = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list | tuple) else ()
    for key, value in items:
        if key == "mixer" and isinstance(value, dict):
            yield (*path, key), value
        yield from _mixers(value, (*path, key))


def _table(values: Any, path: Keys) -> dict[str, Any]:
    for step in path:
        values = values[step]
    return values


def _leaves(values: Any, path: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    if isinstance(values, dict) or (isinstance(values, list | tuple) and any(isinstance(item, dict) for item in values)):
        for key, value in values.items() if isinstance(values, dict) else enumerate(values):
            yield from _leaves(value, (*path, key))
    else:
        yield path, values
