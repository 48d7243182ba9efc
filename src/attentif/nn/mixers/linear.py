"""Linear attention: the softmax gives way to a product of features, and the past to a sum of fixed size.

    y_t = φ(q_t)ᵀ S_t / (φ(q_t)ᵀ z_t + ε),     S_t = Σ_{s ≤ t} φ(k_s) v_sᵀ,     z_t = Σ_{s ≤ t} φ(k_s)

    q, k, v  projections of the sequence, head by head                                (B, H, T, K) each
    S, z     the state: sums over the tokens read, F features a head                  (B, H, F, K), (B, H, F)
    ε        keeps a query that has seen nothing from dividing by zero

    elu             φ(x) = elu(x) + 1                     (Katharopoulos et al. 2020)
    relu            φ(x) = max(x, 0)                      (Kasai et al. 2021)
    squared-relu    φ(x) = max(x, 0)²                     (Hua et al. 2022)
    softmax         φ(q) = softmax(q), φ(k) = exp(k)      (Shen et al. 2021), with `normalise = "feature"` as there

Looking both ways, the sums go over the whole sequence. `kernels/linear_attention.py` has the forms that compute it.
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
    """Attention by a product of features: linear time, a state of fixed size."""

    kind: Literal["linear"] = Field("linear", description="attention by a product of features, in linear time")
    features: Literal["elu", "relu", "squared-relu", "softmax"] = Field(
        "elu",
        description="φ: elu + 1, relu, its square, or softmax of queries and exp of keys (causal: keep keys moderate, exp is not bounded)",
    )
    normalise: Literal["query", "feature"] = Field(
        "query", description="divide by the sum of each query's weights, or each feature of the keys by its own sum"
    )
    eps: float = Field(1e-6, gt=0, description="added to what is divided by")

    def build(self, site: Site) -> "LinearAttention":
        return LinearAttention(self, site)


class LinearAttention(FeatureAttention):
    def __init__(self, config: LinearAttentionConfig, site: Site) -> None:
        super().__init__(config, site)
        self.config = config
        self.features = self.head_width
        self.by_feature = config.normalise == "feature"

    def eps(self, dtype: torch.dtype) -> float:
        return self.config.eps

    def featured(self, q: Tensor, k: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
        hidden = None if valid is None else ~valid[:, None, :, None]
        if (plain := PLAIN.get(self.config.features)) is None:
            q, k = q.softmax(-1), self.exponential(k, hidden)
        else:
            q, k = plain(q), plain(k)
        return q, k if hidden is None else k.masked_fill(hidden, 0.0)

    def exponential(self, k: Tensor, hidden: Tensor | None) -> Tensor:
        """exp(k); looking both ways, divided by its largest value, a factor that the division takes out again."""
        if self.causal:
            return k.exp()
        seen = k.detach() if hidden is None else k.detach().masked_fill(hidden, float("-inf"))
        largest = seen.amax(2 if self.by_feature else (2, 3), keepdim=True)
        return (k - largest.masked_fill(largest == float("-inf"), 0.0)).exp()
