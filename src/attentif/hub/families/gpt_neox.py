"""GPT-NeoX (Black et al. 2022) and Pythia: attention and feed-forward read the same input, each behind a norm of its own."""

from collections.abc import Iterator, Mapping
from typing import Any

from attentif.hub.families.bert import ACTIVATIONS
from attentif.hub.families.llama import read_rotary, write_rotary
from attentif.hub.family import Family, register
from attentif.hub.heads import decoder_heads, language
from attentif.hub.keys import Always, Code, Key
from attentif.hub.rows import Row, SplitByHead
from attentif.models import ModelConfig

BRANCHES = "decoder.block.both.mixer.branches"
ATTN, FFN = f"{BRANCHES}.attn.mixer", f"{BRANCHES}.ffn.mixer"
LAYER, BLOCK = "layers.{i}", "decoder.blocks.{i}.both.mixer.branches"


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
    return config


def body(config: ModelConfig) -> Iterator[Row]:
    assert config.decoder is not None
    heads = config.decoder.block["both"].mixer.model_dump()["branches"]["attn"]["mixer"]["heads"]
    qkv = tuple(f"{BLOCK}.attn.mixer.{part}.{{p}}" for part in "qkv")
    yield Row("embed_in.weight", "frontend.tokens.weight")
    yield Row("final_layer_norm.{p}", "decoder.norm.{p}")
    yield Row(f"{LAYER}.input_layernorm.{{p}}", f"{BLOCK}.attn.norm_in.{{p}}")
    yield Row(f"{LAYER}.attention.query_key_value.{{p}}", qkv, SplitByHead(heads))
    yield Row(f"{LAYER}.attention.dense.{{p}}", f"{BLOCK}.attn.mixer.out.{{p}}")
    yield Row(f"{LAYER}.post_attention_layernorm.{{p}}", f"{BLOCK}.ffn.norm_in.{{p}}")
    yield Row(f"{LAYER}.mlp.dense_h_to_4h.{{p}}", f"{BLOCK}.ffn.mixer.up.{{p}}")
    yield Row(f"{LAYER}.mlp.dense_4h_to_h.{{p}}", f"{BLOCK}.ffn.mixer.out.{{p}}")


PARALLEL = {
    "kind": "parallel",
    "branches": {
        "attn": {"placement": "pre", "mixer": {"kind": "attention", "causal": True}},
        "ffn": {"placement": "pre", "mixer": {"kind": "feed-forward"}},
    },
}
register(
    Family(
        kind="gpt_neox",
        template={
            "frontend": {"kind": "tokens"},
            "decoder": {
                "placement": "none",
                "final_norm": True,
                "norm": {"kind": "layer"},
                "block": {"both": {"mixer": PARALLEL, "dropout": 0.0}},
            },
        },
        keys=[
            Key("vocab_size", "frontend.vocab"),
            Key("hidden_size", "width"),
            Key("num_hidden_layers", "layers"),
            Key("num_attention_heads", f"{ATTN}.heads"),
            Key("intermediate_size", f"{FFN}.hidden"),
            Key("hidden_act", f"{FFN}.activation", "gelu", ACTIVATIONS),
            Key("hidden_dropout", ("dropout", f"{BRANCHES}.attn.dropout", f"{BRANCHES}.ffn.dropout"), 0.0),
            Key("attention_dropout", f"{ATTN}.dropout", 0.0),
            Key("layer_norm_eps", "decoder.norm.eps", 1e-5),
            Key("attention_bias", (f"{ATTN}.bias", f"{ATTN}.out_bias"), True),
            Key("rope_parameters", f"{ATTN}.rotary", code=Code(read_partial, write_partial)),
            Always("use_parallel_residual", True),
        ],
        body=body,
        heads=[language("GPTNeoXForCausalLM", "embed_out"), *decoder_heads("GPTNeoX", tags="classifier", answers=None)],
        prefix="gpt_neox.",
        ignored=(".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"),
        tied=False,
        like={"max_position_embeddings": 2048},
        harmless=("classifier_dropout",),
        older=older,
    )
)
