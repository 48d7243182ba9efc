"""The contrastive loss of two kinds of data in one space (InfoNCE: van den Oord et al. 2018; both ways: Radford et al. 2021).

    L = -½ Σ_i [ log p(y_i | x_i) + log p(x_i | y_i) ],   p(y_j | x_i) = exp(s x_i·y_j) / Σ_k exp(s x_i·y_k)

Row i of y belongs to row i of x. Other rows that say the same, by their number in `same`, are no wrong answers: they are left out of the
sum over k. At chance the loss is log of the number of rows.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def contrastive_loss(x: Tensor, y: Tensor, scale: Tensor, same: Tensor) -> tuple[Tensor, Tensor]:
    """The sum over rows of the loss of (B, D) and (B, D), and how often the nearest y is the right one."""
    twin = (same[:, None] == same) & ~torch.eye(len(same), dtype=torch.bool, device=same.device)
    logits = (scale * (x @ y.mT)).masked_fill(twin, float("-inf"))
    right = torch.arange(len(same), device=same.device)
    total = (F.cross_entropy(logits, right, reduction="sum") + F.cross_entropy(logits.mT, right, reduction="sum")) / 2
    return total, (logits.detach().argmax(1) == right).sum()


def contrastive_loss_naive(x: Tensor, y: Tensor, scale: Tensor, same: Tensor) -> Tensor:
    """The definition, pair by pair."""
    total = x.new_zeros(())
    for i in range(len(x)):
        others = [k for k in range(len(x)) if k == i or same[k] != same[i]]
        own = scale * (x[i] @ y[i])
        forth = torch.stack([(scale * (x[i] @ y[k])).exp() for k in others]).sum().log()
        back = torch.stack([(scale * (x[k] @ y[i])).exp() for k in others]).sum().log()
        total = total - (own - forth + own - back) / 2
    return total
