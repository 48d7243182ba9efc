"""Linear attention: a product of features replaces the softmax, a fixed-size sum the past.

    y_t = φ(q_t)ᵀ S_t / (φ(q_t)ᵀ z_t + ε),     S_t = Σ_{s ≤ t} φ(k_s) v_sᵀ,     z_t = Σ_{s ≤ t} φ(k_s)

    q, k, v  projections of the sequence, head by head                                (B, H, T, K) each
    S, z     the state: sums over the tokens read, F features a head                  (B, H, F, K), (B, H, F)
    ε        keeps a query that has seen nothing from dividing by zero

    elu             φ(x) = elu(x) + 1                     (Katharopoulos et al. 2020)
    relu            φ(x) = max(x, 0)                      (Kasai et al. 2021)
    squared-relu    φ(x) = max(x, 0)²                     (Hua et al. 2022)
    softmax         φ(q) = softmax(q), φ(k) = exp(k)      (Shen et al. 2021), with `normalise = "feature"` as there

Bidirectionally, the sums go over the whole sequence. `kernels/linear_attention.py` has the forms that compute it.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from attentif.nn.feature_attention import FeatureAttention, FeatureConfig
from attentif.nn.mixer import MIXERS, Site

PLAIN = {"elu": lambda x: F.elu(x) + 1, "relu": torch.relu, "squared-relu": lambda x: torch.relu(x).square()}


@MIXERS.register
class LinearAttentionConfig(FeatureConfig):
    """Attention by a product of features: linear time, fixed-size state."""

    kind: Literal["linear"] = Field("linear", description="attention by a product of features, in linear time")
    features: Literal["elu", "relu", "squared-relu", "softmax"] = Field("elu", description="φ; softmax: of queries, exp of keys")
    normalise: Literal["query", "feature"] = Field("query", description="normalise each query's weights, or each key feature")
    eps: float = Field(1e-6, gt=0, description="added to the denominator")


class LinearAttention(FeatureAttention, config=LinearAttentionConfig):
    def __init__(self, config: LinearAttentionConfig, site: Site) -> None:
        super().__init__(config, site)
        self.config = config
        self.features = self.head_width
        self.by_feature = config.normalise == "feature"

    def eps(self, dtype: torch.dtype) -> float:
        return self.config.eps

    def apply_feature_map(self, q: Tensor, k: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
        hidden = None if valid is None else ~valid[:, None, :, None]
        if (plain := PLAIN.get(self.config.features)) is None:
            q, k = q.softmax(-1), self.stable_exp(k, hidden)
        else:
            q, k = plain(q), plain(k)
        return q, k if hidden is None else k.masked_fill(hidden, 0.0)

    def stable_exp(self, k: Tensor, hidden: Tensor | None) -> Tensor:
        """exp(k); if not causal, divided by its maximum, which cancels in the normalisation."""
        if self.causal:
            return k.exp()
        seen = k.detach() if hidden is None else k.detach().masked_fill(hidden, float("-inf"))
        largest = seen.amax(2 if self.by_feature else (2, 3), keepdim=True)
        return (k - largest.masked_fill(largest == float("-inf"), 0.0)).exp()
