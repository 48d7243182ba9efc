"""A linear-chain conditional random field over tags (Lafferty et al. 2001; Lample et al. 2016).

    s(x, y) = a_{y_1} + Σ_t e_t(y_t) + Σ_{t>1} A(y_{t-1}, y_t) + b_{y_n}          log p(y | x) = s(x, y) - log Σ_{y'} exp s(x, y')

    e_t(c)  score of tag c at word t, from its vector      A (C, C)  score of a tag after another      a, b (C,)  of the first and the last

The sum over all y' is computed forwards, α_t(j) = e_t(j) + log Σ_i exp(α_{t-1}(i) + A(i, j)), and the best y by the same recursion
with max for log Σ exp (Viterbi 1967). Both go word by word, over all sentences at once.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.kernels.dropout import dropout
from attentif.models.heads.base import HEADS, HeadConfig, require_classes
from attentif.nn.seq import Seq


@HEADS.register
class CRFHeadConfig(HeadConfig):
    """Emission scores at every position and transition scores between classes: tagging."""

    kind: Literal["crf"] = Field("crf", description="a score for each class at every position, and for each after another (tagging)")
    from_data = ("classes",)
    classes: int | None = Field(None, gt=0, description="number of classes; by default the data's")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropout on each vector; by default the model's")

    def build(self, width: int, embedding: nn.Embedding | None, dropout: float) -> "CRFHead":
        return CRFHead(self, width, dropout)


class CRFHead(nn.Module):
    def __init__(self, config: CRFHeadConfig, width: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout if config.dropout is None else config.dropout
        C = require_classes(config.classes)
        self.out = nn.Linear(width, C)
        self.start, self.end = nn.Parameter(torch.zeros(C)), nn.Parameter(torch.zeros(C))
        self.transitions = nn.Parameter(torch.zeros(C, C))

    def init_weights(self) -> None:
        """Initialise the transitions to zero."""
        for parameter in (self.start, self.end, self.transitions):
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        """e: the emission scores."""
        return self.out(dropout(x, self.dropout, self.training))

    def log_likelihood(self, e: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """log p of each sentence's tags (B,), from e (B, T, C), tags (B, T) and the sentences' lengths (B,)."""
        return self.score(e, tags, lengths) - self.log_total(e, lengths)

    def score(self, e: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """s(x, y), (B,)."""
        inside = torch.arange(e.shape[1], device=e.device) < lengths[:, None]
        tags = tags.masked_fill(~inside, 0)
        own = e.gather(2, tags[..., None]).squeeze(2)
        after = self.transitions[tags[:, :-1], tags[:, 1:]]
        last = tags.gather(1, lengths[:, None] - 1).squeeze(1)
        return self.start[tags[:, 0]] + (own * inside).sum(1) + (after * inside[:, 1:]).sum(1) + self.end[last]

    def log_total(self, e: Tensor, lengths: Tensor) -> Tensor:
        """log Σ exp s(x, y') over all y', (B,)."""
        steps = e.unbind(1)
        alpha = self.start + steps[0]
        for t, scores in enumerate(steps[1:], 1):
            longer = torch.logsumexp(alpha[:, :, None] + self.transitions, 1) + scores
            alpha = torch.where((t < lengths)[:, None], longer, alpha)
        return torch.logsumexp(alpha + self.end, 1)

    @torch.no_grad()
    def best(self, e: Tensor, lengths: Tensor) -> Tensor:
        """Viterbi decoding: the most likely tags (B, T); undefined past a sentence's end."""
        steps = e.unbind(1)
        alpha = self.start + steps[0]
        pointers = []
        stay = torch.arange(e.shape[2], device=e.device).expand(len(e), -1)
        for t, scores in enumerate(steps[1:], 1):
            longer, before = (alpha[:, :, None] + self.transitions).max(1)
            inside = (t < lengths)[:, None]
            alpha = torch.where(inside, longer + scores, alpha)
            pointers.append(torch.where(inside, before, stay))  # past the end a tag comes from itself: the last one is carried there
        found = [(alpha + self.end).argmax(1)]
        for before in reversed(pointers):
            found.append(before.gather(1, found[-1][:, None]).squeeze(1))
        return torch.stack(found[::-1], 1)
