"""SmolLM3 (Hugging Face 2025): LLaMA whose every fourth block knows no places."""

from dataclasses import replace
from typing import Any

from attentif.errors import ConfigError
from attentif.hub.families.llama import (
    BIASES,
    EPS,
    FFN,
    SLIDING,
    TEMPLATE,
    family,
    read_rotary,
    read_window,
    types_of,
    windows_of,
    with_length,
    with_rope,
    without_block,
    write_rotary,
    write_window,
)
from attentif.hub.family import register
from attentif.hub.heads import decoder_heads, language
from attentif.hub.keys import Key
from attentif.hub.layers import by_layer, layers_key

BLOCK = TEMPLATE["decoder"]["block"]


def older(config: dict[str, Any]) -> dict[str, Any]:
    """An entry for each layer: how far it sees, and its rotary positions."""
    config = with_rope(config)
    rope, turned = config.pop("rope_parameters"), config.pop("no_rope_layers", None)
    interval, layers = config.pop("no_rope_layer_interval", 4), config.get("num_hidden_layers", len(turned or ()))
    turned = turned or [int((number + 1) % interval != 0) for number in range(layers)]
    if len(turned) != layers:
        raise ConfigError(f"no_rope_layers: says {len(turned)} of {layers} layers")
    used, window = config.pop("use_sliding_window", False), config.pop("sliding_window", None)
    types = config.pop("layer_types", None)
    types = types or [SLIDING if used and window is not None and not turns else "full_attention" for turns in turned]
    if SLIDING in types and not (used and window):
        raise ConfigError("layer_types: there are windows in it, and no size of them (use_sliding_window, sliding_window)")
    windows = windows_of(types, window)
    rope.setdefault("rope_theta", 2_000_000.0)
    config["blocks"] = [{"window": size, "rope": rope if turns else None} for size, turns in zip(windows, turned, strict=True)]
    return config


def whole(config: dict[str, Any]) -> dict[str, Any]:
    blocks = config.pop("blocks")
    rope = next((block["rope"] for block in blocks if block["rope"]), {"rope_type": "default", "rope_theta": 2_000_000.0})
    said = types_of([block["window"] for block in blocks])
    config |= {"no_rope_layers": [int(block["rope"] is not None) for block in blocks], "rope_parameters": dict(rope)}
    return with_length(config) | said | {"use_sliding_window": said["sliding_window"] is not None, "no_rope_layer_interval": 4}


def read_block(entry: dict[str, Any]) -> dict[str, Any]:
    rotary = read_rotary(entry["rope"]) if entry["rope"] else None
    mixer = BLOCK["attn"]["mixer"] | {"pattern": read_window(entry["window"]), "rotary": rotary}
    return BLOCK | {"attn": {"mixer": mixer}}


def write_block(sublayers: Any) -> dict[str, Any]:
    mixer = sublayers["attn"]["mixer"]
    return {"window": write_window(mixer["pattern"]), "rope": write_rotary(mixer["rotary"]) if mixer["rotary"] else None}


SMOLLM3 = family("smollm3", "SmolLM3", [EPS, *BIASES, Key("mlp_bias", f"{FFN}.bias", False)])
register(
    replace(
        SMOLLM3,
        template=without_block(TEMPLATE),
        keys=[
            layers_key("decoder.blocks", read_block, write_block),
            *by_layer(key for key in SMOLLM3.keys if key.theirs not in ("rope_parameters", "head_dim")),
        ],
        heads=[language("SmolLM3ForCausalLM"), *decoder_heads("SmolLM3")],
        tied=True,
        harmless=(*SMOLLM3.harmless, "max_window_layers"),
        defaults={"num_key_value_heads": 4},
        older=older,
        whole=whole,
    )
)
