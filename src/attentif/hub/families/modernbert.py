"""ModernBERT (Warner et al. 2024): an encoder with rotary positions, gated feed-forward networks, and windows in two blocks of three."""

from typing import Any

from attentif.errors import ConfigError
from attentif.hub.families.bert import ACTIVATIONS
from attentif.hub.families.llama import FULL, GATES, SLIDING, read_rotary, write_rotary
from attentif.hub.family import Family, HeadOf, register
from attentif.hub.heads import CHOICES, bare
from attentif.hub.keys import Key, words
from attentif.hub.layers import layers_key
from attentif.hub.rows import Row, SplitParts

INSIDE = "encoder.blocks.*.sublayers"
ATTN, FFN = f"{INSIDE}.attn.mixer", f"{INSIDE}.ffn.mixer"
LAYER, BLOCK = "layers.{i}", "encoder.blocks.{i}"
THETA = {SLIDING: "local_rope_theta", FULL: "global_rope_theta"}


def older(config: dict[str, Any]) -> dict[str, Any]:
    """An entry for each layer: the first, which nothing normalises; tokens that it sees on each side; its rotary positions."""
    layers, every = config.get("num_hidden_layers", 0), config.pop("global_attn_every_n_layers", 3)
    types = config.pop("layer_types", None) or [SLIDING if number % every else FULL for number in range(layers)]
    side = config.pop("local_attention", 128) // 2
    said, scaling = config.pop("rope_parameters", None) or {}, config.pop("rope_scaling", None) or {}
    if odd := {*types, *said} - {*THETA}:
        raise ConfigError(f"layer_types: {min(odd)!r} is not understood (only {SLIDING}, {FULL})")
    usual = {SLIDING: config.pop("local_rope_theta", None) or 10_000.0, FULL: config.pop("global_rope_theta", 160_000.0)}
    ropes = {kind: {"rope_theta": usual[kind]} | (said.get(kind) or {}) | scaling for kind in THETA}
    config["blocks"] = [
        {"first": number == 0, "side": side if kind == SLIDING else None, "rope": ropes[kind]} for number, kind in enumerate(types)
    ]
    return config


def whole(config: dict[str, Any]) -> dict[str, Any]:
    blocks = config.pop("blocks")
    if [block["first"] for block in blocks] != [number == 0 for number in range(len(blocks))]:
        raise ConfigError("a norm before the first block's attention, or none before another's")
    types = [FULL if block["side"] is None else SLIDING for block in blocks]
    sides = {block["side"] for block in blocks if block["side"] is not None}
    ropes = {kind: [block["rope"] for block, own in zip(blocks, types, strict=True) if own == kind] for kind in THETA}
    if len(sides) > 1 or any(rope != own[0] for own in ropes.values() for rope in own):
        raise ConfigError("windows of several sizes, or several rotary bases among blocks of one kind")
    return config | {
        "layer_types": types,
        "local_attention": 2 * next(iter(sides), 64),
        "rope_parameters": {kind: own[0] for kind, own in ropes.items() if own},
    }


def read_block(entry: dict[str, Any]) -> dict[str, Any]:
    side = entry["side"]
    pattern = [] if side is None else [{"kind": "window", "left": side, "right": side}]
    attn = {"kind": "attention", "pattern": pattern, "rotary": read_rotary(entry["rope"])}
    return {
        "attn": {"placement": "none" if entry["first"] else None, "mixer": attn},
        "ffn": {"mixer": {"kind": "feed-forward"}, "dropout": 0.0},
    }


def write_block(sublayers: Any) -> dict[str, Any]:
    attn = sublayers["attn"]
    pattern = attn["mixer"]["pattern"]
    side = pattern[0]["left"] if pattern else None
    return {"first": attn["placement"] == "none", "side": side, "rope": write_rotary(attn["mixer"]["rotary"])}


BEFORE = [
    Key("classifier_bias", "head.hidden_bias", False),
    Key("norm_bias", "head.hidden_norm.bias", False),
    Key("norm_eps", "head.hidden_norm.eps", 1e-5),
    Key("classifier_activation", "head.activation", "gelu", ACTIVATIONS),
    Key("classifier_dropout", "head.dropout", 0.0),
]
BEFORE_ROWS = [Row("head.dense.{p}", "head.hidden.{p}"), Row("head.norm.{p}", "head.norm.{p}"), Row("classifier.{p}", "head.out.{p}")]
HIDDEN = {"hidden": True, "hidden_norm": {"kind": "layer"}}
register(
    Family(
        kind="modernbert",
        template={
            "dropout": 0.0,
            "frontend": {"kind": "tokens", "norm": {"kind": "layer"}},
            "encoder": {"placement": "pre", "norm": {"kind": "layer"}},
        },
        keys=[
            layers_key("encoder.blocks", read_block, write_block),
            Key("vocab_size", "frontend.vocab"),
            Key("hidden_size", "width"),
            Key("num_hidden_layers", "layers"),
            Key("num_attention_heads", f"{ATTN}.heads"),
            Key("intermediate_size", f"{FFN}.hidden"),
            Key("hidden_activation", f"{FFN}.activation", "gelu", GATES),
            Key("norm_eps", ("frontend.norm.eps", "encoder.norm.eps"), 1e-5),
            Key("norm_bias", ("frontend.norm.bias", "encoder.norm.bias"), False),
            Key("attention_bias", (f"{ATTN}.bias", f"{ATTN}.out_bias"), False),
            Key("mlp_bias", f"{FFN}.bias", False),
            Key("attention_dropout", (f"{ATTN}.dropout", f"{INSIDE}.attn.dropout"), 0.0),
            Key("mlp_dropout", f"{FFN}.dropout", 0.0),
            Key("embedding_dropout", "frontend.dropout", 0.0),
        ],
        body=[
            Row("embeddings.tok_embeddings.weight", "frontend.tokens.weight"),
            Row("embeddings.norm.{p}", "frontend.norm.{p}"),
            Row(f"{LAYER}.attn_norm.{{p}}", f"{BLOCK}.attn.norm_in.{{p}}"),
            Row(f"{LAYER}.attn.Wqkv.{{p}}", tuple(f"{BLOCK}.attn.mixer.{part}.{{p}}" for part in "qkv"), SplitParts(3)),
            Row(f"{LAYER}.attn.Wo.{{p}}", f"{BLOCK}.attn.mixer.out.{{p}}"),
            Row(f"{LAYER}.mlp_norm.{{p}}", f"{BLOCK}.ffn.norm_in.{{p}}"),
            Row(f"{LAYER}.mlp.Wi.{{p}}", (f"{BLOCK}.ffn.mixer.gate.{{p}}", f"{BLOCK}.ffn.mixer.up.{{p}}"), SplitParts(2)),
            Row(f"{LAYER}.mlp.Wo.{{p}}", f"{BLOCK}.ffn.mixer.out.{{p}}"),
            Row("final_norm.{p}", "encoder.norm.{p}"),
        ],
        heads=[
            HeadOf(
                "ModernBertForMaskedLM",
                {"kind": "language", "transform": {"kind": "layer"}},
                [
                    Row("head.dense.{p}", "head.transform.{p}"),
                    Row("head.norm.{p}", "head.norm.{p}"),
                    Row("decoder.weight", "head.linear.weight"),
                    Row("decoder.bias", "head.bias"),
                ],
                [
                    Key("classifier_bias", "head.transform_bias", False),
                    Key("norm_bias", "head.transform.bias", False),
                    Key("norm_eps", "head.transform.eps", 1e-5),
                    Key("classifier_activation", "head.activation", "gelu", ACTIVATIONS),
                    Key("decoder_bias", "head.bias", True),
                ],
                task="masked",
            ),
            HeadOf(
                "ModernBertForSequenceClassification",
                {"kind": "classify", "classes": None, **HIDDEN},
                BEFORE_ROWS,
                [*BEFORE, Key("classifier_pooling", "head.pool", "cls", words(cls="first", mean="mean"))],
                task="classify",
            ),
            HeadOf("ModernBertForTokenClassification", {"kind": "tokens", "classes": None, **HIDDEN}, BEFORE_ROWS, BEFORE, task="tag"),
            HeadOf("ModernBertForQuestionAnswering", {"kind": "span", **HIDDEN}, BEFORE_ROWS, BEFORE, task="answer"),
            bare("ModernBertModel"),
        ],
        prefix="model.",
        like={"max_position_embeddings": 8192},
        harmless=(
            "classifier_activation", "classifier_bias", "classifier_dropout", "classifier_pooling", "cls_token_id", "decoder_bias",
            "deterministic_flash_attn", "initializer_cutoff_factor", "sparse_pred_ignore_index", "sparse_prediction",
        ),
        left_out={"ModernBertForMultipleChoice": CHOICES},
        older=older,
        whole=whole,
    )
)  # fmt: skip
