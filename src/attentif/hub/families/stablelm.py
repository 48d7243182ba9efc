"""StableLM (Stability AI 2023): LLaMA with LayerNorm, a part of each head turned, and biases in queries, keys and values if asked for.

StableLM 2 12B normalises queries and keys, each head with a gain of its own, and has attention and feed-forward side by side.
"""

from collections.abc import Iterator
from typing import Any

from attentif.errors import ConfigError
from attentif.hub.families.gpt_neox import read_partial, write_partial
from attentif.hub.families.llama import ATTN, KEYS, ROWS, TEMPLATE, with_length, with_rope, without_block
from attentif.hub.families.residuals import (
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
from attentif.hub.rows import Row, StackedTensors
from attentif.models import ModelConfig

OWN = ("rope_parameters", "head_dim")


def with_quarter(config: dict[str, object]) -> dict[str, object]:
    """A quarter of each head is turned where nothing is said; `rope_pct` is an older name."""
    config = with_rope(config)
    rope = config["rope_parameters"]
    assert isinstance(rope, dict)
    rope.setdefault("partial_rotary_factor", config.pop("rope_pct", 0.25))
    if config.pop("qk_layernorm", False):
        norm = {"kind": "layer", "bias": False, "eps": config.get("layer_norm_eps", 1e-5)}
        config |= {"qk_layernorm": norm, "qk_norm_of": "own"}
    return with_layout(config, ONE_NORM if config.pop("use_parallel_residual", False) else ORDERED)


def whole(config: dict[str, Any]) -> dict[str, Any]:
    layout = pop_layout(config)
    if layout == TWO_NORMS:
        raise ConfigError("blocks: attention and feed-forward, side by side, have a norm each (only one norm for both)")
    del config["qk_norm_of"]
    return with_length(config) | {"use_parallel_residual": layout == ONE_NORM, "qk_layernorm": config["qk_layernorm"] is not None}


def body(config: ModelConfig) -> Iterator[Row]:
    assert config.decoder is not None
    attn = attention_of(config.decoder)
    counts = {"q": attn["heads"], "k": attn["kv_heads"] or attn["heads"]}
    for row in ROWS:
        if row.theirs.endswith(("q_norm.weight", "k_norm.weight")):  # by other names, below
            continue
        theirs, ours = (name.replace(".weight", ".{p}") if "norm" in row.theirs else name for name in (row.theirs, str(row.ours)))
        yield from in_either_layout(Row(theirs, ours))
    for part, count in counts.items():
        ours = f"decoder.blocks.{{i}}.attn.mixer.{part}_norm.weight"
        yield from in_either_layout(Row(f"layers.{{i}}.self_attn.{part}_layernorm.norms.{{e}}.weight", ours, StackedTensors(count)))


register(
    Family(
        kind="stablelm",
        template=without_block(TEMPLATE | {"decoder": TEMPLATE["decoder"] | {"norm": {"kind": "layer"}}}),
        keys=keys_in_either_layout(
            layout_key(*(TEMPLATE["decoder"]["block"][name]["mixer"] for name in ("attn", "ffn"))),
            *(key for key in KEYS if key.theirs not in OWN),
            Key("intermediate_size", "decoder.block.ffn.mixer.hidden"),
            Key("rope_parameters", f"{ATTN}.rotary", None, Code(read_partial, write_partial)),
            Key("layer_norm_eps", "decoder.norm.eps", 1e-5),
            Key("use_qkv_bias", f"{ATTN}.bias", False),
            Key("hidden_dropout", "decoder.block.ffn.dropout", 0.0),
            Key("qk_layernorm", f"{ATTN}.qk_norm", None),
            Key("qk_norm_of", f"{ATTN}.qk_norm_of", "head"),
        ),
        body=body,
        heads=[
            language("StableLmForCausalLM"),
            *decoder_heads("StableLm", only=("ForSequenceClassification", "ForTokenClassification", "Model")),
        ],
        prefix="model.",
        ignored=("rotary_emb.inv_freq",),
        tied=False,
        like={"max_position_embeddings": 4096},
        harmless=("classifier_dropout",),
        defaults={"num_key_value_heads": 32},
        older=with_quarter,
        whole=whole,
    )
)
