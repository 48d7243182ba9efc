"""A small table of two series, and a forecasting task, its data and its model made from it."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attentif.data import DataConfig
from attentif.models import Model, build, resolve
from attentif.tasks import Prepared
from attentif.tasks.series.forecast import Forecast, ForecastConfig

Ready = tuple[Forecast, Prepared, Model]


def table(rows: int = 300, seed: int = 0) -> list[list[Any]]:
    """Two hourly series with a day's season, one of them twice the size of the other."""
    random = np.random.default_rng(seed)
    dates = np.datetime64("2024-01-01T00") + np.arange(rows)
    wave = 10 + 5 * np.sin(2 * np.pi * np.arange(rows) / 24)
    values = np.stack([wave + random.normal(0, 0.5, rows), 100 + 2 * wave + random.normal(0, 0.5, rows)], axis=1).round(3)
    return [[str(date).replace("T", " ") + ":00", *row] for date, row in zip(dates.astype(str), values.tolist(), strict=True)]


def write(path: Path, rows: list[list[Any]], header: tuple[str, ...] = ("date", "a", "b")) -> str:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


def make(
    folder: Path, base: str = "patchtst-tiny", data: dict[str, Any] | None = None, model: dict[str, Any] | None = None, **task: Any
) -> Ready:
    config = ForecastConfig(**{"look_back": 32, "horizon": 6} | task)
    built = config.build()
    small = {"width": 16, "layers": 1, "dropout": 0.0} | (
        {"encoder": {"block": {"attn": {"mixer": {"heads": 2}}}}} if "patch" in base else {}
    )
    adapted = built.adapt(resolve({"base": base} | small | (model or {})))
    built.check(adapted)
    given = data or {"train": write(folder / "serie.csv", table())}
    prepared = built.prepare(DataConfig.model_validate(given), {}, adapted, lambda line: None)
    torch.manual_seed(0)
    return built, prepared, build(prepared.sizes.fill(adapted)).eval()


PATCHES = {"frontend": {"patch": 8, "stride": 4}}
