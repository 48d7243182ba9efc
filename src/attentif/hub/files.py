"""The files of a Hugging Face folder: JSON and safetensors, and nothing that could run.

Weights are mapped into memory, not read: a tensor costs nothing until it is looked at, and none is held twice.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import Any, NoReturn

from safetensors import SafetensorError, safe_open
from torch import Tensor

from attentif.errors import RunError

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
# models of texts and pictures: their text model, and its class
TEXT_OF = {"gemma3": ("gemma3_text", "Gemma3ForCausalLM"), "llama4": ("llama4_text", "Llama4ForCausalLM")}
TEXT_PREFIX = "language_model."  # before the names of the text model's tensors
POINTER = b"version https://git-lfs"
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


def refuse_outer_links(folder: Path) -> None:
    """Refuse symbolic links that leave a folder of somebody else: an import would copy what they point to.

    In the cache of huggingface_hub files are links to the blobs of the same model."""
    whole = folder.resolve()
    home = whole.parent.parent if whole.parent.name == "snapshots" else whole
    for file in folder.rglob("*"):
        if file.is_symlink() and not file.resolve().is_relative_to(home):
            raise RunError("is a symbolic link to a file outside this folder; replace it by the file itself, if you trust it", file=file)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; anything else is one honest line."""
    value = _parse_json(path)
    if not isinstance(value, dict):
        raise RunError(f"holds a {type(value).__name__}, not an object", file=path)
    return value


def read_list(path: Path) -> list[dict[str, Any]]:
    """A JSON list of objects."""
    value = _parse_json(path)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise RunError("must hold a list of objects", file=path)
    return value


def _parse_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError("no such file", file=path) from None
    except OSError as error:
        raise RunError(f"cannot be read: {error.strerror}", file=path) from None
    except ValueError as error:
        line = getattr(error, "lineno", None)
        raise RunError("is damaged: not JSON", file=path, line=line) from None
    except RecursionError:
        raise RunError("is damaged: nested too deeply", file=path) from None


def read_config(folder: Path) -> dict[str, Any]:
    """config.json, of the text model where there are several."""
    if not folder.is_dir():
        raise RunError("no such folder", file=folder)
    return text_of(read_json(folder / CONFIG))


def text_of(config: dict[str, Any]) -> dict[str, Any]:
    """Of a model that reads pictures too, the configuration of its text model; what the others say stays, for nobody to read."""
    if config.get("model_type") not in TEXT_OF or not isinstance(text := config.get("text_config"), dict):
        return config
    kind, architecture = TEXT_OF[config["model_type"]]
    shared = {key: value for key, value in config.items() if key != "text_config"}
    return {**shared, **text, "model_type": kind, "architectures": [architecture]}


# endings of names, as they were once and as they are
RENAMED = {
    ".gamma": ".weight",
    ".beta": ".bias",
    ".conv.weight_g": ".conv.parametrizations.weight.original0",
    ".conv.weight_v": ".conv.parametrizations.weight.original1",
}


def modern(name: str) -> str:
    """Norms had a gamma and a beta where BERT came from, and its files still say so; normalised convolutions had a g and a v."""
    for old, new in RENAMED.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


WRAPPERS = ("module.", "_orig_mod.")  # of DistributedDataParallel and torch.compile, whose models were saved with their wrapper


def wrapper_of(names: Iterable[str]) -> str:
    """What wrappers put before the names of all tensors."""
    found, names = "", list(names)
    while prefix := next((own for own in WRAPPERS if names and all(name.startswith(found + own) for name in names)), None):
        found += prefix
    return found


class Tensors(Mapping[str, Tensor]):
    """The tensors of a folder by name, in one file or in shards."""

    def __init__(self, folder: Path, weights: str = WEIGHTS) -> None:
        self.files: dict[str, Path] = {}
        if (folder / INDEX).is_file() and weights == WEIGHTS:
            self._shards(folder)
        elif (folder / weights).is_file():
            self.files = dict.fromkeys(_open_tensors(folder / weights).keys(), folder / weights)
        else:
            _refuse_others(folder, weights)
        self._open = {path: _open_tensors(path) for path in set(self.files.values())}
        wrapped = wrapper_of(self.files)
        self._names = {modern(name.removeprefix(wrapped)): name for name in self.files}

    def _shards(self, folder: Path) -> None:
        where = shards_of(folder)
        for name in sorted(set(where.values())):
            if not (folder / name).is_file():
                raise RunError(f"names {name}, which is not there: fetch it again, as by `hf download`", file=folder / INDEX)
            there = set(_open_tensors(folder / name).keys())
            if lost := [tensor for tensor, file in where.items() if file == name and tensor not in there]:
                raise RunError(f"does not hold {lost[0]}, as {INDEX} says", file=folder / name)
        self.files = {tensor: folder / name for tensor, name in where.items()}

    def text(self) -> "Tensors":
        """Those of the text model alone, in a folder of a model that reads pictures too."""
        return self._among({name.removeprefix(TEXT_PREFIX): own for name, own in self._names.items() if name.startswith(TEXT_PREFIX)})

    def with_prefix(self, prefix: str) -> "Tensors":
        """Those whose names begin so; all, where none does."""
        return self._among({name: own for name, own in self._names.items() if name.startswith(prefix)})

    def _among(self, names: dict[str, str]) -> "Tensors":
        if not names:
            return self
        found = copy(self)
        found._names = names
        return found

    def __getitem__(self, name: str) -> Tensor:
        name = self._names[name]
        tensor: Tensor = self._open[self.files[name]].get_tensor(name)
        return tensor

    def shape(self, name: str) -> tuple[int, ...]:
        name = self._names[name]
        return tuple(self._open[self.files[name]].get_slice(name).get_shape())

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def shards_of(folder: Path) -> dict[str, str]:
    """The file of each tensor, as the index says."""
    where = read_json(folder / INDEX).get("weight_map")
    if not isinstance(where, dict) or not all(isinstance(name, str) for name in where.values()):
        raise RunError("has no weight_map", file=folder / INDEX)
    if odd := [name for name in where.values() if Path(name).name != name or not name.endswith(".safetensors")]:
        raise RunError(f"names {odd[0]!r}, which is no safetensors file of this folder", file=folder / INDEX)
    return where


def _open_tensors(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        with path.open("rb") as file:
            start = file.read(len(POINTER))
        if start == POINTER:
            raise RunError("is a pointer of Git LFS, not the weights: `git lfs pull` fetches them", file=path) from None
        if start[:2] == b"PK" or start[:1] == b"\x80":  # torch.save's archive, or a bare pickle of any protocol since 2
            raise RunError("is a pickle by another name: it could run code, and is not opened", file=path) from None
        raise RunError(f"is not a whole safetensors file: {' '.join(str(error).split())[:120]}", file=path) from None


def _refuse_others(folder: Path, weights: str) -> NoReturn:
    """Say what is there instead of the weights, and the way out."""
    if shards := sorted(folder.glob("*-00001-of-*.safetensors")):
        raise RunError(f"has {shards[0].name}, and not {INDEX}, which says where each tensor is: fetch that file, too", file=folder)
    for pattern in PICKLED:
        for path in sorted(folder.glob(pattern)):
            raise RunError(
                f"is pickled, which could run code; {WEIGHTS} is needed: transformers' save_pretrained writes it",
                file=path,
            )
    others = [path.name for path in sorted(folder.glob("*.safetensors"))]
    there = f"; {others[0]} holds the names of another program" if others else ""
    raise RunError(f"has no {weights}{there}", file=folder)
