"""The block types of GGUF: a row is cut into blocks of 32 or 256 values, each with its own scale.

    F32 F16 BF16     one value a block
    Q8_0             w = d·q,            q in [-127, 127]                       32 values, 34 bytes
    Q4_0             w = d·(q - 8),      q in [0, 15]                           32 values, 18 bytes
    Q4_1             w = d·q + m                                                32 values, 20 bytes
    Q4_K, Q5_K       w = d·s_j·q - m·t_j     8 groups of 32 with 6-bit s, t     256 values, 144 and 176 bytes
    Q6_K             w = d·s_j·(q - 32)      16 groups of 16 with 8-bit s       256 values, 210 bytes

The layout is llama.cpp's (ggml-common.h). Two halves of a block share bytes: the low four bits are the first half's.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
CHUNK = 1 << 16  # blocks that are worked on at once: a large tensor costs little memory besides itself


@dataclass(frozen=True)
class BlockType:
    name: str
    number: int  # in the file
    block: int  # values in a block
    size: int  # bytes of a block


F32, F16, BF16 = BlockType("F32", 0, 1, 4), BlockType("F16", 1, 1, 2), BlockType("BF16", 30, 1, 2)
Q4_0, Q4_1, Q8_0 = BlockType("Q4_0", 2, 32, 18), BlockType("Q4_1", 3, 32, 20), BlockType("Q8_0", 8, 32, 34)
Q4_K, Q5_K, Q6_K = BlockType("Q4_K", 12, 256, 144), BlockType("Q5_K", 13, 256, 176), BlockType("Q6_K", 14, 256, 210)
TYPES = {kind.number: kind for kind in (F32, F16, BF16, Q4_0, Q4_1, Q8_0, Q4_K, Q5_K, Q6_K)}


def dequantise(raw: Bytes, kind: BlockType) -> Floats:
    """The values of whole blocks, as float32."""
    if kind == F32:
        return raw.view("<f4").astype(np.float32)
    if kind == F16:
        return raw.view("<f2").astype(np.float32)
    if kind == BF16:
        return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
    blocks, read = raw.reshape(-1, kind.size), READERS[kind.name]
    values = np.empty((len(blocks), kind.block), np.float32)
    with np.errstate(invalid="ignore", over="ignore"):  # a damaged file may hold scales that are no numbers
        for first in range(0, len(blocks), CHUNK):
            values[first : first + CHUNK] = read(blocks[first : first + CHUNK])
    return values.reshape(-1)


def quantise(values: Floats, kind: BlockType) -> Bytes:
    """Blocks of the nearest values; F32, F16 and Q8_0 are written."""
    if kind == F32:
        return values.astype("<f4").view(np.uint8)
    if kind == F16:
        return np.clip(values, -65504.0, 65504.0).astype("<f2").view(np.uint8)
    if kind != Q8_0:
        raise ValueError(f"{kind.name} is not written")
    blocks = values.reshape(-1, kind.block)
    scale = np.abs(blocks).max(1, keepdims=True) / np.float32(127)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.where(scale > 0, blocks / scale, 0)
    whole = np.trunc(scaled + np.copysign(np.float32(0.5), scaled)).astype(np.int8)  # halves away from zero, as ggml rounds
    return np.concatenate([scale.astype("<f2").view(np.uint8), whole.view(np.uint8)], 1).reshape(-1)


def _half(blocks: Bytes, place: int) -> Floats:
    """A float16 of each block: (n, 1)."""
    return np.ascontiguousarray(blocks[:, place : place + 2]).view("<f2").astype(np.float32)


def _nibbles(packed: Bytes) -> Bytes:
    """(..., b) bytes to (..., 2, b): low bits, then high bits."""
    return np.stack([packed & 15, packed >> 4], -2)


def _q8_0(blocks: Bytes) -> Floats:
    return _half(blocks, 0) * np.ascontiguousarray(blocks[:, 2:]).view(np.int8)


def _q4_0(blocks: Bytes) -> Floats:
    return _half(blocks, 0) * (_nibbles(blocks[:, 2:]).reshape(-1, 32).astype(np.float32) - 8)


def _q4_1(blocks: Bytes) -> Floats:
    return _half(blocks, 0) * _nibbles(blocks[:, 4:]).reshape(-1, 32) + _half(blocks, 2)


def _six_bits(packed: Bytes) -> tuple[Floats, Floats]:
    """Eight scales and eight offsets of six bits in twelve bytes; the upper four pairs borrow their highest bits from the lower."""
    low, high, rest = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([low & 63, (rest & 15) | (low >> 6 << 4)], 1)
    offsets = np.concatenate([high & 63, (rest >> 4) | (high >> 6 << 4)], 1)
    return scales.astype(np.float32), offsets.astype(np.float32)


def _scale_blocks(blocks: Bytes, quants: Bytes) -> Floats:
    """d·s_j·q - m·t_j of (n, 8, 32) numbers."""
    scales, offsets = _six_bits(blocks[:, 4:16])
    factor, shift = _half(blocks, 0) * scales, _half(blocks, 2) * offsets
    return (factor[..., None] * quants - shift[..., None]).reshape(-1, 256)


def _q4_k(blocks: Bytes) -> Floats:
    return _scale_blocks(blocks, _nibbles(blocks[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32))


def _q5_k(blocks: Bytes) -> Floats:
    fifth = (blocks[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None]) & 1  # bit j belongs to group j
    quants: Bytes = _nibbles(blocks[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32) | (fifth << 4).astype(np.uint8)
    return _scale_blocks(blocks, quants)


def _q6_k(blocks: Bytes) -> Floats:
    low = _nibbles(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    high = (blocks[:, 128:192].reshape(-1, 2, 1, 32) >> np.arange(0, 8, 2, dtype=np.uint8)[:, None]) & 3
    quants = (low | high << 4).reshape(-1, 16, 16).astype(np.float32) - 32
    scales = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8)
    return ((_half(blocks, 208) * scales)[..., None] * quants).reshape(-1, 256)


READERS = {"Q8_0": _q8_0, "Q4_0": _q4_0, "Q4_1": _q4_1, "Q4_K": _q4_k, "Q5_K": _q5_k, "Q6_K": _q6_k}
