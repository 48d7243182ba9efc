"""SigLIP (Zhai et al. 2023): texts read whole, filled up with [PAD] to the greatest length, as the vector of their last place; pictures as
what a learned query attends to. Pairs are scored by a sigmoid, each alone."""

from typing import Any

from attentif.hub.families.bert import ACTIVATIONS
from attentif.hub.families.towers import (
    FRONT,
    HARMLESS_TOO,
    OF_PICTURES,
    OF_TEXT,
    OFTEN,
    TEXT,
    UNREAD,
    VISION,
    TowerDefaults,
    both_rows,
    flatten,
    mean_head,
    nest,
    picture_keys,
    picture_rows,
    pictures_of,
    read_elsewhere,
    stack,
    text_keys,
    text_rows,
    with_places,
    without_places,
)
from attentif.hub.families.vit import without_width
from attentif.hub.family import Family, HeadOf, register
from attentif.hub.keys import Always, Key
from attentif.hub.rows import Row

DEFAULTS = TowerDefaults("gelu_pytorch_tanh", 1e-6, 16, 32000, 12, 768, 3072, 64)
TEXTS: dict[str, Any] = {"dropout": 0.0, "frontend": {"kind": "tokens", "position": {"kind": "learned"}}, "encoder": stack()}
PICTURES: dict[str, Any] = {"dropout": 0.0, "frontend": FRONT, "encoder": stack()}
LAST: dict[str, Any] = {"kind": "embed", "pool": "last", "projection_bias": True}
PROBED: dict[str, Any] = {"kind": "embed", "pool": "mean"}
UNREAD_HEAD = tuple(
    f"head.{name}"
    for name in (
        *("probe", "attention.in_proj_weight", "attention.in_proj_bias"),
        *(f"{part}.{kind}" for part in ("attention.out_proj", "layernorm", "mlp.fc1", "mlp.fc2") for kind in ("weight", "bias")),
    )
)
CLASSES = {"siglip": ("Model", "ForImageClassification"), "siglip_text_model": ("TextModel",), "siglip_vision_model": ("VisionModel",)}


def text_body(theirs: str) -> list[Row]:
    return [*text_rows(theirs, "encoder"), Row(f"{theirs}head.{{p}}", "head.projection.{p}")]


def with_projection(config: dict[str, Any], said: str) -> dict[str, Any]:
    """The width of the texts' vectors: that of the tower, where nothing is said."""
    size = config.get(f"{said}projection_size") or config.get(f"{said}hidden_size", DEFAULTS.width)
    return config | {f"{said}projection_size": size}


def with_probe(config: dict[str, Any], said: str) -> dict[str, Any]:
    """The learned query, as it is built of the sizes of the tower; none where `vision_use_head` says so."""
    find = lambda key, usual: config.get(f"{said}{key}", usual)
    if not find("vision_use_head", True):
        return config | {f"{said}probe": None}
    activation = ACTIVATIONS.read(find("hidden_act", DEFAULTS.activation))
    ffn = {"kind": "feed-forward", "hidden": find("intermediate_size", 3072), "activation": activation}
    norm = {"kind": "layer", "eps": find("layer_norm_eps", DEFAULTS.eps)}
    return config | {f"{said}probe": {"heads": find("num_attention_heads", 12), "norm": norm, "ffn": ffn}}


def settle_pictures(config: dict[str, Any], said: str) -> dict[str, Any]:
    return with_probe(with_places(config, said, DEFAULTS.patch, False), said)


def settle_both(config: dict[str, Any]) -> dict[str, Any]:
    return settle_pictures(with_projection(flatten(flatten(config, "text_config"), "vision_config"), TEXT), VISION)


def write_pictures(config: dict[str, Any], said: str) -> dict[str, Any]:
    return without_places(config | {f"{said}vision_use_head": config.get(f"{said}probe") is not None}, said)


CLASSIFIER = Family(
    kind="siglip",
    template=PICTURES,
    keys=picture_keys(VISION, "", (), DEFAULTS),
    body=lambda config: picture_rows(config, ""),
    heads=[mean_head("SiglipForImageClassification", 0, UNREAD_HEAD)],
    prefix=OF_PICTURES,
    ignored=UNREAD,
    harmless=HARMLESS_TOO,
    older=lambda config: with_places(flatten(pictures_of(config), "vision_config"), VISION, DEFAULTS.patch, False),
    whole=lambda config: nest(write_pictures(config, VISION)),
)
register(
    Family(
        kind="siglip",
        template=TEXTS | {"tower": PICTURES | {"head": PROBED | {"normalise": True}}},
        keys=[
            *text_keys(TEXT, "encoder", DEFAULTS),
            Key(f"{TEXT}projection_size", "head.projection"),
            *picture_keys(VISION, "tower.", (), DEFAULTS),
            Key(f"{VISION}probe", "tower.head.probe"),
            Always(f"{VISION}vision_use_head", True),
        ],
        body=both_rows(text_body(OF_TEXT)),
        heads=[
            HeadOf(
                "SiglipModel",
                LAST | {"normalise": True, "similarity": "sigmoid"},
                [Row("logit_scale", "head.log_scale"), Row("logit_bias", "head.offset")],
            )
        ],
        ignored=UNREAD,
        harmless=HARMLESS_TOO,
        left_out=read_elsewhere("siglip", "Siglip", CLASSES),
        older=settle_both,
        whole=lambda config: nest(write_pictures(config, VISION)),
        others=[CLASSIFIER],
    ),
    Family(
        kind="siglip_text_model",
        template=TEXTS,
        keys=[*text_keys("", "encoder", DEFAULTS), Key("projection_size", "head.projection")],
        body=text_body(""),
        heads=[HeadOf("SiglipTextModel", LAST, prefix="")],
        prefix=OF_TEXT,
        ignored=UNREAD,
        harmless=OFTEN,
        left_out=read_elsewhere("siglip_text_model", "Siglip", CLASSES),
        older=lambda config: with_projection(dict(config), ""),
    ),
    Family(
        kind="siglip_vision_model",
        template=PICTURES,
        keys=[*picture_keys("", "", (), DEFAULTS), Key("probe", "head.probe")],
        body=lambda config: picture_rows(config, ""),
        heads=[HeadOf("SiglipVisionModel", PROBED, prefix="")],
        prefix=OF_PICTURES,
        ignored=UNREAD,
        harmless=OFTEN,
        left_out=read_elsewhere("siglip_vision_model", "Siglip", CLASSES),
        older=lambda config: settle_pictures(dict(config), ""),
        whole=lambda config: without_width(write_pictures(config, "")),
    ),
)
