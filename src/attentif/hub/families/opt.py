"""OPT (Zhang et al. 2022): GPT-2 with ReLU and places counted from row 2 of their table on."""

from typing import Any

from attentif.errors import ConfigError
from attentif.hub.families.bert import ACTIVATIONS
from attentif.hub.family import Family, register
from attentif.hub.heads import decoder_heads, language
from attentif.hub.keys import Always, Key
from attentif.hub.rows import Row

ATTN, FFN = "decoder.block.attn.mixer", "decoder.block.ffn.mixer"
LAYER, BLOCK = "decoder.layers.{i}", "decoder.blocks.{i}"


def older(config: dict[str, Any]) -> dict[str, Any]:
    """Embeddings of another width than the model's, with a map there and a map back, are OPT-350m's alone."""
    if (narrow := config.pop("word_embed_proj_dim", None)) not in (None, config.get("hidden_size", narrow)):
        raise ConfigError(f"word_embed_proj_dim: {narrow} is not understood (only hidden_size, {config['hidden_size']})")
    return config


def whole(config: dict[str, Any]) -> dict[str, Any]:
    return config | {"word_embed_proj_dim": config["hidden_size"]}


register(
    Family(
        kind="opt",
        template={
            "frontend": {"kind": "tokens", "position": {"kind": "learned", "offset": 2}, "dropout": 0.0},
            "decoder": {
                "placement": "pre",
                "norm": {"kind": "layer", "eps": 1e-5},
                "block": {"attn": {"mixer": {"kind": "attention", "causal": True}}, "ffn": {"mixer": {"kind": "feed-forward"}}},
            },
        },
        keys=[
            Key("vocab_size", "frontend.vocab"),
            Key("max_position_embeddings", "frontend.position.max_len", 2048),
            Key("hidden_size", "width"),
            Key("num_hidden_layers", "layers"),
            Key("num_attention_heads", f"{ATTN}.heads"),
            Key("ffn_dim", f"{FFN}.hidden"),
            Key("activation_function", f"{FFN}.activation", "relu", ACTIVATIONS),
            Key("dropout", "dropout", 0.1),
            Key("attention_dropout", f"{ATTN}.dropout", 0.0),
            Key("enable_bias", (f"{ATTN}.bias", f"{ATTN}.out_bias", f"{FFN}.bias"), True),
            Always("do_layer_norm_before", True),
            Always("_remove_final_layer_norm", False),
            Always("layer_norm_elementwise_affine", True),
            Always("activation_dropout", 0.0),
        ],
        body=[
            Row("decoder.embed_tokens.weight", "frontend.tokens.weight"),
            Row("decoder.embed_positions.weight", "frontend.position.table.weight"),
            Row(f"{LAYER}.self_attn_layer_norm.{{p}}", f"{BLOCK}.attn.norm_in.{{p}}"),
            *(Row(f"{LAYER}.self_attn.{part}_proj.{{p}}", f"{BLOCK}.attn.mixer.{part}.{{p}}") for part in ("q", "k", "v", "out")),
            Row(f"{LAYER}.final_layer_norm.{{p}}", f"{BLOCK}.ffn.norm_in.{{p}}"),
            Row(f"{LAYER}.fc1.{{p}}", f"{BLOCK}.ffn.mixer.up.{{p}}"),
            Row(f"{LAYER}.fc2.{{p}}", f"{BLOCK}.ffn.mixer.out.{{p}}"),
            Row("decoder.final_layer_norm.{p}", "decoder.norm.{p}"),
        ],
        heads=[
            language("OPTForCausalLM"),
            *decoder_heads("OPT", answers=None, only=("ForSequenceClassification", "ForQuestionAnswering", "Model")),
        ],
        prefix="model.",
        harmless=("layerdrop", "init_std", "word_embed_proj_dim"),
        older=older,
        whole=whole,
    )
)
