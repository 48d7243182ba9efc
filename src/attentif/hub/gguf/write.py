"""A model as a GGUF file that llama.cpp opens: weights in float32, float16 or blocks of 8 bits, tokenizer, chat template."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from attentif.errors import ConfigError
from attentif.hub.gguf.blocks import F16, F32, Q8_0, BlockType
from attentif.hub.gguf.file import write_file
from attentif.hub.gguf.read import ROPE, count_layers
from attentif.hub.gguf.tables import Architecture, architecture_for, rope_factors
from attentif.hub.gguf.vocabulary import write_vocabulary
from attentif.hub.rows import match, theirs_from
from attentif.hub.stream import on_meta
from attentif.text import Tokenizer

STORED = {"f32": F32, "f16": F16, "q8_0": Q8_0}
FILE_TYPES = {"f32": 0, "f16": 1, "q8_0": 7}  # general.file_type
PLAIN = ("position_embd", "token_types", "_norm", "ssm_conv1d", "ssm_a", "ssm_d", "attn_rel_b", "ffn_gate_inp", ROPE)  # always float32


def write_gguf(
    path: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    tokenizer: Tokenizer | None,
    *,
    name: str,
    stored: str = "f16",
    chat_template: str | None = None,
) -> None:
    """Write the model of a Hugging Face configuration and its tensors; ConfigError where llama.cpp would compute another."""
    table, config = architecture_for(str(config["model_type"])), dict(config)
    metadata = _metadata(table, config, name, stored)
    if tokenizer is not None:
        metadata |= write_vocabulary(tokenizer, int(config["vocab_size"]))
    if chat_template is not None:
        metadata["tokenizer.chat_template"] = chat_template
    layers = count_layers(config)
    rows = table.rows(config)
    names = [own for row in rows for theirs, _ in row.pairs(layers) for own in theirs]
    matched = match(rows, names, tensors, layers)
    if matched.unmet:
        raise ConfigError(f"GGUF's {table.name} has no place for {', '.join(matched.unmet[:4])}")
    factors = rope_factors(config) if "hidden_size" in config and "rope_parameters" in config else None
    shapes = {own: (tuple(tensor.shape), _type(own, tensor, STORED[stored])) for own, tensor in theirs_from(matched, on_meta(tensors))}
    if factors is not None:
        shapes[ROPE] = (tuple(factors.shape), F32)

    def numbers() -> Iterator[Tensor]:
        yield from (tensor for _, tensor in theirs_from(matched, tensors))
        if factors is not None:
            yield factors

    write_file(path, metadata, shapes, numbers())


def _type(name: str, tensor: Tensor, wanted: BlockType) -> BlockType:
    """Vectors, and small tables that llama.cpp wants so, stay float32; rows that blocks do not divide are float16."""
    if tensor.ndim == 1 or any(part in name for part in PLAIN):
        return F32
    return wanted if tensor.shape[-1] % wanted.block == 0 else F16


def _metadata(table: Architecture, config: dict[str, Any], name: str, stored: str) -> dict[str, Any]:
    for key, value in table.fixed.items():
        if config.get(key, value) != value:
            raise ConfigError(f"llama.cpp computes a {table.name} with {key} = {value!r} only, and here it is {config[key]!r}")
    more = table.write(config)
    if config.get("rope_parameters"):
        config["rope_theta"] = config["rope_parameters"]["rope_theta"]
    metadata: dict[str, Any] = {
        "general.architecture": table.name,
        "general.name": name,
        "general.file_type": FILE_TYPES[stored],
        "general.quantization_version": 2,
    }
    for key, theirs in table.keys.items():
        if (value := config.get(theirs)) is not None:
            metadata[f"{table.name}.{key}"] = float(value) if key.endswith(("epsilon", "freq_base")) else int(value)
    metadata |= {f"{table.name}.{key}": value for key, value in more.items()}
    metadata[f"{table.name}.vocab_size"] = int(config["vocab_size"])
    return metadata
