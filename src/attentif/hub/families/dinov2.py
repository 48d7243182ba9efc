"""DINOv2 (Oquab et al. 2024), with registers or without (Darcet et al. 2024): a ViT whose branches have a learned scale.

Positions are interpolated where pictures have another size than `image_size`, as most have: trained at 518 pixels, they are read at 224.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from attentif.errors import ConfigError
from attentif.hub.families.vit import ATTENTION_ROWS, ATTN, BLOCK, FFN, KEYS, LAYER, TEMPLATE, embedding_rows, without_width
from attentif.hub.family import Family, HeadOf, register
from attentif.hub.keys import Always, Code, Key
from attentif.hub.pictures import SHOWN
from attentif.hub.rows import Made, Reshaped, Row, SplitParts
from attentif.models import ModelConfig

SCALED = {name: sublayer | {"scale": 1.0} for name, sublayer in TEMPLATE["encoder"]["block"].items()}
RATIOS = range(1, 33)
REGISTERS = Key("num_register_tokens", "frontend.registers", 4)
LEFT_OUT = Key("num_register_tokens", "head.skip", 4, Code(lambda count: count + 1, lambda skip: skip - 1))  # of the mean: class token, too
FOR_BACKBONES = "it gives maps of features to a detector, and there is no such task here"


def hidden_units(width: int, ratio: float, *, gated: bool) -> int:
    """Inner width of the feed-forward network; a gated one has two thirds, in whole eights."""
    units = int(width * ratio)
    return (int(units * 2 / 3) + 7) // 8 * 8 if gated else units


def older(patch: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def settle(config: dict[str, Any]) -> dict[str, Any]:
        config = dict(config)
        size, patch_size = config.get("image_size", 224), config.get("patch_size", patch)
        side, *other = size if isinstance(size, list | tuple) else (size,)
        if any(length != side for length in other):
            raise ConfigError(f"image_size: {size!r} is no square, which transformers cannot interpolate positions from either")
        gated = config.pop("use_swiglu_ffn", False)
        units = hidden_units(config.get("hidden_size", 768), config.pop("mlp_ratio", 4), gated=gated)
        height, width = config.pop(SHOWN, None) or (side, side)
        shown = {"image_size": height, "image_width": width, "patch_size": patch_size, "places": side // patch_size}
        activation = "swiglu" if gated else config.get("hidden_act", "gelu")
        return config | shown | {"hidden_act": activation, "units": units}

    return settle


def whole(config: dict[str, Any]) -> dict[str, Any]:
    config = without_width(config)
    width, units, gated = config["hidden_size"], config.pop("units"), config["hidden_act"] == "swiglu"
    ratio = next((ratio for ratio in RATIOS if hidden_units(width, ratio, gated=gated) == units), None)
    if ratio is None:
        raise ConfigError(f"{FFN}.hidden = {units}: it is a multiple of the width there (mlp_ratio)")
    size = config.pop("places") * config["patch_size"]
    said = {"image_size": size, "mlp_ratio": ratio, "use_swiglu_ffn": gated}
    return config | said | ({"hidden_act": "gelu"} if gated else {})


def activations() -> Key:
    """`hidden_act`, or the gate that takes its place."""
    act = next(key for key in KEYS if isinstance(key, Key) and key.theirs == "hidden_act")
    read, write = act.code.read, act.code.write
    both = lambda translate: lambda word: word if word == "swiglu" else translate(word)
    return Key(act.theirs, act.ours, act.default, Code(both(read), both(write)))


def body(config: ModelConfig) -> Iterator[Row]:
    registers = getattr(config.frontend, "registers", 0)
    yield from embedding_rows(config)
    yield Row("embeddings.mask_token", (), Made(lambda: torch.zeros(1, config.width)))  # of training
    yield Row(
        "embeddings.register_tokens",
        "frontend.registers",
        Reshaped(theirs_shape=(1, registers, config.width), ours_shape=(registers, config.width)),
    )
    yield from ATTENTION_ROWS
    for number, name in ((1, "attn"), (2, "ffn")):
        yield Row(f"{LAYER}.norm{number}.{{p}}", f"{BLOCK}.{name}.norm_in.{{p}}")
        yield Row(f"{LAYER}.layer_scale{number}.lambda1", f"{BLOCK}.{name}.scale")
    mixer = f"{BLOCK}.ffn.mixer"
    if config.encoder is not None and getattr(config.encoder.block["ffn"].mixer, "activation", None) == "swiglu":
        yield Row(f"{LAYER}.mlp.weights_in.{{p}}", (f"{mixer}.gate.{{p}}", f"{mixer}.up.{{p}}"), SplitParts(2))
        yield Row(f"{LAYER}.mlp.weights_out.{{p}}", f"{mixer}.out.{{p}}")
    else:
        yield Row(f"{LAYER}.mlp.fc1.{{p}}", f"{mixer}.up.{{p}}")
        yield Row(f"{LAYER}.mlp.fc2.{{p}}", f"{mixer}.out.{{p}}")
    yield Row("layernorm.{p}", "encoder.norm.{p}")


def family(kind: str, name: str, patch: int, keys: list[Key | Always], position: dict[str, Any]) -> Family:
    return Family(
        kind=kind,
        template={
            "frontend": TEMPLATE["frontend"] | {"position": {"kind": "learned-2d", **position}},
            "encoder": TEMPLATE["encoder"] | {"block": SCALED},
        },
        keys=[
            *(key for key in KEYS if key.theirs not in ("hidden_act", "patch_size")),
            activations(),
            Key("patch_size", "frontend.size", patch),
            Key("units", f"{FFN}.hidden"),
            Key("layer_norm_eps", "encoder.norm.eps", 1e-6),
            Key("places", ("frontend.position.rows", "frontend.position.columns")),
            Key("qkv_bias", f"{ATTN}.bias", True),
            Key("layerscale_value", ("encoder.block.attn.scale", "encoder.block.ffn.scale"), 1.0),
            *keys,
        ],
        body=body,
        heads=[
            HeadOf(
                f"{name}ForImageClassification",
                {"kind": "classify", "classes": None, "pool": "first-mean", "skip": 1, "dropout": 0.0},
                [Row("classifier.{p}", "head.out.{p}")],
                [LEFT_OUT] if keys else [],
                task="image",
            ),
            HeadOf(f"{name}Model", {"kind": "embed", "pool": "first"}, prefix=""),
        ],
        prefix=f"{kind}.",
        ignored=("embeddings.register_tokens",),  # where there are none
        harmless=(
            "apply_layernorm", "drop_path_rate", "out_features", "out_indices", "reshape_hidden_states", "stage_names", "use_mask_token",
        ),
        left_out={f"{name}Backbone": FOR_BACKBONES},
        older=older(patch),
        whole=whole,
        resizes=True,
    )  # fmt: skip


register(
    family("dinov2", "Dinov2", 14, [], {}),
    family(
        "dinov2_with_registers",
        "Dinov2WithRegisters",
        16,
        [REGISTERS],
        {"antialias": True},
    ),
)
