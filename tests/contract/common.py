"""What every family of cases shares: one width, one site, and the tolerance of the whole contract."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from attentif.nn.mixer import MixerConfig, Site

WIDTH, HEADS, MEMORY_WIDTH = 16, 4, 12
LENGTHS = (7, 19, 1, 33)  # several groups of similar length, one of them a single token
SOURCE_LENGTHS = (5, 1, 21, 9)

# Everything is compared in float64. Two orders of the same sums of a few dozen terms near 1 differ by some 1e-15; what the contract
# forbids (a token too many, a wrong place) shows at 1e-3 and more, so 1e-11 tells them apart with room on both sides.
CLOSE = {"rtol": 1e-11, "atol": 1e-11}

Case = tuple[MixerConfig, Site]
Twin = Callable[..., Tensor]  # (mixer, x, marks), or (mixer, x, memory) of a cross mixer: the definition for one sequence (T, D) alone
SITE = Site(width=WIDTH)


def make(config: type[MixerConfig], **values: Any) -> MixerConfig:
    """A configuration from plain values, as TOML would give them."""
    return config.model_validate(values)
