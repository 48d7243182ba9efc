"""A network that corrects a linear map (stacked generalisation, Wolpert 1992), with weights from validation.

    ŷ_q = ŷ_lin + a r_m + c (r_q − r_m)        r: what the network adds, by quantile q; m: the median; without quantiles, a r

a is the least-squares weight of r_m for the errors of the linear map, less one standard error (jackknife over stretches of validation),
between 0 and 1: what the network adds beyond doubt. c, the width of the bands, has the lowest pinball loss. While the network learns,
both are 1.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from attentif.models.heads.horizon import pinball
from attentif.tasks.metrics import Floats
from attentif.tasks.series.linear_map import LinearMap

STRETCHES = 8  # of validation: neighbouring windows overlap, so single windows would make the doubt look small
WIDTHS = np.geomspace(0.5, 3.0, 19)  # c that are tried
Read = Iterable[tuple[Tensor, Tensor, Tensor, Tensor]]  # rows (n,), what the network adds (n, H, C, Q), the map's (n, H, C), what came


@dataclass(frozen=True)
class LinearStack:
    """The linear map beneath a network, and the weights of what the network adds."""

    linear: LinearMap
    network: float = 1.0  # a
    width: float = 1.0  # c

    def join(self, added: Tensor, read: Tensor, middle: int) -> Tensor:
        """Forecasts (B, horizon, channels, Q) of windows `read`; `middle`: the place of the median."""
        return self.weigh(added, self.linear.forecast(read), middle)

    def weigh(self, added: Tensor, linear: Tensor, middle: int) -> Tensor:
        median = added[..., middle : middle + 1]
        return linear[..., None] + self.network * median + self.width * (added - median)

    def choose(self, read: Callable[[], Read], windows: int, middle: int, quantiles: list[float]) -> "LinearStack":
        """With the weights of so many validation windows; `read` gives them batch by batch, as often as it is asked."""
        cross, square = np.zeros(STRETCHES), np.zeros(STRETCHES)
        for rows, added, linear, true in read():
            stretch, own = (rows * STRETCHES // windows).cpu().numpy(), added[..., middle]
            np.add.at(cross, stretch, (own * (true - linear)).sum((1, 2)).double().cpu().numpy())
            np.add.at(square, stretch, own.square().sum((1, 2)).double().cpu().numpy())
        chosen = replace(self, network=cautious_weight(cross, square))
        if not quantiles:
            return chosen
        loss = np.zeros(len(WIDTHS))
        for _, added, linear, true in read():
            levels = added.new_tensor(quantiles)
            loss += [float(pinball(replace(chosen, width=c).weigh(added, linear, middle), true, levels).sum()) for c in WIDTHS]
        return replace(chosen, width=float(WIDTHS[loss.argmin()]))


def cautious_weight(cross: Floats, square: Floats) -> float:
    """Σ x y / Σ x² of all stretches, less its standard error by the jackknife, between 0 and 1."""
    if not square.sum():
        return 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        left_out = (cross.sum() - cross) / (square.sum() - square)
    error = np.sqrt((len(cross) - 1) * np.mean((left_out - left_out.mean()) ** 2))
    found = cross.sum() / square.sum() - error
    return float(np.clip(found, 0.0, 1.0)) if np.isfinite(found) else 0.0
