"""A linear map from what was read to what comes, one for all channels, fitted in closed form.

    ŷ = Wᵀ (z − c) + b + c,   W, b = argmin Σ ‖y − ŷ‖² + λ ‖W‖²      z what was read, y what came, of every training window and channel

As in the linear models of the literature (Zeng et al. 2023; closed form: Toner & Darlow 2024). The centre c is 0, the last value (NLinear)
or the window's mean; for each of them λ and how many of the last steps are read are chosen on validation. The map is the mean of the three,
which is linear too: how far levels move decides which centre is best, and that differs from one stretch of a series to the next, so
validation tells little of it (combining with equal weights is hard to beat: Clemen 1989). A centre that fails on validation is left out.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attentif.tasks.metrics import Floats
from attentif.tasks.series.forecast_scores import in_chunks
from attentif.tasks.series.windows import Floats32, Windows

RIDGES = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1)  # λ for each example, on the standardised scale
SHARES = (1, 2, 4)  # the whole look-back, the last half, the last quarter
EARNED = 0.99  # a shorter look-back must take the error below this share of a longer one's
FAILED = 1.25  # a centre whose error is so many times the best one's is left out
MOST_WINDOWS = 60_000  # windows × channels from which the linear map is worked out, evenly spaced
CENTRES: dict[str, Callable[[NDArray[Any]], Any]] = {
    "as it is": lambda _: 0.0,
    "from the last value": lambda read: read[:, -1:],
    "from the mean": lambda read: read.mean(1, keepdims=True),
}


@dataclass(frozen=True)
class Moments:
    """Sums over windows and channels; z has a constant 1 at its end."""

    gram: Floats  # Σ z zᵀ
    cross: Floats  # Σ z yᵀ
    square: float  # Σ ‖y‖²
    count: int

    @classmethod
    def of(cls, windows: Windows, centre: str) -> "Moments":
        channels = windows.scaled.values.shape[1]
        size = windows.look_back + 1
        gram, cross, square, count = np.zeros((size, size)), np.zeros((size, windows.horizon)), 0.0, 0
        keep = np.zeros(len(windows), dtype=bool)
        keep[windows.pick(max(1, MOST_WINDOWS // channels))] = True
        for rows in in_chunks(windows):
            read, true = windows.read_and_true(rows[keep[rows]])
            middle = CENTRES[centre](read)
            z = (read - middle).transpose(0, 2, 1).reshape(-1, windows.look_back).astype(np.float64)
            z = np.concatenate([z, np.ones((len(z), 1))], axis=1)
            y = (true - middle).transpose(0, 2, 1).reshape(-1, windows.horizon).astype(np.float64)
            gram += z.T @ z
            cross += z.T @ y
            square += float((y**2).sum())
            count += len(z)
        return cls(gram, cross, square, count)

    def solve(self, ridge: float, steps: int) -> Floats:
        """The weights (look-back + 1, horizon) over the last `steps` steps; zero before."""
        first = len(self.gram) - 1 - steps
        penalty = np.append(np.full(steps, ridge), 0.0)  # the constant is free
        weight = np.zeros_like(self.cross)
        weight[first:] = np.linalg.solve(self.gram[first:, first:] / self.count + np.diag(penalty), self.cross[first:] / self.count)
        return weight

    def solve_all(self, steps: int) -> Iterator[tuple[float, Floats]]:
        """The weights for each λ."""
        for ridge in RIDGES:
            yield ridge, self.solve(ridge, steps)

    def error(self, weight: Floats) -> float:
        """The mean squared error of a map: (Σ ‖y‖² − 2 ⟨W, Σ z yᵀ⟩ + ⟨W, Σ z zᵀ W⟩) / n."""
        total = self.square - 2 * (weight * self.cross).sum() + (weight * (self.gram @ weight)).sum()
        return float(total / (self.count * self.cross.shape[1]))


@dataclass(frozen=True)
class LinearMap:
    """ŷ = Wᵀ z + b, whatever centres it was fitted from."""

    weight: Floats32  # (look-back + 1, horizon), the last row the constant
    choice: str  # what was chosen on validation

    def __call__(self, read: NDArray[Any]) -> NDArray[Any]:
        """(n, look-back, channels) to (n, horizon, channels)"""
        given = read.transpose(0, 2, 1) @ self.weight[:-1].astype(read.dtype) + self.weight[-1].astype(read.dtype)
        return np.asarray(given.transpose(0, 2, 1))

    def forecast(self, read: Tensor) -> Tensor:
        """The same of a tensor, on its device."""
        return torch.from_numpy(self(read.cpu().numpy())).to(read.device)

    @classmethod
    def choose(cls, train: Windows, valid: Windows) -> "LinearMap":
        """The mean of the best map of each centre, without those that fail on validation."""
        found = {centre: _choose_for_centre(train, valid, centre) for centre in CENTRES}
        best = min(error for error, _, _ in found.values())
        kept = {centre: own for centre, own in found.items() if own[0] <= FAILED * best}
        weight = np.mean([fold_centre(own, centre) for centre, (_, own, _) in kept.items()], axis=0)
        return cls(weight.astype(np.float32), "; ".join(f"{centre} ({said})" for centre, (_, _, said) in kept.items()))


def _choose_for_centre(train: Windows, valid: Windows, centre: str) -> tuple[float, Floats, str]:
    """The error on validation, the weights, and what was chosen."""
    known, kept = Moments.of(train, centre), Moments.of(valid, centre)
    best: tuple[float, Floats, str] | None = None
    for steps in sorted({max(1, train.look_back // share) for share in SHARES}, reverse=True):
        tried = [(kept.error(weight), weight, f"ridge {ridge:g}, {steps} steps") for ridge, weight in known.solve_all(steps)]
        own = min(tried, key=lambda one: one[0])
        if best is None or own[0] < EARNED * best[0]:
            best = own
    assert best is not None
    return best


def fold_centre(weight: Floats, centre: str) -> Floats:
    """The same map as weights of the window as it is: Wᵀ (z − c) + b + c = W'ᵀ z + b."""
    folded, rest = weight.copy(), 1 - weight[:-1].sum(0)
    if centre == "from the last value":
        folded[-2] += rest
    elif centre == "from the mean":
        folded[:-1] += rest / (len(weight) - 1)
    return folded
