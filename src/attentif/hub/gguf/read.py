"""A GGUF file as the Hugging Face folder that it was converted from.

`unpack_gguf` writes the small files of that folder (config.json, tokenizer.json, ...) into a temporary one, beside a link to the weights;
`GgufTensors` are the weights by the folder's names, brought to float32 when they are read. Everything else is as for any folder.
"""

import atexit
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attentif.errors import ConfigError, RunError
from attentif.files import write_json, write_text
from attentif.hub.gguf.file import MAGIC, GgufFile
from attentif.hub.gguf.tables import GENERAL, Architecture, architecture_for, architecture_of
from attentif.hub.gguf.vocabulary import read_vocabulary
from attentif.hub.rows import Names, Operation
from attentif.text.chat_template import FILE as CHAT

LINK = "model.gguf"  # in the temporary folder: the file itself
ROPE = "rope_freqs.weight"  # read as configuration
POOLS = {1: "pooling_mode_mean_tokens", 2: "pooling_mode_cls_token", 3: "pooling_mode_lasttoken"}
READ_ELSEWHERE = ("general.", "tokenizer.", "quantize.", "split.")


def is_gguf(path: Path) -> bool:
    """Whether this is a GGUF file, by its first bytes."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def unpack_gguf(path: Path) -> Path:
    """A temporary folder with the file's configuration, tokenizer and chat template, and a link to its weights; gone when we end."""
    file = GgufFile(path)
    try:
        config, vocabulary = read_config(file), read_vocabulary(file.metadata)
    except ConfigError as error:
        raise ConfigError(error.message, file=path) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ConfigError(f"holds a value of another form than it should ({type(error).__name__}: {error})", file=path) from None
    folder = Path(tempfile.mkdtemp(prefix="attentif-gguf-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / LINK).symlink_to(path.resolve())
    if vocabulary is not None:
        rust, names = vocabulary
        rust.save(str(folder / "tokenizer.json"))
        said: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"} | {f"{part}_token": name for part, name in names.items()}
        write_json(folder / "tokenizer_config.json", said | {"model_max_length": config.get("max_position_embeddings", 10**30)})
    if isinstance(template := file.metadata.get("tokenizer.chat_template"), str):
        write_text(folder / CHAT, template)
    _write_pooling(folder, config.pop("pooling_type", None))
    write_json(folder / "config.json", config)
    return folder


def read_config(file: GgufFile) -> dict[str, Any]:
    """config.json of the folder that the file was converted from."""
    metadata = file.metadata
    table = architecture_of(metadata)
    _refuse_unknown_keys(metadata, table)
    config: dict[str, Any] = {"model_type": table.kind, "architectures": [table.head], **table.fixed}
    for key, theirs in table.keys.items():
        if (value := metadata.get(f"{table.name}.{key}")) is not None:
            if isinstance(value, list):
                if len(set(value)) != 1:
                    raise ConfigError(f"{table.name}.{key}: differs from block to block, which is not read here")
                value = value[0]
            config[theirs] = float(str(np.float32(value))) if isinstance(value, float) else value
    if "token_embd.weight" not in file:
        raise ConfigError("has no tensor token_embd.weight")
    config["vocab_size"] = file.shape("token_embd.weight")[0]
    config["tie_word_embeddings"] = "output.weight" not in file
    for name in ("bos", "eos", "padding"):
        if isinstance(number := metadata.get(f"tokenizer.ggml.{name}_token_id"), int):
            config[f"{'pad' if name == 'padding' else name}_token_id"] = number
    if table.kind == "bert":
        config["pooling_type"] = metadata.get("bert.pooling_type")
    return table.read(config, metadata, file)


def _refuse_unknown_keys(metadata: Mapping[str, Any], table: Architecture) -> None:
    known = {f"{table.name}.{key}" for key in (*table.keys, *table.unread, *GENERAL)}
    unknown = sorted(key for key in metadata if key not in known and not key.startswith(READ_ELSEWHERE))
    mine = [key for key in unknown if key.startswith(f"{table.name}.") and metadata[key] not in (0, 0.0, False, None)]
    if mine:
        raise ConfigError(f"{mine[0]}: this key is not understood, and it may change what is computed ({metadata[mine[0]]!r})")
    if int(metadata.get("split.count", 1) or 1) > 1:
        raise ConfigError("is one part of several: join them with llama-gguf-split --merge")


def _write_pooling(folder: Path, kind: Any) -> None:
    """sentence-transformers' files, where the file says how vectors are pooled."""
    if kind not in POOLS:
        return
    steps = [("", "Transformer"), ("1_Pooling", "Pooling")]
    names = [f"sentence_transformers.models.{name}" for _, name in steps]
    write_json(folder / "modules.json", [{"idx": n, "name": str(n), "path": steps[n][0], "type": names[n]} for n in range(2)])
    (folder / "1_Pooling").mkdir()
    write_json(folder / "1_Pooling" / "config.json", {POOLS[kind]: True})


class GgufTensors(Mapping[str, Tensor]):
    """The weights of a file by the names of the folder that it was converted from."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self.file = GgufFile((folder / LINK).resolve())
        rows = architecture_for(str(config["model_type"])).rows(dict(config))
        self._sources: dict[str, tuple[Names, int, Operation]] = {}
        used = {ROPE}
        for row in rows:
            for theirs, ours in row.pairs(count_layers(config)):
                if all(name in self.file for name in theirs):
                    used.update(theirs)
                    self._sources |= {name: (theirs, number, row.operation) for number, name in enumerate(ours)}
        if left := sorted(set(self.file) - used):
            raise RunError(f"holds, and nothing here reads, {', '.join(left[:4])}", file=self.file.path)
        self.files = dict.fromkeys(self._sources, self.file.path)

    def __getitem__(self, name: str) -> Tensor:
        theirs, number, operation = self._sources[name]
        return operation.read([self.file[source] for source in theirs])[number]

    def __contains__(self, name: object) -> bool:
        return name in self._sources

    def shape(self, name: str) -> tuple[int, ...]:
        theirs, number, operation = self._sources[name]
        on_paper = [torch.empty(self.file.shape(source), device="meta") for source in theirs]
        return tuple(operation.read(on_paper)[number].shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)


def count_layers(config: Mapping[str, Any]) -> int:
    names = ("num_hidden_layers", "n_layer", "num_layers", "num_decoder_layers")
    layers = max((value for key in names if isinstance(value := config.get(key), int)), default=0)
    if not 0 < layers <= 4096:
        raise RunError(f"has {layers:,} blocks")
    return layers
