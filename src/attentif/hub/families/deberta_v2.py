"""DeBERTa v2 and v3 (He et al. 2021): BERT whose attention scores contents and distances apart, mDeBERTa and CamemBERTa among them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from attentif.errors import ConfigError
from attentif.hub.families.bert import (
    ACTIVATIONS,
    IGNORED,
    KEYS,
    LIKE_THE_BLOCKS,
    PREDICTIONS,
    ROWS,
    TEMPLATE,
    classifier,
    common_heads,
    masked_head,
)
from attentif.hub.family import Family, register
from attentif.hub.heads import CHOICES
from attentif.hub.keys import Always, Code, Key
from attentif.hub.rows import Row

ATTN = "encoder.block.attn.mixer"
SELF, MIXER = "encoder.layer.{i}.attention.self", "encoder.blocks.{i}.attn.mixer"
TERMS = {"c2p": "content-to-position", "p2c": "position-to-content"}


def read_terms(given: str | list[str] | None) -> list[str]:
    names = [name.strip().lower() for name in given.split("|")] if isinstance(given, str) else list(given or ())
    if odd := [name for name in names if name not in TERMS]:
        raise ConfigError(f"{odd[0]!r} is not understood (only {', '.join(TERMS)})")
    return [ours for theirs, ours in TERMS.items() if theirs in names]


def write_terms(terms: Any) -> list[str]:
    return [theirs for theirs, ours in TERMS.items() if ours in terms]


def older(config: dict[str, Any]) -> dict[str, Any]:
    """Sizes of the table of distances, which follow from three keys; a norm of theirs."""
    if not config.pop("relative_attention", False):
        raise ConfigError("relative_attention: False is not understood (only True)")
    reach = config.pop("max_relative_positions", -1)
    reach = reach if reach >= 1 else config.get("max_position_embeddings", 512)
    buckets = config.pop("position_buckets", -1)
    norm = [word.strip() for word in str(config.pop("norm_rel_ebd", "none")).lower().split("|")]
    if odd := [word for word in norm if word not in ("none", "layer_norm")]:
        raise ConfigError(f"norm_rel_ebd: {odd[0]!r} is not understood (only none, layer_norm)")
    config["distances"] = {"span": buckets, "reach": reach} if buckets > 0 else {"span": reach, "reach": None}
    config["distances"]["norm"] = config["layer_norm_eps"] if "layer_norm" in norm else None
    if config.pop("position_biased_input", True):
        places = {"kind": "learned", "max_len": config.pop("max_position_embeddings", 512)}
    else:
        places = None
        config.pop("max_position_embeddings", None)
    config["places"] = places
    if (narrow := config.pop("embedding_size", None)) not in (None, config.get("hidden_size", narrow)):
        raise ConfigError(f"embedding_size: {narrow} is not understood (only hidden_size, {config['hidden_size']})")
    if config.get("hidden_size") and (head := config.pop("attention_head_size", None)) not in (
        None,
        config["hidden_size"] // config.get("num_attention_heads", 1),
    ):
        raise ConfigError(f"attention_head_size: {head} is not understood (only hidden_size / num_attention_heads)")
    if (pooled := config.pop("pooler_hidden_size", None)) not in (None, config.get("hidden_size", pooled)):
        raise ConfigError(f"pooler_hidden_size: {pooled} is not understood (only hidden_size, {config['hidden_size']})")
    return config


def whole(config: dict[str, Any]) -> dict[str, Any]:
    distances, places = config.pop("distances"), config.pop("places")
    buckets, reach = (-1, distances["span"]) if distances["reach"] is None else (distances["span"], distances["reach"])
    longest = places["max_len"] if places else config["max_position_embeddings"]
    said = {"relative_attention": True, "position_buckets": buckets, "max_relative_positions": reach, "max_position_embeddings": longest}
    said |= {"position_biased_input": places is not None, "pooler_hidden_size": config["hidden_size"]}
    return config | said | {"norm_rel_ebd": "none" if distances["norm"] is None else "layer_norm"}


def read_distances(said: Mapping[str, Any]) -> dict[str, Any]:
    norm = None if said["norm"] is None else {"kind": "layer", "eps": said["norm"]}
    return {"kind": "distances", "span": said["span"], "reach": said["reach"], "norm": norm}


def write_distances(bias: Mapping[str, Any]) -> dict[str, Any]:
    return {"span": bias["span"], "reach": bias["reach"], "norm": bias["norm"]["eps"] if bias["norm"] else None}


OWN = ("num_attention_heads", "hidden_size", "position_embedding_type")
HEADS_OF_TRAINING = ("lm_predictions.lm_head", "mask_predictions")  # what v3 was trained with, which nothing reads, there or here
UNUSED = tuple(
    f"{head}.{name}"
    for head in HEADS_OF_TRAINING
    for name in ("bias", *(f"{part}.{kind}" for part in ("dense", "LayerNorm", "classifier") for kind in ("weight", "bias")))
)
POOLER = [Key("cls_dropout", "head.dropout", None), Key("pooler_hidden_act", "head.activation", "gelu", ACTIVATIONS)]
MASKED = masked_head("DebertaV2ForMaskedLM", PREDICTIONS, [LIKE_THE_BLOCKS])
TAGS, ANSWERS, BARE = common_heads("DebertaV2")
register(
    Family(
        kind="deberta-v2",
        template={
            "frontend": {"kind": "tokens", "norm": {"kind": "layer"}},
            "encoder": TEMPLATE["encoder"]
            | {"block": {"attn": {"mixer": {"kind": "disentangled"}}, "ffn": {"mixer": {"kind": "feed-forward"}}}},
        },
        keys=[
            Key("distances", "encoder.bias", code=Code(read_distances, write_distances)),
            Key("places", "frontend.position", None),
            *(key for key in KEYS if key.theirs not in OWN),
            Key("hidden_size", ("width", "encoder.bias.width")),
            Key("num_attention_heads", (f"{ATTN}.heads", "encoder.bias.heads")),
            Key("pos_att_type", f"{ATTN}.terms", None, Code(read_terms, write_terms)),
            Key("share_att_key", f"{ATTN}.shared", False),
            Always("conv_kernel_size", 0),
        ],
        body=[
            *(row for row in ROWS if ".attention.self." not in row.theirs),
            Row("encoder.rel_embeddings.weight", "encoder.bias.table.weight"),
            Row("encoder.LayerNorm.{p}", "encoder.bias.norm.{p}"),
            Row(f"{SELF}.query_proj.{{p}}", f"{MIXER}.q.{{p}}"),
            Row(f"{SELF}.key_proj.{{p}}", f"{MIXER}.k.{{p}}"),
            Row(f"{SELF}.value_proj.{{p}}", f"{MIXER}.v.{{p}}"),
            Row(f"{SELF}.pos_key_proj.{{p}}", f"{MIXER}.distance_key.{{p}}"),
            Row(f"{SELF}.pos_query_proj.{{p}}", f"{MIXER}.distance_query.{{p}}"),
        ],
        heads=[
            replace(MASKED, keys=[*MASKED.keys, Always("legacy", True)]),
            classifier("DebertaV2ForSequenceClassification", {"pooler.dense": "hidden", "classifier": "out"}, "gelu", POOLER),
            TAGS,
            ANSWERS,
            replace(BARE, ignored=(*BARE.ignored, *UNUSED)),
        ],
        prefix="deberta.",
        ignored=(*IGNORED, "embeddings.position_embeddings.weight"),
        harmless=("classifier_dropout", "cls_dropout", "conv_act", "legacy", "pooler_dropout", "pooler_hidden_act", "pooler_hidden_size"),
        defaults={"layer_norm_eps": 1e-7, "type_vocab_size": 0},
        like={"max_position_embeddings": 512},
        older=older,
        whole=whole,
        unnamed="DebertaV2Model",
        left_out={"DebertaV2ForMultipleChoice": CHOICES},
    )
)
