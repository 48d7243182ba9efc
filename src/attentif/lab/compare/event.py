"""A comparison under way: trials of learning rates, whole runs, measurements; and all that is known of them so far, as plain data."""

import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import torch

from attentif.config import to_toml
from attentif.files import cache_folder, finite
from attentif.lab.compare.board import Board
from attentif.lab.compare.content import Kept, Wanted, digest, program
from attentif.lab.compare.crew import Crew, Ended, Work
from attentif.lab.compare.gather import TIMING, budget_record, model_record, run_record, statistics, timeless, without_run
from attentif.lab.compare.plan import Planned
from attentif.lab.compare.rates import Whole, judged_by, rate_of, record, trials, whole_runs
from attentif.lab.compare.suite import Suite
from attentif.lab.machine import processor
from attentif.plugin import loaded_plugins
from attentif.tasks.feed import counted
from attentif.training.rundir import read_results, read_trial
from attentif.version import __version__
from attentif.view.verdict import conclusion
from attentif.view.words import duration, metric

T = TypeVar("T")
Write = Callable[[dict[str, Any]], None]
NO_RATE = "no learning rate: training broke down at every one of the search, or a trial could not be completed"


class Event:
    """`write` is given all that is known, whenever a run has ended."""

    def __init__(self, suite: Suite, planned: Sequence[Planned], folder: Path, *, jobs: int, board: Board, write: Write) -> None:
        self.suite, self.planned, self.folder, self.jobs, self.board, self.write = suite, planned, folder, jobs, board, write
        self.plugins = loaded_plugins()
        self.failed: dict[str, str] = {}  # by key
        self.faults: set[str] = set()  # keys of those that failed through no fault of the model
        self.searches: dict[str, dict[str, Any] | None] = {}  # by the comparison's name, as the rest
        self.runs: dict[str, list[Whole]] = {}
        self.kept = {one.part.name: Kept(folder / one.part.name / "measured.json") for one in planned}

    def carry_out(self) -> dict[str, Any]:
        """Do all that is left to do; what came out."""
        tried = {one.part.name: trials(one, self.folder / one.part.name, self.plugins) for one in self.planned}
        self.make([trial.wanted for found in tried.values() for trial in found], "trial")
        for one in self.planned:
            name = one.part.name
            self.searches[name] = record(one, tried[name], self.failed, self.faults, self.folder)
            rates = {model.name: rate for model in one.models if (rate := rate_of(model, one, self.searches[name])[0]) is not None}
            self.runs[name] = whole_runs(one, rates, self.folder / name, self.plugins)
        self.make([run.wanted for found in self.runs.values() for run in found], "run", lambda: self.write(self.data(complete=False)))
        self.measure_baselines()
        self.measure_writing()
        data = self.data(complete=True)
        self.write(data)
        return data

    # ------------------------------------------------------------------------------------------------------------- the work

    def make(self, wanted: Sequence[Wanted], what: str, after: Callable[[], None] = lambda: None) -> None:
        """Have these runs: found, fetched from another comparison, gone on with, or made."""
        places = {one.label: f"{what} {place} of {len(wanted)}" for place, one in enumerate(wanted, 1)}
        missing = {one.label: one for one in wanted if not self.found(one)}
        if found := len(wanted) - len(missing):
            self.board.say(f"{found} of {len(wanted)} {what}s {'is' if found == 1 else 'are'} there already")
        kind = lambda one: "trial" if one.trial else "train"
        orders = {label: self.order(kind(one), one) | {"folder": str(one.folder.path)} for label, one in missing.items()}
        for ended, one in self.ended(orders, missing):
            if ended.error is None:
                one.publish()
                self.board.say(f"{places[one.label]}: {one.label}: {_in_words(one)}")
            else:
                self.faults |= {one.key} if ended.fault else set()
                self.failed[one.key] = ended.error.replace(f"{self.folder}{os.sep}", "")  # where the folder is says nothing about the run
                self.board.say(f"{places[one.label]}: {one.label}: failed: {ended.error}")
            after()

    def found(self, one: Wanted) -> bool:
        if one.done:
            if not one.note.is_file():
                one.publish()
            return True
        if one.folder.config.is_file() or (origin := one.fetch()) is None:
            return False
        self.board.say(f"{one.label}: the same run is in {origin}")
        return True

    def order(self, kind: str, one: Wanted) -> dict[str, Any]:
        plugins = [str(path.resolve()) for path in self.plugins]
        return {"kind": kind, "config": to_toml(one.config), "name": one.label, "plugins": plugins, "threads": one.config.train.threads}

    def ended(self, orders: Mapping[str, dict[str, Any]], meant: Mapping[str, T], jobs: int | None = None) -> Iterator[tuple[Ended, T]]:
        """What each order came to, with what it was meant for; whatever goes wrong here, no process is left."""
        works = [Work(label, order) for label, order in orders.items()]
        with closing(Crew(jobs or self.jobs, self.board).do(works)) as ends:
            for ended in ends:
                yield ended, meant[ended.work.label]

    def measure_baselines(self) -> None:
        """Simple systems on the same data, once for each comparison, unless another one of the same data has measured them."""
        orders, missing = {}, {}
        for one in self.planned:
            name, key = one.part.name, self.baselines_key(one)
            if key in self.kept[name] or not self.runs[name]:
                continue
            if key in (shared := shared_baselines(key)):
                self.kept[name].put(key, shared.get(key))
                continue
            missing[f"{name}: baselines"] = one
            orders[f"{name}: baselines"] = self.order("baselines", self.runs[name][0].wanted)
        if orders:
            self.board.say("measuring the simple baselines of the same data")
        for ended, one in self.ended(orders, missing):
            key = self.baselines_key(one)
            self.note(ended, one, key)
            if ended.error is None:
                shared_baselines(key).put(key, ended.result)

    def measure_writing(self) -> None:
        """How fast each model writes: one process at a time, for a clock wants quiet."""
        missing: dict[str, tuple[Planned, Wanted]] = {}
        for one in self.planned:
            for model, wanted in self.firsts(one).items():
                if wanted.key not in self.kept[one.part.name]:
                    missing[f"{one.part.name}: {model}, writing"] = one, wanted
        orders = {label: self.order("decode", wanted) | {"folder": str(wanted.folder.path)} for label, (_, wanted) in missing.items()}
        if orders:
            self.board.say(f"measuring how fast {counted(len(orders), 'model')} can write, one at a time")
        for ended, (one, wanted) in self.ended(orders, missing, jobs=1):
            self.note(ended, one, wanted.key)

    def note(self, ended: Ended, one: Planned, key: str) -> None:
        if ended.error is None:
            self.kept[one.part.name].put(key, ended.result)
        else:
            self.board.say(f"{ended.work.label}: not measured: {ended.error}")

    def baselines_key(self, one: Planned) -> str:
        config = one.models[0].config
        tokenizer = None if config.tokenizer is None else config.tokenizer.model_dump()
        parts = [config.task.model_dump(), tokenizer, config.data.model_dump(), one.data, program(self.plugins)]
        return digest({"baselines": parts})

    def firsts(self, one: Planned) -> dict[str, Wanted]:
        """Of each model that writes, the run of its first seed that is there."""
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
        decoding = {name: kept.get(wanted.key) for name, wanted in self.firsts(one).items()}
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
        said = conclusion(timeless(finite(found)))
        return found | {"conclusion": {"fr": said.fr, "en": said.en}}


def shared_baselines(key: str) -> Kept:
    return Kept(cache_folder() / "baselines" / f"{key}.json")


def _baseline(rival: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in rival.items() if key != "seconds"} | {TIMING: {"seconds": rival["seconds"]}}


def _in_words(one: Wanted) -> str:
    """ "accuracy 93.1 %, 24 s"; of a trial "loss 0.4365 on validation, 6 s" """
    if one.trial:
        tried = read_trial(one.folder)
        of, scores, seconds = metric(judged_by([tried], tried["metric"])), tried["valid"], tried["seconds"]
    else:
        results = read_results(one.folder)
        of, scores, seconds = metric(results["metric"]), results["scores"], results["cost"]["seconds"]
    said = "-" if (value := scores.get(of.key)) is None else of.write(value).en
    return f"{of.name.en} {said}{' on validation' if one.trial else ''}, {duration(seconds).en}"
