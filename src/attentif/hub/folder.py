"""A Hugging Face folder as a model of ours, and back.

found = read_folder(Path("bert-base-uncased"))
found.model, found.tokenizer, found.labels
write_folder(Path("out"), found.model, family="bert", architecture="BertForMaskedLM", tokenizer=found.tokenizer)
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from tokenizers import processors
from torch import Tensor

from attentif.config import problems_of
from attentif.errors import ConfigError, RunError
from attentif.files import write_json
from attentif.hub.account import match_tensors, shorten_list
from attentif.hub.family import FAMILIES, Family, HeadOf, family_of
from attentif.hub.files import CONFIG, WEIGHTS, read_config
from attentif.hub.generation import FILE as GENERATION
from attentif.hub.generation import DecodingDefaults, read_decoding
from attentif.hub.keys import OWN_CODE, Always, read_keys, unread_keys, without_gaps, write_keys
from attentif.hub.layers import STACKS, alike, in_order
from attentif.hub.pictures import SHOWN, shown_size
from attentif.hub.pooling import apply_lowercase, set_pooling
from attentif.hub.rows import Matched, Repeated, match, ours_from, theirs_from
from attentif.hub.stream import on_meta, write_stream
from attentif.hub.vocabulary import read_target_tokenizer, read_tokenizer
from attentif.hub.weights import open_tensors
from attentif.models import Model, ModelConfig, build
from attentif.nn.ffn import GATED
from attentif.text import Tokenizer

TEXT_TABLE = "text_config"


@dataclass(frozen=True)
class Imported:
    """What a folder holds."""

    model: Model
    tokenizer: Tokenizer | None
    target: Tokenizer | None  # of what is written, where it is another
    family: Family
    head: HeadOf
    labels: list[str]  # names of the classes, where the head has some
    special: dict[str, int]  # ids of special tokens by the names of config.json: {"pad_token_id": 0}
    config: dict[str, Any]  # config.json
    decoding: DecodingDefaults  # how it writes, where it does
    unread: list[str]  # keys of config.json that nobody reads


def read_folder(folder: Path, *, dtype: torch.dtype | None = torch.float32) -> Imported:
    """The model, its weights mapped from the files; `dtype` None keeps the folder's own."""
    config = read_config(folder)
    with refuse_malformed(folder / CONFIG):
        family = family_in(config)
        head = set_pooling(head_named(family, config), folder)
        if family.resizes and (size := shown_size(folder, family.kind)) is not None:
            config = config | {SHOWN: size}
        model_config = configuration(config, family, head)
        ignored_keys = unread(config, family, head)
        labels = labels_of(config)
    with refuse_malformed(folder / GENERATION):
        decoding = read_decoding(folder, config, two_stacks=model_config.encoder is not None and model_config.decoder is not None)
    tensors = open_tensors(folder)
    with refuse_malformed(folder / CONFIG):
        model_config = family.tie(head, model_config, tensors)
    if deepest(model_config) > len(tensors):  # before so many blocks are built
        raise RunError(f"asks for {deepest(model_config):,} blocks, and there are {len(tensors)} tensors", file=folder / CONFIG)
    model = build(model_config, device="meta")
    table, ignored = family.rows(head, model_config, tensors), (*family.ignored, *head.ignored)
    matched = match_tensors(folder, table, tensors, model.state_dict(), deepest(model_config), ignored)
    weights = {name: _as_float(name, tensor, dtype, folder) for name, tensor in ours_from(matched, tensors)}
    model.load_state_dict(weights, assign=True)
    read = with_text_table(config)
    special = {key: value for key, value in read.items() if key.endswith("_token_id") and value is not None}
    tokenizer, target = (
        add_empty_frame(apply_lowercase(folder, read_tokenizer(folder, read))),
        add_empty_frame(read_target_tokenizer(folder, read)),
    )
    return Imported(model.eval(), tokenizer, target, family, head, labels, special, config, decoding, ignored_keys)


def _as_float(name: str, tensor: Tensor, dtype: torch.dtype | None, folder: Path) -> Tensor:
    if not tensor.is_floating_point():
        raise RunError(
            f"holds whole numbers ({tensor.dtype}) for {name}: quantised weights are not read; use the original ones", file=folder
        )
    return tensor if dtype is None else tensor.to(dtype)


def with_text_table(config: dict[str, Any]) -> dict[str, Any]:
    """config.json with what it says of texts in a table of their own (CLIP)."""
    table = config.get(TEXT_TABLE)
    return {**table, **config} if isinstance(table, dict) else config


@contextmanager
def refuse_malformed(file: Path) -> Iterator[None]:
    """What a JSON file says in another form than it should is one line about it."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(error.message, file=error.file or file, line=error.line) from None
    except ValidationError as error:
        path, message = problems_of(error, ModelConfig)[0]
        raise ConfigError(f"describes a model that cannot be: {'.'.join(map(str, path))}: {message}", file=file) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ConfigError(f"holds a value of another form than it should ({type(error).__name__}: {error})", file=file) from None


def family_in(config: Mapping[str, Any]) -> Family:
    """The family of a folder; one of another model_type that brings its own code is refused by that."""
    kind, code = config.get("model_type"), next((key for key in OWN_CODE if config.get(key)), None)
    if code is not None and kind not in FAMILIES:
        raise ConfigError(f"asks for code that comes with the weights ({code}): Attentif runs none, and model_type {kind!r} is not known")
    return family_of(kind, config.get("architectures"))


def head_named(family: Family, config: Mapping[str, Any]) -> HeadOf:
    names = config.get("architectures")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ConfigError(f"architectures: must be a list of names, not {names!r}")
    return family.head_of(names)


def labels_of(config: Mapping[str, Any]) -> list[str]:
    """The names of the classes in their order."""
    named = config.get("id2label") or {}
    if not isinstance(named, Mapping) or sorted(map(int, named)) != list(range(len(named))):
        raise ConfigError(f"id2label: must name the classes 0, 1, 2, ..., not {str(named)[:60]}")
    labels = [str(label) for _, label in sorted(named.items(), key=lambda item: int(item[0]))]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise ConfigError(f"id2label: two classes are called {twice[0]!r}")
    return labels


def add_empty_frame(tokenizer: Tokenizer | None) -> Tokenizer | None:
    """A tokenizer that says what it puts around a text: nothing, where its file is silent."""
    if tokenizer is not None and tokenizer.rust.post_processor is None:
        tokenizer.rust.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B:1", special_tokens=[])
    return tokenizer


def configuration(config: Mapping[str, Any], family: Family, head: HeadOf) -> ModelConfig:
    """Our configuration of what config.json describes."""
    config, template = family.settle(config), {**family.template, "head": dict(head.head)}
    if "decoder" in template and config.get("is_causal") is False:  # which the masks of transformers heed, whatever the family
        raise ConfigError("is_causal: False is not understood (only True)")
    if template["head"].get("kind") == "language":
        template["head"]["tied"] = bool(config.get("tie_word_embeddings", family.tied))
    elif template["head"].get("classes", 0) is None:
        template["head"]["classes"] = len(config.get("id2label") or {}) or int(config.get("num_labels", 2))
    return ModelConfig.model_validate(fill_derived(alike(read_keys(config, [*family.keys, *head.keys], template))))


def unread(config: Mapping[str, Any], family: Family, head: HeadOf) -> list[str]:
    """Keys of config.json that neither transformers' class of this family nor we read."""
    known = {*family.like, *family.harmless, *family.defaults, *family.aliases}
    return unread_keys(family.settle(config), [*family.keys, *head.keys], known)


def write_folder(
    folder: Path,
    model: Model,
    *,
    family: str,
    architecture: str | None = None,
    tokenizer: Tokenizer | None = None,
    labels: Sequence[str] = (),
    special: Mapping[str, int] | None = None,
    limits: Mapping[str, int] | None = None,
) -> None:
    """A folder that transformers loads as it is; ConfigError where the family has no way to say what this model is."""
    named = None if architecture is None else [architecture]
    kind = family_of(family, named)
    head = kind.head_of(named)
    config, own = with_limits(describe_model(model.config, kind, head, labels, special), kind, limits), model.state_dict()
    matched = match_own(kind, head, model.config, own)
    for _, names, operation in matched.pairs:
        if isinstance(operation, Repeated):  # refused before anything is written
            operation.write([own[name] for name in names])
    folder.mkdir(parents=True, exist_ok=True)
    write_stream(folder / WEIGHTS, dict(theirs_from(matched, on_meta(own))), theirs_from(matched, own))
    if tokenizer is not None:
        tokenizer.save(folder / "tokenizer.json")
    if isinstance(table := config.get(TEXT_TABLE), dict):
        config = config | {TEXT_TABLE: table | dict(special or {})}
    write_json(folder / CONFIG, config | dict(special or {}))


def match_own(family: Family, head: HeadOf, config: ModelConfig, own: Mapping[str, Tensor]) -> Matched:
    """Our tensors and the names that the family writes them by."""
    table = family.rows(head, config)
    names = [name for row in table for their_names, _ in row.pairs(deepest(config)) for name in their_names]
    matched = match(table, names, own, deepest(config))
    if matched.unmet:
        raise ConfigError(f"{family.kind} has no place for {shorten_list(matched.unmet)}")
    return matched


def deepest(config: ModelConfig) -> int:
    """Blocks of the deepest stack; rows of blocks that the others do not have are passed over."""
    own = max(config.layers if stack.layers is None else stack.layers for stack in (config.encoder, config.decoder) if stack is not None)
    return own if config.tower is None else max(own, deepest(config.tower))


def describe_model(
    model: ModelConfig, family: Family, head: HeadOf, labels: Sequence[str] = (), special: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """config.json of a model, checked by reading it again."""
    values = fill_derived(model.model_dump())
    for key in (key for key in (*family.keys, *head.keys) if isinstance(key, Always)):  # RoBERTa's places are counted from [PAD]'s id on
        if special and special.get(key.theirs, key.value) != key.value:
            raise ConfigError(f"{family.kind} cannot represent {key.theirs} = {special[key.theirs]} (it would be {key.value})")
    try:
        config = {"architectures": [head.architecture], **write_config_keys(values, family, head)}
    except ConfigError as error:
        raise ConfigError(f"{family.kind} cannot represent {error.message}") from None
    if values["head"]["kind"] == "language":
        config["tie_word_embeddings"] = values["head"]["tied"]
    elif (classes := values["head"].get("classes")) is not None:
        config["id2label"] = {str(number): label for number, label in enumerate(labels or [f"LABEL_{n}" for n in range(classes)])}
    again = fill_derived(configuration(config, family, head).model_dump())
    if family.embeddings and not values["shared"]:  # which the file says, by holding two embeddings
        config["tie_word_embeddings"], again["shared"] = False, False
    if family.resizes:  # the size of pictures stands in a file of its own (pictures.py)
        again["frontend"] |= {key: values["frontend"].get(key) for key in ("height", "width")}
    if pools_by_files(values):  # how its vectors are pooled stands in files of its own (pooling.py)
        again["head"] |= {key: values["head"][key] for key in ("pool", "normalise")}
    if difference := next(compare_models(values, again), None):
        raise ConfigError(f"{family.kind} cannot represent {difference}")
    return config


def pools_by_files(values: Mapping[str, Any]) -> bool:
    """Whether this gives vectors of texts as sentence-transformers does, pooled and nothing more."""
    head = values["head"]
    return head["kind"] == "embed" and values["frontend"]["kind"] == "tokens" and head["projection"] is None


def with_limits(config: dict[str, Any], family: Family, limits: Mapping[str, int] | None) -> dict[str, Any]:
    """Limits on paper as the model's source has them, where they would be the family's own."""
    return config | {key: value for key, value in (limits or {}).items() if key in family.like and config.get(key) == family.like[key]}


def write_config_keys(values: Mapping[str, Any], family: Family, head: HeadOf) -> dict[str, Any]:
    """config.json's keys for settled values of ours."""
    keys = [*family.keys, *head.keys]
    config = {"model_type": family.kind, **family.like, **write_keys(in_order(values) if family.by_layer else values, keys)}
    return without_gaps(family.whole(config), keys)


def fill_derived(values: dict[str, Any], width: int | None = None) -> dict[str, Any]:
    """The same configuration with what follows from its other values written out: two that mean the same are then equal."""
    width = values.get("width", width) if "layers" in values else width
    result: dict[str, Any] = {key: _fill_derived_below(value, width) for key, value in values.items()}
    if not isinstance(width, int):  # a file may say anything: the configuration will refuse it
        return result
    for stack in (result.get("encoder"), result.get("decoder")):
        if isinstance(stack, dict):
            stack["layers"] = stack.get("layers") or result.get("layers")
    if result.get("kind") == "axial":
        result["widths"] = result.get("widths") or [width // 4, width - width // 4]
    if result.get("kind") in ("attention", "cross-attention", "reformer", "chunked"):
        heads = result.get("heads", 8)
        if result["kind"] == "attention":
            result["kv_heads"] = result.get("kv_heads") or heads
        result["head_width"] = result.get("head_width") or width // heads
    if result.get("kind") in ("rwkv-time", "rwkv-channel"):
        result["hidden"] = result.get("hidden") or (width if result["kind"] == "rwkv-time" else 4 * width)
    if result.get("kind") == "mamba":
        result["rank"] = result.get("rank") or -(-width // 16)
    if result.get("kind") == "feed-forward" and result.get("hidden") is None:
        gated = result.get("activation", "gelu") in GATED
        result["hidden"] = 8 * width // 3 if gated else 4 * width
    return result


def _fill_derived_below(value: Any, width: int | None) -> Any:
    if isinstance(value, list | tuple):
        return [_fill_derived_below(item, width) for item in value]
    return fill_derived(value, width) if isinstance(value, dict) else value


PASSED_OVER = {"base", "from_", "init", "version"}  # how a model began is no part of what it is
TRAINED_WITH = "dropout"  # nor is, wherever it stands, what is done in training alone


def compare_models(left: Mapping[str, Any], right: Mapping[str, Any]) -> Iterator[str]:
    """Where two models differ, in words; blocks of several kinds may be said in more than one way."""
    several = any((side.get(name) or {}).get("blocks") for side in (left, right) for name in STACKS)
    return differences(in_order(left), in_order(right)) if several else differences(left, right)


def differences(left: Any, right: Any, path: str = "") -> Iterator[str]:
    """Where two configurations differ, in words."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in [*left, *(key for key in right if key not in left)]:
            if key != TRAINED_WITH and (path or key not in PASSED_OVER):
                yield from differences(left.get(key), right.get(key), f"{path}.{key}" if path else key)
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, (a, b) in enumerate(zip(left, right, strict=True)):
            yield from differences(a, b, f"{path}.{number}")
    elif left != right:
        yield f"{path} = {left!r} (it would be {right!r})"
