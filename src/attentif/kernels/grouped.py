"""Grouped matrix products: each row by the matrix of its group, for mixtures of experts.

    y_t = Σ_j w_tj f_{e(t,j)}(x_t),     j = 1 ... k

    x        tokens                                                          (N, D)
    e        the k groups (experts) of each token                            (N, k)
    w        their weights                                                   (N, k)
    f_e      made of linear maps, one matrix a group, all in one tensor      (E, O, I)

The N·k pairs (token, choice) are sorted by group, so each group is one product of contiguous rows. Groups have no capacity limit, so no
token is dropped (unlike Fedus et al. 2021). The backward pass writes each matrix's gradient into one tensor; indexing the stack would
allocate a tensor of its size per group.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from attentif.kernels.linear import linear


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Sorted assignment of rows to groups."""

    tokens: Tensor  # (N·k,): the token of each sorted row
    rows: Tensor  # (N·k,): the sorted row of each pair (token, choice)
    sizes: list[int]  # rows of each group
    choices: int  # k


def mixture_naive(x: Tensor, chosen: Tensor, weights: Tensor, function: Callable[[Tensor, int], Tensor]) -> Tensor:
    """The equation, token by token; `function(row, group)`."""
    outputs = []
    for row, groups, shares in zip(x.unbind(), chosen.tolist(), weights.unbind(), strict=True):
        outputs.append(sum((share * function(row, group) for group, share in zip(groups, shares, strict=True)), torch.zeros_like(row)))
    return torch.stack(outputs) if outputs else torch.zeros_like(x)


def mixture(x: Tensor, chosen: Tensor, weights: Tensor, groups: int, function: Callable[[Tensor, list[int]], Tensor]) -> Tensor:
    """The same, sorted; `function(rows, sizes)` maps the concatenated rows of all groups."""
    plan = dispatch(chosen, groups)
    if not torch.is_grad_enabled():  # decoding: skip autograd's overhead
        return _together(function(x.index_select(0, plan.tokens), plan.sizes), weights, plan)
    rows: Tensor = _Spread.apply(x, plan)
    together: Tensor = _Gather.apply(function(rows, plan.sizes), weights, plan)
    return together


def dispatch(chosen: Tensor, groups: int) -> Dispatch:
    """Sort the pairs by group, then by token."""
    flat = chosen.flatten()
    order = flat.argsort(stable=True)
    rows = torch.empty_like(order)
    rows[order] = torch.arange(len(order), device=order.device)
    return Dispatch(order // chosen.shape[1], rows, torch.bincount(flat, minlength=groups).tolist(), chosen.shape[1])


def grouped_linear_naive(x: Tensor, weight: Tensor, bias: Tensor | None, sizes: list[int]) -> Tensor:
    """W_e x + b_e, a row at a time."""
    owners = [group for group, size in enumerate(sizes) for _ in range(size)]
    outputs = [weight[group] @ row + (0 if bias is None else bias[group]) for row, group in zip(x.unbind(), owners, strict=True)]
    return torch.stack(outputs) if outputs else x.new_zeros(0, weight.shape[1])


def grouped_linear(x: Tensor, weight: Tensor, bias: Tensor | None, sizes: list[int], products: torch.dtype | None = None) -> Tensor:
    """The same for sorted rows (M, I), matrices (E, O, I) and biases (E, O), one product per group."""
    if products is not None and products is not x.dtype:
        rounded = (x.to(products), weight.to(products), None if bias is None else bias.to(products))
        return grouped_linear(*rounded, sizes).to(x.dtype)
    if torch.is_grad_enabled():
        y: Tensor = _GroupedLinear.apply(x, weight, bias, sizes)
        return y
    parts, begin = [], 0
    for e, size in enumerate(sizes):
        if size:
            parts.append(linear(x[begin : begin + size], weight[e], None if bias is None else bias[e]))
            begin += size
    if not parts:
        return x.new_zeros(0, weight.shape[1])
    return parts[0] if len(parts) == 1 else torch.cat(parts)


class _GroupedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, sizes: list[int]) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.sizes, ctx.biased = sizes, bias is not None
        y = x.new_empty(len(x), weight.shape[1])
        biases = [None] * len(weight) if bias is None else bias.unbind()
        for rows, matrix, shift, out in zip(x.split(sizes), weight.mT.unbind(), biases, y.split(sizes), strict=True):
            if len(rows) == 0:
                continue
            if shift is None:
                torch.mm(rows, matrix, out=out)
            else:
                torch.addmm(shift, rows, matrix, out=out)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        g = g.contiguous()
        parts = g.split(ctx.sizes)
        dx = dweight = dbias = None
        if ctx.needs_input_grad[0]:
            dx = torch.empty_like(x)
            for rows, matrix, out in zip(parts, weight.unbind(), dx.split(ctx.sizes), strict=True):
                if len(rows):
                    torch.mm(rows, matrix, out=out)
        if ctx.needs_input_grad[1]:
            dweight = torch.empty_like(weight)
            for rows, inputs, out in zip(parts, x.split(ctx.sizes), dweight.unbind(), strict=True):
                torch.mm(rows.mT, inputs, out=out)  # of no rows: zeros
        if ctx.biased and ctx.needs_input_grad[2]:
            dbias = torch.stack([rows.sum(0) for rows in parts])
        return dx, dweight, dbias, None


class _Spread(torch.autograd.Function):
    """Repeat each token's row for its choices; the gradient is one sum of k rows per token."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, plan: Dispatch) -> Tensor:
        ctx.plan = plan
        return x.index_select(0, plan.tokens)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return _chosen_rows(g, ctx.plan).sum(1), None


class _Gather(torch.autograd.Function):
    """Σ_j w_tj y_tj."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, weights: Tensor, plan: Dispatch) -> Tensor:
        ctx.plan = plan
        ctx.save_for_backward(y, weights)
        return _together(y, weights, plan)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor | None, None]:
        (y, weights), plan = ctx.saved_tensors, ctx.plan
        sorted_weights = torch.empty_like(weights.flatten()).index_copy_(0, plan.rows, weights.flatten())
        spread = g.index_select(0, plan.tokens)
        dweights = (y * spread).sum(-1).index_select(0, plan.rows).view_as(weights) if ctx.needs_input_grad[1] else None
        return spread.mul_(sorted_weights[:, None]), dweights, None


def _together(y: Tensor, weights: Tensor, plan: Dispatch) -> Tensor:
    return _chosen_rows(y, plan).mul_(weights[..., None]).sum(1)


def _chosen_rows(y: Tensor, plan: Dispatch) -> Tensor:
    """Return the row of each choice of each token, (N, k, D)."""
    return y.index_select(0, plan.rows).unflatten(0, (len(y) // plan.choices, plan.choices))
