"""A run of what is fitted: configuration, data, fit, scores, report, in one go. Its folder appears when it is whole.

A recipe has a [fit] table where others have [task], [model] and [train]:

    data.name = "plage"
    tokenizer = { kind = "word" }
    fit = { kind = "word2vec", size = 100 }
"""

import platform
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field

from attentif.config import VERSION, Config, Layer, OneOf, to_toml
from attentif.data import DataConfig
from attentif.errors import ConfigError
from attentif.files import write_json, write_text
from attentif.tasks.fitting import Fitting, Material, fitting_of
from attentif.tasks.task import Baseline, Evaluation
from attentif.text import TOKENIZERS, TokenizerConfig
from attentif.text.fitted import FITTED, Fitted, FittedConfig, Row
from attentif.training.config import FORMAT, MadeConfig, RunConfig
from attentif.training.load import Source, load_run_config, resolved, source_layer
from attentif.training.machine import peak_memory
from attentif.training.metrics import Metrics
from attentif.training.outcome import rival
from attentif.training.progress import Display
from attentif.training.rundir import RunFolder, create, refuse_existing, save_tokenizers
from attentif.version import __version__
from attentif.view.blocks import Contender
from attentif.view.report import Cost, Origin, Outcome, RunReport, write_report
from attentif.view.words import Text, count, metric

# what the options of `attentif train` are called here; those that steer gradients and devices have no place
OPTIONS = {"seed": "seed"}


class FitConfig(Config):
    """A complete run of what is fitted."""

    version: int = Field(VERSION, description="of this format")
    data: DataConfig = Field(description="where the examples come from")
    tokenizer: Annotated[TokenizerConfig, OneOf(TOKENIZERS)] = Field(description="from text to tokens")
    fit: Annotated[FittedConfig, OneOf(FITTED)] = Field(description="what is fitted")
    made: MadeConfig | None = Field(None, description="what a run was made with; a record, not a setting")


def load_config(source: Source, layers: Sequence[Layer] = ()) -> RunConfig | FitConfig:
    """The configuration of a run, trained or fitted; ConfigError names the file and the line of what is wrong."""
    first = source_layer(source)
    if "fit" not in first.values:
        return load_run_config(source, layers)
    return resolved(first, [_renamed(layer) for layer in layers]).build(FitConfig)


def _renamed(layer: Layer) -> Layer:
    """`--seed 3` sets [train] elsewhere, [fit] here."""
    settings = layer.values.get("train")
    if not layer.name.startswith("option --") or not isinstance(settings, dict):
        return layer
    if unknown := [key for key in settings if key not in OPTIONS]:
        raise ConfigError(f"{layer.name}: what is fitted takes no such option; it runs on one core, and its keys are those of [fit]")
    return replace(layer, values={"fit": {OPTIONS[key]: value for key, value in settings.items()}} if not unknown else {})


def fit(config: FitConfig, *, name: str = "run", out: Path | None = None, force: bool = False, display: Display) -> RunFolder:
    """Fit what `config` says and keep it in `out`, or in `runs/<name>-<n>`."""
    work = fitting_of(config.fit)
    refuse_existing(out, force)
    try:
        material = work.prepare(config.data, config.tokenizer, config.fit, display.say)
        done = _Done(config.changed(made=_made(name, material)), work, material)
        done.measure(display)
        return create(out, name, lambda path: done.write(path, out or Path(name)), force=force, seal=True)
    finally:
        display.close()


def _made(name: str, material: Material) -> MadeConfig:
    versions = {"attentif": __version__, "python": platform.python_version(), "torch": torch.__version__}
    return MadeConfig(recipe=name, **versions, format=FORMAT, data=material.digest)


class _Done:
    """A model that is fitted, with its scores."""

    def __init__(self, config: FitConfig, work: Fitting, material: Material) -> None:
        self.config, self.work, self.material = config, work, material
        self.model: Fitted[Any] = config.fit.build()
        self.rows: list[Row] = []
        self.seconds = 0.0
        self.valid, self.test = Evaluation({}), Evaluation({})
        self.baselines: list[Baseline] = []

    def measure(self, display: Display) -> None:
        begin = time.perf_counter()
        display.say(f"fitting {self.config.fit.kind} to {self.material.train.size:,} {self.work.unit}")
        self.rows = self.model.fit(self.material.train.of, display.work)
        self.seconds = time.perf_counter() - begin
        display.say(f"fitted in {self.seconds:.1f} s")
        self.valid, self.test = (self.work.evaluate(self.model, part) for part in (self.material.valid, self.material.test))
        self.baselines = self.work.baselines(self.material, display.say)

    def write(self, path: Path, shown: Path) -> None:
        write_text(path / "config.toml", to_toml(self.config))
        save_tokenizers(path, self.material.tokenizers)
        self.model.save(path)
        metrics = Metrics(path / "metrics.jsonl")
        for step, row in enumerate(self.rows, 1):
            metrics.append({"step": step, **row})
        folder = RunFolder(path)
        write_report(folder.report, self.report(metrics))
        write_text(folder.readme, self.readme(shown))
        write_json(folder.results, self.results())

    def cost(self) -> dict[str, Any]:
        return {
            "seconds": self.seconds,
            "tokens": self.material.train.size,
            "peak_memory": peak_memory(),
            "parameters": self.model.sizes(),
            "device": "cpu",
            "threads": 1,
        }

    def results(self) -> dict[str, Any]:
        """Everything measured, as plain data, under the names of a trained run."""
        assert self.config.made is not None
        return {
            "recipe": self.config.made.recipe,
            "task": self.config.fit.kind,
            "metric": self.work.metric,
            "split": self.test.split,
            "examples": self.test.examples,
            "scores": self.test.scores,
            "intervals": self.test.intervals,
            "valid": self.valid.scores,
            "baselines": [rival(baseline) for baseline in self.baselines],
            "steps": len(self.rows),
            "ended": "fitted",
            "cost": self.cost(),
            "details": self.test.details,
        }

    def report(self, metrics: Metrics) -> RunReport:
        made = self.config.made
        assert made is not None
        rivals = [Contender(baseline.name, baseline.measured()) for baseline in self.baselines]
        versions = {"attentif": made.attentif, "python": made.python}
        sizes = [count(part.size) for part in (self.material.train, self.material.test)]
        done = Text(
            "Modèle : {model}, ajusté à {train} {fr} et jugé sur {test}. Rien n'y est appris pas à pas par gradient sur un réseau.",
            "Model: {model}, fitted to {train} {en} and scored on {test}. No network is trained step by step here.",
        )
        unit = UNITS[self.work.unit]
        return RunReport(
            title=made.recipe,
            done=[done.with_(model=self.config.fit.kind, train=sizes[0], test=sizes[1], fr=unit.fr, en=unit.en)],
            outcome=Outcome(self.work.metric, self.test.measured(), rivals, self.test.split, self.test.examples),
            history=metrics.rows(),
            cost=Cost(**self.cost()),
            origin=Origin(made.recipe, to_toml(self.config), versions, self.material.notes),
            sections=self.work.sections(self.test),
        )

    def readme(self, shown: Path) -> str:
        of, kind = metric(self.work.metric), self.config.fit.kind
        value = of.write(self.test.scores[of.key]).en
        use = {"words": "neighbours {run} WORD", "language": 'generate {run} "..."', "alignment": 'align {run} "source" "target"'}
        example = use.get(self.config.fit.family, "evaluate {run}").format(run=shown)
        return f"""# {shown.name}

A run of `{self.config.made.recipe if self.config.made else kind}` (fitted model `{kind}`), Attentif {__version__}.
It is finished: {of.name.en} {value} on {self.test.examples:,} {self.test.split} {self.work.unit}.

- `report.html`: what came out, against what, and why (in French and English, works offline); `results.json`: the same for machines
- `config.toml`: the whole configuration; `attentif train {shown / "config.toml"}` fits it again
- `model.safetensors`, `tokenizer.json`: the model; `attentif {example}` uses it
- `metrics.jsonl`: what was measured on the way
"""


UNITS = {
    "words": Text("mots", "words"),
    "tokens": Text("jetons", "tokens"),
    "pairs": Text("paires de phrases", "pairs of sentences"),
}
