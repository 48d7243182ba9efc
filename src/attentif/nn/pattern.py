"""Who may look at whom, as a union of entries.

    pattern = [{ kind = "window", left = 256, right = 256 }, { kind = "global", at = [0] }]

A query may look at a key if some entry allows it (an empty pattern allows all), and, in a causal attention, if the key is not later.
Positions count within each sequence, so what a row sees never depends on its neighbours in the batch.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from attentif.config import Config, OneOf, Registry
from attentif.nn.seq import Seq


class PatternConfig(Config):
    kind: str

    def allows(self, q_pos: Tensor, k_pos: Tensor, q_marks: Tensor | None, k_marks: Tensor | None) -> Tensor:
        """(..., T, S): whether this entry lets q look at k."""
        raise NotImplementedError


PATTERNS: Registry[PatternConfig] = Registry("pattern")
Pattern = Annotated[tuple[Annotated[PatternConfig, OneOf(PATTERNS)], ...], Field(strict=False)]


@PATTERNS.register
class Window(PatternConfig):
    """Neighbours only."""

    kind: Literal["window"] = Field("window", description="neighbours only")
    left: int = Field(ge=0, description="places before that are seen")
    right: int = Field(0, ge=0, description="places after that are seen (a causal attention sees none)")

    def allows(self, q_pos: Tensor, k_pos: Tensor, q_marks: Tensor | None, k_marks: Tensor | None) -> Tensor:
        offset = k_pos[..., None, :] - q_pos[..., :, None]
        return (offset >= -self.left) & (offset <= self.right)


@PATTERNS.register
class Global(PatternConfig):
    """Some tokens see all and are seen by all: those at fixed places, and those the task marked in `Seq.marks`."""

    kind: Literal["global"] = Field("global", description="tokens that see all and are seen by all, besides those the task marks")
    at: Annotated[tuple[int, ...], Field(strict=False)] = Field((), description="their places")

    def allows(self, q_pos: Tensor, k_pos: Tensor, q_marks: Tensor | None, k_marks: Tensor | None) -> Tensor:
        places = torch.tensor(self.at, device=q_pos.device, dtype=q_pos.dtype)
        q_global, k_global = torch.isin(q_pos, places), torch.isin(k_pos, places)
        if q_marks is not None:
            q_global = q_global | q_marks
        if k_marks is not None:
            k_global = k_global | k_marks
        return q_global[..., :, None] | k_global[..., None, :]


def allowed(
    pattern: Sequence[PatternConfig],
    causal: bool,
    q_pos: Tensor,
    k_pos: Tensor,
    marks: tuple[Tensor | None, Tensor | None] = (None, None),
) -> Tensor | None:
    """(B or 1, 1, T, S), or None where everything is allowed. Padding is not looked at here: see `mask_for`."""
    result: Tensor | None = None
    for entry in pattern:
        entry_allows = entry.allows(q_pos, k_pos, *marks)
        result = entry_allows if result is None else result | entry_allows
    if causal:
        back = k_pos[..., None, :] <= q_pos[..., :, None]
        result = back if result is None else result & back
    return None if result is None else result.unsqueeze(-3)


def mask_for(pattern: Sequence[PatternConfig], causal: bool, seq: Seq) -> Tensor | None:
    """The mask of a padded batch that is read whole, or None where none is needed.

    Sequences stand at the left of their rows, so a plain causal attention never reaches the padding and needs no mask for it.
    """
    mask = allowed(pattern, causal, seq.places, seq.places, (seq.marks, seq.marks))
    if seq.dense:
        return mask
    valid = seq.valid[:, None, None, :]
    return valid if mask is None else mask & valid
