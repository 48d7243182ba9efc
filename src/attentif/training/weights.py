"""Tensors on disk: safetensors and nothing else."""

from collections.abc import Callable, Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from attentif.errors import RunError
from attentif.files import replacing
from attentif.models import Model, ModelConfig, build
from attentif.nn.adapt import load_own, own_tensors


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path)
    path.chmod(0o644)  # the library makes files that only their owner reads


def read_tensors(path: Path) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = load_file(path)
    return tensors


def write_weights(path: Path, model: nn.Module) -> None:
    """The model's weights (adapters alone, where it has some), whole or not at all."""
    with replacing(path) as temporary:
        write_tensors(temporary, own_tensors(model))


def map_model(path: Path, config: ModelConfig) -> Model:
    """A model whose weights are mapped from the file: none is read before it is used, and none is held twice."""
    model = build(config, device="meta")
    _fill(path, lambda tensors: model.load_state_dict(tensors, assign=True))
    if any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers())):  # a table that no file holds, and that is made when built
        model = build(config)
        read_weights(path, model)
    return model


def read_weights(path: Path, model: nn.Module) -> None:
    """Weights that must fit the model exactly."""
    _fill(path, lambda tensors: load_own(model, tensors))


def _fill(path: Path, load: Callable[[dict[str, Tensor]], object]) -> None:
    try:
        load(read_tensors(path))
    except FileNotFoundError:
        raise RunError("no such file", file=path) from None
    except (SafetensorError, RuntimeError) as error:  # the file is damaged, or torch finds other names or shapes in it
        raise RunError(f"these weights cannot be used: {' '.join(str(error).split())[:300]}", file=path) from None
