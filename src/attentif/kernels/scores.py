"""Alignment scores between a decoder state and each position of the memory.

    additive      e_j = vᵀ tanh(W s + U m_j)                                 (Bahdanau et al. 2015, A.1.2)
    general       e_j = sᵀ W m_j                                             (Luong et al. 2015, section 3.1)
    dot           e_j = sᵀ m_j                                               (Luong et al. 2015, section 3.1)
    location      e_j = (W s)_j: the position alone, whatever stands there   (Luong et al. 2015, section 3.1)
    cosine        e_j = β sᵀ m_j / (‖s‖ ‖m_j‖)                               (Graves et al. 2014, eqs. 5 and 6)
    scaled-dot    e_j = sᵀ m_j / √N                                          (Vaswani et al. 2017, eq. 1)

    α = softmax(e)          c = Σ_j α_j m_j

    s        the decoder's state                     (B, T, N)
    m_j      the memory at position j                (B, S, M); M = N for dot, cosine and scaled-dot
    e, α     scores and weights                      (B, T, S)
    c        the context                             (B, T, M)

What depends on s alone (`q`: W s, s / √N, β s / ‖s‖) and on the memory alone (`k`: U m_j, W m_j, m_j / ‖m_j‖) is computed by the
caller, the second once for all steps; three functions of q and k are left.
"""

import torch
from torch import Tensor
from torch.nn import functional as F


def additive_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """(B, T, A), (B, S, A), (A,) → (B, T, S)"""
    return torch.tanh(q.unsqueeze(2) + k.unsqueeze(1)) @ v


def product_scores(q: Tensor, k: Tensor) -> Tensor:
    """(B, T, N), (B, S, N) → (B, T, S): general, dot, cosine and scaled-dot, once their q and k are made"""
    return torch.bmm(q, k.mT)


def location_scores(q: Tensor, places: int) -> Tensor:
    """(B, T, L) → (B, T, S): positions beyond L score −∞, surplus scores are dropped."""
    missing = places - q.shape[-1]
    return F.pad(q, (0, missing), value=float("-inf")) if missing > 0 else q[..., :places]


def unit(x: Tensor) -> Tensor:
    """x / ‖x‖ along the last axis; zero vectors stay zero."""
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / torch.where(norm == 0, 1.0, norm)


def align(scores: Tensor, values: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return contexts (B, T, M) and weights (B, T, S); `mask` (0 or −∞) is added to the scores."""
    weights = (scores if mask is None else scores + mask).softmax(-1)
    return torch.bmm(weights, values), weights
