"""CLIP (Radford et al. 2021): texts from left to right, as the vector of their last token; pictures as that of their class token."""

from typing import Any

from attentif.hub.families.towers import (
    FRONT,
    HARMLESS_TOO,
    OF_PICTURES,
    OF_TEXT,
    OFTEN,
    SCALE,
    TEXT,
    UNREAD,
    VISION,
    TowerDefaults,
    both_rows,
    flatten,
    mean_head,
    nest,
    ones_for_norm,
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
from attentif.hub.keys import Key
from attentif.hub.rows import Row

DEFAULTS = TowerDefaults("quick_gelu", 1e-5, 32, 49408, 8, 512, 2048, 77)
TEXTS: dict[str, Any] = {
    "dropout": 0.0,
    "frontend": {"kind": "tokens", "position": {"kind": "learned"}},
    "decoder": stack(causal=True),
}
PICTURES: dict[str, Any] = {
    "dropout": 0.0,
    "frontend": FRONT | {"class_token": True, "bias": False, "norm": {"kind": "layer"}},
    "encoder": stack(norm=False),
}
FIRST: dict[str, Any] = {"kind": "embed", "pool": "first", "norm": {"kind": "layer"}}
LAST: dict[str, Any] = {"kind": "embed", "pool": "last"}
EPS = ("frontend.norm.eps", "head.norm.eps")
CLASSES = {
    "clip": ("Model", "ForImageClassification"),
    "clip_text_model": ("TextModel", "TextModelWithProjection"),
    "clip_vision_model": ("VisionModel", "VisionModelWithProjection"),
}


def settle_both(config: dict[str, Any]) -> dict[str, Any]:
    return with_places(flatten(flatten(config, "text_config"), "vision_config"), VISION, DEFAULTS.patch, True)


def nest_tables(config: dict[str, Any]) -> dict[str, Any]:
    return nest(without_places(config, VISION))


CLASSIFIER = Family(
    kind="clip",
    template=PICTURES,
    keys=picture_keys(VISION, "", EPS[:1], DEFAULTS),
    body=ones_for_norm,
    heads=[mean_head("CLIPForImageClassification", 1)],
    prefix=OF_PICTURES,
    ignored=UNREAD,
    harmless=HARMLESS_TOO,
    older=lambda config: with_places(flatten(pictures_of(config), "vision_config"), VISION, DEFAULTS.patch, True),
    whole=nest_tables,
)
register(
    Family(
        kind="clip",
        template=TEXTS | {"tower": PICTURES | {"head": FIRST | {"normalise": True}}},
        keys=[*text_keys(TEXT, "decoder", DEFAULTS), *picture_keys(VISION, "tower.", EPS, DEFAULTS)],
        body=both_rows(text_rows(OF_TEXT, "decoder")),
        heads=[
            HeadOf(
                "CLIPModel",
                LAST | {"normalise": True, "similarity": "softmax"},
                [
                    Row("text_projection.weight", "head.projection.weight"),
                    Row("visual_projection.weight", "tower.head.projection.weight"),
                    SCALE,
                ],
                [Key("projection_dim", ("head.projection", "tower.head.projection"), 512)],
            )
        ],
        ignored=UNREAD,
        harmless=HARMLESS_TOO,
        left_out=read_elsewhere("clip", "CLIP", CLASSES),
        older=settle_both,
        whole=nest_tables,
        others=[CLASSIFIER],
    ),
    Family(
        kind="clip_text_model",
        template=TEXTS,
        keys=text_keys("", "decoder", DEFAULTS),
        body=text_rows("", "decoder"),
        heads=[
            HeadOf("CLIPTextModel", LAST, prefix=""),
            HeadOf(
                "CLIPTextModelWithProjection",
                LAST,
                [Row("text_projection.weight", "head.projection.weight")],
                [Key("projection_dim", "head.projection", 512)],
            ),
        ],
        prefix=OF_TEXT,
        ignored=UNREAD,
        harmless=OFTEN,
        left_out=read_elsewhere("clip_text_model", "CLIP", CLASSES),
    ),
    Family(
        kind="clip_vision_model",
        template=PICTURES,
        keys=picture_keys("", "", EPS, DEFAULTS),
        body=lambda config: picture_rows(config, ""),
        heads=[
            HeadOf("CLIPVisionModel", FIRST, prefix=""),
            HeadOf(
                "CLIPVisionModelWithProjection",
                FIRST,
                [Row("visual_projection.weight", "head.projection.weight")],
                [Key("projection_dim", "head.projection", 512)],
            ),
        ],
        prefix=OF_PICTURES,
        ignored=UNREAD,
        harmless=OFTEN,
        left_out=read_elsewhere("clip_vision_model", "CLIP", CLASSES),
        older=lambda config: with_places(dict(config), "", DEFAULTS.patch, True),
        whole=lambda config: without_width(without_places(config, "")),
    ),
)
