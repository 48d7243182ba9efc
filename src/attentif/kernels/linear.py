"""A linear map of few rows: what a decoding step is made of.

    y = x Wᵀ + b

    x        a row for each sequence, or for each beam      (R, I)
    W, b     weight and bias                                (O, I), (O,)

With few rows the time goes into reading W once from memory. torch's product reads it on one core for one row, and with a kernel meant
for tall matrices for a few; the two forms below read it on all cores.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

FEW = 64  # rows up to which `linear_few` is the faster one
LARGE = 1 << 17  # numbers in W from which the cost of sharing it out is repaid


def linear_naive(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The equation."""
    y = x @ weight.mT
    return y if bias is None else y + bias


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(..., I) to (..., O), by the form that is fastest for this many rows. With gradients it is always torch's own."""
    O, I = weight.shape  # noqa: E741
    rows = x.numel() // I
    if (
        torch.is_grad_enabled()
        or not 0 < rows <= FEW
        or O * I < LARGE
        or not (x.is_cpu and x.dtype is weight.dtype is torch.float32 and weight.is_contiguous())
        or torch.compiler.is_compiling()
    ):
        return F.linear(x, weight, bias)
    return linear_one(x.contiguous(), weight, bias) if rows == 1 else linear_few(x, weight, bias)


def linear_one(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """One row (..., I) to (..., O): each thread multiplies a block of W's rows of its own, as one item of a batched product."""
    O, I = weight.shape  # noqa: E741
    threads = torch.get_num_threads()
    share, left = divmod(O, threads)
    if threads == 1 or share == 0:
        return F.linear(x, weight, bias)
    # a step makes dozens of these calls: as_strided is one operation where slice, view and transpose are three
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
    """A few rows (..., I) to (..., O) as W xᵀ: the long side of W then is the one that the product shares out."""
    columns = x.reshape(-1, weight.shape[1]).mT
    y = weight @ columns if bias is None else torch.addmm(bias[:, None], weight, columns)
    return y.mT.contiguous().view(*x.shape[:-1], weight.shape[0])
