"""A GGUF file: typed metadata, then tensors, mapped into memory. Every count, length and offset is checked before it is used.

    "GGUF" · version · tensors · pairs · pair...  · tensor (name, shape, type, offset)... · padding · data

Numbers are little-endian. A shape is written with the fastest dimension first, the reverse of torch's order.
"""

import math
import mmap
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attentif.errors import RunError
from attentif.files import flush
from attentif.hub.gguf.blocks import TYPES, BlockType, dequantise, quantise

MAGIC, VERSIONS = b"GGUF", (2, 3)
ALIGNMENT = "general.alignment"
UINT8, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 0, 4, 5, 6, 7, 8, 9
NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
MOST_PAIRS, MOST_TENSORS, MOST_DIMENSIONS, LONGEST_NAME = 1 << 16, 1 << 17, 4, 1 << 16
LARGEST = 1 << 40  # entries of a tensor


class DamagedGgufError(Exception):
    """What is wrong with a file, without its name."""


@dataclass(frozen=True)
class Stored:
    """A tensor of the file."""

    shape: tuple[int, ...]  # in torch's order
    type: BlockType
    begin: int  # bytes from the beginning of the file
    size: int


class Cursor:
    """Reads values one after the other, never past the end of the file."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.place = data, 0

    def take(self, size: int) -> memoryview:
        if size < 0 or size > len(self.data) - self.place:
            raise DamagedGgufError(f"ends inside a value at byte {self.place:,}")
        self.place += size
        return self.data[self.place - size : self.place]

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def text(self, longest: int | None = None) -> str:
        size = self.number("<Q")
        if longest is not None and size > longest:
            raise DamagedGgufError(f"has a name of {size:,} bytes at byte {self.place:,}")
        try:
            return str(self.take(size), "utf-8")
        except UnicodeDecodeError:
            raise DamagedGgufError(f"holds a text that is not UTF-8 at byte {self.place - size:,}") from None

    def value(self, kind: int) -> Any:
        if kind in NUMBERS:
            return self.number(NUMBERS[kind])
        if kind == STRING:
            return self.text()
        if kind != ARRAY:
            raise DamagedGgufError(f"holds a value of the unknown kind {kind} at byte {self.place:,}")
        return self.array()

    def array(self) -> list[Any]:
        kind, count = self.number("<I"), self.number("<Q")
        if kind in NUMBERS:
            form = np.dtype(NUMBERS[kind])
            if count > len(self.data):
                raise DamagedGgufError(f"has a list of {count:,} values at byte {self.place:,}")
            found: list[Any] = np.frombuffer(self.take(count * form.itemsize), form).tolist()
            return found
        if kind != STRING or count > len(self.data) // 8:
            raise DamagedGgufError(f"has a list of {count:,} values of the kind {kind} at byte {self.place:,}")
        return [self.text() for _ in range(count)]


class GgufFile(Mapping[str, Tensor]):
    """The tensors of a file by name, brought to float32 when they are read; `metadata` holds the rest."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            raise RunError("no such file", file=path) from None
        except (OSError, ValueError) as error:
            raise RunError(f"cannot be read: {error}", file=path) from None
        self._data = memoryview(self._map)
        try:
            self.metadata, self.stored = self._read(Cursor(self._data))
        except DamagedGgufError as error:
            raise RunError(f"is not a whole GGUF file: it {error}", file=path) from None

    def _read(self, cursor: Cursor) -> tuple[dict[str, Any], dict[str, Stored]]:
        if bytes(cursor.take(4)) != MAGIC:
            raise DamagedGgufError("does not begin with GGUF")
        if (version := cursor.number("<I")) not in VERSIONS:
            raise DamagedGgufError(f"is of version {version}; {' and '.join(map(str, VERSIONS))} are read")
        tensors, pairs = cursor.number("<Q"), cursor.number("<Q")
        if tensors > MOST_TENSORS or pairs > MOST_PAIRS:
            raise DamagedGgufError(f"claims {tensors:,} tensors and {pairs:,} keys")
        metadata: dict[str, Any] = {}
        for _ in range(pairs):
            name = cursor.text(LONGEST_NAME)
            if name in metadata:
                raise DamagedGgufError(f"has the key {name!r} twice")
            metadata[name] = cursor.value(cursor.number("<I"))
        aligned = metadata.get(ALIGNMENT, 32)
        if not isinstance(aligned, int) or aligned <= 0 or aligned > 1 << 20 or aligned & (aligned - 1):
            raise DamagedGgufError(f"has {ALIGNMENT} = {aligned!r}")
        described = [(cursor.text(LONGEST_NAME), *_shape(cursor)) for _ in range(tensors)]
        first = -(-cursor.place // aligned) * aligned
        stored: dict[str, Stored] = {}
        for name, shape, kind, offset in described:
            size = math.prod(shape) // kind.block * kind.size
            if name in stored:
                raise DamagedGgufError(f"has the tensor {name!r} twice")
            if offset % aligned or offset > len(self._data) or first + offset + size > len(self._data):
                raise DamagedGgufError(f"has the tensor {name!r} at a place that is not in it")
            stored[name] = Stored(shape, kind, first + offset, size)
        return metadata, stored

    def __getitem__(self, name: str) -> Tensor:
        found = self.stored[name]
        raw = np.frombuffer(self._data[found.begin : found.begin + found.size], np.uint8)
        return torch.from_numpy(dequantise(raw, found.type)).reshape(found.shape)

    def __contains__(self, name: object) -> bool:
        return name in self.stored

    def shape(self, name: str) -> tuple[int, ...]:
        return self.stored[name].shape

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)


def _shape(cursor: Cursor) -> tuple[tuple[int, ...], BlockType, int]:
    dimensions = cursor.number("<I")
    if not 0 < dimensions <= MOST_DIMENSIONS:
        raise DamagedGgufError(f"has a tensor of {dimensions} dimensions")
    sizes = [cursor.number("<Q") for _ in range(dimensions)]
    kind, offset = cursor.number("<I"), cursor.number("<Q")
    if min(sizes) < 1 or math.prod(sizes) > LARGEST:
        raise DamagedGgufError(f"has a tensor of the shape {sizes}")
    if kind not in TYPES:
        raise DamagedGgufError(f"has a tensor of the type {kind}; {', '.join(known.name for known in TYPES.values())} are read")
    if sizes[0] % TYPES[kind].block:
        raise DamagedGgufError(f"has rows of {sizes[0]:,} values in blocks of {TYPES[kind].block}")
    return tuple(reversed(sizes)), TYPES[kind], offset


# ---------------------------------------------------------------------------------------------------------------------- writing


def write_file(path: Path, metadata: Mapping[str, Any], shapes: Mapping[str, tuple[Sequence[int], BlockType]], tensors: Any) -> None:
    """Write a file; `tensors` gives the tensors one after the other, in the order of `shapes`."""
    aligned, place, head = 32, 0, bytearray(MAGIC)
    head += struct.pack("<IQQ", 3, len(shapes), len(metadata))
    for name, value in metadata.items():
        kind = _kind(value)
        head += _text(name) + struct.pack("<I", kind) + _value(kind, value)
    for name, (shape, block) in shapes.items():
        sizes = tuple(reversed(shape))
        head += _text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, block.number, place)
        place += -(-math.prod(sizes) // block.block * block.size // aligned) * aligned
    with path.open("wb") as file:
        file.write(head + bytes(-len(head) % aligned))
        for (_, (_, block)), tensor in zip(shapes.items(), tensors, strict=True):
            raw = quantise(tensor.detach().to(torch.float32).contiguous().numpy().reshape(-1), block)
            file.write(raw.data)
            file.write(bytes(-raw.nbytes % aligned))
    flush(path)


def _kind(value: Any) -> int:
    return {bool: BOOL, int: UINT32, float: FLOAT32, str: STRING, list: ARRAY, bytes: ARRAY}[type(value)]


def _value(kind: int, value: Any) -> bytes:
    if isinstance(value, bytes):
        return struct.pack("<IQ", UINT8, len(value)) + value
    if kind == STRING:
        return _text(value)
    if kind != ARRAY:
        return struct.pack(NUMBERS[kind], value)
    inner = INT32 if value and type(value[0]) is int else _kind(value[0]) if value else STRING
    return struct.pack("<IQ", inner, len(value)) + b"".join(_value(inner, item) for item in value)


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw
