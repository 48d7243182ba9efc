"""From scores to a token. Functions of logits (B, V); a token that may not be drawn gets −∞ (as what `limits.py` bans before them).

They are applied in this order, each to what the one before left:

    repetition penalty   l / θ where l > 0, l · θ elsewhere, for tokens of the text so far        (Keskar et al. 2019, CTRL)
    temperature          l / τ
    top-k                the k largest, and what equals the k-th                                  (Fan et al. 2018)
    top-p                the fewest tokens, likeliest first, whose probabilities sum to p or more (Holtzman et al. 2020, nucleus)
    min-p                tokens whose probability is at least p times that of the likeliest       (Nguyen et al. 2024)

and then one token is drawn with the probabilities softmax(l) that remain, or, when τ = 0, the largest is taken.
"""

import secrets
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from attentif.decode.limits import NEVER
from attentif.decode.options import GenerateOptions


def penalise(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """`seen` (B, V): the tokens of each text so far."""
    return torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits)


def keep_top_k(logits: Tensor, k: int) -> Tensor:
    least = logits.topk(min(k, logits.shape[-1])).values[..., -1:]
    return logits.masked_fill(logits < least, NEVER)


def keep_top_p(logits: Tensor, p: float) -> Tensor:
    ordered, index = logits.sort(descending=True)
    probability = ordered.softmax(-1)
    before = probability.cumsum(-1) - probability  # of all that are likelier
    dropped = before >= p
    dropped[..., 0] = False
    return logits.masked_fill(dropped.scatter(-1, index, dropped), NEVER)


def keep_min_p(logits: Tensor, p: float) -> Tensor:
    probability = logits.softmax(-1)
    return logits.masked_fill(probability < p * probability.amax(-1, keepdim=True), NEVER)


def adjust_logits(logits: Tensor, options: GenerateOptions, seen: Tensor | None = None) -> Tensor:
    """All of the above, in order; without a temperature only the penalty, which alone changes what is largest."""
    if options.repetition_penalty != 1.0 and seen is not None:
        logits = penalise(logits, seen, options.repetition_penalty)
    if not options.temperature:
        return logits
    logits = logits / options.temperature
    if options.top_k is not None:
        logits = keep_top_k(logits, options.top_k)
    if options.top_p is not None and options.top_p < 1:
        logits = keep_top_p(logits, options.top_p)
    if options.min_p:
        logits = keep_min_p(logits, options.min_p)
    return logits


def draw(logits: Tensor, uniform: Tensor) -> Tensor:
    """The token (B,) at which the summed probability of each row passes its `uniform` number (B,) in [0, 1)."""
    mass = logits.double().softmax(-1).cumsum(-1)
    total = mass[:, -1:]
    level = torch.minimum(uniform[:, None].to(mass) * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(mass, level, right=True)[:, 0]


class Sampler:
    """Chooses a token for each row; a row's draws depend on the seed and its own number, never on the rows beside it."""

    def __init__(self, options: GenerateOptions, prompts: Sequence[Sequence[int]], vocab: int, device: torch.device) -> None:
        self.options = options
        seed = secrets.randbits(64) if options.seed is None else options.seed
        self.random = [np.random.default_rng((seed, row)) for row in range(len(prompts))] if options.temperature else []
        self.seen: Tensor | None = None
        if options.repetition_penalty != 1.0:
            self.seen = torch.zeros(len(prompts), vocab, dtype=torch.bool, device=device)
            for row, prompt in enumerate(prompts):
                self.seen[row, list(prompt)] = True

    def choose(self, logits: Tensor) -> Tensor:
        """(B, V) to (B,)."""
        logits = adjust_logits(logits, self.options, self.seen)
        if self.random:
            tokens = draw(logits, torch.tensor([random.random() for random in self.random], dtype=torch.float64, device=logits.device))
        else:
            tokens = logits.argmax(-1)
        if self.seen is not None:
            self.seen.scatter_(1, tokens[:, None], True)
        return tokens

    def select(self, rows: Sequence[int]) -> None:
        """Go on with these rows only."""
        self.random = [self.random[row] for row in rows] if self.random else []
        if self.seen is not None:
            self.seen = self.seen[list(rows)]
