"""Cross-entropy of a linear map to a large vocabulary, without storing the logits.

    L = Σᵢ −Σᵥ tᵢᵥ log pᵢᵥ        pᵢ = softmax(W xᵢ + b)        tᵢᵥ = (1 − ε) [v = yᵢ] + ε / V
    ∂L/∂zᵢ = pᵢ − tᵢ              z = W x + b

    x        the vectors to score                                     (N, D)
    W, b     one row and one bias a token of the vocabulary           (V, D), (V,)
    y        the tokens that should have been predicted               (N,)
    ε        label smoothing (Szegedy et al. 2016)

The gradient of z is known as soon as z is. The fast form processes chunks of rows, each from x to z to the gradients of x, W and b, so no
(N, V) matrix is stored and no product is computed twice (as in Liger, Hsu et al. 2024).
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attentif.kernels.linear import FEW, is_wide, multiply_onednn

CELLS = 1 << 22  # of a chunk of logits, about what stays in a cache ...
ROWS = 256  # ... but so many rows at least, because each chunk reads and writes all of W's gradient


def linear_cross_entropy_naive(x: Tensor, weight: Tensor, labels: Tensor, bias: Tensor | None = None, smoothing: float = 0.0) -> Tensor:
    """The sum over the rows."""
    return F.cross_entropy(F.linear(x, weight, bias), labels, reduction="sum", label_smoothing=smoothing)


def linear_cross_entropy(
    x: Tensor, weight: Tensor, labels: Tensor, bias: Tensor | None = None, smoothing: float = 0.0, products: torch.dtype | None = None
) -> Tensor:
    """The same, chunk by chunk; gradients are computed in the forward pass, usable once.

    `products`: the type that x, W and the gradients of z are rounded to before they are multiplied; all else stays as it is.
    """
    total: Tensor = _InChunks.apply(x, weight, bias, labels, smoothing, None if products is x.dtype else products)
    return total


class _InChunks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float, products: torch.dtype | None
    ) -> Tensor:
        dx, dw, db = (
            torch.zeros_like(t) if wanted and t is not None else None
            for t, wanted in zip((x, weight, bias), ctx.needs_input_grad, strict=False)
        )
        V = len(weight)
        rows = max(ROWS, CELLS // V)
        logits, probabilities = x.new_empty(2, min(rows, len(x)), V)
        total = x.new_zeros(())
        given, matrix = (x, weight) if products is None else (x.to(products), weight.to(products))
        wide = products is None and len(x) > FEW and is_wide(x, weight)
        for begin in range(0, len(x), rows):
            chunk = slice(begin, begin + rows)
            x_, y = given[chunk], labels[chunk, None]
            z, p = logits[: len(x_)], probabilities[: len(x_)]
            if products is not None:
                z.copy_(torch.mm(x_, matrix.t()))
                z += 0 if bias is None else bias
            elif wide:
                z = multiply_onednn(x_, matrix, bias)
            else:
                torch.mm(x_, matrix.t(), out=z) if bias is None else torch.addmm(bias, x_, matrix.t(), out=z)
            torch.softmax(z, 1, out=p)
            own = z.gather(1, y).squeeze(1)
            log_sum = z.amax(1) - p.amax(1).log()  # the largest p is 1/V at least; that of y may be 0
            total += (log_sum - (torch.lerp(own, z.mean(1), smoothing) if smoothing else own)).sum()
            p.scatter_add_(1, y, p.new_full(y.shape, smoothing - 1))
            if smoothing:
                p -= smoothing / V
            slopes = p if products is None else p.to(products)
            if dx is not None:
                if products is None and not wide:
                    torch.mm(p, matrix, out=dx[chunk])
                else:
                    dx[chunk].copy_(multiply_onednn(p, matrix.t()) if wide else torch.mm(slopes, matrix))
            if dw is not None:
                if products is None and not wide:
                    dw.addmm_(p.t(), x_)
                else:
                    dw.add_(multiply_onednn(p.t(), x_.t()) if wide else torch.mm(slopes.t(), x_))
            if db is not None:
                db += p.sum(0)
        ctx.gradients = dx, dw, db
        return total

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        gradients, ctx.gradients = ctx.gradients, None  # scaled in place to save memory
        if gradients is None:
            raise RuntimeError("the gradient of linear_cross_entropy can be asked for once; call it again instead of keeping the graph")
        return *(None if g is None else g.mul_(scale) for g in gradients), None, None, None
