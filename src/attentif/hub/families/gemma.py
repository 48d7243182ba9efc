"""Gemma (Gemma Team 2024, 2025): LLaMA with larger embeddings and norms around 1; from Gemma 2 on, windows in most blocks and norms
before and after each sublayer. Of Gemma 3, the text model.

Gemma 2 keeps scores within bounds, and every other block has a window; Gemma 3 normalises queries and keys instead, has five blocks with
windows for one without, and turns slower in the latter.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from attentif.errors import ConfigError
from attentif.hub.families import llama
from attentif.hub.families.llama import (
    BIASES,
    EPS,
    FULL,
    GATES,
    ROWS,
    SLIDING,
    read_rotary,
    read_window,
    with_rope,
    write_rotary,
    write_window,
)
from attentif.hub.family import Family, register
from attentif.hub.heads import decoder_heads, language
from attentif.hub.keys import Always, Code, Key
from attentif.hub.rows import Row

NORM = {"kind": "rms", "around": 1.0}
BLOCKS = ("decoder.blocks.0", "decoder.blocks.1")  # with windows, and without
NEAR, FAR = (f"{block}.sublayers" for block in BLOCKS)
# four norms a block, two of which have LLaMA's names for others
NORMS = {
    "input_layernorm": "attn.norm_in",
    "post_attention_layernorm": "attn.norm_out",
    "pre_feedforward_layernorm": "ffn.norm_in",
    "post_feedforward_layernorm": "ffn.norm_out",
}


def both(sublayer: str, key: str) -> tuple[str, str]:
    """The place of a key in blocks with windows and in blocks without."""
    return f"{NEAR}.{sublayer}.mixer.{key}", f"{FAR}.{sublayer}.mixer.{key}"


def template(**attention: Any) -> dict[str, Any]:
    attn = {"mixer": {"kind": "attention", "causal": True, "bias": False, "out_bias": False, **attention}}
    ffn = {"mixer": {"kind": "feed-forward", "bias": False}}
    blocks = [{"sublayers": {"attn": attn, "ffn": ffn}}, {"sublayers": {"attn": attn, "ffn": ffn}}]
    return {
        "dropout": 0.0,
        "frontend": {"kind": "tokens", "scale": True},
        "decoder": {"placement": "sandwich", "norm": NORM, "blocks": blocks},
    }


def older_1(config: dict[str, Any]) -> dict[str, Any]:
    """The first files say "gelu" where its approximation is meant."""
    config["use_bidirectional_attention"] = bool(config.get("use_bidirectional_attention"))
    config["hidden_act"] = "gelu_pytorch_tanh" if config["hidden_act"] == "gelu" else config["hidden_act"]
    return llama.older(config)


def turns(near: int, layers: int) -> list[str]:
    """`near` blocks with windows, then one without, and so on."""
    return [SLIDING if (number + 1) % (near + 1) else FULL for number in range(layers)]


def near_in_a_row(config: dict[str, Any], default: int) -> int:
    """`layer_types` says at length which blocks have windows, files of the first days not at all, or by a number."""
    unsaid = config.pop("_sliding_window_pattern", default + 1)  # kept by transformers beside the list
    near = int(config.pop("sliding_window_pattern", unsaid)) - 1
    if types := config.pop("layer_types", None):
        near = types.index(FULL) if FULL in types else max(near, len(types))
        if types != turns(near, len(types)):
            raise ConfigError(f"layer_types: only so many {SLIDING}, then one {FULL}, over and over again, are understood")
    return near


def older_2(config: dict[str, Any]) -> dict[str, Any]:
    config = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0} | config  # null is no cap, silence is theirs
    config["use_bidirectional_attention"] = bool(config.get("use_bidirectional_attention"))
    rope = with_rope(config).pop("rope_parameters")
    return config | {"near": near_in_a_row(config, 1), "near_rope": rope, "far_rope": rope}


def whole_2(config: dict[str, Any]) -> dict[str, Any]:
    near, rope, far = (config.pop(key) for key in ("near", "near_rope", "far_rope"))
    if rope != far:
        raise ConfigError("gemma2 cannot represent different rotary bases in blocks with and without windows")
    return config | {"layer_types": turns(near, config["num_hidden_layers"]), "rope_parameters": rope}


def older_3(config: dict[str, Any]) -> dict[str, Any]:
    """The two rotary bases were keys of their own, and a scaling was for blocks without windows."""
    config["use_bidirectional_attention"] = bool(config.get("use_bidirectional_attention"))
    rope: Mapping[str, Any] = config.pop("rope_parameters", None) or {}
    far = {"rope_theta": config.pop("rope_theta", 1_000_000.0)} | dict(config.pop("rope_scaling", None) or {})
    near = {"rope_theta": config.pop("rope_local_base_freq", 10_000.0)}
    near, far = near | rope.get(SLIDING, {}), far | rope.get(FULL, {})
    if other := set(rope) - {SLIDING, FULL}:
        raise ConfigError(f"rope_parameters: {min(other)!r} is not understood (only {SLIDING}, {FULL})")
    return config | {"near": near_in_a_row(config, 5), "near_rope": near, "far_rope": far}


def whole_3(config: dict[str, Any]) -> dict[str, Any]:
    near, rope, far = (config.pop(key) for key in ("near", "near_rope", "far_rope"))
    types = turns(near, config["num_hidden_layers"])
    return config | {"layer_types": types, "sliding_window_pattern": near + 1, "rope_parameters": {SLIDING: rope, FULL: far}}


def read_scale(scalar: float) -> float:
    return float(scalar) ** -0.5


ROTARY = Code(read_rotary, write_rotary)
KEYS: list[Key | Always] = [
    Key("vocab_size", "frontend.vocab"),
    Key("hidden_size", "width"),
    Key("intermediate_size", both("ffn", "hidden")),
    Key("num_hidden_layers", "layers"),
    Key("num_attention_heads", both("attn", "heads")),
    Key("num_key_value_heads", both("attn", "kv_heads")),
    Key("head_dim", both("attn", "head_width"), 256),
    Key("hidden_activation", both("ffn", "activation"), "gelu_pytorch_tanh", GATES),
    Key("attention_dropout", both("attn", "dropout"), 0.0),
    Key("attention_bias", (*both("attn", "bias"), *both("attn", "out_bias")), False),
    Key("query_pre_attn_scalar", both("attn", "scale"), 256, Code(read_scale, lambda scale: round(scale**-2))),
    Key("sliding_window", f"{NEAR}.attn.mixer.pattern", 4096, Code(read_window, write_window)),
    Key("near", f"{BLOCKS[0]}.repeat"),
    Key("near_rope", f"{NEAR}.attn.mixer.rotary", None, ROTARY),
    Key("far_rope", f"{FAR}.attn.mixer.rotary", None, ROTARY),
    Always("hidden_act", "gelu_pytorch_tanh"),
    Always("use_bidirectional_attention", False),
]
HARMLESS = ("cache_implementation",)
PICTURES = "it reads pictures too; its text model alone is read"
BODY = [
    *(row for row in ROWS if "layernorm" not in row.theirs),
    *(Row(f"layers.{{i}}.{theirs}.weight", f"decoder.blocks.{{i}}.{ours}.weight") for theirs, ours in NORMS.items()),
]
SIZES_3 = {  # a folder that reads pictures too leaves out what is as here
    "vocab_size": 262208,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
}
QK_EPS = both("attn", "qk_norm.eps")
TEXTS = ("ForSequenceClassification", "ForTokenClassification", "Model")
GEMMA = llama.family(
    "gemma",
    "Gemma",
    [EPS, *BIASES, Always("use_bidirectional_attention", False)],
    llama.TEMPLATE | {"frontend": {"kind": "tokens", "scale": True}, "decoder": llama.TEMPLATE["decoder"] | {"norm": NORM}},
    defaults={"head_dim": 256, "hidden_act": "gelu_pytorch_tanh", "num_key_value_heads": 16},
)
register(
    replace(
        GEMMA,
        heads=[language("GemmaForCausalLM"), *decoder_heads("Gemma", only=TEXTS)],
        tied=True,
        like={"max_position_embeddings": 8192},
        harmless=(*GEMMA.harmless, "hidden_activation"),  # which transformers does not read
        older=older_1,
    ),
    Family(
        kind="gemma2",
        template=template(),
        keys=[
            *KEYS,
            Key("rms_norm_eps", "decoder.norm.eps", 1e-6),
            Key("attn_logit_softcapping", both("attn", "softcap"), None),
        ],
        body=BODY,
        heads=[
            language("Gemma2ForCausalLM", keys=[Key("final_logit_softcapping", "head.softcap", None)]),
            *decoder_heads("Gemma2", only=TEXTS),
        ],
        prefix="model.",
        like={"max_position_embeddings": 8192},
        harmless=(*HARMLESS, "final_logit_softcapping"),
        older=older_2,
        whole=whole_2,
    ),
    Family(
        kind="gemma3_text",
        template=template(qk_norm=NORM),
        keys=[
            *KEYS,
            Key("rms_norm_eps", ("decoder.norm.eps", *QK_EPS), 1e-6),
            Always("attn_logit_softcapping", None),  # transformers keeps the key and applies nothing
        ],
        body=BODY,
        heads=[
            language("Gemma3ForCausalLM", keys=[Key("final_logit_softcapping", "head.softcap", None)]),
            *decoder_heads("Gemma3Text", only=("ForSequenceClassification", "Model")),
        ],
        prefix="model.",
        like={"max_position_embeddings": 131072},
        harmless=(*HARMLESS, "final_logit_softcapping"),
        defaults=SIZES_3,
        left_out={f"Gemma3{part}": PICTURES for part in ("ForConditionalGeneration", "ForSequenceClassification", "Model")},
        older=older_3,
        whole=whole_3,
    ),
)
