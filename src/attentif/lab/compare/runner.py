"""Run a comparison: learning-rate trials, full runs, measurements; and gather the results so far as plain data."""

import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import torch

from attentif.cluster import Cluster
from attentif.config import to_toml
from attentif.files import cache_folder, finite
from attentif.lab.compare.board import Board
from attentif.lab.compare.cache_key import MeasurementFile, RunSpec, digest, program_version
from attentif.lab.compare.gather import TIMING, budget_record, model_record, run_record, statistics, timeless, without_run
from attentif.lab.compare.plan import Planned
from attentif.lab.compare.rates import FullRun, choose_metric, list_runs, list_trials, next_rates, rate_of, record_search
from attentif.lab.compare.suite import SearchConfig, Suite
from attentif.lab.compare.worker_pool import ClusterPool, JobResult, Pool, WorkerJob, WorkerPool
from attentif.lab.machine import processor
from attentif.plugin import list_plugins
from attentif.tasks.batches import format_count
from attentif.training.rundir import read_results, read_trial
from attentif.version import __version__
from attentif.view.verdict import conclusion
from attentif.view.words import duration, metric

T = TypeVar("T")
Write = Callable[[dict[str, Any]], None]
NO_RATE = "no learning rate: training broke down at every one of the search, or a trial could not be completed"


class Runner:
    """Runs a suite; `write` is called with the results so far after every run."""

    def __init__(
        self,
        suite: Suite,
        planned: Sequence[Planned],
        folder: Path,
        *,
        jobs: int,
        board: Board,
        write: Write,
        cluster: Cluster | None = None,
    ) -> None:
        self.suite, self.planned, self.folder, self.jobs, self.board, self.write = suite, planned, folder, jobs, board, write
        self.cluster, self.plugins = cluster, list_plugins()
        self.failed: dict[str, str] = {}  # by key
        self.faults: set[str] = set()  # keys of those that failed through no fault of the model
        self.searches: dict[str, dict[str, Any] | None] = {}  # by the comparison's name, as the rest
        self.runs: dict[str, list[FullRun]] = {}
        self.kept = {one.part.name: MeasurementFile(folder / one.part.name / "measured.json") for one in planned}

    def run(self) -> dict[str, Any]:
        """Do the remaining work and return the results."""
        self.search_rates()
        for one in self.planned:
            name = one.part.name
            rates = {model.name: rate for model in one.models if (rate := rate_of(model, one, self.searches[name])[0]) is not None}
            warmups = (self.searches[name] or {}).get("warmups", {})
            self.runs[name] = list_runs(one, rates, warmups, self.folder / name, self.plugins)
        self.run_all([run.wanted for found in self.runs.values() for run in found], "run", lambda: self.write(self.data(complete=False)))
        self.measure_baselines()
        self.measure_writing()
        data = self.data(complete=True)
        self.write(data)
        return data

    # ------------------------------------------------------------------------------------------------------------- the work

    def search_rates(self) -> None:
        """Try all rates, then those beyond the grid for models whose best one is at its edge, then warm-ups at the best rate."""
        beyond: dict[str, dict[str, list[float]]] = {one.part.name: {} for one in self.planned}
        wider = True
        while wider:
            self.try_rates(beyond, {})
            wider = False
            for one in self.planned:
                name, search, record = one.part.name, one.part.lr, self.searches[one.part.name]
                if record is None or not isinstance(search, SearchConfig):
                    continue
                for model, rate in next_rates(search.rates, record).items():
                    beyond[name].setdefault(model, []).append(rate)
                    self.board.say(f"{name}: the best rate of {model} is at the edge of the grid: trying {rate:g} too")
                    wider = True
        if any(isinstance(one.part.lr, SearchConfig) and one.part.lr.warmups for one in self.planned):
            self.try_rates(beyond, {name: record["chosen"] for name, record in self.searches.items() if record is not None})

    def try_rates(self, beyond: Mapping[str, Mapping[str, Sequence[float]]], chosen: Mapping[str, Mapping[str, float | None]]) -> None:
        """Run the trials of every comparison and record them; with rates `chosen`, those of other warm-ups too."""
        of = lambda one, name: list_trials(one, self.folder / name, self.plugins, beyond[name], chosen.get(name, {}))
        tried = {one.part.name: of(one, one.part.name) for one in self.planned}
        self.run_all([trial.wanted for found in tried.values() for trial in found], "trial")
        for one in self.planned:
            name = one.part.name
            self.searches[name] = record_search(one, tried[name], self.failed, self.faults, self.folder)

    def run_all(self, wanted: Sequence[RunSpec], what: str, after: Callable[[], None] = lambda: None) -> None:
        """Provide these runs: found, copied from another comparison, resumed or trained."""
        places = {one.label: f"{what} {place} of {len(wanted)}" for place, one in enumerate(wanted, 1)}
        missing = {one.label: one for one in wanted if not self.is_available(one)}
        if found := len(wanted) - len(missing):
            self.board.say(f"{found} of {len(wanted)} {what}s {'is' if found == 1 else 'are'} there already")
        kind = lambda one: "trial" if one.trial else "train"
        orders = {label: self.build_order(kind(one), one) | {"folder": str(one.folder.path)} for label, one in missing.items()}
        for ended, one in self.run_jobs(orders, missing):
            if ended.error is None:
                one.publish()
                self.board.say(f"{places[one.label]}: {one.label}: {_describe_run(one)}")
            else:
                self.faults |= {one.key} if ended.fault else set()
                self.failed[one.key] = ended.error.replace(f"{self.folder}{os.sep}", "")  # where the folder is says nothing about the run
                self.board.say(f"{places[one.label]}: {one.label}: failed: {ended.error}")
            after()

    def is_available(self, one: RunSpec) -> bool:
        if one.done:
            if not one.note.is_file():
                one.publish()
            return True
        if one.folder.config.is_file() or (origin := one.fetch()) is None:
            return False
        self.board.say(f"{one.label}: the same run is in {origin}")
        return True

    def build_order(self, kind: str, one: RunSpec) -> dict[str, Any]:
        plugins = [str(path.resolve()) for path in self.plugins]
        return {"kind": kind, "config": to_toml(one.config), "name": one.label, "plugins": plugins, "threads": one.config.train.threads}

    def run_jobs(
        self, orders: Mapping[str, dict[str, Any]], meant: Mapping[str, T], jobs: int | None = None
    ) -> Iterator[tuple[JobResult, T]]:
        """Yield the result of each order with its subject; no process outlives the iteration."""
        jobs_to_run = [WorkerJob(label, order) for label, order in orders.items()]
        pool: Pool = WorkerPool(jobs or self.jobs, self.board) if self.cluster is None else ClusterPool(self.cluster, self.board)
        with closing(pool.run(jobs_to_run)) as ends:
            for ended in ends:
                yield ended, meant[ended.job.label]

    def measure_baselines(self) -> None:
        """Score the baselines once per comparison, unless another one on the same data has done so."""
        orders, missing = {}, {}
        for one in self.planned:
            name, key = one.part.name, self.baselines_key(one)
            if key in self.kept[name] or not self.runs[name]:
                continue
            if key in (shared := open_shared_baselines(key)):
                self.kept[name].set(key, shared.get(key))
                continue
            missing[f"{name}: baselines"] = one
            orders[f"{name}: baselines"] = self.build_order("baselines", self.runs[name][0].wanted)
        if orders:
            self.board.say("measuring the simple baselines of the same data")
        for ended, one in self.run_jobs(orders, missing):
            key = self.baselines_key(one)
            self.record(ended, one, key)
            if ended.error is None:
                open_shared_baselines(key).set(key, ended.result)

    def measure_writing(self) -> None:
        """Measure the generation speed of each model, one process at a time."""
        missing: dict[str, tuple[Planned, RunSpec]] = {}
        for one in self.planned:
            for model, wanted in self.first_runs(one).items():
                if wanted.key not in self.kept[one.part.name]:
                    missing[f"{one.part.name}: {model}, writing"] = one, wanted
        orders = {label: self.build_order("decode", wanted) | {"folder": str(wanted.folder.path)} for label, (_, wanted) in missing.items()}
        if orders:
            self.board.say(f"measuring how fast {format_count(len(orders), 'model')} can write, one at a time")
        for ended, (one, wanted) in self.run_jobs(orders, missing, jobs=1):
            self.record(ended, one, wanted.key)

    def record(self, ended: JobResult, one: Planned, key: str) -> None:
        if ended.error is None:
            self.kept[one.part.name].set(key, ended.result)
        else:
            self.board.say(f"{ended.job.label}: not measured: {ended.error}")

    def baselines_key(self, one: Planned) -> str:
        config = one.models[0].config
        tokenizer = None if config.tokenizer is None else config.tokenizer.model_dump()
        parts = [config.task.model_dump(), tokenizer, config.data.model_dump(), one.data, program_version(self.plugins)]
        return digest({"baselines": parts})

    def first_runs(self, one: Planned) -> dict[str, RunSpec]:
        """The first finished run of each generative model."""
        known = [run for run in self.runs[one.part.name] if run.wanted.folder.finished and run.model.state_bytes is not None]
        return {run.model.name: run.wanted for run in reversed(known)}

    # ----------------------------------------------------------------------------------------------------------- the result

    def data(self, *, complete: bool) -> dict[str, Any]:
        """`compare.json`"""
        found = {
            "version": 1,
            "name": self.suite.name,
            "about": self.suite.about,
            "complete": complete,
            "suite": self.suite.values,
            "versions": {"attentif": __version__, "python": platform.python_version(), "torch": torch.__version__},
            "machine": {"system": platform.system(), "processor": processor(), "jobs": self.jobs},
            "comparisons": [self.part(one) for one in self.planned],
            TIMING: {"date": datetime.now(UTC).isoformat(timespec="seconds")},
        }
        return finite(found)

    def part(self, one: Planned) -> dict[str, Any]:
        search, kept, known = self.searches[one.part.name], self.kept[one.part.name], self.runs[one.part.name]
        runs = [run_record(run, one.metric, self.folder, self.failed.get(run.wanted.key)) for run in known]
        started = {run.model.name for run in known}
        runs += [without_run(model, seed, NO_RATE) for model in one.models if model.name not in started for seed in one.part.seeds]
        decoding = {name: kept.get(wanted.key) for name, wanted in self.first_runs(one).items()}
        found = {
            "name": one.part.name,
            "recipe": one.part.recipe,
            "task": one.task,
            "metric": one.metric,
            "higher_is_better": one.higher_is_better,
            "data": {"digest": one.data, "examples": one.examples, "notes": one.notes},
            "budget": budget_record(one.part.budget),
            "seeds": one.part.seeds,
            "models": [model_record(model, rate_of(model, one, search), runs, decoding.get(model.name)) for model in one.models],
            "search": search,
            "runs": runs,
            "baselines": [_baseline(rival) for rival in kept.get(self.baselines_key(one)) or ()],
            "statistics": statistics(one, runs),
        }
        words = conclusion(timeless(finite(found)))
        return found | {"conclusion": {"fr": words.fr, "en": words.en}}


def open_shared_baselines(key: str) -> MeasurementFile:
    return MeasurementFile(cache_folder() / "baselines" / f"{key}.json")


def _baseline(rival: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in rival.items() if key != "seconds"} | {TIMING: {"seconds": rival["seconds"]}}


def _describe_run(one: RunSpec) -> str:
    """ "accuracy 93.1 %, 24 s"; of a trial "loss 0.4365 on validation, 6 s" """
    if one.trial:
        tried = read_trial(one.folder)
        of, scores, seconds = metric(choose_metric([tried], tried["metric"])), tried["valid"], tried["seconds"]
    else:
        results = read_results(one.folder)
        of, scores, seconds = metric(results["metric"]), results["scores"], results["cost"]["seconds"]
    words = "-" if (value := scores.get(of.key)) is None else of.write(value).en
    return f"{of.name.en} {words}{' on validation' if one.trial else ''}, {duration(seconds).en}"
