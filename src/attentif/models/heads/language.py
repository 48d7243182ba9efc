"""Language modelling: logits of each token of the vocabulary.

    z = E h + b        h = x, or with a `transform`  h = norm(a(W x + c)), a a gelu        (Devlin et al. 2019, for masked tokens)

E is the embedding matrix, or one of its own. `follows` adds next-sentence prediction: s = U tanh(P x_first + p) + u
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
from attentif.models.heads.pooling import pool_sequence
from attentif.nn.bf16 import Bf16Linear
from attentif.nn.int8 import Int8Linear
from attentif.nn.mixer import share_module
from attentif.nn.norm import Norm
from attentif.nn.seq import Seq

CHUNK = 512  # rows whose logits are stored at once in inference


@HEADS.register
class LanguageHeadConfig(HeadConfig):
    """Logits of each token of the vocabulary, at every position."""

    kind: Literal["language"] = Field("language", description="a score for each token of the vocabulary, at every position")
    tied: bool = Field(True, description="share the matrix of the embedding (Press & Wolf 2017)")
    bias: bool = Field(False, description="a bias for each token")
    transform: Norm | None = Field(None, description="a linear map, a non-linearity and this norm come before the scores (BERT)")
    transform_bias: bool = Field(True, description="a bias in the map of `transform`")
    activation: Activation = Field("gelu", description="the non-linearity of `transform`: tanh, gelu, gelu-tanh, relu, silu")
    follows: bool = Field(False, description="add a next-sentence prediction from the first position (BERT)")
    scaled: bool = Field(False, description="divide vectors by √width before the output matrix (T5)")
    factor: float = Field(1.0, gt=0, description="factor on the logits (Granite)")
    softcap: float | None = Field(None, gt=0, description="bound logits to ± this value by a tanh (Gemma 2)")

    def build(self, width: int, embedding: nn.Embedding | None, dropout: float) -> "LanguageHead":
        return LanguageHead(self, width, embedding)


class LanguageHead(nn.Module):
    def __init__(self, config: LanguageHeadConfig, width: int, embedding: nn.Embedding | None) -> None:
        super().__init__()
        if embedding is None:
            raise ConfigError("head: a language head predicts tokens, and needs a frontend of tokens")
        inner = embedding.embedding_dim if config.tied and config.transform else width
        if config.tied and embedding.embedding_dim != inner:
            sizes = f"vectors of {width} components do not fit an embedding of {embedding.embedding_dim}"
            raise ConfigError(f"head.tied: {sizes}; set it to false, or give a transform")
        vocab = embedding.num_embeddings
        self.embedding: nn.Embedding | None
        share_module(self, "embedding", embedding if config.tied else None)
        self.linear = None if config.tied else nn.Linear(width, vocab, bias=False)
        self.bias = nn.Parameter(torch.zeros(vocab)) if config.bias else None
        self.transform = nn.Linear(width, inner, bias=config.transform_bias) if config.transform else None
        self.activation = ACTIVATIONS[config.activation]
        self.norm = config.transform.build(inner) if config.transform else None
        self.pooler = nn.Linear(width, width) if config.follows else None
        self.follows = nn.Linear(width, 2) if config.follows else None
        self.scale = config.factor * (width**-0.5 if config.scaled else 1.0)
        self.softcap = config.softcap
        self.int8: Int8Linear | None = None  # the matrix in bytes, where the model is quantised
        self.bf16: Bf16Linear | None = None  # or in bf16, where its maps are kept so
        self.products: torch.dtype | None = None  # what is multiplied, where that is not the matrix's own type

    @property
    def weight(self) -> Tensor:
        """(V, D)"""
        owner = self.embedding or self.linear
        assert owner is not None
        return owner.weight

    @property
    def rounded(self) -> Int8Linear | Bf16Linear | None:
        """The matrix in a shorter type, where there is one."""
        return self.int8 if self.int8 is not None else self.bf16

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        return self.scores(x)

    def scores(self, x: Tensor) -> Tensor:
        x, rounded = self.transform_input(x), self.rounded
        z = linear(x, self.weight, self.bias, self.products) if rounded is None else rounded(x)
        return z if self.softcap is None else self.softcap * torch.tanh(z / self.softcap)

    def transform_input(self, x: Tensor) -> Tensor:
        """Apply `transform` and `scaled` to the vectors."""
        if self.transform is not None and self.norm is not None:
            x = self.norm(self.activation(self.transform(x)))
        return x if self.scale == 1.0 else x * self.scale

    def follow_scores(self, x: Tensor, seq: Seq) -> Tensor:
        """(B, 2): whether the second text follows the first, or not (next-sentence prediction)."""
        assert self.pooler is not None
        assert self.follows is not None
        scores: Tensor = self.follows(torch.tanh(self.pooler(pool_sequence(x, seq, "first"))))
        return scores

    def loss(self, x: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
        """Summed cross-entropy of x (n, D) and labels (n,); without a soft cap, logits are not stored."""
        if self.softcap is not None or self.rounded is not None:
            chunks = zip(x.split(CHUNK), labels.split(CHUNK), strict=True) if self.rounded is not None else [(x, labels)]
            losses = [F.cross_entropy(self.scores(some), own, reduction="sum", label_smoothing=smoothing) for some, own in chunks]
            return torch.stack(losses).sum() if losses else x.sum()
        return linear_cross_entropy(self.transform_input(x), self.weight, labels, self.bias, smoothing, self.products)
