"""Cross-validation: every row is tested once, by a run that did not train on it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from attentif.api import start
from attentif.config import Layer
from attentif.data.in_memory import save_frame
from attentif.data.split import seeded_order
from attentif.data.table import Table
from attentif.errors import DataError, UsageError
from attentif.files import write_json
from attentif.plugin import load_installed
from attentif.training.config import RunConfig
from attentif.training.load import ORIGIN, Source, load_config, require_own_data, source_name
from attentif.training.overlap import name_roles
from attentif.training.progress import Display
from attentif.training.rundir import RUNS, RunFolder, read_results


@dataclass(frozen=True)
class Folds:
    """The scores of all folds by the task's own metric."""

    metric: str
    scores: list[float]
    baselines: dict[str, list[float]]  # by the English name of each, the best known cheap ways
    runs: list[str]

    @property
    def mean(self) -> float:
        return mean(self.scores)

    @property
    def spread(self) -> float:
        """Standard deviation over folds."""
        return stdev(self.scores)


def cross_validate(source: Source, layers: Sequence[Layer], count: int, *, out: Path | None = None, watch: Display) -> Folds:
    """Train `count` runs, each tested on its own part of the rows; finished ones are kept when it is called again with the same `out`."""
    load_installed()
    config = load_config(source, layers)
    require_own_data(source, config.data)
    if not isinstance(config, RunConfig):
        raise UsageError("--folds trains models, and what is fitted has no test of its own", code="folds")
    tables = _read_tables(config, watch)
    rows = [{role: values[row] for role, values in table.columns.items()} for table in tables for row in range(len(table))]
    numbers = assign_folds(tables, rows, count, config.data.seed)
    place = out or _free_folder(source_name(source))
    others = [_without_origin(layer) for layer in layers]
    paths = []
    for fold in range(count):
        path = place / f"fold-{fold + 1}"
        paths.append(path)
        if RunFolder(path).finished:
            continue
        watch.say(f"fold {fold + 1} of {count}")
        parts = {"train": [row for row, own in zip(rows, numbers, strict=True) if own != fold]}
        parts["test"] = [row for row, own in zip(rows, numbers, strict=True) if own == fold]
        data = {split: str(save_frame(part)) for split, part in parts.items()}
        named = name_roles(tables[0].columns) | ({"group": "group"} if "group" in tables[0].columns else {})
        start(source, [*others, Layer({"data": data | named}, f"fold {fold + 1}")], out=path, force=path.exists(), watch=watch)
    found = _gather(paths)
    write_json(place / "folds.json", asdict(found))
    return found


def _read_tables(config: RunConfig, watch: Display) -> list[Table]:
    task = config.task.build()
    prepared = task.prepare(config.data, config.tokenizer or {}, task.adapt(config.model), watch.say)
    tables = [getattr(split, "table", None) for split in (prepared.train, prepared.valid, prepared.test)]
    if any(not isinstance(table, Table) for table in tables) or config.data.name:
        raise UsageError("--folds cuts the rows of your own table: give one with --data", code="folds")
    return [table for table in tables if table is not None]


def assign_folds(tables: Sequence[Table], rows: Sequence[dict[str, Any]], count: int, seed: int) -> list[int]:
    """The fold of each row: rows that say the same, or share a group, stay together; each class has its share in every fold."""
    keys = [content for table in tables for content in table.contents]
    grouped = all("group" in row for row in rows)
    strata: dict[str, dict[bytes, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, (row, content) in enumerate(zip(rows, keys, strict=True)):
        together = row["group"].encode() if grouped and row["group"] else content
        strata["" if grouped else str(row.get("label", ""))][together].append(number)
    found, next_fold = [0] * len(rows), 0
    for stratum in strata.values():
        for _, members in sorted(stratum.items(), key=lambda item: seeded_order(seed, item[0])):
            for number in members:
                found[number] = next_fold % count
            next_fold += 1
    if len({*found}) < count:
        raise DataError(f"has {len({*found})} rows or groups that differ, too few for {count} folds", file=tables[0].files[0], code="folds")
    return found


def _gather(paths: Sequence[Path]) -> Folds:
    results = [read_results(RunFolder(path)) for path in paths]
    metric = results[0]["metric"]
    baselines: dict[str, list[float]] = defaultdict(list)
    for result in results:
        for rival in result["baselines"]:
            if rival["scores"].get(metric) is not None:
                baselines[rival["name"]["en"]].append(rival["scores"][metric])
    return Folds(metric, [result["scores"][metric] for result in results], dict(baselines), [str(path) for path in paths])


def _without_origin(layer: Layer) -> Layer:
    data = layer.values.get("data")
    if not isinstance(data, dict):
        return layer
    kept = {key: value for key, value in data.items() if key not in ORIGIN}
    return Layer({**layer.values, "data": kept} if kept else {key: v for key, v in layer.values.items() if key != "data"}, layer.name)


def _free_folder(name: str) -> Path:
    number = 1
    while (place := RUNS / f"{name}-folds-{number}").exists():
        number += 1
    return place
