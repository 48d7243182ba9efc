"""Qwen 1.5 and 2 with experts (Qwen Team 2024): routed experts, and shared ones that each token weighs by itself."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from attentif.errors import ConfigError
from attentif.hub.families.llama import ATTN, EPS, FFN, experts, family, with_length, with_mixers, with_rope
from attentif.hub.family import register
from attentif.hub.heads import decoder_heads, language
from attentif.hub.keys import Always, Key
from attentif.hub.rows import Row
from attentif.models import ModelConfig

NAMES = {"gate_proj": "gate", "up_proj": "up", "down_proj": "out"}
MIXER = "decoder.blocks.{i}.ffn.mixer"


def older(config: dict[str, Any]) -> dict[str, Any]:
    """Shared experts are so many times as wide as a routed one; blocks are all alike, and none has a window."""
    config = with_rope(config)
    if config.pop("use_sliding_window", False):
        raise ConfigError("use_sliding_window: True is not understood (only False)")
    if odd := [kind for kind in config.pop("layer_types", None) or () if kind != "full_attention"]:
        raise ConfigError(f"layer_types: {odd[0]!r} is not understood (only full_attention)")
    wide, one = config.pop("shared_expert_intermediate_size", 5632), config.get("moe_intermediate_size")
    if one and wide % one:
        raise ConfigError(
            f"shared_expert_intermediate_size: {wide} is no multiple of moe_intermediate_size = {one}, which alone is understood"
        )
    return config | {"shared": wide // one if one else 1}


def whole(config: dict[str, Any]) -> dict[str, Any]:
    wide = config.pop("shared") * config["moe_intermediate_size"]
    return with_length(config) | {"shared_expert_intermediate_size": wide, "use_sliding_window": False}


def body(config: ModelConfig) -> Iterator[Row]:
    yield from experts("mlp", NAMES)(config)
    for theirs, ours in NAMES.items():
        yield Row(f"layers.{{i}}.mlp.shared_expert.{theirs}.weight", f"{MIXER}.shared.{ours}.weight")
    yield Row("layers.{i}.mlp.shared_expert_gate.weight", f"{MIXER}.shared_gate.weight")


QWEN2_MOE = family(
    "qwen2_moe",
    "Qwen2Moe",
    [
        EPS,
        Key("qkv_bias", f"{ATTN}.bias", True),
        Key("num_experts", f"{FFN}.experts", 60),
        Key("num_experts_per_tok", f"{FFN}.top_k", 4),
        Key("norm_topk_prob", f"{FFN}.normalised", False),
        Key("shared", f"{FFN}.shared"),
        Always("decoder_sparse_step", 1),
        Always("mlp_only_layers", []),
    ],
    with_mixers(ffn={"kind": "experts", "shared_gate": True}),
    body,
    hidden="moe_intermediate_size",
    defaults={"num_key_value_heads": 16},
)
register(
    replace(
        QWEN2_MOE,
        template=with_mixers(ffn={"kind": "experts", "shared_gate": True}),
        heads=[language("Qwen2MoeForCausalLM"), *decoder_heads("Qwen2Moe", answers=None)],
        harmless=(*QWEN2_MOE.harmless, "intermediate_size", "max_window_layers", "sliding_window"),
        older=older,
        whole=whole,
    )
)
