"""Llama 4, the text model (Meta 2025): blocks that see their own chunk of the text, and blocks without places that see all of it.

Queries and keys with places are normalised without a gain, queries without places grow with their position; experts read what the
router has weighed, beside one that every token uses.
"""

from collections.abc import Mapping
from typing import Any

from attentif.errors import ConfigError
from attentif.hub.families.llama import (
    ATTENTION,
    BIASES,
    EPS,
    FULL,
    GATES,
    HARMLESS,
    KEYS,
    TEMPLATE,
    read_rotary,
    with_length,
    with_rope,
    without_block,
    write_rotary,
)
from attentif.hub.family import Family, register
from attentif.hub.heads import bare, language
from attentif.hub.keys import Key
from attentif.hub.layers import by_layer, layers_key
from attentif.hub.rows import Row, SplitExperts, Transposed

CHUNKED = "chunked_attention"
ROPE = {"rope_type": "default", "rope_theta": 500_000.0}
BLOCK = TEMPLATE["decoder"]["block"]
ROUTED = {"kind": "experts", "scores": "sigmoid", "normalised": False, "weighs": "inputs", "shared": 1}
ATTN, DENSE, MOE = (f"decoder.block.{name}.mixer" for name in ("attn", "ffn", "moe"))
PICTURES = "it reads pictures too; its text model alone is read"


def older(config: dict[str, Any]) -> dict[str, Any]:
    """An entry for each layer: its places, its chunk, whether it has experts."""
    config = with_rope(config)
    rope, layers = config.pop("rope_parameters"), config.get("num_hidden_layers") or len(config.get("no_rope_layers") or ())
    interval, step = config.pop("no_rope_layer_interval", 4), config.pop("interleave_moe_layer_step", 1)
    turned = config.pop("no_rope_layers", None) or [int((number + 1) % interval != 0) for number in range(layers)]
    types = config.pop("layer_types", None) or [CHUNKED if turns else FULL for turns in turned]
    sparse, chunk = config.pop("moe_layers", None), config.pop("attention_chunk_size", 8192)
    sparse = range(step - 1, layers, step) if sparse is None else sparse
    if len(turned) < layers or len(types) != layers or any(kind not in (CHUNKED, FULL) for kind in types):
        raise ConfigError(f"no_rope_layers, layer_types: must say of each layer whether it turns, and {CHUNKED} or {FULL}")
    normed, tuned = config.pop("use_qk_norm", True), config.pop("attn_temperature_tuning", True)
    growth = {"every": config.pop("floor_scale", 8192), "rate": config.pop("attn_scale", 0.1)}
    if normed and (kind := rope.get("rope_type", rope.get("type"))) in ("yarn", "longrope"):
        raise ConfigError(f"rope_type: {kind!r} is not understood with use_qk_norm")  # which would undo its sharpening
    config["blocks"] = [
        {
            "rope": ROPE | rope if turned[number] else None,
            "chunk": chunk if types[number] == CHUNKED else None,
            "sparse": number in sparse,
            "normed": bool(normed and turned[number]),
            "growth": growth if tuned and not turned[number] else None,
        }
        for number in range(layers)
    ]
    return config


def whole(config: dict[str, Any]) -> dict[str, Any]:
    blocks = config.pop("blocks")
    first = lambda key, default: next((block[key] for block in blocks if block[key]), default)
    turned = [block["rope"] is not None for block in blocks]
    normed, growth = first("normed", False), first("growth", None)
    if any(block["normed"] != (normed and turns) for block, turns in zip(blocks, turned, strict=True)):
        raise ConfigError("llama4_text normalises queries and keys in all blocks with places, or in none")
    config |= {
        "rope_parameters": dict(first("rope", ROPE)),
        "no_rope_layers": [int(turns) for turns in turned],
        "layer_types": [CHUNKED if block["chunk"] else FULL for block in blocks],
        "moe_layers": [number for number, block in enumerate(blocks) if block["sparse"]],
        "attention_chunk_size": first("chunk", 8192),
        "use_qk_norm": normed,
        "attn_temperature_tuning": growth is not None,
    }
    return with_length(config) | ({} if growth is None else {"floor_scale": growth["every"], "attn_scale": growth["rate"]})


def read_block(entry: Mapping[str, Any]) -> dict[str, Any]:
    mixer = BLOCK["attn"]["mixer"] | {
        "pattern": [] if entry["chunk"] is None else [{"kind": "window", "left": 0, "block": entry["chunk"]}],
        "rotary": read_rotary(entry["rope"]) | {"pairs": "adjacent"} if entry["rope"] else None,
        "qk_norm": {"kind": "rms", "gain": False} if entry["normed"] else None,
        "sharpening": entry["growth"],
    }
    return {"attn": {"mixer": mixer}} | ({"moe": {"mixer": ROUTED}} if entry["sparse"] else {"ffn": BLOCK["ffn"]})


def write_block(sublayers: Mapping[str, Any]) -> dict[str, Any]:
    mixer = sublayers["attn"]["mixer"]
    return {
        "rope": write_rotary(mixer["rotary"]) if mixer["rotary"] else None,
        "chunk": mixer["pattern"][0]["block"] if mixer["pattern"] else None,
        "sparse": "moe" in sublayers,
        "normed": mixer["qk_norm"] is not None,
        "growth": mixer["sharpening"],
    }


LAYER, EXPERTS, NETWORK = "layers.{i}.feed_forward", "decoder.blocks.{i}.moe.mixer", "decoder.blocks.{i}.ffn.mixer"
NAMES = {"gate_proj": "gate", "up_proj": "up", "down_proj": "out"}
BODY = [
    *ATTENTION,
    Row("layers.{i}.post_attention_layernorm.weight", "decoder.blocks.{i}.moe.norm_in.weight"),
    *(Row(f"{LAYER}.{theirs}.weight", f"{NETWORK}.{ours}.weight") for theirs, ours in NAMES.items()),
    *(Row(f"{LAYER}.shared_expert.{theirs}.weight", f"{EXPERTS}.shared.{ours}.weight") for theirs, ours in NAMES.items()),
    Row(f"{LAYER}.router.weight", f"{EXPERTS}.router.weight"),
    Row(f"{LAYER}.experts.gate_up_proj", (f"{EXPERTS}.gate.weight", f"{EXPERTS}.up.weight"), SplitExperts()),
    Row(f"{LAYER}.experts.down_proj", f"{EXPERTS}.out.weight", Transposed()),
]
register(
    Family(
        kind="llama4_text",
        template=without_block(TEMPLATE),
        keys=[
            layers_key("decoder.blocks", read_block, write_block),
            *by_layer(key for key in KEYS if key.theirs not in ("rope_parameters", "hidden_act")),
            *by_layer(
                [
                    *BIASES,
                    Key("hidden_act", (f"{DENSE}.activation", f"{MOE}.activation"), "silu", GATES),
                    Key("intermediate_size", f"{MOE}.hidden", 8192),
                    Key("intermediate_size_mlp", f"{DENSE}.hidden", 16384),
                    Key("num_local_experts", f"{MOE}.experts", 16),
                    Key("num_experts_per_tok", f"{MOE}.top_k", 1),
                    Key("rms_norm_eps", (*EPS.places, f"{ATTN}.qk_norm.eps"), 1e-5),
                ]
            ),
        ],
        body=BODY,
        heads=[language("Llama4ForCausalLM"), bare("Llama4TextModel", "last")],
        prefix="model.",
        tied=False,
        like=HARMLESS,
        harmless=("output_router_logits", "router_aux_loss_coef", "router_jitter_noise", "for_llm_compressor"),
        defaults={  # a folder that reads pictures too leaves out what is as here
            "vocab_size": 202048,
            "hidden_size": 5120,
            "num_hidden_layers": 48,
            "num_attention_heads": 40,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
        older=older,
        whole=whole,
        left_out=dict.fromkeys(("Llama4ForConditionalGeneration", "Llama4VisionModel"), PICTURES),
    )
)
