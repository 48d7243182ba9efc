"""ViT (Dosovitskiy et al. 2021): patches are cut by a convolution there, by a linear map here: the same numbers in another shape."""

from collections.abc import Iterator
from typing import Any

from attentif.hub.families.bert import ACTIVATIONS
from attentif.hub.family import Family, HeadOf, register
from attentif.hub.heads import NO_TASK
from attentif.hub.keys import Always, Key
from attentif.hub.rows import Reshaped, Row
from attentif.models import ModelConfig

ATTN, FFN = "encoder.block.attn.mixer", "encoder.block.ffn.mixer"
LAYER, BLOCK = "encoder.layer.{i}", "encoder.blocks.{i}"
BLOCKS = [
    Row(f"{LAYER}.layernorm_before.{{p}}", f"{BLOCK}.attn.norm_in.{{p}}"),
    Row(f"{LAYER}.attention.attention.query.{{p}}", f"{BLOCK}.attn.mixer.q.{{p}}"),
    Row(f"{LAYER}.attention.attention.key.{{p}}", f"{BLOCK}.attn.mixer.k.{{p}}"),
    Row(f"{LAYER}.attention.attention.value.{{p}}", f"{BLOCK}.attn.mixer.v.{{p}}"),
    Row(f"{LAYER}.attention.output.dense.{{p}}", f"{BLOCK}.attn.mixer.out.{{p}}"),
    Row(f"{LAYER}.layernorm_after.{{p}}", f"{BLOCK}.ffn.norm_in.{{p}}"),
    Row(f"{LAYER}.intermediate.dense.{{p}}", f"{BLOCK}.ffn.mixer.up.{{p}}"),
    Row(f"{LAYER}.output.dense.{{p}}", f"{BLOCK}.ffn.mixer.out.{{p}}"),
    Row("layernorm.{p}", "encoder.norm.{p}"),
]


def body(config: ModelConfig) -> Iterator[Row]:
    frontend = config.frontend.model_dump()
    pixels = (-1, frontend["channels"], frontend["size"], frontend["size"])
    yield Row("embeddings.cls_token", "frontend.class_token", Reshaped(theirs_shape=(1, 1, -1), ours_shape=(-1,)))
    yield Row(
        "embeddings.position_embeddings",
        "frontend.position.table.weight",
        Reshaped(theirs_shape=(1, -1, config.width), ours_shape=(-1, config.width)),
    )
    yield Row(
        "embeddings.patch_embeddings.projection.weight",
        "frontend.patch.weight",
        Reshaped(theirs_shape=pixels, ours_shape=(config.width, -1)),
    )
    yield Row("embeddings.patch_embeddings.projection.bias", "frontend.patch.bias")
    yield from BLOCKS


def with_places(config: dict[str, Any]) -> dict[str, Any]:
    """The table of positions follows from the sizes: one for each patch, and one for the class token."""
    size = config.get("image_size", 224)
    height, width = size if isinstance(size, list) else (size, size)
    patch = config.get("patch_size", 16)
    places = (height // patch) * (width // patch) + 1
    return config | {"image_size": height, "image_width": width, "places": places, "patch_size": patch}


def without_places(config: dict[str, Any]) -> dict[str, Any]:
    """The same back: transformers has one side of a square, or both."""
    height, width = config["image_size"], config.pop("image_width")
    config.pop("places")
    return config | {"image_size": height if height == width else [height, width]}


register(
    Family(
        kind="vit",
        template={
            "frontend": {"kind": "patches", "class_token": True, "position": {"kind": "learned"}},
            "encoder": {
                "placement": "pre",
                "norm": {"kind": "layer"},
                "block": {"attn": {"mixer": {"kind": "attention"}}, "ffn": {"mixer": {"kind": "feed-forward"}}},
            },
        },
        keys=[
            Key("hidden_size", "width"),
            Key("num_hidden_layers", "layers"),
            Key("num_attention_heads", f"{ATTN}.heads"),
            Key("intermediate_size", f"{FFN}.hidden"),
            Key("hidden_act", f"{FFN}.activation", "gelu", ACTIVATIONS),
            Key("hidden_dropout_prob", "dropout", 0.0),
            Key("attention_probs_dropout_prob", f"{ATTN}.dropout", 0.0),
            Key("layer_norm_eps", "encoder.norm.eps", 1e-12),
            Key("image_size", "frontend.height", 224),
            Key("image_width", "frontend.width"),
            Key("places", "frontend.position.max_len"),
            Key("patch_size", "frontend.size", 16),
            Key("num_channels", "frontend.channels", 3),
            Key("qkv_bias", f"{ATTN}.bias", True),
            Always("pooler_act", "tanh"),
        ],
        body=body,
        heads=[
            HeadOf(
                "ViTForImageClassification",
                {"kind": "classify", "classes": None, "pool": "first", "dropout": 0.0},
                [Row("classifier.{p}", "head.out.{p}")],
                task="image",
            ),
            HeadOf("ViTModel", {"kind": "embed", "pool": "first"}, prefix="", ignored=("pooler.dense.weight", "pooler.dense.bias")),
        ],
        prefix="vit.",
        harmless=("encoder_stride", "pooler_output_size"),
        left_out={"ViTForMaskedImageModeling": NO_TASK},
        older=with_places,
        whole=without_places,
    )
)
