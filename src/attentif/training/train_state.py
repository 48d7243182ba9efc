"""Training progress: saved with every checkpoint, and summed up in a line of metrics."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class TrainState:
    """Progress of a run: its non-tensor state."""

    step: int = 0  # optimiser steps done
    epoch: int = 0
    index: int = 0  # batches of the epoch already read
    epochs: float = 0.0  # passes over the data, with the fraction of the one that goes on
    tokens: int = 0
    seconds: float = 0.0  # spent in steps
    window: dict[str, float] = field(default_factory=dict)  # sums since the last line of metrics
    counts: list[float] = field(default_factory=list)  # what mixers counted since then
    pending: bool = False  # an evaluation is due
    ended: str = ""  # why there are no more steps
    best: float | None = None
    best_step: int = 0
    misses: int = 0  # evaluations since the best one
    precision: str = ""  # the type that is multiplied: chosen at the first step, kept when the run is resumed
    scale: float = 1.0  # of fp16's gradients
    steady: int = 0  # steps since the scale was last changed


def metrics_row(state: TrainState, rate: float, norm: float) -> dict[str, Any]:
    """One line of metrics: means over the steps since the last one."""
    window = state.window
    count = max(window["count"], 1.0)
    sums = {"loss", "count", "tokens", "places", "seconds", "steps"}
    return {
        "step": state.step,
        "epoch": round(state.epochs, 4),
        "loss": window["loss"] / count,
        **{key: value / count for key, value in window.items() if key not in sums},
        "lr": rate,
        "grad_norm": norm,
        "tokens": state.tokens,
        "padding": 1 - window["tokens"] / window["places"],
        "tokens_per_second": window["tokens"] / max(window["seconds"], 1e-9),
        "seconds": state.seconds,
    }
