"""GPT-NeoX (Black et al. 2022) and Pythia: attention and feed-forward read the same input, each behind a norm of its own.

Others come one after the other (`use_parallel_residual`: rinna's Japanese ones).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from attentif.errors import ConfigError
from attentif.hub.families.bert import ACTIVATIONS
from attentif.hub.families.llama import read_rotary, write_rotary
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
LAYER, BLOCK, INSIDE = "layers.{i}", "decoder.blocks.{i}", f"decoder.blocks.*.sublayers.{BRANCHES}"


def read_partial(rope: Mapping[str, Any]) -> dict[str, Any]:
    """A quarter of each head is turned, say."""
    share = float(rope.get("partial_rotary_factor", 1.0))
    return read_rotary({key: value for key, value in rope.items() if key != "partial_rotary_factor"}) | {"fraction": share}


def write_partial(rotary: Mapping[str, Any]) -> dict[str, Any]:
    return write_rotary(rotary) | {"partial_rotary_factor": rotary["fraction"]}


def older(config: dict[str, Any]) -> dict[str, Any]:
    """The keys of the rotary part were apart: `rotary_pct`, `rotary_emb_base`, `rope_scaling`; some by two names."""
    scaling, theta = config.pop("rope_scaling", None), config.pop("rope_theta", 10000.0)
    theta, share = config.pop("rotary_emb_base", theta), config.pop("partial_rotary_factor", 0.25)
    share = config.pop("rotary_pct", share)
    if "rope_parameters" not in config:
        config["rope_parameters"] = dict(scaling or {}) | {"rope_theta": theta, "partial_rotary_factor": share}
    return with_layout(config, TWO_NORMS if config.pop("use_parallel_residual", True) else ORDERED)


def whole(config: dict[str, Any]) -> dict[str, Any]:
    if (layout := pop_layout(config)) == ONE_NORM:
        raise ConfigError("blocks: attention and feed-forward, side by side, have one norm for both (only one each)")
    return config | {"use_parallel_residual": layout == TWO_NORMS}


def body(config: ModelConfig) -> Iterator[Row]:
    assert config.decoder is not None
    heads = attention_of(config.decoder)["heads"]
    qkv = tuple(f"{BLOCK}.attn.mixer.{part}.{{p}}" for part in "qkv")
    yield Row("embed_in.weight", "frontend.tokens.weight")
    yield Row("final_layer_norm.{p}", "decoder.norm.{p}")
    for inside in ("", f"{BRANCHES}."):
        yield Row(f"{LAYER}.input_layernorm.{{p}}", f"{BLOCK}.{inside}attn.norm_in.{{p}}")
        yield Row(f"{LAYER}.post_attention_layernorm.{{p}}", f"{BLOCK}.{inside}ffn.norm_in.{{p}}")
    yield from in_either_layout(Row(f"{LAYER}.attention.query_key_value.{{p}}", qkv, SplitByHead(heads)))
    yield from in_either_layout(Row(f"{LAYER}.attention.dense.{{p}}", f"{BLOCK}.attn.mixer.out.{{p}}"))
    yield from in_either_layout(Row(f"{LAYER}.mlp.dense_h_to_4h.{{p}}", f"{BLOCK}.ffn.mixer.up.{{p}}"))
    yield from in_either_layout(Row(f"{LAYER}.mlp.dense_4h_to_h.{{p}}", f"{BLOCK}.ffn.mixer.out.{{p}}"))


register(
    Family(
        kind="gpt_neox",
        template={
            "frontend": {"kind": "tokens"},
            "decoder": {
                "placement": "none",
                "final_norm": True,
                "norm": {"kind": "layer"},
            },
        },
        keys=keys_in_either_layout(
            layout_key({"kind": "attention", "causal": True}, {"kind": "feed-forward"}, "pre", around=None),
            Key("vocab_size", "frontend.vocab"),
            Key("hidden_size", "width"),
            Key("num_hidden_layers", "layers"),
            Key("num_attention_heads", f"{ATTN}.heads"),
            Key("intermediate_size", f"{FFN}.hidden"),
            Key("hidden_act", f"{FFN}.activation", "gelu", ACTIVATIONS),
            Key("hidden_dropout", ("dropout", f"{INSIDE}.attn.dropout", f"{INSIDE}.ffn.dropout"), 0.0),
            Key("attention_dropout", f"{ATTN}.dropout", 0.0),
            Key("layer_norm_eps", "decoder.norm.eps", 1e-5),
            Key("attention_bias", (f"{ATTN}.bias", f"{ATTN}.out_bias"), True),
            Key("rope_parameters", f"{ATTN}.rotary", code=Code(read_partial, write_partial)),
        ),
        body=body,
        heads=[language("GPTNeoXForCausalLM", "embed_out"), *decoder_heads("GPTNeoX", tags="classifier", answers=None)],
        prefix="gpt_neox.",
        ignored=(".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"),
        tied=False,
        like={"max_position_embeddings": 2048},
        harmless=("classifier_dropout",),
        older=older,
        whole=whole,
    )
)
