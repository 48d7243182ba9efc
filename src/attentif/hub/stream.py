"""safetensors, written tensor by tensor: a model of any size is copied or renamed without being held in memory.

    8 bytes (length of the header) · header: JSON, name -> dtype, shape, begin and end of its bytes · the bytes, one tensor after the other

The library's own `save_file` wants all tensors at once, and none that shares memory with another.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from attentif.errors import RunError
from attentif.files import flush

NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
ALIGNED = 8  # bytes: the data begin at a multiple of it


def write_stream(path: Path, shapes: Mapping[str, Tensor], tensors: Iterable[tuple[str, Tensor]]) -> None:
    """`shapes` may be of torch's meta device; `tensors` are the same, in the same order, with their numbers."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    place = 0
    for name, shape in shapes.items():
        end = place + shape.numel() * shape.element_size()
        header[name] = {"dtype": NAMES[shape.dtype], "shape": list(shape.shape), "data_offsets": [place, end]}
        place = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNED)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for (name, tensor), expected in zip(tensors, shapes, strict=True):
            shape = shapes[name]
            if name != expected or (tensor.dtype, tensor.shape) != (shape.dtype, shape.shape):
                raise RunError(f"{name} is not what the header of these weights says", file=path)
            file.write(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    flush(path)


def on_meta(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same shapes without the numbers."""
    return {name: torch.empty_like(tensor, device="meta") for name, tensor in tensors.items()}
