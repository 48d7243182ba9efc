"""Tensors on disk: safetensors and nothing else.

`model.safetensors` may be in pieces, `model-00001-of-00004.safetensors` and so on: those of a finished run hold whole tensors, with an
index as Hugging Face has it; those of a sharded training's checkpoint hold rows, to be put together again.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from attentif.errors import RunError
from attentif.files import replace_atomically, write_json
from attentif.hub.stream import write_stream
from attentif.models import ModelConfig, build
from attentif.models.int8 import install_int8, int8_tensors
from attentif.nn.adapt import load_saved_state_dict, saved_state_dict
from attentif.tasks.predictors import Ensemble, Trainable
from attentif.training.sharding import is_sharded, whole


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path)
    path.chmod(0o644)  # the library makes files that only their owner reads


Rows = Callable[[str, list[int]], slice]  # name and shape of a tensor -> the rows that are needed
LARGEST = 5 << 30  # bytes of weights in one file of a finished run


def read_tensors(path: Path, rows: Rows | None = None) -> dict[str, Tensor]:
    """The tensors of a file, or of its pieces, under the names that models have now; `rows` says which of each."""
    pieces = pieces_of(path)
    tensors: dict[str, Tensor] = load_file(path) if rows is None and pieces == [path] else _read_pieces(pieces, rows)
    names = present_names(tensors)
    return {name: tensors[stored] for name, stored in names.items()}


def piece_name(stem: str, number: int, pieces: int) -> str:
    """The name of one of several files, counted from 1."""
    return f"{stem}.safetensors" if pieces == 1 else f"{stem}-{number:05}-of-{pieces:05}.safetensors"


def stem_of(file: Path) -> str:
    """ "model" of model.safetensors and of its pieces."""
    return re.sub(r"-\d{5,}-of-\d{5,}$", "", file.stem)


def pieces_of(path: Path) -> list[Path]:
    """The file itself where it is there, else its pieces in order; RunError where some are missing."""
    found = (
        [] if path.exists() else sorted(file for file in path.parent.glob(f"{path.stem}-*-of-*.safetensors") if stem_of(file) == path.stem)
    )
    if found and [file.name for file in found] != [piece_name(path.stem, number, len(found)) for number in range(1, len(found) + 1)]:
        raise RunError("some of its pieces are missing", file=path)
    return found or [path]


def _read_pieces(pieces: list[Path], rows: Rows | None) -> dict[str, Tensor]:
    """Tensors put together from the rows in each piece; only the wanted rows are read."""
    with ExitStack() as stack:
        files = [stack.enter_context(safe_open(piece, "pt")) for piece in pieces]
        holders: dict[str, list[Any]] = {}
        for file in files:
            for name in file.keys():  # noqa: SIM118  it is no dictionary
                holders.setdefault(name, []).append(file)
        return {name: _read_rows(name, holding, rows) for name, holding in holders.items()}


def _read_rows(name: str, files: list[Any], rows: Rows | None) -> Tensor:
    slices = [file.get_slice(name) for file in files]
    if not (shape := slices[0].get_shape()):
        return files[0].get_tensor(name)
    counts = [part.get_shape()[0] for part in slices]
    start, stop, _ = (rows(name, [sum(counts), *shape[1:]]) if rows else slice(None)).indices(sum(counts))
    found, begin = [], 0
    for part, count in zip(slices, counts, strict=True):
        low, high = max(start - begin, 0), min(stop - begin, count)
        if low < high:
            found.append(part[low:high])
        begin += count
    return torch.cat(found) if found else slices[0][0:0]


def present_names(stored: Iterable[str]) -> dict[str, str]:
    """Stored names by present ones: older ensembles had their first network at the root and the rest under `others`."""
    names = list(stored)
    ensemble = any(name.startswith("others.") for name in names)
    renamed = lambda name: name.replace("frontend.evidence.", "frontend.features.")
    return {renamed(_member_name(name) if ensemble else name): name for name in names}


def _member_name(name: str) -> str:
    if not name.startswith("others."):
        return f"members.0.{name}"
    _, number, rest = name.split(".", 2)
    return f"members.{int(number) + 1}.{rest}"


def write_weights(path: Path, model: nn.Module, *, writing: bool = True, largest: int = LARGEST) -> None:
    """Write the model's weights (only the adapters, if any) atomically.

    Those of a sharded model are gathered one by one, by all processes, of which one is `writing`; beyond `largest` bytes they go to several
    files and an index, as Hugging Face's do.
    """
    tensors = saved_state_dict(model) | int8_tensors(model)
    if not is_sharded(model) and sum(tensor.nbytes for tensor in tensors.values()) <= largest:
        with replace_atomically(path) as temporary:
            write_tensors(temporary, tensors)
        return
    files = list(_cut(tensors, largest))
    index: dict[str, str] = {}
    for number, names in enumerate(files, 1):
        file = path.with_name(piece_name(path.stem, number, len(files)))
        gathered = ((name, whole(tensors[name].detach())) for name in names)
        if not writing:
            for _ in gathered:
                pass
            continue
        with replace_atomically(file) as temporary:
            write_stream(
                temporary, {name: torch.empty(tensors[name].shape, dtype=tensors[name].dtype, device="meta") for name in names}, gathered
            )
        index |= dict.fromkeys(names, file.name)
    if writing and len(files) > 1:
        total = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        write_json(path.with_name(f"{path.name}.index.json"), {"metadata": {"total_size": total}, "weight_map": index})


def _cut(tensors: Mapping[str, Tensor], largest: int) -> Iterator[list[str]]:
    """Names of tensors, in order, as many together as one file holds."""
    names: list[str] = []
    size = 0
    for name, tensor in tensors.items():
        own = tensor.numel() * tensor.element_size()
        if names and size + own > largest:
            yield names
            names, size = [], 0
        names.append(name)
        size += own
    yield names


def map_model(path: Path, config: ModelConfig, ensemble: int = 1) -> Trainable:
    """A model, or an ensemble, whose weights are mapped from the file: none is read before it is used, and none is held twice."""

    def make(device: str) -> Trainable:
        networks = [build(config, device=device) for _ in range(ensemble)]
        return networks[0] if ensemble == 1 else Ensemble(networks)

    model = make("meta")
    _fill(path, lambda tensors: model.load_state_dict(install_int8(model, tensors), assign=True))
    if any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers())):  # a table that no file holds, and that is made when built
        model = make("cpu")
        read_weights(path, model)
    return model


def read_weights(path: Path, model: nn.Module) -> None:
    """Load weights that must fit the model exactly."""
    _fill(path, lambda tensors: load_saved_state_dict(model, install_int8(model, tensors)))


def _fill(path: Path, load: Callable[[dict[str, Tensor]], object]) -> None:
    try:
        load(read_tensors(path))
    except FileNotFoundError:
        raise RunError("no such file", file=path) from None
    except (SafetensorError, RuntimeError) as error:  # the file is damaged, or torch finds other names or shapes in it
        raise RunError(f"these weights cannot be used: {' '.join(str(error).split())[:300]}", file=path) from None
