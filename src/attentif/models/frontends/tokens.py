"""Token ids to vectors."""

import math
from typing import Literal, Self

from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.kernels.dropout import dropout
from attentif.models.batch import Input
from attentif.models.frontends.base import FRONTENDS, FrontendConfig
from attentif.nn.norm import Norm
from attentif.nn.position import Position
from attentif.nn.seq import Seq


@FRONTENDS.register
class TokensConfig(FrontendConfig):
    """Token ids: embedding, position, segment, norm, dropout, a linear map where embeddings are narrower, evidence, in this order."""

    kind: Literal["tokens"] = Field("tokens", description="token ids")
    from_data = ("vocab", "evidence")
    vocab: int | None = Field(None, gt=0, description="tokens of the vocabulary; by default the tokenizer's")
    embedding: int | None = Field(
        None, gt=0, description="components of embeddings, positions and norm, where a linear map then leads to the model's width (ELECTRA)"
    )
    segments: int = Field(0, ge=0, description="texts told apart by a learned vector each (BERT: 2); 0: none")
    scale: bool = Field(False, description="multiply embeddings by √width (2017)")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropped components; by default the model's")
    position: Position | None = Field(None, description="positions added to the embeddings: sinusoidal, learned, axial, amplitude, binary")
    norm: Norm | None = Field(None, description="normalise the sum (BERT)")
    vectors: str | None = Field(
        None,
        description="a file of word vectors (word2vec or GloVe) that the embedding begins with, read once; tokens without one are drawn",
    )
    evidence: int | None = Field(
        None,
        gt=0,
        description="numbers read beside each token, mapped to the width and added; by default those that the task gives, if any",
    )

    def build(self, width: int, dropout: float) -> "Tokens":
        return Tokens(self, width, dropout)

    @property
    def limit(self) -> int | None:
        return self.position.limit if self.position else None

    def with_any_size(self) -> Self:
        return super().with_any_size().changed(evidence=self.evidence)  # most tasks give none


class Tokens(nn.Module):
    def __init__(self, config: TokensConfig, width: int, dropout: float) -> None:
        super().__init__()
        if config.vocab is None:
            raise ConfigError("vocab: the size of the vocabulary is not known yet; give it, or train with a tokenizer")
        out, width = width, config.embedding or width
        self.tokens = nn.Embedding(config.vocab, width)
        self.segments = nn.Embedding(config.segments, width) if config.segments else None
        self.position = config.position.build(width) if config.position else None
        self.norm = config.norm.build(width) if config.norm else nn.Identity()
        self.project = nn.Linear(width, out) if config.embedding else nn.Identity()
        self.evidence = nn.Linear(config.evidence, out, bias=False) if config.evidence else None
        self.scale = math.sqrt(width) if config.scale else 1.0
        self.dropout = dropout if config.dropout is None else config.dropout

    def forward(self, source: Input) -> tuple[Tensor, Seq]:
        x = self.tokens(source.data)
        if self.scale != 1.0:
            x = x * self.scale
        if self.position is not None:
            x = x + self.position(places(source.seq), x.dtype)
        if self.segments is not None:
            told_apart = source.segments is not None and self.segments.num_embeddings > 1  # RoBERTa has one vector for both texts
            x = x + (self.segments(source.segments) if told_apart else self.segments.weight[0])
        x = dropout(self.norm(x), self.dropout, self.training)
        x = self.project(x)
        if self.evidence is not None and source.beside is not None:
            x = x + self.evidence(source.beside.data)
        return x, source.seq


def places(seq: Seq) -> Tensor:
    """The numbers of the places, as one row (1, T) where all rows share it; on padding, which may run past a table's end, none is new."""
    if seq.is_packed:
        return seq.pos
    return seq.places if seq.dense else seq.places.clamp(max=max(seq.end - 1, 0))
