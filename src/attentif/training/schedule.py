"""The learning rate as a pure function of the step: resuming needs the step and nothing else.

    warm-up       f(t) = (t + 1) / w                                   t < w
    constant      f(t) = 1
    linear        f(t) = e + (1 - e)(1 - p)                            p = (t - w) / (n - w), at most 1
    cosine        f(t) = e + (1 - e)(1 + cos πp) / 2                   (Loshchilov & Hutter 2017, eq. 5, one period)
    inverse-sqrt  f(t) = √(w / (t + 1))                                (Vaswani 2017, eq. 3, with its peak scaled to 1)

t: steps done, w: steps of warm-up, n: steps of the run, e: the share of the rate that is left at the end. The rate is lr · f(t).
"""

import math
from typing import Literal, get_args

Schedule = Literal["cosine", "linear", "inverse-sqrt", "constant"]
SCHEDULES: tuple[str, ...] = get_args(Schedule)


def factor(kind: Schedule, step: int, *, warmup: int, total: int, end: float = 0.0) -> float:
    """What the learning rate is multiplied by at `step`, the number of steps already done."""
    if step < warmup:
        return (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, total - warmup))
    match kind:
        case "constant":
            return 1.0
        case "linear":
            return end + (1 - end) * (1 - progress)
        case "cosine":
            return end + (1 - end) * (1 + math.cos(math.pi * progress)) / 2
        case "inverse-sqrt":
            return math.sqrt(max(1, warmup) / (step + 1))


def warmup_steps(warmup: float, total: int) -> int:
    """A whole number counts steps; a fraction is a share of the run."""
    return warmup if isinstance(warmup, int) else round(warmup * total)
