"""Falcon (Almazrouei et al. 2023): attention and feed-forward side by side, behind one norm or one each, few heads of keys and values.

Falcon-RW, the first of them, has the blocks of BLOOM: one after the other, and ALiBi in place of rotary positions.
"""

from collections.abc import Iterator
from typing import Any

from attentif.errors import ConfigError
from attentif.hub.families.bert import ACTIVATIONS
from attentif.hub.families.llama import read_rotary, with_length, with_rope, write_rotary
from attentif.hub.families.residuals import (
    BRANCHES,
    ONE_NORM,
    ORDERED,
    TWO_NORMS,
    attention_of,
    in_either_layout,
    keys_in_either_layout,
    layout_key,
    pop_layout,
    with_layout,
)
from attentif.hub.family import Family, register
from attentif.hub.heads import decoder_heads, language
from attentif.hub.keys import Code, Key
from attentif.hub.rows import Row, SplitByHead
from attentif.models import ModelConfig

ATTN, FFN = "decoder.block.attn.mixer", "decoder.block.ffn.mixer"
LAYER, BLOCK, INSIDE = "h.{i}", "decoder.blocks.{i}", f"decoder.blocks.*.sublayers.{BRANCHES}"


def older(config: dict[str, Any]) -> dict[str, Any]:
    """The layout of blocks and the number of heads of keys and values follow from other keys; with ALiBi nothing is rotated."""
    config = with_rope(config)
    new, heads = config.get("new_decoder_architecture", False), config.get("num_attention_heads")
    count = config.pop("num_ln_in_parallel_attn", None)
    if not new and count == 2:
        raise ConfigError(
            "num_ln_in_parallel_attn: 2 is not understood without new_decoder_architecture (transformers applies neither norm)"
        )
    if config.pop("alibi", False):
        config["rope_parameters"] = None
        config["alibi"] = {"kind": "alibi-rounded", "heads": heads, "scale": (config.get("hidden_size", 0) // (heads or 1) or 1) ** -0.5}
    ordered = not new and not config.get("parallel_attn", True)
    config = with_layout(config, ORDERED if ordered else TWO_NORMS if new and count in (None, 2) else ONE_NORM)
    config["num_kv_heads"] = (config.get("num_kv_heads") or heads) if new or not config.get("multi_query", True) else 1
    config["ffn_hidden_size"] = config.get("ffn_hidden_size") or 4 * config.get("hidden_size", 0) or None
    return {"bias": False} | config


def whole(config: dict[str, Any]) -> dict[str, Any]:
    layout, groups, bias = pop_layout(config), config["num_kv_heads"], config["alibi"]
    new = layout == TWO_NORMS or 1 < groups < config["num_attention_heads"]
    if new and layout == ORDERED:
        raise ConfigError(f"kv_heads = {groups}: Falcon has several only where attention and feed-forward are side by side")
    if config["rope_parameters"]:
        config = with_length(config)
    elif bias is None:
        raise ConfigError("rotary = None (Falcon has rotary positions, or ALiBi)")
    norms = {TWO_NORMS: 2, ONE_NORM: 1}[layout] if new else None
    said = {"new_decoder_architecture": new, "num_ln_in_parallel_attn": norms, "multi_query": groups == 1}
    return config | said | {"parallel_attn": layout != ORDERED, "alibi": bias is not None}


def read_some_rotary(rope: dict[str, Any] | None) -> dict[str, Any] | None:
    return read_rotary(rope) if rope is not None else None


def write_some_rotary(rotary: dict[str, Any] | None) -> dict[str, Any] | None:
    return write_rotary(rotary) if rotary is not None else None


def body(config: ModelConfig) -> Iterator[Row]:
    assert config.decoder is not None
    attn = attention_of(config.decoder)
    groups = attn["kv_heads"] or attn["heads"]
    yield Row("word_embeddings.weight", "frontend.tokens.weight")
    yield from in_either_layout(Row(f"{LAYER}.input_layernorm.{{p}}", f"{BLOCK}.attn.norm_in.{{p}}"))
    yield Row(f"{LAYER}.post_attention_layernorm.{{p}}", f"{BLOCK}.ffn.norm_in.{{p}}")
    yield Row(f"{LAYER}.ln_attn.{{p}}", f"{BLOCK}.{BRANCHES}.attn.norm_in.{{p}}")
    yield Row(f"{LAYER}.ln_mlp.{{p}}", f"{BLOCK}.{BRANCHES}.ffn.norm_in.{{p}}")
    qkv = tuple(f"{BLOCK}.attn.mixer.{part}.{{p}}" for part in "qkv")
    split = SplitByHead(groups, (attn["heads"] // groups, 1, 1))
    yield from in_either_layout(Row(f"{LAYER}.self_attention.query_key_value.{{p}}", qkv, split))
    yield from in_either_layout(Row(f"{LAYER}.self_attention.dense.{{p}}", f"{BLOCK}.attn.mixer.out.{{p}}"))
    yield from in_either_layout(Row(f"{LAYER}.mlp.dense_h_to_4h.{{p}}", f"{BLOCK}.ffn.mixer.up.{{p}}"))
    yield from in_either_layout(Row(f"{LAYER}.mlp.dense_4h_to_h.{{p}}", f"{BLOCK}.ffn.mixer.out.{{p}}"))
    yield Row("ln_f.{p}", "decoder.norm.{p}")


register(
    Family(
        kind="falcon",
        template={
            "frontend": {"kind": "tokens", "dropout": 0.0},
            "decoder": {"placement": "none", "final_norm": True, "norm": {"kind": "layer"}},
        },
        keys=keys_in_either_layout(
            layout_key({"kind": "attention", "causal": True}, {"kind": "feed-forward"}, "pre"),
            Key("vocab_size", "frontend.vocab"),
            Key("hidden_size", "width"),
            Key("num_hidden_layers", "layers"),
            Key("num_attention_heads", f"{ATTN}.heads"),
            Key("num_kv_heads", f"{ATTN}.kv_heads"),
            Key("ffn_hidden_size", f"{FFN}.hidden"),
            Key("activation", f"{FFN}.activation", "gelu", ACTIVATIONS),
            Key("hidden_dropout", ("dropout", f"{INSIDE}.attn.dropout", f"{INSIDE}.ffn.dropout"), 0.0),
            Key("attention_dropout", (f"{ATTN}.dropout", "decoder.blocks.*.sublayers.attn.dropout"), 0.0),
            Key("layer_norm_epsilon", "decoder.norm.eps", 1e-5),
            Key("bias", (f"{ATTN}.bias", f"{ATTN}.out_bias", f"{FFN}.bias"), False),
            Key("rope_parameters", f"{ATTN}.rotary", None, Code(read_some_rotary, write_some_rotary)),
            Key("alibi", "decoder.bias", None),
        ),
        body=body,
        heads=[language("FalconForCausalLM"), *decoder_heads("Falcon", tags="classifier", answers="transformer.")],
        prefix="transformer.",
        like={"max_position_embeddings": 2048},
        harmless=("new_decoder_architecture", "multi_query", "parallel_attn", "classifier_dropout", "num_ln_in_parallel_attn"),
        older=older,
        whole=whole,
    )
)
