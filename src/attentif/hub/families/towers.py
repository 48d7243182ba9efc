"""What CLIP and SigLIP share: two towers, of texts and of pictures, whose vectors are compared.

config.json holds two tables, text_config and vision_config. Read together they are one model: the tower of texts, and beside it, as
`tower`, that of pictures. Folders of one tower alone hold its keys without a table.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from attentif.errors import ConfigError
from attentif.hub.families.bert import ACTIVATIONS
from attentif.hub.families.vit import with_width, without_width
from attentif.hub.family import HeadOf
from attentif.hub.keys import HARMLESS, Always, Key
from attentif.hub.rows import Made, Reshaped, Row, SplitParts
from attentif.models import ModelConfig

TEXT, VISION = "text_config.", "vision_config."
OF_TEXT, OF_PICTURES = "text_model.", "vision_model."
ELSEWHERE = "the model_type of its folders is {}, which is read"
UNREAD = ("position_ids",)  # tables of places that older files hold
SCALE = Row("logit_scale", "head.log_scale", Reshaped(theirs_shape=(), ours_shape=(1,)))
# of training, of other classes, or of what is said once for both towers
OFTEN = ("dropout", "initializer_factor", "logit_scale_init_value", "projection_dim", "vision_use_head", "projection_size")
HARMLESS_TOO = (*OFTEN, *(f"{table}{key}" for table in (TEXT, VISION) for key in OFTEN))
FRONT: dict[str, Any] = {"kind": "patches", "dropout": 0.0, "position": {"kind": "learned"}}


@dataclass(frozen=True)
class TowerDefaults:
    """What transformers takes where a table says nothing."""

    activation: str
    eps: float
    patch: int
    vocab: int
    heads: int
    width: int
    inner: int
    length: int


def stack(norm: bool = True, **attention: Any) -> dict[str, Any]:
    block = {"attn": {"mixer": {"kind": "attention", **attention}}, "ffn": {"mixer": {"kind": "feed-forward"}}}
    return {"placement": "pre", "norm": {"kind": "layer"}, "block": block} | ({} if norm else {"final_norm": False})


def block_keys(
    said: str, at: str, stack: str, eps: Sequence[str], defaults: TowerDefaults, heads: int, width: int, inner: int
) -> list[Key | Always]:
    """Keys that both tables have; `said` before theirs, `at` before our places."""
    attn, ffn = f"{at}{stack}.block.attn.mixer", f"{at}{stack}.block.ffn.mixer"
    return [
        Key(f"{said}hidden_size", f"{at}width", width),
        Key(f"{said}num_hidden_layers", f"{at}layers", 12),
        Key(f"{said}num_attention_heads", f"{attn}.heads", heads),
        Key(f"{said}intermediate_size", f"{ffn}.hidden", inner),
        Key(f"{said}hidden_act", f"{ffn}.activation", defaults.activation, ACTIVATIONS),
        Key(f"{said}layer_norm_eps", (f"{at}{stack}.norm.eps", *(f"{at}{place}" for place in eps)), defaults.eps),
        Key(f"{said}attention_dropout", f"{attn}.dropout", 0.0),
    ]


def text_keys(said: str, stack: str, defaults: TowerDefaults) -> list[Key | Always]:
    return [
        *block_keys(said, "", stack, (), defaults, defaults.heads, defaults.width, defaults.inner),
        Key(f"{said}vocab_size", "frontend.vocab", defaults.vocab),
        Key(f"{said}max_position_embeddings", "frontend.position.max_len", defaults.length),
    ]


def picture_keys(said: str, at: str, eps: Sequence[str], defaults: TowerDefaults) -> list[Key | Always]:
    return [
        *block_keys(said, at, "encoder", eps, defaults, 12, 768, 3072),
        Key(f"{said}image_size", f"{at}frontend.height", 224),
        Key(f"{said}image_width", f"{at}frontend.width"),
        Key(f"{said}patch_size", f"{at}frontend.size", defaults.patch),
        Key(f"{said}places", f"{at}frontend.position.max_len"),
        Key(f"{said}num_channels", f"{at}frontend.channels", 3),
    ]


def block_rows(theirs: str, ours: str) -> Iterator[Row]:
    layer, block = f"{theirs}encoder.layers.{{i}}", f"{ours}.blocks.{{i}}"
    for part in ("q", "k", "v", "out"):
        yield Row(f"{layer}.self_attn.{part}_proj.{{p}}", f"{block}.attn.mixer.{part}.{{p}}")
    yield Row(f"{layer}.layer_norm1.{{p}}", f"{block}.attn.norm_in.{{p}}")
    yield Row(f"{layer}.layer_norm2.{{p}}", f"{block}.ffn.norm_in.{{p}}")
    yield Row(f"{layer}.mlp.fc1.{{p}}", f"{block}.ffn.mixer.up.{{p}}")
    yield Row(f"{layer}.mlp.fc2.{{p}}", f"{block}.ffn.mixer.out.{{p}}")


def text_rows(theirs: str, stack: str) -> list[Row]:
    return [
        Row(f"{theirs}embeddings.token_embedding.weight", "frontend.tokens.weight"),
        Row(f"{theirs}embeddings.position_embedding.weight", "frontend.position.table.weight"),
        *block_rows(theirs, stack),
        Row(f"{theirs}final_layer_norm.{{p}}", f"{stack}.norm.{{p}}"),
    ]


def picture_rows(config: ModelConfig, theirs: str, ours: str = "") -> list[Row]:
    """The tower of pictures; `config` is that tower's."""
    frontend, width = config.frontend.model_dump(), config.width
    pixels = Reshaped(theirs_shape=(-1, frontend["channels"], frontend["size"], frontend["size"]), ours_shape=(width, -1))
    head, parts = f"{theirs}head.", tuple(f"{ours}head.probe.{part}" for part in "qkv")
    return [
        Row(f"{theirs}embeddings.class_embedding", f"{ours}frontend.class_token"),
        Row(f"{theirs}embeddings.patch_embedding.weight", f"{ours}frontend.patch.weight", pixels),
        Row(f"{theirs}embeddings.patch_embedding.bias", f"{ours}frontend.patch.bias"),
        Row(f"{theirs}embeddings.position_embedding.weight", f"{ours}frontend.position.table.weight"),
        Row(f"{theirs}pre_layrnorm.{{p}}", f"{ours}frontend.norm.{{p}}"),
        *block_rows(theirs, f"{ours}encoder"),
        Row(f"{theirs}post_layernorm.{{p}}", f"{ours}head.pooled_norm.{{p}}"),  # CLIP's, of the pooled vector alone
        Row(f"{theirs}post_layernorm.{{p}}", f"{ours}encoder.norm.{{p}}"),  # SigLIP's, of all
        Row(f"{head}probe", f"{ours}head.probe.query", Reshaped(theirs_shape=(1, 1, -1), ours_shape=(-1,))),
        Row(f"{head}attention.in_proj_weight", tuple(f"{part}.weight" for part in parts), SplitParts(3)),
        Row(f"{head}attention.in_proj_bias", tuple(f"{part}.bias" for part in parts), SplitParts(3)),
        Row(f"{head}attention.out_proj.{{p}}", f"{ours}head.probe.out.{{p}}"),
        Row(f"{head}layernorm.{{p}}", f"{ours}head.probe.norm.{{p}}"),
        Row(f"{head}mlp.fc1.{{p}}", f"{ours}head.probe.ffn.up.{{p}}"),
        Row(f"{head}mlp.fc2.{{p}}", f"{ours}head.probe.ffn.out.{{p}}"),
    ]


def both_rows(texts: Sequence[Row]) -> Callable[[ModelConfig], list[Row]]:
    def body(config: ModelConfig) -> list[Row]:
        assert config.tower is not None
        return [*texts, *picture_rows(config.tower, OF_PICTURES, "tower.")]

    return body


def table_of(config: dict[str, Any], name: str) -> dict[str, Any]:
    """A table of config.json; that of an older key takes its place where it is there, as transformers has it."""
    said = config.get(f"{name}_dict") or config.get(name) or {}
    if not isinstance(said, dict):
        raise ConfigError(f"{name}: is no table")
    return said


def flatten(config: dict[str, Any], name: str) -> dict[str, Any]:
    """The keys of a table with its name before them."""
    said = {key: value for key, value in table_of(config, name).items() if key not in HARMLESS}
    flat = {f"{name}.{key}": value for key, value in said.items()}
    return {key: value for key, value in config.items() if key not in (name, f"{name}_dict")} | flat


def nest(config: dict[str, Any]) -> dict[str, Any]:
    """The same back."""
    tables: dict[str, dict[str, Any]] = {}
    for key in [key for key in config if "." in key]:
        table, _, name = key.partition(".")
        tables.setdefault(table, {})[name] = config.pop(key)
    if (pictures := tables.get("vision_config")) is not None:
        tables["vision_config"] = without_width(pictures)
    return config | tables


def with_places(config: dict[str, Any], said: str, patch: int, class_token: bool) -> dict[str, Any]:
    """The rows of the table of places, which follow from the sizes."""
    sides = {key: config[f"{said}{key}"] for key in ("image_size", "patch_size") if f"{said}{key}" in config}
    sides = with_width(sides, patch)
    size = sides["patch_size"]
    if not isinstance(size, int) or size < 1:
        raise ConfigError(f"{said}patch_size: {size!r} is no number of pixels")
    places = (sides["image_size"] // size) * (sides["image_width"] // size) + class_token
    return config | {f"{said}{key}": value for key, value in sides.items()} | {f"{said}places": places}


def without_places(config: dict[str, Any], said: str) -> dict[str, Any]:
    config.pop(f"{said}places")
    config.pop(f"{said}probe", None)
    return config


def ones_for_norm(config: ModelConfig) -> list[Row]:
    """The tower of pictures under a head of classes that does not read the norm behind the last block."""
    made = [
        Row("post_layernorm.weight", (), Made(lambda: torch.ones(config.width))),
        Row("post_layernorm.bias", (), Made(lambda: torch.zeros(config.width))),
    ]
    return [*(row for row in picture_rows(config, "") if not row.theirs.startswith("post_layernorm")), *made]


def mean_head(architecture: str, skip: int, ignored: Sequence[str] = ()) -> HeadOf:
    """Classes from the mean of the patches."""
    head = {"kind": "classify", "classes": None, "pool": "mean", "skip": skip, "dropout": 0.0}
    return HeadOf(architecture, head, [Row("classifier.{p}", "head.out.{p}")], task="image", ignored=ignored)


def read_elsewhere(kind: str, name: str, classes: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The classes of the same module that stand under another model_type."""
    return {f"{name}{ending}": ELSEWHERE.format(other) for other, endings in classes.items() if other != kind for ending in endings}


def pictures_of(config: dict[str, Any]) -> dict[str, Any]:
    """config.json of both towers without what it says of texts."""
    return {key: value for key, value in config.items() if not key.startswith("text_config")}
