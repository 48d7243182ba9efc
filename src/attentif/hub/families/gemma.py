"""Gemma 2 (Gemma Team 2024): windows in every other block, norms before and after each sublayer, scores kept within bounds."""

from typing import Any

from attentif.errors import ConfigError
from attentif.hub.families.llama import GATES, ROWS, read_rotary, write_rotary
from attentif.hub.family import Family, HeadOf, register
from attentif.hub.keys import Always, Code, Key
from attentif.hub.rows import Row

NORM = {"kind": "rms", "around": 1.0}
NEAR, FAR = ("decoder.blocks.0.sublayers", "decoder.blocks.1.sublayers")
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


def template() -> dict[str, Any]:
    attn = {"mixer": {"kind": "attention", "causal": True, "bias": False, "out_bias": False}}
    ffn = {"mixer": {"kind": "feed-forward", "bias": False}}
    blocks = [{"sublayers": {"attn": attn, "ffn": ffn}}, {"sublayers": {"attn": attn, "ffn": ffn}}]
    return {
        "dropout": 0.0,
        "frontend": {"kind": "tokens", "scale": True},
        "decoder": {"placement": "sandwich", "norm": NORM, "blocks": blocks},
    }


def older(config: dict[str, Any]) -> dict[str, Any]:
    """Blocks with and without windows take turns: `layer_types` says so at length, older files not at all."""
    if theta := config.pop("rope_theta", None):
        config["rope_parameters"] = dict(config.pop("rope_scaling", None) or {}) | {"rope_theta": theta}
    turns = ["sliding_attention", "full_attention"]
    types = config.pop("layer_types", None)
    if types is not None and types != [turns[number % 2] for number in range(len(types))]:
        raise ConfigError("layer_types: only windows in every other block, beginning with the first, are understood")
    if config.get("use_bidirectional_attention"):
        raise ConfigError("use_bidirectional_attention: only causal attention is understood")
    return config


def whole(config: dict[str, Any]) -> dict[str, Any]:
    turns = ["sliding_attention", "full_attention"]
    return config | {"layer_types": [turns[number % 2] for number in range(config["num_hidden_layers"])]}


def read_scale(scalar: float) -> float:
    return float(scalar) ** -0.5


ROWS_OF_GEMMA = [
    *(row for row in ROWS if "layernorm" not in row.theirs and "q_norm" not in row.theirs and "k_norm" not in row.theirs),
    *(Row(f"layers.{{i}}.{theirs}.weight", f"decoder.blocks.{{i}}.{ours}.weight") for theirs, ours in NORMS.items()),
]
register(
    Family(
        kind="gemma2",
        template=template(),
        keys=[
            Key("vocab_size", "frontend.vocab"),
            Key("hidden_size", "width"),
            Key("intermediate_size", both("ffn", "hidden")),
            Key("num_hidden_layers", "layers"),
            Key("num_attention_heads", both("attn", "heads")),
            Key("num_key_value_heads", both("attn", "kv_heads")),
            Key("head_dim", both("attn", "head_width"), 256),
            Key("hidden_activation", both("ffn", "activation"), "gelu_pytorch_tanh", GATES),
            Key("rms_norm_eps", "decoder.norm.eps", 1e-6),
            Key("attention_dropout", both("attn", "dropout"), 0.0),
            Key("attention_bias", (*both("attn", "bias"), *both("attn", "out_bias")), False),
            Key("rope_parameters", both("attn", "rotary"), None, Code(read_rotary, write_rotary)),
            Key("query_pre_attn_scalar", both("attn", "scale"), 256, Code(read_scale, lambda scale: round(scale**-2))),
            Key("attn_logit_softcapping", both("attn", "softcap"), 50.0),
            Key(
                "sliding_window",
                f"{NEAR}.attn.mixer.pattern",
                4096,
                Code(lambda width: [{"kind": "window", "left": width - 1}], lambda pattern: pattern[0]["left"] + 1),
            ),
            Always("hidden_act", "gelu_pytorch_tanh"),
        ],
        body=ROWS_OF_GEMMA,
        heads=[
            HeadOf(
                "Gemma2ForCausalLM",
                {"kind": "language"},
                [Row("lm_head.weight", "head.linear.weight")],
                [Key("final_logit_softcapping", "head.softcap", 30.0)],
                task="language",
            )
        ],
        prefix="model.",
        like={"max_position_embeddings": 8192},
        harmless=("cache_implementation", "use_bidirectional_attention"),
        older=older,
        whole=whole,
    )
)
