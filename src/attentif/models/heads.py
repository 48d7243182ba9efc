"""From the last vectors to what is predicted. A head reads (x, Seq) and returns logits."""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.config import Config, OneOf, Registry
from attentif.errors import ConfigError
from attentif.kernels.cross_entropy import linear_cross_entropy
from attentif.kernels.dropout import dropout
from attentif.kernels.linear import linear
from attentif.nn.mixer import refer
from attentif.nn.seq import Seq, unpack


class HeadConfig(Config):
    kind: str

    def build(self, width: int, embedding: nn.Embedding | None, dropout: float) -> nn.Module:
        """`embedding` is that of the tokens being predicted, for heads that share it; `dropout` the model's."""
        raise NotImplementedError


HEADS: Registry[HeadConfig] = Registry("head")
Head = Annotated[HeadConfig, OneOf(HEADS)]


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


@HEADS.register
class ClassifyHeadConfig(HeadConfig):
    """A score for each class, for the whole sequence."""

    kind: Literal["classify"] = Field("classify", description="a score for each class, for the whole sequence")
    classes: int | None = Field(None, gt=0, description="number of classes; by default the data's")
    pool: Literal["first", "last", "mean", "max"] = Field("mean", description="how places become one vector: first, last, mean, max")
    hidden: bool = Field(False, description="a linear map and a tanh before the scores (BERT's pooler)")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropped components of the pooled vector; by default the model's")

    def build(self, width: int, embedding: nn.Embedding | None, dropout: float) -> "ClassifyHead":
        return ClassifyHead(self, width, dropout)


class ClassifyHead(nn.Module):
    def __init__(self, config: ClassifyHeadConfig, width: int, dropout: float) -> None:
        super().__init__()
        if config.classes is None:
            raise ConfigError("head.classes: the number of classes is not known yet; give it, or train on labelled data")
        self.pool, self.dropout = config.pool, dropout if config.dropout is None else config.dropout
        self.hidden = nn.Linear(width, width) if config.hidden else None
        self.out = nn.Linear(width, config.classes)

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        x = pooled(x, seq, self.pool)
        if self.hidden is not None:
            x = torch.tanh(self.hidden(x))
        return self.out(dropout(x, self.dropout, self.training))


@HEADS.register
class TokensHeadConfig(HeadConfig):
    """A score for each class, at every place: tagging."""

    kind: Literal["tokens"] = Field("tokens", description="a score for each class, at every place (tagging)")
    classes: int | None = Field(None, gt=0, description="number of classes; by default the data's")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropped components of each vector; by default the model's")

    def build(self, width: int, embedding: nn.Embedding | None, dropout: float) -> "TokensHead":
        return TokensHead(self, width, dropout)


class TokensHead(nn.Module):
    def __init__(self, config: TokensHeadConfig, width: int, dropout: float) -> None:
        super().__init__()
        if config.classes is None:
            raise ConfigError("head.classes: the number of classes is not known yet; give it, or train on labelled data")
        self.dropout = dropout if config.dropout is None else config.dropout
        self.out = nn.Linear(width, config.classes)

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        return self.out(dropout(x, self.dropout, self.training))


def pooled(x: Tensor, seq: Seq, how: Literal["first", "last", "mean", "max"]) -> Tensor:
    """One vector (B, D) for each sequence; padding does not count."""
    if how in ("first", "last"):
        places = seq.first() if how == "first" else seq.last()
        return x.reshape(-1, x.shape[-1])[places]
    if how == "max":
        padded = unpack(x, seq) if seq.is_packed else x
        return padded.masked_fill(~seq.valid_padded()[..., None], float("-inf")).amax(1)
    if seq.is_packed:
        total = x.new_zeros(seq.batch, x.shape[-1]).index_add(0, seq.row, x)
    else:
        total = (x if seq.dense else x.masked_fill(~seq.valid[..., None], 0)).sum(1)
    return total / seq.lengths[:, None].clamp(min=1)
