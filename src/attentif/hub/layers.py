"""Blocks of several kinds in a stack, as a list with an entry for each layer: what `layer_types` and its like say in config.json.

A stack says the same in several ways: `block` (all alike), kinds that take turns, kinds in the order of the layers. The last is what tables
with a `*` read and write: `decoder.blocks.*.sublayers.attn.mixer.heads` is the place of a key in every kind of block that has one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, cycle, groupby, islice
from typing import Any

from attentif.hub.keys import Always, Code, Key

STACKS = ("encoder", "decoder")


def in_order(values: Mapping[str, Any]) -> dict[str, Any]:
    """A model's values with the blocks of its stacks in the order of the layers, equal neighbours as one kind."""
    stacks = {name: values[name] for name in STACKS if isinstance(values.get(name), Mapping)}
    return {**values, **{name: _in_order(stack, stack.get("layers") or values.get("layers")) for name, stack in stacks.items()}}


def _in_order(stack: Mapping[str, Any], layers: int | None) -> dict[str, Any]:
    kinds = [kind["sublayers"] for kind in stack.get("blocks") or () for _ in range(kind.get("repeat", 1))]
    return {**stack, "block": {}, "blocks": runs(islice(cycle(kinds or [stack.get("block")]), layers or 0))}


def runs(blocks: Iterable[Any]) -> list[dict[str, Any]]:
    """Kinds of block with the number of each in a row."""
    return [{"repeat": len([*same]), "sublayers": sublayers} for sublayers, same in groupby(blocks)]


def alike(values: dict[str, Any]) -> dict[str, Any]:
    """The same with `block` where a stack has one kind of block only."""
    for name in STACKS:
        stack = values.get(name)
        if isinstance(stack, dict) and stack.get("blocks") and len(stack["blocks"]) == 1:
            only = stack.pop("blocks")[0]["sublayers"]
            values[name] = {**stack, "block": only}
    return values


def by_layer(keys: Iterable[Key | Always], stack: str = "decoder") -> list[Key | Always]:
    """Keys with places in the one kind of block of a stack, as keys with places in every kind."""
    inside = lambda place: place.replace(f"{stack}.block.", f"{stack}.blocks.*.sublayers.")
    return [replace(key, ours=tuple(map(inside, key.places))) if isinstance(key, Key) else key for key in keys]


def layers_key(place: str, read: Callable[[Any], Mapping[str, Any]], write: Callable[[Mapping[str, Any]], Any]) -> Key:
    """The key `blocks`, which a page makes of its own keys: an entry for each layer, read as the sublayers of its block."""

    def write_kinds(kinds: Sequence[Mapping[str, Any]]) -> list[Any]:
        return [*chain.from_iterable([write(kind["sublayers"])] * kind["repeat"] for kind in kinds)]

    return Key("blocks", place, (), Code(lambda entries: runs(map(read, entries)), write_kinds))
