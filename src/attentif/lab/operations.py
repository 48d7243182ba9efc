"""Floating-point operations of every operation that is counted, by its name in torch's dispatcher.

Counted are the products of matrices, the convolutions, the Fourier transforms, attention, and all that our own kernels carry along a
sequence: recurrences, scans, running sums. A multiplication, an addition, a division, an exponential, a tanh are one operation each; what
a kernel works out a second time in its backward pass is counted a second time, because it is executed.

    product of (m, k) and (k, n)       2 m n k, four times that for complex numbers
    Fourier transform of n numbers     5 n log₂ n, half of it where one side is real                     (Cooley & Tukey 1965)
    attention over p pairs             2 p (K + V): scores, then values; backwards 2 p (3 K + 2 V), the scores being worked out again
    selective scan, one step           7 D S + 2 D: Δ·A, exp, ·h, B·(Δ x), +, C·h, + for each number of state    (Gu & Dao 2023, alg. 2)

Not counted, in torch or in a kernel: what is done to each number alone on its way between two of these (activations, gates, norms, sums
of the residual stream, softmax, dropout), and what is not arithmetic (embeddings, gathers, sorting). It grows with the width and not with
its square. The hashing of Reformer, a kernel that torch does not see, is left out too: 2 H K (buckets / 2) for each token and round.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attentif.kernels.gated_linear import SPAN


class OperationCall:
    """One call of an operation: its arguments by the names of its schema, as attributes."""

    def __init__(self, schema: torch._C.FunctionSchema, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> None:
        self.__dict__.update({argument.name: argument.default_value for argument in schema.arguments})
        self.__dict__.update(zip((argument.name for argument in schema.arguments), args, strict=False))
        self.__dict__.update(kwargs)
        self.result = result

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the operation has no argument {name!r}")


Formula = Callable[[OperationCall], int]


def product(left: Tensor, right: Tensor) -> int:
    """(..., m, k) by (..., k, n), (..., k) standing for one row or column."""
    rows = left.numel() // max(left.shape[-1], 1)
    columns = right.shape[-1] if right.dim() > 1 else 1
    return 2 * rows * left.shape[-1] * columns * (4 if left.is_complex() else 1)


def convolution(x: Tensor, weight: Tensor, result: Tensor, transposed: bool) -> int:
    """Each number of the result (of a transposed one: of the input) is a sum of so many products."""
    places = x if transposed else result
    return 2 * places.numel() * math.prod(weight.shape[1:]) * (4 if x.is_complex() else 1)


def convolution_backward(call: OperationCall) -> int:
    wanted = sum(call.output_mask[:2])  # of the input, of the weight; the bias is a sum
    return wanted * convolution(call.input, call.weight, call.grad_output, call.transposed)


def transform(call: OperationCall, n: Tensor) -> int:
    """A Fourier transform over the dimensions `dim` of what has `n`'s shape: 5 n log₂ n a line, summed over the dimensions."""
    real = not (call.result.is_complex() and call.self.is_complex())
    steps = math.log2(max(math.prod(n.shape[d] for d in call.dim), 1))
    return round((2.5 if real else 5) * n.numel() * steps)


def pairs(call: OperationCall) -> int:
    """Queries times keys, for all rows and heads; causal attention leaves out what lies ahead, as the kernels do."""
    q, T, S = call.query, call.query.shape[-2], call.key.shape[-2]
    seen = sum(min(t + 1, S) for t in range(T)) if call.is_causal else T * S
    return math.prod(q.shape[:-2]) * seen


def attention(call: OperationCall) -> int:
    return 2 * pairs(call) * (call.query.shape[-1] + call.value.shape[-1])


def attention_backward(call: OperationCall) -> int:
    return 2 * pairs(call) * (3 * call.query.shape[-1] + 2 * call.value.shape[-1])


# ------------------------------------------------------------------------------------------------------------- our kernels


def tokens(call: OperationCall) -> int:
    return int(call.lengths.sum())


def steps_of(products: int, each: int, *, peephole: int = 0, state: Callable[[OperationCall], int]) -> Formula:
    """A recurrence: a step multiplies the state (N) by `products` matrices (N, N), and does `each` operations to each component."""

    def formula(call: OperationCall) -> int:
        N = state(call)
        extra = peephole if getattr(call, "peepholes", None) is not None else 0
        return tokens(call) * N * (2 * products * N + each + extra)

    return formula


def of_weight(call: OperationCall) -> int:
    return int(call.w_h.shape[1])


def causal_conv(call: OperationCall) -> int:
    W, D = call.taps.shape
    return tokens(call) * D * (2 * W + (2 if call.silu else 0))


def causal_conv_backward(call: OperationCall) -> int:
    W, D = call.taps.shape
    return tokens(call) * D * (4 * W + 1 + (2 * W + 6 if call.silu else 0))


def selective_scan(call: OperationCall) -> int:
    S, D = call.A.shape
    return tokens(call) * (7 * S * D + 2 * D)


def selective_scan_backward(call: OperationCall) -> int:
    S, D = call.A.shape
    return tokens(call) * (19 * S * D + 9 * D)  # 5 of the 19 are the states once more


def gated_linear(call: OperationCall) -> int:
    return int(call.q.numel() * (5 * call.v.shape[-1] + 1))


def gated_linear_backward(call: OperationCall) -> int:
    spans = -(-call.q.shape[1] // SPAN) * call.q.shape[0] * call.q.shape[2] * call.q.shape[3]
    return int(call.q.numel() * (12 * call.v.shape[-1] + 5) + 2 * spans * call.v.shape[-1])


def chunk_pairs(call: OperationCall) -> int:
    """Queries times the keys of the chunks they see, over all sequences, heads and rounds; those that a mask hides are computed too."""
    size, before, after = (int(value) for value in call.how[:3])
    H = call.q.shape[1]
    most = len(call.order) // max(len(call.k) * H, 1)
    total = 0
    for _, length, _, start, _ in call.rows.tolist():
        chunks = -(-length // size)
        rounds = most if chunks > 1 else 1
        around, last = rounds * chunks, length - (chunks - 1) * size  # the last chunk of each round may be short
        places = [last if number % chunks == chunks - 1 else size for number in range(around)]
        for number in range(around):
            near = range(number - before, number - before + min(before + after + 1, around))
            total += places[number] * sum(places[other % around] for other in near) * (length - start) // max(length, 1)
    return total * H


def neighbours(call: OperationCall) -> int:
    return int((call.places >= 0).sum()) * int(call.q.shape[-1])


FORMULAS: dict[str, Formula] = {
    "aten::mm": lambda c: product(c.self, c.mat2),
    "aten::bmm": lambda c: product(c.self, c.mat2),
    "aten::addmm": lambda c: product(c.mat1, c.mat2),
    "aten::baddbmm": lambda c: product(c.batch1, c.batch2),
    "aten::addbmm": lambda c: product(c.batch1, c.batch2),
    "aten::mv": lambda c: product(c.self, c.vec),
    "aten::addmv": lambda c: product(c.mat, c.vec),
    "aten::dot": lambda c: product(c.self, c.tensor),
    "aten::vdot": lambda c: product(c.self, c.other),
    "aten::convolution": lambda c: convolution(c.input, c.weight, c.result, c.transposed),
    "aten::convolution_backward": convolution_backward,
    "aten::_fft_c2c": lambda c: transform(c, c.self),
    "aten::_fft_r2c": lambda c: transform(c, c.self),
    "aten::_fft_c2r": lambda c: transform(c, c.result),
    "aten::_scaled_dot_product_flash_attention_for_cpu": attention,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": attention_backward,
    "aten::_scaled_dot_product_flash_attention": attention,
    "aten::_scaled_dot_product_flash_attention_backward": attention_backward,
    "aten::_scaled_dot_product_efficient_attention": attention,
    "aten::_scaled_dot_product_efficient_attention_backward": attention_backward,
    "aten::_scaled_dot_product_cudnn_attention": attention,
    "aten::_scaled_dot_product_cudnn_attention_backward": attention_backward,
    "attentif::rnn": steps_of(1, 2, state=of_weight),
    "attentif::rnn_backward": steps_of(1, 4, state=of_weight),
    "attentif::gru": steps_of(3, 11, state=of_weight),
    "attentif::gru_backward": steps_of(3, 18, state=of_weight),
    "attentif::lstm": steps_of(4, 13, peephole=6, state=of_weight),
    "attentif::lstm_backward": steps_of(4, 24, peephole=12, state=of_weight),
    "attentif::linear_recurrence": lambda c: 2 * c.a.numel(),
    "attentif::linear_recurrence_backward": lambda c: 3 * c.a.numel(),
    "attentif::causal_conv": causal_conv,
    "attentif::causal_conv_backward": causal_conv_backward,
    "attentif::silu_gate": lambda _: 0,  # each number alone: torch's two passes, which it stands for, are not counted either
    "attentif::silu_gate_backward": lambda _: 0,
    "attentif::selective_scan": selective_scan,
    "attentif::selective_scan_backward": selective_scan_backward,
    "attentif::gated_linear": gated_linear,
    "attentif::gated_linear_backward": gated_linear_backward,
    "attentif::delta_rule": lambda c: 9 * tokens(c) * math.prod(c.before.shape[1:]),
    "attentif::delta_rule_backward": lambda c: 26 * tokens(c) * math.prod(c.G.shape[1:]),  # 7 of the 26 are the memories once more
    "attentif::wkv": lambda c: 18 * tokens(c) * c.k.shape[1],
    "attentif::wkv_backward": lambda c: 53 * tokens(c) * c.k.shape[1],  # 9 of the 53 are the sums once more
    "attentif::chunked_attention": lambda c: 4 * chunk_pairs(c) * c.q.shape[-1],
    "attentif::chunked_attention_backward": lambda c: 10 * chunk_pairs(c) * c.q.shape[-1],
    "attentif::nearest_search": lambda _: 0,  # comparisons; the product that gives the scores is torch's
    "attentif::nearest_read": lambda c: 4 * neighbours(c),
    "attentif::nearest_read_backward": lambda c: 6 * neighbours(c),
}
