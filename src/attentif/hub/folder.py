"""A Hugging Face folder as a model of ours, and back.

found = read_folder(Path("bert-base-uncased"))
found.model, found.tokenizer, found.labels
write_folder(Path("out"), found.model, family="bert", architecture="BertForMaskedLM", tokenizer=found.tokenizer)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from attentif.errors import ConfigError, RunError
from attentif.files import write_json
from attentif.hub.family import Family, HeadOf, family_of
from attentif.hub.files import CONFIG, WEIGHTS, Tensors, read_config
from attentif.hub.keys import read_keys, write_keys
from attentif.hub.rows import Matched, match, ours_from, theirs_from
from attentif.models import Model, ModelConfig, build
from attentif.text import Tokenizer

SHOWN = 4  # names in an error


@dataclass(frozen=True)
class Imported:
    """What a folder holds."""

    model: Model
    tokenizer: Tokenizer | None
    family: Family
    head: HeadOf
    labels: list[str]  # names of the classes, where the head has some
    special: dict[str, int]  # ids of special tokens by the names of config.json: {"pad_token_id": 0}


def read_folder(folder: Path, *, dtype: torch.dtype | None = torch.float32) -> Imported:
    """The model, its weights mapped from the files; `dtype` None keeps the folder's own."""
    config = read_config(folder)
    try:
        family = family_of(config.get("model_type"))
        head = family.head_of(config.get("architectures"))
        model_config = configuration(config, family, head)
    except ConfigError as error:
        raise ConfigError(error.message, file=folder / CONFIG) from None
    model = build(model_config, device="meta")
    tensors = Tensors(folder)
    matched = checked(folder, family, head, model, tensors)
    own = model.state_dict()
    weights = {}
    for name, tensor in ours_from(matched, tensors):
        if tensor.shape != own[name].shape:
            raise RunError(f"{name} would be {tuple(tensor.shape)}, and {CONFIG} asks for {tuple(own[name].shape)}", file=folder)
        weights[name] = tensor if dtype is None else tensor.to(dtype)
    model.load_state_dict(weights, assign=True)
    file = folder / "tokenizer.json"
    labels = [str(label) for _, label in sorted((config.get("id2label") or {}).items(), key=lambda item: int(item[0]))]
    special = {key: value for key, value in config.items() if key.endswith("_token_id") and value is not None}
    return Imported(model.eval(), Tokenizer.load(file) if file.is_file() else None, family, head, labels, special)


def configuration(config: Mapping[str, Any], family: Family, head: HeadOf) -> ModelConfig:
    """Our configuration of what config.json describes."""
    config, template = family.older(dict(config)), {**family.template, "head": dict(head.head)}
    if template["head"].get("kind") == "language":
        template["head"]["tied"] = bool(config.get("tie_word_embeddings", family.tied))
    elif template["head"].get("classes", 0) is None:
        template["head"]["classes"] = len(config.get("id2label") or {}) or int(config.get("num_labels", 2))
    return ModelConfig.model_validate(settled(read_keys(config, [*family.keys, *head.keys], template, {*family.like, *family.harmless})))


def checked(folder: Path, family: Family, head: HeadOf, model: Model, tensors: Tensors) -> Matched:
    """Every tensor accounted for, on both sides."""
    ignored = (*family.ignored, *head.ignored)
    matched = match(family.rows(head, model.config), tensors, model.state_dict(), deepest(model.config), ignored)
    for what, names in (
        ("lacks", matched.missing),
        ("holds, and nothing here reads,", matched.unexpected),
        ("does not fill", matched.unmet),
    ):
        if names:
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            raise RunError(f"{what} {', '.join(names[:SHOWN])}{more}", file=folder)
    return matched


def write_folder(
    folder: Path,
    model: Model,
    *,
    family: str,
    architecture: str | None = None,
    tokenizer: Tokenizer | None = None,
    labels: Sequence[str] = (),
    special: Mapping[str, int] | None = None,
) -> None:
    """A folder that transformers loads as it is; ConfigError where the family has no way to say what this model is."""
    kind = family_of(family)
    head = kind.head_of(None if architecture is None else [architecture])
    config = described(model.config, kind, head, labels)
    table = kind.rows(head, model.config)
    names = [name for row in table for their_names, _ in row.pairs(deepest(model.config)) for name in their_names]
    own = model.state_dict()
    matched = match(table, names, own, deepest(model.config))
    if matched.unmet:
        raise ConfigError(f"{kind.kind} has no place for {', '.join(matched.unmet[:SHOWN])}")
    folder.mkdir(parents=True, exist_ok=True)
    save_file(
        {name: tensor.contiguous().clone() for name, tensor in theirs_from(matched, own)}, folder / WEIGHTS, metadata={"format": "pt"}
    )
    if tokenizer is not None:
        tokenizer.save(folder / "tokenizer.json")
    write_json(folder / CONFIG, config | dict(special or {}))


def deepest(config: ModelConfig) -> int:
    """Blocks of the deeper stack; rows of blocks that the other does not have are passed over."""
    return max(stack.layers or config.layers for stack in (config.encoder, config.decoder) if stack is not None)


def described(model: ModelConfig, family: Family, head: HeadOf, labels: Sequence[str] = ()) -> dict[str, Any]:
    """config.json of a model, checked by reading it again."""
    values = settled(model.model_dump())
    config = {"model_type": family.kind, "architectures": [head.architecture], **family.like}
    config = family.whole(config | write_keys(values, [*family.keys, *head.keys]))
    if values["head"]["kind"] == "language":
        config["tie_word_embeddings"] = values["head"]["tied"]
    elif (classes := values["head"].get("classes")) is not None:
        config["id2label"] = {str(number): label for number, label in enumerate(labels or [f"LABEL_{n}" for n in range(classes)])}
    again = settled(configuration(config, family, head).model_dump())
    if difference := first_difference(values, again):
        raise ConfigError(f"{family.kind} cannot say that {difference}")
    return config


def settled(values: dict[str, Any], width: int | None = None) -> dict[str, Any]:
    """The same configuration with what follows from its other values written out: two that mean the same are then equal."""
    width = values.get("width", width) if "layers" in values else width
    result: dict[str, Any] = {key: _settled_below(value, width) for key, value in values.items()}
    if result.get("kind") in ("attention", "cross-attention") and width is not None:
        heads = result.get("heads", 8)
        if result["kind"] == "attention":
            result["kv_heads"] = result.get("kv_heads") or heads
        result["head_width"] = result.get("head_width") or width // heads
    if result.get("kind") == "feed-forward" and width is not None and result.get("hidden") is None:
        gated = result.get("activation", "gelu").endswith("glu")
        result["hidden"] = 8 * width // 3 if gated else 4 * width
    return result


def _settled_below(value: Any, width: int | None) -> Any:
    if isinstance(value, list | tuple):
        return [_settled_below(item, width) for item in value]
    return settled(value, width) if isinstance(value, dict) else value


PASSED_OVER = {"base", "from_", "init", "version"}  # how a model began is no part of what it is


def first_difference(left: Any, right: Any, path: str = "") -> str | None:
    """Where two configurations differ, in words."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in [*left, *(key for key in right if key not in left)]:
            if path or key not in PASSED_OVER:
                below = f"{path}.{key}" if path else key
                if found := first_difference(left.get(key), right.get(key), below):
                    return found
        return None
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        items = (first_difference(a, b, f"{path}.{number}") for number, (a, b) in enumerate(zip(left, right, strict=True)))
        return next((difference for difference in items if difference), None)
    return None if left == right else f"{path} = {left!r} (it would be {right!r})"
