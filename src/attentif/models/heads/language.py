"""A score for each token of the vocabulary."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.kernels.cross_entropy import linear_cross_entropy
from attentif.kernels.linear import linear
from attentif.models.heads.base import HEADS, HeadConfig
from attentif.nn.mixer import refer
from attentif.nn.seq import Seq


@HEADS.register
class LanguageHeadConfig(HeadConfig):
    """A score for each token of the vocabulary, at every place."""

    kind: Literal["language"] = Field("language", description="a score for each token of the vocabulary, at every place")
    tied: bool = Field(True, description="share the matrix of the embedding (Press & Wolf 2017)")
    bias: bool = Field(False, description="a bias for each token")

    def build(self, width: int, embedding: nn.Embedding | None, dropout: float) -> "LanguageHead":
        return LanguageHead(self, width, embedding)


class LanguageHead(nn.Module):
    def __init__(self, config: LanguageHeadConfig, width: int, embedding: nn.Embedding | None) -> None:
        super().__init__()
        if embedding is None:
            raise ConfigError("a language head predicts tokens: the model needs a frontend of tokens")
        if config.tied and embedding.embedding_dim != width:
            raise ConfigError(
                f"head.tied: vectors of {width} components cannot be scored by an embedding of {embedding.embedding_dim}; say false"
            )
        vocab = embedding.num_embeddings
        self.embedding: nn.Embedding | None
        refer(self, "embedding", embedding if config.tied else None)
        self.linear = None if config.tied else nn.Linear(width, vocab, bias=False)
        self.bias = nn.Parameter(torch.zeros(vocab)) if config.bias else None

    @property
    def weight(self) -> Tensor:
        """(V, D)"""
        owner = self.embedding or self.linear
        assert owner is not None
        return owner.weight

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        return linear(x, self.weight, self.bias)

    def loss(self, x: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
        """Cross-entropy of x (n, D) summed over its labels (n,), without ever holding all the logits."""
        return linear_cross_entropy(x, self.weight, labels, self.bias, smoothing)
