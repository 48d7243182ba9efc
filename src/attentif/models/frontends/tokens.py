"""Token ids to vectors."""

import math
from typing import Literal, Self

from pydantic import Field
from torch import Tensor, nn

from attentif.config import Config
from attentif.errors import ConfigError
from attentif.kernels.dropout import dropout
from attentif.models.batch import Input
from attentif.models.frontends.base import FRONTENDS, FrontendConfig
from attentif.nn.norm import Norm
from attentif.nn.position import Position
from attentif.nn.seq import Seq


class MaskDropoutConfig(Config):
    """x_t = 0 for [MASK], and otherwise x_t (1 - r) / (1 - m / T) in a text with m of them (Rives et al. 2021; ESM-2)."""

    token: int = Field(ge=0, description="id of [MASK]")
    share: float = Field(0.12, ge=0, lt=1, description="r: the share of [MASK] in training")

    def apply(self, x: Tensor, source: Input) -> Tensor:
        """Hide the vectors of [MASK], and let the others grow for them, text by text."""
        seq, masked = source.seq, source.data == self.token
        if seq.is_packed:
            counts = x.new_zeros(seq.batch).index_add(0, seq.row, masked.to(x.dtype))
        else:
            counts = (masked & seq.padded_mask()).sum(1).to(x.dtype)
        factors = (1 - self.share) / (1 - counts / seq.lengths)
        return x.masked_fill(masked[..., None], 0.0) * (factors[seq.row] if seq.is_packed else factors[:, None])[..., None]


@FRONTENDS.register
class TokensConfig(FrontendConfig):
    """Token ids: embedding, position, segment, norm, dropout, projection and token features."""

    kind: Literal["tokens"] = Field("tokens", description="token ids")
    from_data = ("vocab", "features")
    vocab: int | None = Field(None, gt=0, description="tokens of the vocabulary; by default the tokenizer's")
    embedding: int | None = Field(None, gt=0, description="width of embeddings, then projected to the model's (ELECTRA)")
    projects: Literal["sum", "tokens"] = Field(
        "sum", description="what is projected from embedding to width: the sum with positions (ELECTRA), or the tokens alone (OPT-350m)"
    )
    segments: int = Field(0, ge=0, description="number of segment embeddings (BERT: 2)")
    scale: bool = Field(False, description="multiply embeddings by √width (2017)")
    factor: float = Field(1.0, gt=0, description="multiply embeddings by this number (Granite)")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropout; by default the model's")
    position: Position | None = Field(None, description="positions added to the embeddings: sinusoidal, learned, axial, amplitude, binary")
    norm: Norm | None = Field(None, description="normalise the sum (BERT)")
    vectors: str | None = Field(None, description="file of word vectors (word2vec or GloVe) to initialise the embedding with")
    mask_dropout: MaskDropoutConfig | None = Field(None, description="hide the vectors of [MASK], and let the others grow for them (ESM-2)")
    features: int | None = Field(None, gt=0, description="numeric features added to each token; by default the task's")

    def build(self, width: int, dropout: float) -> "TokenFrontend":
        return TokenFrontend(self, width, dropout)

    @property
    def limit(self) -> int | None:
        return self.position.limit if self.position else None

    def with_any_size(self) -> Self:
        return super().with_any_size().replace(features=self.features)  # most tasks give none


class TokenFrontend(nn.Module):
    def __init__(self, config: TokensConfig, width: int, dropout: float) -> None:
        super().__init__()
        if config.vocab is None:
            raise ConfigError("vocab: the size of the vocabulary is not known yet; give it, or train with a tokenizer")
        out, width = width, config.embedding or width
        self.tokens = nn.Embedding(config.vocab, width)
        self.widen = nn.Linear(width, out, bias=False) if config.embedding and config.projects == "tokens" else None
        width = width if self.widen is None else out
        self.segments = nn.Embedding(config.segments, width) if config.segments else None
        self.position = config.position.build(width) if config.position else None
        self.norm = config.norm.build(width) if config.norm else nn.Identity()
        self.project = nn.Linear(width, out) if config.embedding and self.widen is None else nn.Identity()
        self.features = nn.Linear(config.features, out, bias=False) if config.features else None
        self.scale = config.factor * (math.sqrt(width) if config.scale else 1.0)
        self.mask_dropout = config.mask_dropout
        self.dropout = dropout if config.dropout is None else config.dropout

    def forward(self, source: Input) -> tuple[Tensor, Seq]:
        x = self.tokens(source.data)
        if self.scale != 1.0:
            x = x * self.scale
        if self.mask_dropout is not None:
            x = self.mask_dropout.apply(x, source)
        if self.widen is not None:
            x = self.widen(x)
        if self.position is not None:
            x = x + self.position(position_ids(source.seq), x.dtype)
        if self.segments is not None:
            segmented = source.segments is not None and self.segments.num_embeddings > 1  # RoBERTa has one vector for both texts
            x = x + (self.segments(source.segments) if segmented else self.segments.weight[0])
        x = dropout(self.norm(x), self.dropout, self.training)
        x = self.project(x)
        if self.features is not None and source.beside is not None:
            x = x + self.features(source.beside.data)
        return x, source.seq


def position_ids(seq: Seq) -> Tensor:
    """Return position numbers with one row if all share it; padding repeats known positions."""
    if seq.is_packed:
        return seq.pos
    return seq.shared_pos if seq.dense else seq.shared_pos.clamp(max=max(seq.end - 1, 0))
