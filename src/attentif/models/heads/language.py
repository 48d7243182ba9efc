"""A score for each token of the vocabulary.

    z = E h + b        h = x, or with a `transform`  h = norm(a(W x + c)), a a gelu        (Devlin et al. 2019, for masked tokens)

E is the matrix of the embedding, or one of its own. Beside it, where `follows` asks for it, two scores for a pair of texts, from the first
place: does the second follow the first?  s = U tanh(P x_first + p) + u
"""

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.kernels.cross_entropy import linear_cross_entropy
from attentif.kernels.linear import linear
from attentif.models.heads.base import HEADS, HeadConfig
from attentif.models.heads.classify import ACTIVATIONS, Activation
from attentif.models.heads.pooling import pooled
from attentif.nn.mixer import refer
from attentif.nn.norm import Norm
from attentif.nn.seq import Seq


@HEADS.register
class LanguageHeadConfig(HeadConfig):
    """A score for each token of the vocabulary, at every place."""

    kind: Literal["language"] = Field("language", description="a score for each token of the vocabulary, at every place")
    tied: bool = Field(True, description="share the matrix of the embedding (Press & Wolf 2017)")
    bias: bool = Field(False, description="a bias for each token")
    transform: Norm | None = Field(None, description="a linear map, a non-linearity and this norm come before the scores (BERT)")
    activation: Activation = Field("gelu", description="the non-linearity of `transform`: tanh, gelu, gelu-tanh, relu, silu")
    follows: bool = Field(False, description="beside them, from the first place, two scores: does the second text follow the first? (BERT)")
    scaled: bool = Field(False, description="divide vectors by √width before they meet the matrix (T5, where it is the embedding's)")

    softcap: float | None = Field(None, gt=0, description="scores are kept within ± this value by a tanh (Gemma 2)")

    def build(self, width: int, embedding: nn.Embedding | None, dropout: float) -> "LanguageHead":
        return LanguageHead(self, width, embedding)


class LanguageHead(nn.Module):
    def __init__(self, config: LanguageHeadConfig, width: int, embedding: nn.Embedding | None) -> None:
        super().__init__()
        if embedding is None:
            raise ConfigError("head: a language head predicts tokens, and needs a frontend of tokens")
        inner = embedding.embedding_dim if config.tied and config.transform else width
        if config.tied and embedding.embedding_dim != inner:
            raise ConfigError(
                f"head.tied: vectors of {width} components cannot be scored by an embedding of {embedding.embedding_dim}; say false, "
                "or give a transform"
            )
        vocab = embedding.num_embeddings
        self.embedding: nn.Embedding | None
        refer(self, "embedding", embedding if config.tied else None)
        self.linear = None if config.tied else nn.Linear(width, vocab, bias=False)
        self.bias = nn.Parameter(torch.zeros(vocab)) if config.bias else None
        self.transform = nn.Linear(width, inner) if config.transform else None
        self.activation = ACTIVATIONS[config.activation]
        self.norm = config.transform.build(inner) if config.transform else None
        self.pooler = nn.Linear(width, width) if config.follows else None
        self.follows = nn.Linear(width, 2) if config.follows else None
        self.scale = width**-0.5 if config.scaled else 1.0
        self.softcap = config.softcap

    @property
    def weight(self) -> Tensor:
        """(V, D)"""
        owner = self.embedding or self.linear
        assert owner is not None
        return owner.weight

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        return self.scores(x)

    def scores(self, x: Tensor) -> Tensor:
        z = linear(self.prepared(x), self.weight, self.bias)
        return z if self.softcap is None else self.softcap * torch.tanh(z / self.softcap)

    def prepared(self, x: Tensor) -> Tensor:
        """The vectors that meet the matrix."""
        if self.transform is not None and self.norm is not None:
            x = self.norm(self.activation(self.transform(x)))
        return x if self.scale == 1.0 else x * self.scale

    def follow_scores(self, x: Tensor, seq: Seq) -> Tensor:
        """(B, 2): the second text follows the first, or comes from elsewhere."""
        assert self.pooler is not None
        assert self.follows is not None
        scores: Tensor = self.follows(torch.tanh(self.pooler(pooled(x, seq, "first"))))
        return scores

    def loss(self, x: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
        """Cross-entropy of x (n, D) summed over its labels (n,), without ever holding all the logits, where no cap bends them."""
        if self.softcap is not None:
            return F.cross_entropy(self.scores(x), labels, reduction="sum", label_smoothing=smoothing)
        return linear_cross_entropy(self.prepared(x), self.weight, labels, self.bias, smoothing)
