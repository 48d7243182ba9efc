"""Tensors on disk: safetensors and nothing else."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from attentif.errors import RunError
from attentif.files import replacing


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path)
    path.chmod(0o644)  # the library makes files that only their owner reads


def read_tensors(path: Path) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = load_file(path)
    return tensors


def write_weights(path: Path, model: nn.Module) -> None:
    """The model's weights, whole or not at all."""
    with replacing(path) as temporary:
        write_tensors(temporary, model.state_dict())


def read_weights(path: Path, model: nn.Module) -> None:
    """Weights that must fit the model exactly."""
    try:
        model.load_state_dict(read_tensors(path))
    except FileNotFoundError:
        raise RunError("no such file", file=path) from None
    except (SafetensorError, RuntimeError) as error:  # the file is damaged, or torch finds other names or shapes in it
        raise RunError(f"these weights cannot be used: {' '.join(str(error).split())[:300]}", file=path) from None
