"""Simple forecasts that a model must be compared with: the last value, the last season, a linear map.

    ŷ = W z + b,   W, b = argmin Σ ‖y − W z − b‖² + λ ‖W‖²,   z what was read, y what came, of every training window and every channel

One W serves all channels, as in the linear models of the literature (Zeng et al. 2023; closed form: Toner & Darlow 2024). z and y are taken
as they are, from the last value (NLinear), or from the window's mean; which of the three, and λ, are chosen on the validation split.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentif.tasks.base import Baseline, Say
from attentif.tasks.baselines import measure_time
from attentif.tasks.metrics import Floats
from attentif.tasks.series.forecast_scores import Tally, in_chunks, last_season, last_value, tally_errors
from attentif.tasks.series.windows import Windows
from attentif.view.words import Text

RIDGES = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1)  # λ for each example, on the standardised scale
MOST_WINDOWS = 60_000  # windows × channels from which the linear map is worked out, evenly spaced
CENTRES: dict[str, Callable[[NDArray[Any]], Any]] = {
    "as it is": lambda _: 0.0,
    "from the last value": lambda read: read[:, -1:],
    "from the mean": lambda read: read.mean(1, keepdims=True),
}


def forecast_baselines(train: Windows, valid: Windows, test: Windows, naive: Floats, period: int, say: Say) -> list[Baseline]:
    """Scored on all test windows; and the error of the linear one, the hardest to beat, step by step."""
    horizon = test.horizon
    found = [
        _measure(Text("dernière valeur", "last value"), say, lambda: tally_errors(test, naive, lambda read: last_value(read, horizon)))
    ]
    if 1 < period <= test.look_back:
        name = Text(f"saison précédente (période {period})", f"last season (period {period})")
        found.append(_measure(name, say, lambda: tally_errors(test, naive, lambda read: last_season(read, horizon, period))))
    elif period > 1:
        say(f"baseline last season: left out, as a season of {period} steps is longer than the look-back of {test.look_back}")
    say("baseline linear: choosing its centre and its ridge on validation")
    with measure_time() as clock:
        linear = Linear.choose(train, valid, naive)
        tally = tally_errors(test, naive, linear)
    name = Text("linéaire (moindres carrés, choisi sur la validation)", "linear (ridge, chosen on validation)")
    say(f"baseline linear: {linear.centre}, ridge {linear.ridge:g}")
    return [*found, replace(_baseline(name, tally, clock.seconds, say), by_step=tally.by_step())]


def _measure(name: Text, say: Say, score: Callable[[], Tally]) -> Baseline:
    with measure_time() as clock:
        tally = score()
    return _baseline(name, tally, clock.seconds, say)


def _baseline(name: Text, tally: Tally, seconds: float, say: Say) -> Baseline:
    scores = tally.scores()
    say(f"baseline {name.en}: MSE {scores['mse']:.4f} ({seconds:.1f} s)")
    return Baseline(name, scores, tally.intervals(), seconds)


class Linear:
    """The ridge regression of one centre and one λ."""

    def __init__(self, weight: NDArray[Any], centre: str, ridge: float) -> None:
        self.weight, self.centre, self.ridge = weight, centre, ridge  # (look-back + 1, horizon), the last row the constant

    def __call__(self, read: NDArray[Any]) -> NDArray[Any]:
        middle = CENTRES[self.centre](read)
        z = (read - middle).transpose(0, 2, 1)  # (n, channels, look-back)
        given = z @ self.weight[:-1].astype(read.dtype) + self.weight[-1].astype(read.dtype)
        return given.transpose(0, 2, 1) + middle

    @classmethod
    def choose(cls, train: Windows, valid: Windows, naive: Floats) -> "Linear":
        """The one with the lowest squared error on validation."""
        best: tuple[float, Linear] | None = None
        for centre in CENTRES:
            gram, cross, count = moments(train, centre)
            for ridge in RIDGES:
                penalty = np.append(np.full(len(gram) - 1, ridge), 0.0)  # the constant is free
                candidate = cls(np.linalg.solve(gram / count + np.diag(penalty), cross / count), centre, ridge)
                score = tally_errors(valid, naive, candidate).scores()["mse"]
                if best is None or score < best[0]:
                    best = score, candidate
        assert best is not None
        return best[1]


def moments(train: Windows, centre: str) -> tuple[Floats, Floats, int]:
    """Σ z zᵀ, Σ z yᵀ (with a constant 1 at the end of z), and over how many windows and channels."""
    channels = train.scaled.values.shape[1]
    size = train.look_back + 1
    gram, cross, count = np.zeros((size, size)), np.zeros((size, train.horizon)), 0
    keep = np.zeros(len(train), dtype=bool)
    keep[train.pick(max(1, MOST_WINDOWS // channels))] = True
    for rows in in_chunks(train):
        read, true = train.read_and_true(rows[keep[rows]])
        middle = CENTRES[centre](read)
        z = (read - middle).transpose(0, 2, 1).reshape(-1, train.look_back).astype(np.float64)
        z = np.concatenate([z, np.ones((len(z), 1))], axis=1)
        y = (true - middle).transpose(0, 2, 1).reshape(-1, train.horizon).astype(np.float64)
        gram += z.T @ z
        cross += z.T @ y
        count += len(z)
    return gram, cross, count
