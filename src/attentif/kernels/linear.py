"""Linear maps of few rows, as in decoding steps.

    y = x Wᵀ + b

    x        a row for each sequence, or for each beam      (R, I)
    W, b     weight and bias                                (O, I), (O,)

With few rows the time goes into reading W once from memory. torch's product reads it on one core for one row, and with a kernel meant
for tall matrices for a few; the two forms below read it on all cores.

With many rows it is the product itself. torch's own library for float32 (MKL) leaves AVX-512 unused on some processors, where oneDNN, which
torch ships too, takes half the time: which is faster is measured once on a machine and remembered.

A map may be multiplied in a type of 16 bits: x, W and b are rounded to it, sums are taken in float32 by the processor, y is float32 again.
"""

import time
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from attentif.kernels.measured import choose_fastest

FEW = 64  # rows up to which `linear_few` is faster
LARGE = 1 << 17  # size of W from which splitting pays off


def linear_naive(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The equation."""
    y = x @ weight.mT
    return y if bias is None else y + bias


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, products: torch.dtype | None = None) -> Tensor:
    """(..., I) to (..., O), by the form that is fastest for this many rows. With gradients and few rows it is torch's own.

    `products`: the type that is multiplied, where that is not x's own.
    """
    if products is not None and products is not x.dtype:
        return linear_rounded(x, weight, bias, products)
    O, I = weight.shape  # noqa: E741
    rows = x.numel() // I
    if rows > FEW and is_wide(x, weight):
        return linear_wide(x, weight, bias)
    if (
        torch.is_grad_enabled()
        or not 0 < rows <= FEW
        or O * I < LARGE
        or not (x.is_cpu and x.dtype is weight.dtype is torch.float32 and weight.is_contiguous())
        or torch.compiler.is_compiling()
    ):
        return F.linear(x, weight, bias)
    return linear_one(x.contiguous(), weight, bias) if rows == 1 else linear_few(x, weight, bias)


def linear_rounded(x: Tensor, weight: Tensor, bias: Tensor | None, products: torch.dtype) -> Tensor:
    """The same from x, W and b rounded to another type. Gradients of x and W are products of that type too."""
    y = F.linear(x.to(products), weight.to(products), None if bias is None else bias.to(products))
    return y.to(x.dtype)


def linear_one(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """One row (..., I) to (..., O) as a batched product, a block of W's rows per thread."""
    O, I = weight.shape  # noqa: E741
    threads = torch.get_num_threads()
    share, left = divmod(O, threads)
    if threads == 1 or share == 0:
        return F.linear(x, weight, bias)
    # as_strided is one operation where slice, view and transpose are three
    copies = x.as_strided((threads, 1, I), (0, I, 1))
    blocks = weight.as_strided((threads, I, share), (share * I, 1, I))
    if bias is None:
        y = torch.bmm(copies, blocks)
    else:
        y = torch.baddbmm(bias.as_strided((threads, 1, share), (share, share, 1)), copies, blocks)
    if left:
        rest = F.linear(x.reshape(1, I), weight[-left:], None if bias is None else bias[-left:])
        y = torch.cat([y.view(1, -1), rest], 1)
    return y.view(*x.shape[:-1], O)


def linear_few(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A few rows (..., I) to (..., O) as W xᵀ, which torch parallelises over W's long side."""
    columns = x.reshape(-1, weight.shape[1]).mT
    y = weight @ columns if bias is None else torch.addmm(bias[:, None], weight, columns)
    return y.mT.contiguous().view(*x.shape[:-1], weight.shape[0])


def is_wide(x: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN may multiply these, and is faster on this machine."""
    return (
        weight.numel() >= LARGE
        and x.is_cpu
        and x.dtype is weight.dtype is torch.float32
        and not torch.compiler.is_compiling()
        and torch._C._len_torch_dispatch_stack() == 0  # somebody counts operations, and knows torch's own
        and takes_onednn(torch.get_num_threads())
    )


def linear_wide(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The same by oneDNN, gradients too."""
    rows = x.reshape(-1, x.shape[-1])
    if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)):
        y: Tensor = _Wide.apply(rows, weight, bias)
    else:
        y = multiply_onednn(rows, weight, bias)
    return y.view(*x.shape[:-1], len(weight))


class _Wide(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return multiply_onednn(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        wanted, g = ctx.needs_input_grad, g.contiguous()
        return (
            multiply_onednn(g, weight.mT) if wanted[0] else None,
            multiply_onednn(g.mT, x.mT) if wanted[1] else None,
            g.sum(0) if wanted[2] else None,
        )


def multiply_onednn(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """a bᵀ + bias of matrices (M, K) and (N, K)."""
    y: Tensor = torch.ops.mkldnn._linear_pointwise(a, b, bias, "none", [], "")
    return y


@cache
def takes_onednn(_threads: int) -> bool:
    """Whether oneDNN multiplies float32 faster than torch's own library; asked anew for another number of threads."""
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    return choose_fastest("float32 products of many rows", torch.device("cpu"), _time_libraries, prefer="torch", gain=1.1).name == "onednn"


def _time_libraries(rows: int = 256, side: int = 768, rounds: int = 5) -> dict[str, float]:
    """Seconds of a product: the median of a few rounds, in turns."""
    x, weight = torch.randn(rows, side), torch.randn(side, side)
    taken: dict[str, list[float]] = {"torch": [], "onednn": []}
    with torch.no_grad():
        for _ in range(rounds + 1):  # the first of each prepares its kernels
            for name, seconds in taken.items():
                begin = time.perf_counter()
                F.linear(x, weight) if name == "torch" else multiply_onednn(x, weight)
                seconds.append(time.perf_counter() - begin)
    return {name: sorted(seconds[1:])[rounds // 2] for name, seconds in taken.items()}
