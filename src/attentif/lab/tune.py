"""A search for settings within a budget: rates, sizes, regularisation, judged on validation alone.

The first trial is the recipe as it is; the others draw each setting at random around it (Bergstra & Bengio 2012: with few trials, random
draws find more than a grid). A trial is a run of its own that never looks at the test split; the best one is then scored on it, once.
Interrupted, the same call goes on: what is drawn is a function of the seed, and finished trials are kept.
"""

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from attentif.api import resume
from attentif.cluster import open_cluster
from attentif.config import Layer, override
from attentif.data.in_memory import name_frames
from attentif.errors import AttentifError, ConfigError, UsageError
from attentif.files import finite, write_json
from attentif.lab.compare.rates import choose_metric
from attentif.plugin import load_installed
from attentif.training import run as training
from attentif.training.config import RunConfig
from attentif.training.load import Given, Source, data_table, load_config, require_own_data, source_name
from attentif.training.progress import Display, Silent, display
from attentif.training.rundir import RUNS, RunFolder, read_results, read_trial
from attentif.view.blocks import Block, Cell, Paragraph, Section, TableBlock
from attentif.view.page import Fragment, Page, write
from attentif.view.words import Text, Words, duration, metric, number

TABLE, REPORT = "tune.json", "tune.html"
Settings = dict[str, Any]


@dataclass(frozen=True)
class TuneTrial:
    """One choice of settings, and what came of it."""

    settings: Settings  # what differs from the recipe
    run: str
    valid: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    failed: str = ""


@dataclass(frozen=True)
class Tuning:
    """All trials, and the best of them by `judged_by` on validation; `test` is its score, of the task's own metric."""

    judged_by: str
    metric: str
    trials: list[TuneTrial]
    best: int
    test: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    ended: str  # "trials" or "minutes"

    @property
    def settings(self) -> Settings:
        """The best ones, as changes of the recipe."""
        return self.trials[self.best].settings

    @property
    def run(self) -> Path:
        """The run that was trained with them."""
        return Path(self.trials[self.best].run)

    def table(self) -> TableBlock:
        """A line for each trial, the best one first."""
        keys = [*dict.fromkeys(key for trial in self.trials for key in trial.settings)]
        scored = [*dict.fromkeys([self.judged_by, self.metric])]
        heads: list[Words] = ["#", *keys, *(metric(key).title for key in scored), Text("durée", "time"), Text("remarque", "remark")]
        rows: list[list[Cell]] = []
        for place in self.ranking:
            trial = self.trials[place]
            settings = [_format_value(trial.settings[key]) if key in trial.settings else Text("recette", "recipe") for key in keys]
            scores = [metric(key).write(trial.valid[key]) if key in trial.valid else "-" for key in scored]
            rows.append([str(place + 1), *settings, *scores, duration(trial.seconds), trial.failed])
        return TableBlock(heads, rows, strong=[0])

    @property
    def ranking(self) -> list[int]:
        """Numbers of the trials, the best first; those that failed last."""
        return _rank(self.trials, self.judged_by)

    def summary(self) -> list[Text]:
        of = metric(self.metric)
        low, high = self.intervals.get(self.metric, (math.nan, math.nan))
        score = Text(
            "Le meilleur des {n} essais, jugé une seule fois sur le test : {name} {value} ({low} à {high}).",
            "The best of {n} trials, scored once on the test: {name} {value} ({low} to {high}).",
        ).with_(n=str(len(self.trials)), name=of.name, value=of.write(self.test[of.key]), low=of.write(low), high=of.write(high))
        caution = Text(
            "Son score de validation est flatteur : c'est le plus haut de plusieurs.",
            "Its score on validation flatters it: it is the highest of several.",
        )
        return [score, caution]

    def _sections(self) -> list[Section]:
        body: list[Block] = [*(Paragraph(line) for line in self.summary()), self.table()]
        return [Section(Text("Réglages essayés", "Settings tried"), body)]

    def _repr_html_(self) -> str:
        return Fragment(self._sections())._repr_html_()


def tune(
    source: Source,
    data: Given | None = None,
    *,
    trials: int = 12,
    minutes: float = 30.0,
    choices: Mapping[str, Sequence[Any]] | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    watch: Display | None = None,
    **overrides: Any,
) -> Tuning:
    """Try settings of a recipe until `trials` are done or `minutes` are over, judged on validation; the best is scored on the test, once.

    `data` and `overrides` as in `train`; `choices` names the values of each key, in place of the usual ones: `{"train.lr": [1e-3, 3e-3]}`.
    A notebook shows the result as a table; `.run` is the best run's folder, `.settings` what differs there from the recipe.
    """
    tables = ({"data": data_table(data)} if data is not None else {}) | overrides
    layers = [Layer({key: value}, f"argument {key}") for key, value in tables.items()]
    place = None if out is None else Path(out)
    with name_frames():
        return search(source, layers, trials=trials, minutes=minutes, choices=choices, seed=seed, out=place, watch=watch or display())


def search(
    source: Source,
    layers: Sequence[Layer] = (),
    *,
    trials: int = 12,
    minutes: float = 30.0,
    choices: Mapping[str, Sequence[Any]] | None = None,
    seed: int = 0,
    out: Path | None = None,
    cluster: str | None = None,
    watch: Display,
) -> Tuning:
    """The same, with changes that remember where they were made; `cluster` tries several settings at a time on its workers."""
    load_installed()
    config = load_config(source, layers)
    require_own_data(source, config.data)
    if not isinstance(config, RunConfig):
        raise UsageError("tune trains networks, and what is fitted has no settings to search", code="tune")
    drawn = draw_settings(config, trials, choices, seed)
    place = out or RUNS / f"{source_name(source)}-tune"
    _check_place(place, drawn, str(source_name(source)))
    if cluster is not None:
        done, ended = _try_on(cluster, source, layers, drawn, place, minutes, watch)
        return _write_tuning(done, ended, place, str(source_name(source)), watch)
    done = []
    begun, longest, ended = time.monotonic(), 0.0, "trials"
    for number_, settings in enumerate(drawn, 1):
        left = 60 * minutes - (time.monotonic() - begun)
        folder = RunFolder(place / f"trial-{number_}")
        if done and left < longest and not read_trial(folder):
            ended = "minutes"
            break
        watch.say(f"trial {number_} of {len(drawn)}: " + (", ".join(f"{key}={_plain(v)}" for key, v in settings.items()) or "the recipe"))
        try:
            done.append(_try(source, layers, settings, folder, watch))
        except AttentifError:
            _remove_empty(place)
            raise
        longest = max(longest, left - 60 * minutes + time.monotonic() - begun)
    return _write_tuning(done, ended, place, str(source_name(source)), watch)


def _write_tuning(done: list[TuneTrial], ended: str, place: Path, name: str, watch: Display) -> Tuning:
    found = _conclude(done, ended, watch)
    write_json(place / TABLE, finite(asdict(found)))
    write(place / REPORT, Page(Text("Réglages : {name}", "Settings: {name}").with_(name=name), found._sections()))
    return found


def _try_on(
    cluster: str, source: Source, layers: Sequence[Layer], drawn: Sequence[Settings], place: Path, minutes: float, watch: Display
) -> tuple[list[TuneTrial], str]:
    """Trials on the workers of a cluster; none is handed out after the minutes are over."""
    until, done = time.monotonic() + 60 * minutes, list[TuneTrial]()

    def iterate_trials() -> Iterator[tuple[int, Settings]]:
        for number_, settings in enumerate(drawn, 1):
            if done and time.monotonic() > until:
                return
            yield number_, settings

    with open_cluster(cluster) as workers:
        for (number_, _), outcome in workers.map_ordered(partial(_try_remotely, source, list(layers), place), iterate_trials()):
            done.append(outcome.get())
            watch.say(f"trial {number_} of {len(drawn)} is done")
    return done, "trials" if len(done) == len(drawn) else "minutes"


def _try_remotely(source: Source, layers: Sequence[Layer], place: Path, trial: tuple[int, Settings]) -> TuneTrial:
    """One trial, on the worker of a cluster."""
    number_, settings = trial
    return _try(source, layers, settings, RunFolder(place / f"trial-{number_}"), Silent())


def draw_settings(config: RunConfig, trials: int, choices: Mapping[str, Sequence[Any]] | None, seed: int) -> list[Settings]:
    """The recipe as it is, then settings drawn without repetition."""
    rng = np.random.default_rng(seed)
    found: list[Settings] = [{}]
    for _ in range(20 * trials):
        if len(found) >= trials:
            break
        own = {key: values[int(rng.integers(len(values)))] for key, values in choices.items()} if choices else _around(config, rng)
        if own not in found:
            found.append(own)
    return found


def _around(config: RunConfig, rng: np.random.Generator) -> Settings:
    """Rates from a fifth to five times the recipe's, half to twice the width, regularisation from none to strong."""
    train, model = config.train, config.model
    own: Settings = {
        "train.lr": float(f"{train.lr * 5 ** rng.uniform(-1, 1):.2g}"),
        "train.weight_decay": float(f"{10 ** rng.uniform(-3, -0.5):.2g}"),
        "model.dropout": float(rng.choice([0.0, 0.1, 0.2, 0.3, 0.5])),
        "model.width": int(model.width * rng.choice([0.5, 1, 1, 2])),
    }
    return {key: value for key, value in own.items() if key != "model.width" or value != model.width}


def _check_place(place: Path, drawn: Sequence[Settings], name: str) -> None:
    """Go on with the same search only."""
    plan = place / "settings.json"
    wanted = {"recipe": name, "settings": list(drawn)}
    if plan.is_file():
        kept = json.loads(plan.read_text(encoding="utf-8"))
        common = min(len(kept["settings"]), len(drawn))
        if kept["recipe"] != name or kept["settings"][:common] != wanted["settings"][:common]:
            raise UsageError("holds another search; choose another folder (--out)", file=place, code="tune")
    place.mkdir(parents=True, exist_ok=True)
    write_json(plan, wanted)


def _remove_empty(place: Path) -> None:
    """Leave nothing behind of a search that could not begin."""
    if [path.name for path in place.iterdir()] == ["settings.json"]:
        (place / "settings.json").unlink()
        place.rmdir()


def _try(source: Source, layers: Sequence[Layer], settings: Settings, folder: RunFolder, watch: Display) -> TuneTrial:
    """One trial; settings that contradict each other, or with which training breaks down, are a trial that failed."""
    path, changes = str(folder.path), [override(f"{key}={_plain(value)}") for key, value in settings.items()]
    try:
        if not read_trial(folder):
            config = load_config(source, [*layers, *changes])
            assert isinstance(config, RunConfig)
            name, again = source_name(source), folder.path.exists()
            training.train(config, name=name, out=folder.path, force=again, trial=True, display=watch)
    except AttentifError as error:
        if not settings or not (isinstance(error, ConfigError) or error.code == "diverged"):  # of the recipe itself, or of the data
            raise
        return TuneTrial(settings, path, failed=error.message)
    ended = read_trial(folder)
    return TuneTrial(settings, path, dict(ended["valid"]), ended["seconds"] if "seconds" in ended else ended["cost"]["seconds"])


def _rank(trials: Sequence[TuneTrial], judged_by: str) -> list[int]:
    sign = -1 if metric(judged_by).higher_is_better else 1
    value = lambda place: sign * trials[place].valid.get(judged_by, sign * math.inf)
    return sorted(range(len(trials)), key=value)


def _conclude(done: list[TuneTrial], ended: str, watch: Display) -> Tuning:
    """Score the best trial on the test split."""
    first = read_trial(RunFolder(Path(done[0].run)))
    scored = [{"valid": trial.valid} for trial in done if trial.valid]
    judged_by = choose_metric(scored, first["metric"])
    best = _rank(done, judged_by)[0]
    folder = RunFolder(Path(done[best].run))
    watch.say(f"the best is trial {best + 1}: it is scored on the test")
    resume(folder.path, watch=watch)
    results = read_results(folder)
    return Tuning(judged_by, results["metric"], done, best, results["scores"], results["intervals"], ended)


def _plain(value: Any) -> str:
    """As a change of the configuration is typed."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _format_value(value: Any) -> Words:
    return number(value, 3) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
