"""Blocks whose attention and feed-forward come one after the other, or side by side: StableLM and Falcon have both, said by a key.

The tables of a family name what is in such a block as where they come one after the other: `decoder.blocks.{i}.attn.mixer.q.weight`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from attentif.errors import ConfigError
from attentif.hub.keys import Always, Key
from attentif.hub.layers import layers_key
from attentif.hub.rows import Row
from attentif.nn.norm import Placement
from attentif.nn.stack import StackConfig

ORDERED, ONE_NORM, TWO_NORMS = "ordered", "one-norm", "two-norms"  # one after the other; side by side, behind one norm or one each
BRANCHES = "both.mixer.branches"


def layout_key(
    attn: Mapping[str, Any], ffn: Mapping[str, Any], placement: Placement | None = None, around: Placement | None = "none"
) -> Key:
    """The key `blocks` with the layout of each, its attention and feed-forward being these mixers.

    `placement` is that of the two in order, `around` that of the sublayer around two with a norm each: None is the stack's.
    """

    def read(layout: str) -> dict[str, Any]:
        if layout == ORDERED:
            return {"attn": {"placement": placement, "mixer": attn}, "ffn": {"placement": placement, "mixer": ffn}}
        inner, outer = ("pre", around) if layout == TWO_NORMS else ("none", "pre")
        branches = {name: {"placement": inner, "mixer": mixer} for name, mixer in (("attn", attn), ("ffn", ffn))}
        return {"both": {"placement": outer, "dropout": 0.0, "mixer": {"kind": "parallel", "branches": branches}}}

    def write(sublayers: Mapping[str, Any]) -> str:
        if "both" not in sublayers:
            return ORDERED
        return TWO_NORMS if sublayers["both"]["mixer"]["branches"]["attn"]["placement"] == "pre" else ONE_NORM

    return layers_key("decoder.blocks", read, write)


def keys_in_either_layout(*keys: Key | Always) -> list[Key | Always]:
    """Keys with places in a block, as keys with places in either layout of it."""

    def either(place: str) -> tuple[str, ...]:
        before, found, inside = place.partition("decoder.block.")
        return tuple(f"decoder.blocks.*.sublayers.{above}{inside}" for above in ("", f"{BRANCHES}.")) if found and not before else (place,)

    return [replace(key, ours=sum(map(either, key.places), ())) if isinstance(key, Key) else key for key in keys]


def in_either_layout(row: Row) -> Iterator[Row]:
    """A row, and the same where the two are side by side."""

    def beside(name: str) -> str:
        if name.startswith(norm := "decoder.blocks.{i}.attn.norm_in"):
            return name.replace(norm, "decoder.blocks.{i}.both.norm_in")
        return name.replace("decoder.blocks.{i}.", f"decoder.blocks.{{i}}.{BRANCHES}.")

    yield row
    if "{i}" in row.theirs:
        yield replace(row, ours=beside(row.ours) if isinstance(row.ours, str) else tuple(map(beside, row.ours)))


def attention_of(stack: StackConfig) -> dict[str, Any]:
    """The values of the attention in the first block."""
    block = {name: sublayer.mixer.model_dump() for name, sublayer in stack.plan(1)[0].items()}
    return dict(block["both"]["branches"]["attn"]["mixer"] if "both" in block else block["attn"])


def with_layout(config: dict[str, Any], layout: str) -> dict[str, Any]:
    """config.json with the layout of every block."""
    return config | {"blocks": [layout] * config.get("num_hidden_layers", 0)}


def pop_layout(config: dict[str, Any]) -> str:
    """Remove and return the layout that all blocks have."""
    layouts = set(config.pop("blocks"))
    if len(layouts) > 1:
        raise ConfigError("blocks: attention and feed-forward are side by side in some blocks, and not in others")
    return str(layouts.pop())
