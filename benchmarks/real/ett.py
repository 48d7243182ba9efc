"""Forecasts of ETTh1 at the usual horizons, beside the linear map and the forecasts that need no training."""

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from benchmarks.real.trial import train_run

TITLE = "Real data: ETTh1"
ABOUT = """
Electricity transformer temperature, hourly, 7 series (Zhou et al. 2021): 512 steps read, 12, 4 and 4 months of 30 days to train, to choose
by and to score, standardised by training, every test window counted. Settings, the stopping epoch, how many steps the linear map reads, its
ridge and the weight of the network over it: all chosen on validation. Goal: not worse than the linear map at any horizon. Published (Nie et
al. 2023, table 3): PatchTST/64 0.370, 0.413, 0.422, 0.447; DLinear 0.375, 0.405, 0.439, 0.472 at horizons 96, 192, 336, 720. One set of
settings for all horizons.
"""
LONG = False
COMMAND = "benchmarks/real/ett.toml --data $ATTENTIF_DATA/ett/ETTh1.csv task.horizon={horizon} --seed {seed}"
HORIZONS, SEEDS = (96, 192, 336, 720), (0, 1, 2)


def run(quick: bool) -> Iterator[str]:
    yield f"`attentif train {COMMAND}`\n"
    columns = ["horizon", "test windows", "last value", "last season", "linear"]
    columns += ["this model, mean over seeds", "each seed", "its MAE", "seconds"]
    yield f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|"
    for horizon in HORIZONS:
        typed = [COMMAND.format(horizon=horizon, seed=seed) for seed in SEEDS[: 1 if quick else None]]
        yield row(horizon, [train_run(command, quick=quick) for command in typed])


def row(horizon: int, runs: list[dict[str, Any]]) -> str:
    baselines = [f"{baseline['scores']['mse']:.4f}" for baseline in runs[0]["baselines"]]
    errors = [run["scores"]["mse"] for run in runs]
    each, mae = ", ".join(f"{error:.4f}" for error in errors), fmean(run["scores"]["mae"] for run in runs)
    seconds = fmean(run["cost"]["seconds"] for run in runs)
    windows = f"{runs[0]['examples']:,}"
    own = [f"**{fmean(errors):.4f}**", each, f"{mae:.4f}", f"{seconds:.0f}"]
    return f"| {' | '.join([str(horizon), windows, *baselines, *own])} |"
