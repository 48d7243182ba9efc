"""From modules to instructions: buffers, weights in place, norms, and linear maps with what follows them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attentif.kernels.fused import program as vm
from attentif.kernels.fused.products import GELU, GELU_TANH, LAYER, NONE, RELU, RMS, SILU
from attentif.nn.bf16 import Bf16Linear
from attentif.nn.int8 import Int8Linear
from attentif.nn.linear import Linear
from attentif.nn.norm import RMSNormAround

WEIGHT_BYTES = {vm.FLOATS: 4, vm.HALVES: 2, vm.BYTES: 1}
PIECE_BYTES = (
    1 << 17
)  # of weights: some microseconds of reading, which the others may wait for; each piece begins with a gap in the reading
ACTIVATIONS = {"relu": RELU, "gelu": GELU, "gelu-tanh": GELU_TANH, "silu": SILU}


class UnsupportedError(Exception):
    """This model has a part without fused instructions; it decodes by its `forward`."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Rows of float32 numbers that instructions read and write."""

    data: Tensor  # (MOST_ROWS, width)

    @property
    def address(self) -> int:
        return self.data.data_ptr()

    @property
    def width(self) -> int:
        return self.data.shape[1]

    def part(self, start: int, stop: int) -> "Buffer":
        return Buffer(self.data[:, start:stop])

    @property
    def stride(self) -> int:
        return self.data.stride(0)


@dataclass(frozen=True, slots=True)
class MixerInput:
    """What a mixer reads: a buffer, normalised on the way."""

    buffer: Buffer
    norm: nn.Module = field(default_factory=nn.Identity)


@dataclass(frozen=True, slots=True)
class Sink:
    """Where a mixer's output goes: stored, or added, times a weight."""

    buffer: Buffer
    add: bool = False
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Lookup:
    """A table of which each row of a step reads one line: embeddings by token, positions by place."""

    slot: int
    address: int
    lines: int
    line_bytes: int

    def point(self, slots: np.ndarray, numbers: np.ndarray) -> None:
        """Point the rows of a step to their lines."""
        if numbers.min() < 0 or numbers.max() >= self.lines:
            raise IndexError(f"{numbers.tolist()}: a table of {self.lines} lines")
        slots[self.slot] = self.address + self.line_bytes * numbers


class Plan:
    """Instructions in the making. Tensors that they point to are kept alive here.

    one_text   the rows of a step are neighbouring tokens of one text, which share its state
    """

    def __init__(self, capacity: int, *, one_text: bool = False) -> None:
        self.capacity, self.one_text = capacity, one_text
        self.code: list[list[int]] = []
        self.reals: list[list[float]] = []
        self.kept: list[Tensor] = []
        self.tables: dict[Any, Any] = {}  # shared by layers: angles, biases of positions
        self.slots: list[tuple[str, str]] = []  # path of a state, name of its tensor
        self.inner = 1  # the widest input of a linear map

    def emit(self, fields: dict[int, int], reals: Sequence[float] = ()) -> None:
        row = [0] * vm.FIELDS
        for place, value in fields.items():
            row[place] = value
        self.code.append(row)
        self.reals.append([*reals, *[0.0] * (vm.REALS - len(reals))])

    def buffer(self, width: int) -> Buffer:
        data = torch.zeros(vm.MOST_ROWS, width)
        self.kept.append(data)
        return Buffer(data)

    def address(self, tensor: Tensor | None) -> int:
        """Where a tensor's numbers lie; 0 where there is none."""
        if tensor is None:
            return 0
        data = tensor.detach()
        if data.dtype is not torch.float32 or not data.is_cpu or not data.is_contiguous():
            raise UnsupportedError("weights must be contiguous float32 numbers in main memory")
        self.kept.append(data)
        return data.data_ptr()

    def slot(self, path: str, name: str) -> int:
        """The number of a state's tensor, or without a name of a table's line, whose address is known when a step runs."""
        self.slots.append((path, name))
        return len(self.slots) - 1

    def lookup(self, table: Tensor, target: Buffer) -> Lookup:
        """Copy a line of a table into each row of a buffer."""
        found = Lookup(self.slot("", ""), self.address(table), len(table), 4 * table.shape[1])
        self.emit({0: vm.GATHER, 1: target.address, 2: target.stride, 3: target.width, 10: found.slot})
        return found

    def table(self, key: Any, make: Callable[[], Tensor]) -> int:
        if key not in self.tables:
            self.tables[key] = make().float().contiguous()
        return self.address(self.tables[key])

    def norm_fields(self, norm: nn.Module, at: int) -> tuple[dict[int, int], float]:
        """Kind, gain and shift from field `at` on, and ε."""
        match norm:
            case nn.Identity():
                return {at: NONE}, 0.0
            case nn.LayerNorm():
                return {at: LAYER, at + 1: self.address(norm.weight), at + 2: self.address(norm.bias)}, norm.eps
            case nn.RMSNorm():
                return {at: RMS, at + 1: self.address(norm.weight)}, norm.eps or float(torch.finfo(torch.float32).eps)
            case RMSNormAround():
                return {at: RMS, at + 1: self.address((norm.around + norm.weight).detach())}, norm.eps
        raise UnsupportedError(type(norm).__name__)

    def norm(self, norm: nn.Module, source: Buffer, sink: Sink) -> None:
        fields, eps = self.norm_fields(norm, 4)
        target = {7: sink.buffer.address, 8: sink.buffer.stride, 9: int(sink.add)}
        self.inner = max(self.inner, source.width)
        self.emit({0: vm.NORM, 1: source.address, 2: source.stride, 3: source.width} | fields | target, [eps, sink.weight])

    def linear(
        self,
        source: MixerInput,
        maps: Sequence[tuple[nn.Module, Buffer]],
        *,
        then: int = vm.STORE,
        activation: int = 0,
        weight: float = 1.0,
    ) -> None:
        """Linear maps of one source, each to its buffer. With `GATE` there are two, and their product goes to the first's."""
        norm, eps = self.norm_fields(source.norm, 4)
        inner = source.buffer.width
        self.inner = max(self.inner, inner)
        outputs = [_weight(module).shape[0] if _type(module) == vm.FLOATS else int(module.out_features) for module, _ in maps]  # type: ignore[arg-type]
        row_bytes = inner * WEIGHT_BYTES[_type(maps[0][0])] * (len(maps) if then == vm.GATE else 1)
        piece = piece_size(outputs, row_bytes)
        fields = {
            0: vm.LINEAR,
            1: source.buffer.address,
            2: source.buffer.stride,
            3: inner,
            7: len(maps),
            8: then,
            9: activation,
            10: piece,
        }
        if len({_type(module) for module, _ in maps}) > 1:
            for one in maps:
                if then == vm.GATE:
                    raise UnsupportedError("a gate with weights of two kinds")
                self.linear(source, [one], then=then, activation=activation, weight=weight)
            return
        for number, (module, target) in enumerate(maps):
            at = 12 + vm.MATRIX * number
            fields |= {at: self._matrix(module), at + 1: _type(module), at + 2: self.address(_bias(module))}
            fields |= {at + 3: outputs[number], at + 4: target.address, at + 5: target.stride}
        self.emit(fields | norm, [eps, weight])

    def _matrix(self, module: nn.Module) -> int:
        if isinstance(module, Int8Linear):
            self.kept.append(module.packed)
            return module.packed.data_ptr()
        if isinstance(module, Bf16Linear):
            self.kept.append(module.weight)
            return module.weight.data_ptr()
        return self.address(_weight(module))

    def normalise(self, source: MixerInput) -> Buffer:
        """The source after its norm, for what is read more than once or by instructions that normalise nothing."""
        if isinstance(source.norm, nn.Identity):
            return source.buffer
        x = self.buffer(source.buffer.width)
        self.norm(source.norm, source.buffer, Sink(x))
        return x

    def project(self, source: MixerInput, module: nn.Module, sink: Sink, activation: int = 0) -> None:
        """A mixer's last map, to where its output goes."""
        self.linear(source, [(module, sink.buffer)], then=vm.ADD if sink.add else vm.STORE, activation=activation, weight=sink.weight)

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.code, np.int64), np.array(self.reals, np.float64)

    def scratch_bytes(self, longest: int = 0) -> int:
        """What one thread needs: sums of two chunks, a normalised input, the same as bytes, or a head's scores of a memory's places."""
        blocks = -(-self.inner // 32)
        linear = 4 * 2 * vm.CHUNK * vm.MOST_ROWS + vm.MOST_ROWS * blocks * (4 * 32 + 32 + 8)
        return linear + 4 * max(self.capacity, longest) + 64 * 1024


def piece_size(outputs: Sequence[int], row_bytes: int) -> int:
    """How many outputs a thread takes at a time: about `PIECE_BYTES` of weights, shared out as evenly as can be."""
    threads = max(torch.get_num_threads(), 2)

    def longest(piece: int) -> int:  # outputs of the thread that has most to do
        loads = [0] * threads
        for count in outputs:
            whole, rest = divmod(count, piece)
            for size in (*[piece] * (whole % threads), rest):
                loads[loads.index(min(loads))] += size
            loads = [load + whole // threads * piece for load in loads]
        return max(loads)

    return min(range(min(max(PIECE_BYTES // row_bytes // 16, 1) * 16, vm.CHUNK), 15, -16), key=longest)


def _type(module: nn.Module) -> int:
    """What the weights of a map are kept in."""
    return vm.BYTES if isinstance(module, Int8Linear) else vm.HALVES if isinstance(module, Bf16Linear) else vm.FLOATS


def _weight(module: nn.Module) -> Tensor:
    if type(module) not in (Linear, nn.Linear, Matrix) or module._forward_hooks or module._forward_pre_hooks:
        raise UnsupportedError(type(module).__name__)
    weight: Any = module.weight
    assert isinstance(weight, Tensor)
    return weight


def _bias(module: nn.Module) -> Tensor | None:
    bias: Any = module.bias
    return bias


class Matrix(nn.Module):
    """A bare matrix as a linear map: a head's, a cell's."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.weight, self.bias = weight.detach(), bias
