"""BEiT (Bao et al. 2022): a ViT without a bias of the keys, with relative positions in its scores and a learned scale of each branch."""

from collections.abc import Iterator
from typing import Any

from attentif.errors import ConfigError
from attentif.hub.families.dinov2 import FOR_BACKBONES
from attentif.hub.families.vit import ATTN, BLOCK, BLOCK_ROWS, KEYS, LAYER, TEMPLATE, VIT_KEYS, embedding_rows, with_width, without_width
from attentif.hub.family import Family, HeadOf, register
from attentif.hub.heads import NO_TASK
from attentif.hub.keys import Code, Key
from attentif.hub.rows import Row
from attentif.models import ModelConfig

TABLE = "relative_position_bias.relative_position_bias_table"
# the mean of the patches, normalised, or the class token of the normalised output
MEAN = [
    Key("use_mean_pooling", "head.pool", True, Code(lambda mean: "mean" if mean else "first", lambda pool: pool == "mean")),
    Key("use_mean_pooling", "head.skip", True, Code(int, bool)),
    Key("pooled_norm", "head.norm", None),
]


def older(config: dict[str, Any]) -> dict[str, Any]:
    """Positions, biases and norms as they are built of several keys."""
    config = with_width(config)
    rows, columns = (config[side] // config["patch_size"] for side in ("image_size", "image_width"))
    bias = {"kind": "relative-2d", "heads": config.get("num_attention_heads", 12), "rows": rows, "columns": columns}
    own, shared = (config.pop(key, False) for key in ("use_relative_position_bias", "use_shared_relative_position_bias"))
    if (own or shared) and rows != columns:
        raise ConfigError("image_size: is no square, of which transformers reads the table of relative positions in another order")
    table = {"kind": "learned", "max_len": rows * columns + 1}
    norm = {"kind": "layer", "eps": config.get("layer_norm_eps", 1e-12)}
    return config | {
        "position": table if config.pop("use_absolute_position_embeddings", False) else None,
        "own_bias": bias if own else None,
        "shared_bias": bias if shared else None,
        "pooled_norm": norm if config.get("use_mean_pooling", True) else None,
    }


def whole(config: dict[str, Any]) -> dict[str, Any]:
    said = {
        "use_absolute_position_embeddings": config.pop("position") is not None,
        "use_relative_position_bias": config.pop("own_bias") is not None,
        "use_shared_relative_position_bias": config.pop("shared_bias") is not None,
    }
    config.pop("pooled_norm")
    return without_width(config) | said


def body(config: ModelConfig) -> Iterator[Row]:
    yield from embedding_rows(config)
    yield from BLOCK_ROWS
    yield Row(f"{LAYER}.lambda_1", f"{BLOCK}.attn.scale")
    yield Row(f"{LAYER}.lambda_2", f"{BLOCK}.ffn.scale")
    yield Row(f"{LAYER}.attention.attention.{TABLE}", f"{BLOCK}.attn.mixer.own_bias.table.weight")
    yield Row(f"encoder.{TABLE}", "encoder.bias.table.weight")
    yield Row("layernorm.{p}", "encoder.norm.{p}")
    yield Row("pooler.layernorm.{p}", "head.pooled_norm.{p}")


register(
    Family(
        kind="beit",
        template=TEMPLATE | {"encoder": TEMPLATE["encoder"] | {
            "block": {
                "attn": {"mixer": {"kind": "attention", "key_bias": False}, "scale": 0.1},
                "ffn": {"mixer": {"kind": "feed-forward"}, "scale": 0.1},
            },
        }},
        keys=[
            *KEYS,
            *(key for key in VIT_KEYS if key.theirs in ("intermediate_size", "layer_norm_eps")),
            Key("position", "frontend.position"),
            Key("own_bias", f"{ATTN}.own_bias"),
            Key("shared_bias", "encoder.bias"),
            Key(
                "layer_scale_init_value",
                ("encoder.block.attn.scale", "encoder.block.ffn.scale"),
                0.1,
                Code(lambda value: value if value > 0 else None, lambda value: value or 0.0),
            ),
            Key("use_mean_pooling", "encoder.final_norm", True, Code(lambda mean: False if mean else None, lambda norm: norm is False)),
        ],
        body=body,
        heads=[
            HeadOf(
                "BeitForImageClassification",
                {"kind": "classify", "classes": None, "dropout": 0.0},
                [Row("classifier.{p}", "head.out.{p}")],
                MEAN,
                task="image",
            ),
            HeadOf("BeitModel", {"kind": "embed"}, keys=MEAN, prefix=""),
        ],
        prefix="beit.",
        ignored=("mask_token", "relative_position_index"),
        harmless=(
            "add_fpn", "auxiliary_channels", "auxiliary_concat_input", "auxiliary_loss_weight", "auxiliary_num_convs", "drop_path_rate",
            "out_features", "out_indices", "pool_scales", "reshape_hidden_states", "segmentation_indices", "semantic_loss_ignore_index",
            "stage_names", "use_auxiliary_head", "use_mask_token", "vocab_size",
        ),
        left_out={
            "BeitForMaskedImageModeling": NO_TASK,
            "BeitForSemanticSegmentation": "it gives a label to every pixel, and there is no such task here",
            "BeitBackbone": FOR_BACKBONES,
        },
        older=older,
        whole=whole,
    )
)  # fmt: skip
