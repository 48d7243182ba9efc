"""gpt-oss (OpenAI 2025): experts with biases and clamped gates, a sink beside the keys, a window in every other block.

The published weights of the experts are in MXFP4, and are brought to bfloat16 when they are read (`hub/mxfp4.py`), which loses nothing.
"""

from dataclasses import replace
from typing import Any

from attentif.hub.families.llama import (
    ATTENTION,
    BIASES,
    EPS,
    FFN,
    FULL,
    SLIDING,
    family,
    types_of,
    window_key,
    windows_of,
    with_length,
    with_mixers,
    with_rope,
    without_block,
)
from attentif.hub.family import register
from attentif.hub.heads import decoder_heads, language
from attentif.hub.keys import Always, Key
from attentif.hub.layers import by_layer
from attentif.hub.rows import Row, SplitExperts, Transposed

MIXER = "decoder.blocks.{i}.ffn.mixer"
EXPERTS = "layers.{i}.mlp.experts"
STRETCHED = {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False}
STRETCHED |= {"original_max_position_embeddings": 4096}


def older(config: dict[str, Any]) -> dict[str, Any]:
    if config.get("rope_scaling") is None and config.get("rope_parameters") is None:
        config |= {"rope_scaling": STRETCHED}
    config = with_rope(config)
    layers, window = config.get("num_hidden_layers", 0), config.pop("sliding_window", 128)
    types = config.pop("layer_types", None) or [FULL if number % 2 else SLIDING for number in range(layers)]
    if (config.get("quantization_config") or {}).get("quant_method") == "mxfp4":
        del config["quantization_config"]
    return config | {"blocks": windows_of(types, window)}


def whole(config: dict[str, Any]) -> dict[str, Any]:
    said = types_of(config.pop("blocks"))
    return with_length(config) | said | {"sliding_window": said["sliding_window"] or 128}  # transformers wants one, used or not


BODY = [
    *ATTENTION,
    Row("layers.{i}.self_attn.sinks", "decoder.blocks.{i}.attn.mixer.sinks"),
    Row("layers.{i}.mlp.router.{p}", f"{MIXER}.router.{{p}}"),
    Row(f"{EXPERTS}.gate_up_proj", (f"{MIXER}.gate.weight", f"{MIXER}.up.weight"), SplitExperts(turns=True)),
    Row(f"{EXPERTS}.gate_up_proj_bias", (f"{MIXER}.gate.bias", f"{MIXER}.up.bias"), SplitExperts(turns=True)),
    Row(f"{EXPERTS}.down_proj", f"{MIXER}.out.weight", Transposed()),
    Row(f"{EXPERTS}.down_proj_bias", f"{MIXER}.out.bias"),
]
CLAMPED = {"kind": "experts", "activation": "swiglu-clamped", "bias": True, "router_bias": True}
TEMPLATE = with_mixers({"sinks": True}, CLAMPED)
GPT_OSS = family(
    "gpt_oss",
    "GptOss",
    [
        EPS,
        *BIASES,
        Key("num_local_experts", f"{FFN}.experts", 128),
        Key("num_experts_per_tok", f"{FFN}.top_k", 4),
        Always("hidden_act", "silu"),
        Always("swiglu_alpha", 1.702),
        Always("swiglu_limit", 7.0),
    ],
    TEMPLATE,
    BODY,
    defaults={"num_key_value_heads": 8, "head_dim": 64, "rms_norm_eps": 1e-5, "attention_bias": True, "rope_theta": 150000.0},
    aliases={"num_experts": "num_local_experts"},
)
register(
    replace(
        GPT_OSS,
        template=without_block(TEMPLATE),
        keys=[window_key(TEMPLATE), *by_layer(key for key in GPT_OSS.keys if isinstance(key, Always) or key.theirs != "hidden_act")],
        heads=[
            language("GptOssForCausalLM"),
            *decoder_heads("GptOss", only=("ForSequenceClassification", "ForTokenClassification", "Model")),
        ],
        harmless=(*GPT_OSS.harmless, "experts_per_token", "initial_context_length"),
        older=older,
        whole=whole,
    )
)
