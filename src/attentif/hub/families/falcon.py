"""Falcon (Almazrouei et al. 2023): attention and feed-forward side by side, behind one norm or one each, few heads of keys and values."""

from collections.abc import Iterator
from typing import Any

from attentif.errors import ConfigError
from attentif.hub.families.bert import ACTIVATIONS
from attentif.hub.families.llama import read_rotary, with_length, with_rope, write_rotary
from attentif.hub.family import Family, register
from attentif.hub.heads import decoder_heads, language
from attentif.hub.keys import Always, Code, Key
from attentif.hub.rows import Row, SplitByHead
from attentif.models import ModelConfig

BRANCHES = "decoder.block.both.mixer.branches"
ATTN, FFN = f"{BRANCHES}.attn.mixer", f"{BRANCHES}.ffn.mixer"
LAYER, BLOCK = "h.{i}", "decoder.blocks.{i}.both"


def norms(count: int) -> dict[str, Any]:
    """The block with one norm before both branches, or one before each."""
    inside = {"placement": "pre" if count == 2 else "none"}
    return {
        "placement": "none" if count == 2 else "pre",
        "dropout": 0.0,
        "mixer": {
            "kind": "parallel",
            "branches": {
                "attn": {**inside, "mixer": {"kind": "attention", "causal": True}},
                "ffn": {**inside, "mixer": {"kind": "feed-forward"}},
            },
        },
    }


def older(config: dict[str, Any]) -> dict[str, Any]:
    """The number of norms and of heads of keys and values follow from two other keys."""
    config = with_rope(config)
    new, heads = config.get("new_decoder_architecture", False), config.get("num_attention_heads")
    count = config.pop("num_ln_in_parallel_attn", None)
    if not new and not config.get("parallel_attn", True):
        raise ConfigError("parallel_attn: False is not understood (only True)")
    if not new and count == 2:
        raise ConfigError(
            "num_ln_in_parallel_attn: 2 is not understood without new_decoder_architecture (transformers applies neither norm)"
        )
    config["norms"] = 2 if new and count is None else count or 1
    config["num_kv_heads"] = (config.get("num_kv_heads") or heads) if new or not config.get("multi_query", True) else 1
    config["ffn_hidden_size"] = config.get("ffn_hidden_size") or 4 * config.get("hidden_size", 0) or None
    return {"bias": False} | config


def whole(config: dict[str, Any]) -> dict[str, Any]:
    count, groups = config.pop("norms"), config["num_kv_heads"]
    new = count == 2 or 1 < groups < config["num_attention_heads"]
    said = {"new_decoder_architecture": new, "num_ln_in_parallel_attn": count if new else None, "multi_query": groups == 1}
    return with_length(config) | said | {"parallel_attn": True, "alibi": False}


def body(config: ModelConfig) -> Iterator[Row]:
    assert config.decoder is not None
    attn = config.decoder.block["both"].mixer.model_dump()["branches"]["attn"]["mixer"]
    groups = attn["kv_heads"] or attn["heads"]
    inside = f"{BLOCK}.mixer.branches"
    qkv = tuple(f"{inside}.attn.mixer.{part}.{{p}}" for part in "qkv")
    yield Row("word_embeddings.weight", "frontend.tokens.weight")
    yield Row(f"{LAYER}.input_layernorm.{{p}}", f"{BLOCK}.norm_in.{{p}}")
    yield Row(f"{LAYER}.ln_attn.{{p}}", f"{inside}.attn.norm_in.{{p}}")
    yield Row(f"{LAYER}.ln_mlp.{{p}}", f"{inside}.ffn.norm_in.{{p}}")
    yield Row(f"{LAYER}.self_attention.query_key_value.{{p}}", qkv, SplitByHead(groups, (attn["heads"] // groups, 1, 1)))
    yield Row(f"{LAYER}.self_attention.dense.{{p}}", f"{inside}.attn.mixer.out.{{p}}")
    yield Row(f"{LAYER}.mlp.dense_h_to_4h.{{p}}", f"{inside}.ffn.mixer.up.{{p}}")
    yield Row(f"{LAYER}.mlp.dense_4h_to_h.{{p}}", f"{inside}.ffn.mixer.out.{{p}}")
    yield Row("ln_f.{p}", "decoder.norm.{p}")


register(
    Family(
        kind="falcon",
        template={
            "frontend": {"kind": "tokens", "dropout": 0.0},
            "decoder": {"placement": "none", "final_norm": True, "norm": {"kind": "layer"}, "block": {}},
        },
        keys=[
            Key("norms", "decoder.block.both", code=Code(norms, lambda both: 2 if both["placement"] == "none" else 1)),
            Key("vocab_size", "frontend.vocab"),
            Key("hidden_size", "width"),
            Key("num_hidden_layers", "layers"),
            Key("num_attention_heads", f"{ATTN}.heads"),
            Key("num_kv_heads", f"{ATTN}.kv_heads"),
            Key("ffn_hidden_size", f"{FFN}.hidden"),
            Key("activation", f"{FFN}.activation", "gelu", ACTIVATIONS),
            Key("hidden_dropout", ("dropout", f"{BRANCHES}.attn.dropout", f"{BRANCHES}.ffn.dropout"), 0.0),
            Key("attention_dropout", f"{ATTN}.dropout", 0.0),
            Key("layer_norm_epsilon", "decoder.norm.eps", 1e-5),
            Key("bias", (f"{ATTN}.bias", f"{ATTN}.out_bias", f"{FFN}.bias"), False),
            Key("rope_parameters", f"{ATTN}.rotary", None, Code(read_rotary, write_rotary)),
            Always("alibi", False),
        ],
        body=body,
        heads=[language("FalconForCausalLM"), *decoder_heads("Falcon", tags="classifier", answers="transformer.")],
        prefix="transformer.",
        like={"max_position_embeddings": 2048},
        harmless=("new_decoder_architecture", "multi_query", "parallel_attn", "classifier_dropout", "num_ln_in_parallel_attn"),
        older=older,
        whole=whole,
    )
)
