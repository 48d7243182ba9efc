"""BLOOM (Scao et al. 2022): GPT-2 with ALiBi instead of places, and a norm after the embeddings."""

from collections.abc import Iterator
from typing import Any

from attentif.errors import ConfigError
from attentif.hub.family import Family, register
from attentif.hub.heads import decoder_heads, language
from attentif.hub.keys import Always, Key
from attentif.hub.rows import Row, SplitByHead
from attentif.models import ModelConfig

ATTN, FFN = "decoder.block.attn.mixer", "decoder.block.ffn.mixer"
LAYER, BLOCK = "h.{i}", "decoder.blocks.{i}"


def body(config: ModelConfig) -> Iterator[Row]:
    assert config.decoder is not None
    heads = config.decoder.block["attn"].mixer.model_dump()["heads"]
    qkv = tuple(f"{BLOCK}.attn.mixer.{part}.{{p}}" for part in "qkv")
    yield Row("word_embeddings.weight", "frontend.tokens.weight")
    yield Row("word_embeddings_layernorm.{p}", "frontend.norm.{p}")
    yield Row(f"{LAYER}.input_layernorm.{{p}}", f"{BLOCK}.attn.norm_in.{{p}}")
    yield Row(f"{LAYER}.self_attention.query_key_value.{{p}}", qkv, SplitByHead(heads))
    yield Row(f"{LAYER}.self_attention.dense.{{p}}", f"{BLOCK}.attn.mixer.out.{{p}}")
    yield Row(f"{LAYER}.post_attention_layernorm.{{p}}", f"{BLOCK}.ffn.norm_in.{{p}}")
    yield Row(f"{LAYER}.mlp.dense_h_to_4h.{{p}}", f"{BLOCK}.ffn.mixer.up.{{p}}")
    yield Row(f"{LAYER}.mlp.dense_4h_to_h.{{p}}", f"{BLOCK}.ffn.mixer.out.{{p}}")
    yield Row("ln_f.{p}", "decoder.norm.{p}")


def older(config: dict[str, Any]) -> dict[str, Any]:
    if config.get("slow_but_exact") and config.get("pretraining_tp", 1) > 1:
        raise ConfigError("slow_but_exact: transformers leaves out biases where it adds up slices (pretraining_tp of more than 1)")
    return {"hidden_size": config["n_embed"], **config} if "n_embed" in config else config


register(
    Family(
        kind="bloom",
        template={
            "frontend": {"kind": "tokens", "norm": {"kind": "layer"}, "dropout": 0.0},
            "decoder": {
                "placement": "pre",
                "norm": {"kind": "layer"},
                "bias": {"kind": "alibi"},
                "block": {
                    "attn": {"mixer": {"kind": "attention", "causal": True}},
                    "ffn": {"mixer": {"kind": "feed-forward", "activation": "gelu-tanh"}},
                },
            },
        },
        keys=[
            Key("vocab_size", "frontend.vocab"),
            Key("hidden_size", "width"),
            Key("n_layer", "layers"),
            Key("n_head", (f"{ATTN}.heads", "decoder.bias.heads")),
            Key("hidden_dropout", "dropout", 0.0),
            Key("attention_dropout", f"{ATTN}.dropout", 0.0),
            Key("layer_norm_epsilon", ("frontend.norm.eps", "decoder.norm.eps"), 1e-5),
            Always("apply_residual_connection_post_layernorm", False),
        ],
        body=body,
        heads=[language("BloomForCausalLM"), *decoder_heads("Bloom", tags="classifier", answers="transformer.")],
        prefix="transformer.",
        harmless=("slow_but_exact", "n_inner", "seq_length", "classifier_dropout"),  # four times the width, whatever n_inner says
        aliases={"num_hidden_layers": "n_layer", "num_attention_heads": "n_head"},
        older=older,
    )
)
