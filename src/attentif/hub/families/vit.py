"""ViT (Dosovitskiy et al. 2021): patches are cut by a convolution there, by a linear map here: the same numbers in another shape.

DeiT (Touvron et al. 2021) has a second token besides, which learned from a teacher; its classes are the mean of those of both tokens.
"""

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
TEMPLATE: dict[str, Any] = {
    "frontend": {"kind": "patches", "class_token": True, "position": {"kind": "learned"}},
    "encoder": {
        "placement": "pre",
        "norm": {"kind": "layer"},
        "block": {"attn": {"mixer": {"kind": "attention"}}, "ffn": {"mixer": {"kind": "feed-forward"}}},
    },
}
# of every family of pictures
KEYS: list[Key | Always] = [
    Key("hidden_size", "width"),
    Key("num_hidden_layers", "layers"),
    Key("num_attention_heads", f"{ATTN}.heads"),
    Key("hidden_act", f"{FFN}.activation", "gelu", ACTIVATIONS),
    Key("hidden_dropout_prob", "dropout", 0.0),
    Key("attention_probs_dropout_prob", f"{ATTN}.dropout", 0.0),
    Key("image_size", "frontend.height", 224),
    Key("image_width", "frontend.width"),
    Key("patch_size", "frontend.size", 16),
    Key("num_channels", "frontend.channels", 3),
]
VIT_KEYS = [
    *KEYS,
    Key("intermediate_size", f"{FFN}.hidden"),
    Key("layer_norm_eps", "encoder.norm.eps", 1e-12),
    Key("places", "frontend.position.max_len"),
    Key("qkv_bias", f"{ATTN}.bias", True),
    Always("pooler_act", "tanh"),
]
ATTENTION_ROWS = [
    Row(f"{LAYER}.attention.attention.query.{{p}}", f"{BLOCK}.attn.mixer.q.{{p}}"),
    Row(f"{LAYER}.attention.attention.key.{{p}}", f"{BLOCK}.attn.mixer.k.{{p}}"),
    Row(f"{LAYER}.attention.attention.value.{{p}}", f"{BLOCK}.attn.mixer.v.{{p}}"),
    Row(f"{LAYER}.attention.output.dense.{{p}}", f"{BLOCK}.attn.mixer.out.{{p}}"),
]
BLOCK_ROWS = [
    Row(f"{LAYER}.layernorm_before.{{p}}", f"{BLOCK}.attn.norm_in.{{p}}"),
    *ATTENTION_ROWS,
    Row(f"{LAYER}.layernorm_after.{{p}}", f"{BLOCK}.ffn.norm_in.{{p}}"),
    Row(f"{LAYER}.intermediate.dense.{{p}}", f"{BLOCK}.ffn.mixer.up.{{p}}"),
    Row(f"{LAYER}.output.dense.{{p}}", f"{BLOCK}.ffn.mixer.out.{{p}}"),
]


def token_row(theirs: str, ours: str) -> Row:
    return Row(f"embeddings.{theirs}", f"frontend.{ours}", Reshaped(theirs_shape=(1, 1, -1), ours_shape=(-1,)))


def embedding_rows(config: ModelConfig, projection: str = "embeddings.patch_embeddings.projection") -> Iterator[Row]:
    """Learned tokens, positions and patches."""
    frontend = config.frontend.model_dump()
    pixels = (-1, frontend["channels"], frontend["size"], frontend["size"])
    yield token_row("cls_token", "class_token")
    yield token_row("distillation_token", "distillation_token")
    shape = Reshaped(theirs_shape=(1, -1, config.width), ours_shape=(-1, config.width))
    yield Row("embeddings.position_embeddings", "frontend.position.table.weight", shape)
    yield Row(f"{projection}.weight", "frontend.patch.weight", Reshaped(theirs_shape=pixels, ours_shape=(config.width, -1)))
    yield Row(f"{projection}.bias", "frontend.patch.bias")


def body(config: ModelConfig) -> Iterator[Row]:
    yield from embedding_rows(config)
    yield from BLOCK_ROWS
    yield Row("layernorm.{p}", "encoder.norm.{p}")


def with_width(config: dict[str, Any], patch: int = 16) -> dict[str, Any]:
    """Height and width of the pictures: one side of a square there, or both."""
    size = config.get("image_size", 224)
    height, width = size if isinstance(size, list | tuple) else (size, size)
    return config | {"image_size": height, "image_width": width, "patch_size": config.get("patch_size", patch)}


def without_width(config: dict[str, Any]) -> dict[str, Any]:
    """The same back."""
    height, width = config["image_size"], config.pop("image_width")
    return config | {"image_size": height if height == width else [height, width]}


def family(kind: str, name: str, first: int, template: dict[str, Any], more: list[HeadOf]) -> Family:
    """`first`: the number of tokens before the patches."""

    def with_places(config: dict[str, Any]) -> dict[str, Any]:
        """The table of positions follows from the sizes: one for each patch, and one for each token before them."""
        config = with_width(config)
        patches = (config["image_size"] // config["patch_size"]) * (config["image_width"] // config["patch_size"])
        return config | {"places": patches + first}

    def without_places(config: dict[str, Any]) -> dict[str, Any]:
        config.pop("places")
        return without_width(config)

    return Family(
        kind=kind,
        template=template,
        keys=VIT_KEYS,
        body=body,
        heads=[
            HeadOf(
                f"{name}ForImageClassification",
                {"kind": "classify", "classes": None, "pool": "first", "dropout": 0.0},
                [Row("classifier.{p}", "head.out.{p}")],
                task="image",
            ),
            *more,
            HeadOf(f"{name}Model", {"kind": "embed", "pool": "first"}, prefix="", ignored=("pooler.dense.weight", "pooler.dense.bias")),
        ],
        prefix=f"{kind}.",
        harmless=("encoder_stride", "pooler_output_size"),
        left_out={f"{name}ForMaskedImageModeling": NO_TASK},
        older=with_places,
        whole=without_places,
    )


register(
    family("vit", "ViT", 1, TEMPLATE, []),
    family(
        "deit",
        "DeiT",
        2,
        TEMPLATE | {"frontend": TEMPLATE["frontend"] | {"distillation_token": True}},
        [
            HeadOf(
                "DeiTForImageClassificationWithTeacher",
                {"kind": "classify", "classes": None, "pool": "first-two", "dropout": 0.0},
                [Row("cls_classifier.{p}", "head.out.{p}"), Row("distillation_classifier.{p}", "head.second.{p}")],
                task="image",
            )
        ],
    ),
)
