"""Compare architectures: the same data, the same budget, several seeds, one result.

    comparison = attentif.compare("reviews", ["lstm-tiny", "encoder-tiny", "mamba-tiny"], budget="params=200k", seeds=3)
    comparison.table()                       # a row a model: quality with its interval, and what it cost
    comparison.save("comparison.html")       # or the last line of a notebook's cell

Every run is an ordinary run folder inside that of the comparison. Called again, finished runs are read and interrupted ones resumed:
`compare.json` is the same however often it was interrupted, except for timings.
"""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attentif.cluster import open_cluster
from attentif.config import Layer, did_you_mean
from attentif.errors import ConfigError, UsageError
from attentif.files import working_folder, write_json
from attentif.lab.compare.board import Board, board
from attentif.lab.compare.cache_key import MeasurementFile
from attentif.lab.compare.plan import Planned, plan
from attentif.lab.compare.runner import Runner
from attentif.lab.compare.suite import Suite, SuitePart, is_suite, load_suite, suite_layer, suite_names
from attentif.plugin import load_installed
from attentif.recipes import recipe_names
from attentif.training.distributed import device_of
from attentif.training.load import Given, data_table, is_source, source_name
from attentif.training.lock import Lock
from attentif.training.rundir import RUNS
from attentif.training.signals import StoppedError
from attentif.view.comparison import comparison_fragment, comparison_page
from attentif.view.comparison_tables import rows_of

FILE, REPORT, MARK, SIZES = "compare.json", "report.html", "suite.json", "sizes.json"
Show = Callable[[Sequence[Planned]], None]


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison; `data` is the content of `compare.json`."""

    path: Path
    data: dict[str, Any]

    @property
    def failed(self) -> list[str]:
        """Failed runs with the reason."""
        runs = [(part["name"], run) for part in self.data["comparisons"] for run in part["runs"]]
        return [f"{name}: {run['model']}, seed {run['seed']}: {run['failed']}" for name, run in runs if run["failed"]]

    def table(self, name: str | None = None) -> list[dict[str, Any]]:
        """A row a model, the best first; `name` chooses one of several comparisons."""
        parts = {part["name"]: part for part in self.data["comparisons"]}
        if name is not None and name not in parts:
            raise UsageError(f"there is no comparison {name!r}: there are {', '.join(parts)}")
        return rows_of(parts[name or next(iter(parts))])

    def save(self, path: str | Path | None = None) -> Path:
        """Write the report: one HTML file, in French and English, that needs no network."""
        place = Path(path) if path is not None else self.path / REPORT
        comparison_page(place, self.data)
        return place

    def _repr_html_(self) -> str:
        return comparison_fragment(self.data)._repr_html_()

    def __repr__(self) -> str:
        return f"<Comparison {self.path}: {', '.join(part['name'] for part in self.data['comparisons'])}>"


def compare(
    source: str | Path,
    models: Sequence[str | Mapping[str, Any]] | None = None,
    *,
    data: Given | None = None,
    budget: str | None = None,
    seeds: int | Sequence[int] | None = None,
    lr: float | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    jobs: int | None = None,
    threads: int | None = None,
    watch: Board | None = None,
    **overrides: Any,
) -> Comparison:
    """Compare models on a recipe, or carry out a suite (its name or its TOML file); opened again where it is done already.

    `models` are presets or tables that change one, `budget` is "params=1M", `lr` a rate or {"rates": [...], "share": 0.25}; `data` and
    `overrides` are those of `attentif.train`, the same for all models. It is kept in `out`, by default `runs/<name>-compare`.
    """
    given: dict[str, Any] = {
        "models": models and list(models),
        "budget": budget,
        "seeds": seeds if isinstance(seeds, int | None) else list(seeds),
    }
    given["lr"] = dict(lr) if isinstance(lr, Mapping) else None if lr is None else float(lr)
    changes = [Layer({"data": data_table(data)}, "argument data")] if data is not None else []
    changes += [Layer({key: value}, f"argument {key}") for key, value in overrides.items()]
    options = [Layer({key: value}, f"argument {key}") for key, value in given.items() if value is not None]
    suite = resolve_suite(source, options, changes)
    return run_suite(suite, out=None if out is None else Path(out), jobs=jobs, threads=threads, board=watch or board())


def resolve_suite(source: str | Path, options: Sequence[Layer], changes: Sequence[Layer]) -> Suite:
    """The suite that `source` names, or one of the recipe that it names; options stand over it."""
    load_installed()
    if not is_suite(source) and not is_source(source):
        close = did_you_mean(str(source), [*suite_names(), *recipe_names()])
        known = "`attentif list suites` and `attentif list recipes` show them"
        raise ConfigError(f"no suite, recipe or TOML file is called {str(source)!r}{close}; {known}")
    if not is_suite(source):
        return load_suite([Layer({"recipe": str(source)}, "comparison"), *options], changes, source_name(source))
    first = suite_layer(source)
    if parts := first.values.get("on"):  # what is asked for now stands over what each part says, too
        over = {key: value for layer in options for key, value in layer.values.items()}
        first = Layer(first.values | {"on": [dict(part) | over for part in parts]}, first.name, first.text)
    return load_suite([first, *options], changes, source_name(source))


# ------------------------------------------------------------------------------------------------------------ the whole


def run_suite(
    suite: Suite,
    *,
    out: Path | None = None,
    jobs: int | None = None,
    threads: int | None = None,
    board: Board,
    show: Show | None = None,
    cluster: str | None = None,
) -> Comparison:
    """Size the models, search rates, train, gather, report; `show` is called with the sizes before anything runs."""
    folder = find_folder(suite, out)
    jobs_at_once, own = choose_parallelism(suite, jobs, threads)
    planned: list[Planned] = []
    with working_folder(folder, worth=lambda: bool(planned)), Lock(folder / "lock"):
        try:
            if not (folder / MARK).is_file():
                write_json(folder / MARK, suite.values)
            planned = _plan_parts(suite, folder, own, board.say)
            write_json(folder / MARK, suite.values)  # runs are known by their content, so that a suite may change between two calls
            if show is not None:
                show(planned)
            together = f"on {cluster}" if cluster else f"{jobs_at_once} at a time"
            board.say(f"{together}, {' and '.join(sorted({describe_threads(n) for n in own.values()}))} each; in {folder}")
            write = lambda data: write_json(folder / FILE, data)
            with nullcontext() if cluster is None else open_cluster(cluster) as workers:
                found = Runner(suite, planned, folder, jobs=jobs_at_once, board=board, write=write, cluster=workers).run()
        except KeyboardInterrupt:
            state = f"what was done is kept in {folder}: continue with the same command" if planned else "the models were not sized yet"
            raise StoppedError(f"stopped; {state}", signal.SIGINT) from None
        finally:
            board.close()
    comparison = Comparison(folder, found)
    comparison.save()
    return comparison


def dry_run(suite: Suite, *, out: Path | None = None, threads: int | None = None, say: Callable[[str], None]) -> list[Planned]:
    """Compute the sizes only, or read those of an existing comparison; nothing is written."""
    _, own = choose_parallelism(suite, None, threads)
    return _plan_parts(suite, find_folder(suite, out), own, say, written=False)


def _plan_parts(
    suite: Suite, folder: Path, threads: Mapping[str, int], say: Callable[[str], None], *, written: bool = True
) -> list[Planned]:
    sizes = {part.name: MeasurementFile(folder / part.name / SIZES, written=written) for part in suite.parts}
    return [plan(part, threads=threads[part.name], kept=sizes[part.name], say=say) for part in suite.parts]


def find_folder(suite: Suite, out: Path | None) -> Path:
    """The folder of the comparison; UsageError where it holds anything else."""
    folder = out if out is not None else RUNS / f"{suite.name}-compare"
    others = not (folder / MARK).is_file() and (not folder.is_dir() or any(path.name != "lock" for path in folder.iterdir()))
    if folder.exists() and others:
        raise UsageError("exists and is not a comparison; choose another place with --out", file=folder)
    return folder


def choose_parallelism(suite: Suite, jobs: int | None, threads: int | None) -> tuple[int, dict[str, int]]:
    """Number of parallel runs, and threads per run of each part.

    One thread per run and as many runs as cores has the highest throughput. Under a budget of seconds, and on a GPU, runs would slow
    each other down: they run one after another, with all cores.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    timed = [part.name for part in suite.parts if part.budget is not None and part.budget.kind == "seconds"]
    if timed and jobs is not None and jobs > 1:
        raise UsageError("--jobs: where seconds are the budget, runs follow one another, for a neighbour would take some of them")
    alone = bool(timed) or any(device_of(part.models[0].config.train.device).type != "cpu" for part in suite.parts)
    own = {part.name: threads or _threads(part) or (cores if alone else 1) for part in suite.parts}
    return jobs or (1 if alone else max(1, cores // max(own.values()))), own


def _threads(part: SuitePart) -> int:
    return max(model.config.train.threads for model in part.models)


def describe_threads(number: int) -> str:
    return f"{number} thread{'s' if number > 1 else ''}"
