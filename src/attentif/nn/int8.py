"""A linear map whose weights are bytes with a scale for each block of 32: `kernels/int8.py` has the equation.

Products of many rows (prompts, encoders) are taken in bytes, or from a copy of the weights in float32 or bf16, whichever is fastest on the
machine: few rows wait for the weights, many for the arithmetic. It is measured once and remembered.
"""

import time
from functools import cache

import torch
from torch import Tensor, nn

from attentif.kernels.int8 import dequantize_blocks, linear_int8, pack_blocks, quantize_blocks, unpack_blocks
from attentif.kernels.linear import linear
from attentif.kernels.measured import choose_fastest

MANY = 80  # rows from which the choice is made
SIDE, ROWS, ROUNDS = 768, 256, 5  # of what is measured
COPIES = {"floats": torch.float32, "bf16": torch.bfloat16}


@cache
def fastest_of_many(_threads: int) -> str:
    """`bytes`, `floats` or `bf16`; asked anew for another number of threads."""
    return choose_fastest("int8 weights, many rows", torch.device("cpu"), time_many_rows, prefer="bytes", gain=1.1).name


def multiply_copy(x: Tensor, copy: Tensor, bias: Tensor | None) -> Tensor:
    """Many rows by weights that were brought to another type."""
    return linear(x.float(), copy, bias, copy.dtype)


@torch.no_grad()
def time_many_rows() -> dict[str, float]:
    """Seconds of a product of each kind: the median of a few rounds, in turns."""
    x, weight = torch.randn(ROWS, SIDE), torch.randn(SIDE, SIDE)
    packed, copies = pack_blocks(*quantize_blocks(weight)), {name: weight.to(dtype) for name, dtype in COPIES.items()}
    taken: dict[str, list[float]] = {"bytes": [], "floats": [], "bf16": []}
    for _ in range(ROUNDS + 1):  # the first of each prepares its kernels
        for name, seconds in taken.items():
            begin = time.perf_counter()
            linear_int8(x, packed, SIDE) if name == "bytes" else multiply_copy(x, copies[name], None)
            seconds.append(time.perf_counter() - begin)
    return {name: sorted(seconds[1:])[ROUNDS // 2] for name, seconds in taken.items()}


class Int8Linear(nn.Module):
    """y = W x + b with int8 weights and activations. For inference; not in a `state_dict`, see `blocks`."""

    packed: Tensor
    bias: Tensor | None

    def __init__(self, q: Tensor, scale: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = q.shape
        self.copy: Tensor | None = None  # the weights in another type, where many rows are multiplied so
        self.register_buffer("packed", pack_blocks(q, scale), persistent=False)
        self.register_buffer("bias", None if bias is None else bias.detach().float().contiguous(), persistent=False)

    @classmethod
    def from_weight(cls, weight: Tensor, bias: Tensor | None) -> "Int8Linear":
        """Quantise a matrix (O, I)."""
        return cls(*quantize_blocks(weight), bias)

    @property
    def weight(self) -> Tensor:
        """The dequantised weights (O, I), for mixers that compute with the matrix itself."""
        return dequantize_blocks(*self.blocks())

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            if x.numel() >= MANY * self.in_features and (kind := fastest_of_many(torch.get_num_threads())) != "bytes":
                self.copy = self.weight.to(COPIES[kind]) if self.copy is None else self.copy
                return multiply_copy(x, self.copy, self.bias).to(x.dtype)
            return linear_int8(x, self.packed, self.out_features, self.bias)

    def blocks(self) -> tuple[Tensor, Tensor]:
        """Return int8 weights (O, I) and scales (O, ⌈I/32⌉), as stored on disk."""
        return unpack_blocks(self.packed, self.out_features, self.in_features)
