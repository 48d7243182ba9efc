"""Connectionist temporal classification: scores of each token and the blank at every frame.

    P(y | x) = Σ over alignments a that collapse to y of Π_t p_t(a_t)                      (Graves et al. 2006, eq. 3)

An alignment writes a token or the blank at each frame; it collapses by taking repeated tokens as one, then leaving blanks out. The blank
has the number 0, where tokenizers keep [PAD], which no transcript holds.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.kernels.dropout import dropout
from attentif.models.heads.base import HEADS, HeadConfig
from attentif.nn.seq import Seq

BLANK = 0


@HEADS.register
class CTCHeadConfig(HeadConfig):
    """Scores of each token and of the blank, at every frame."""

    kind: Literal["ctc"] = Field("ctc", description="a score for each token and for the blank, at every frame (CTC)")
    from_data = ("vocab",)
    vocab: int | None = Field(None, gt=1, description="tokens, the blank (0) among them; by default the tokenizer's")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropout on each vector; by default the model's")

    def build(self, width: int, embedding: nn.Embedding | None, dropout: float) -> "CTCHead":
        return CTCHead(self, width, dropout)


class CTCHead(nn.Module):
    def __init__(self, config: CTCHeadConfig, width: int, dropout: float) -> None:
        super().__init__()
        if config.vocab is None:
            raise ConfigError("head.vocab: the number of tokens is not known yet; give it, or train on transcripts")
        self.dropout = dropout if config.dropout is None else config.dropout
        self.out = nn.Linear(width, config.vocab)

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        return self.out(dropout(x, self.dropout, self.training))


def ctc_loss(logits: Tensor, frames: Tensor, labels: Tensor, lengths: Tensor) -> Tensor:
    """(B,): -ln P(y | x) of logits (B, T, V) with `frames` frames and labels (B, L) of `lengths`.

    A transcript that its frames cannot hold has no alignment: it counts nothing, as there is nothing to learn from it.
    """
    log_p = logits.log_softmax(-1).transpose(0, 1)
    return F.ctc_loss(log_p, labels, frames, lengths, blank=BLANK, reduction="none", zero_infinity=True)


def min_frames(labels: Sequence[int]) -> int:
    """Fewest frames a transcript aligns with: one per token, a blank between equal neighbours."""
    return len(labels) + sum(a == b for a, b in pairwise(labels))
