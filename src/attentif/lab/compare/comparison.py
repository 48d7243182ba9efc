"""Architectures side by side: the same data, the same budget, several seeds, one result.

    comparison = attentif.compare("reviews", ["lstm-tiny", "encoder-tiny", "mamba-tiny"], budget="params=200k", seeds=3)
    comparison.table()                       # a row a model: quality with its interval, and what it cost
    comparison.save("comparison.html")       # or the last line of a notebook's cell

Every run is an ordinary run folder inside the comparison's own. Called again, what is finished is read, what was stopped goes on from its
checkpoint, and the rest follows: however often it is interrupted, `compare.json` comes out the same, timings aside.
"""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attentif.config import Layer, did_you_mean
from attentif.errors import ConfigError, UsageError
from attentif.files import begun, write_json
from attentif.lab.compare.board import Board, board
from attentif.lab.compare.content import Kept
from attentif.lab.compare.event import Event
from attentif.lab.compare.plan import Planned, plan
from attentif.lab.compare.suite import Part, Suite, is_suite, load_suite, suite_layer, suite_names
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
    """What came out: `data` is `compare.json`."""

    path: Path
    data: dict[str, Any]

    @property
    def failed(self) -> list[str]:
        """The runs that failed, each with the reason."""
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
    suite = suite_of(source, options, changes)
    return carry_out(suite, out=None if out is None else Path(out), jobs=jobs, threads=threads, board=watch or board())


def suite_of(source: str | Path, options: Sequence[Layer], changes: Sequence[Layer]) -> Suite:
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


def carry_out(
    suite: Suite,
    *,
    out: Path | None = None,
    jobs: int | None = None,
    threads: int | None = None,
    board: Board,
    show: Show | None = None,
) -> Comparison:
    """Size the models, search rates, train, gather, report; `show` is called with the sizes before anything runs."""
    folder = place_of(suite, out)
    side_by_side, own = crew_size(suite, jobs, threads)
    planned: list[Planned] = []
    with begun(folder, worth=lambda: bool(planned)), Lock(folder / "lock"):
        try:
            if not (folder / MARK).is_file():
                write_json(folder / MARK, suite.values)
            planned = _planned(suite, folder, own, board.say)
            write_json(folder / MARK, suite.values)  # runs are known by their content, so that a suite may change between two calls
            if show is not None:
                show(planned)
            board.say(f"{side_by_side} at a time, {' and '.join(sorted({threads_in_words(n) for n in own.values()}))} each; in {folder}")
            write = lambda data: write_json(folder / FILE, data)
            found = Event(suite, planned, folder, jobs=side_by_side, board=board, write=write).carry_out()
        except KeyboardInterrupt:
            said = f"what was done is kept in {folder}: continue with the same command" if planned else "the models were not sized yet"
            raise StoppedError(f"stopped; {said}", signal.SIGINT) from None
        finally:
            board.close()
    comparison = Comparison(folder, found)
    comparison.save()
    return comparison


def dry_run(suite: Suite, *, out: Path | None = None, threads: int | None = None, say: Callable[[str], None]) -> list[Planned]:
    """Only the sizes: those that the comparison has, where it was begun before. Nothing is written."""
    _, own = crew_size(suite, None, threads)
    return _planned(suite, place_of(suite, out), own, say, written=False)


def _planned(suite: Suite, folder: Path, threads: Mapping[str, int], say: Callable[[str], None], *, written: bool = True) -> list[Planned]:
    sizes = {part.name: Kept(folder / part.name / SIZES, written=written) for part in suite.parts}
    return [plan(part, threads=threads[part.name], kept=sizes[part.name], say=say) for part in suite.parts]


def place_of(suite: Suite, out: Path | None) -> Path:
    """The folder of the comparison; what is no comparison is left alone."""
    folder = out if out is not None else RUNS / f"{suite.name}-compare"
    others = not (folder / MARK).is_file() and (not folder.is_dir() or any(path.name != "lock" for path in folder.iterdir()))
    if folder.exists() and others:
        raise UsageError("exists and is not a comparison; choose another place with --out", file=folder)
    return folder


def crew_size(suite: Suite, jobs: int | None, threads: int | None) -> tuple[int, dict[str, int]]:
    """How many runs at a time, and with how many threads each part's runs compute.

    One thread for each run and as many runs as cores is the most work done in a day. Where seconds are the budget, a neighbour would take
    some of them: runs follow one another, each with all cores. So they do on a graphics card, of which there is one.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    timed = [part.name for part in suite.parts if part.budget is not None and part.budget.kind == "seconds"]
    if timed and jobs is not None and jobs > 1:
        raise UsageError("--jobs: where seconds are the budget, runs follow one another, for a neighbour would take some of them")
    alone = bool(timed) or any(device_of(part.models[0].config.train.device).type != "cpu" for part in suite.parts)
    own = {part.name: threads or _threads(part) or (cores if alone else 1) for part in suite.parts}
    return jobs or (1 if alone else max(1, cores // max(own.values()))), own


def _threads(part: Part) -> int:
    return max(model.config.train.threads for model in part.models)


def threads_in_words(number: int) -> str:
    return f"{number} thread{'s' if number > 1 else ''}"
