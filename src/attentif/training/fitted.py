"""A fitted run: configuration, data, fit, scores, report. Its folder appears when complete.

A recipe has a [fit] table where others have [task], [model] and [train]:

    data.name = "plage"
    tokenizer = { kind = "word" }
    fit = { kind = "word2vec", size = 100 }
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attentif.config import to_toml
from attentif.files import write_json, write_text
from attentif.tasks.base import AnyPrepared
from attentif.tasks.fitted import FittedTask, build_fitted
from attentif.text.fitted import Row
from attentif.training.config import FitConfig, MadeConfig
from attentif.training.machine import peak_memory
from attentif.training.outcome import FinishedRun
from attentif.training.progress import Display
from attentif.training.rundir import RunFolder, create, refuse_existing, save_tokenizers
from attentif.version import __version__
from attentif.view.report import write_report
from attentif.view.words import Text, count


def fit(config: FitConfig, *, name: str = "run", out: Path | None = None, force: bool = False, display: Display) -> RunFolder:
    """Fit the configured model and save it in `out`, or in `runs/<name>-<n>`."""
    task = build_fitted(config.fit)
    refuse_existing(out, force)
    try:
        prepared = task.prepare(config.data, config.tokenizer, config.fit, display.say)
        result = measure(config.replace(made=MadeConfig.of(name, data=prepared.digest, folder=str(Path.cwd()))), task, prepared, display)
        return create(out, name, lambda path: write(result, path, out or Path(name)), force=force, seal=True)
    finally:
        display.close()


@dataclass(frozen=True, kw_only=True)
class FitResult(FinishedRun):
    """Result of fitting a model."""

    config: FitConfig
    rows: Sequence[Row]  # measured on the way
    seconds: float

    def cost(self) -> dict[str, Any]:
        return {
            "seconds": self.seconds,
            "tokens": len(self.prepared.train),
            "peak_memory": peak_memory(),
            "parameters": self.model.sizes(),
            "device": "cpu",
            "threads": 1,
        }

    def length(self) -> dict[str, Any]:
        return {"steps": len(self.rows), "ended": "fitted"}

    def describe(self) -> list[Text]:
        train, test = (count(self.task.count(part)) for part in (self.prepared.train, self.prepared.test))
        done = Text(
            "Modèle : {model}, ajusté à {train} {unit} et jugé sur {test}. Rien n'y est appris pas à pas par gradient sur un réseau.",
            "Model: {model}, fitted to {train} {unit} and scored on {test}. No network is trained step by step here.",
        )
        return [done.with_(model=self.config.fit.kind, train=train, test=test, unit=self.task.unit)]


def measure(config: FitConfig, task: FittedTask, prepared: AnyPrepared, display: Display) -> FitResult:
    """Fit, then score on validation and test, beside the baselines."""
    begin, model = time.perf_counter(), config.fit.build()
    display.say(f"fitting {config.fit.kind} to {task.count(prepared.train):,} {task.unit.en}")
    rows = model.fit(prepared.train.of, display.work)
    seconds = time.perf_counter() - begin
    display.say(f"fitted in {seconds:.1f} s")
    valid, test = (task.evaluate(model, prepared.state, part) for part in (prepared.valid, prepared.test))
    baselines, scores = task.baselines(prepared, display.say), {"test": test, "valid": valid}
    return FitResult(config=config, task=task, model=model, prepared=prepared, rows=rows, seconds=seconds, baselines=baselines, **scores)


def write(result: FitResult, path: Path, shown: Path) -> None:
    """The files of the run; `shown` is the folder that `path` will become."""
    folder = RunFolder(path)
    write_text(folder.config, to_toml(result.config))
    save_tokenizers(path, result.prepared.tokenizers)
    result.model.save(path)
    for step, row in enumerate(result.rows, 1):
        folder.metrics.append({"step": step, **row})
    write_report(folder.report, result.report(folder))
    write_text(folder.readme, readme(result, shown))
    write_json(folder.results, result.results())


def readme(result: FitResult, shown: Path) -> str:
    use = {"words": "neighbours {run} WORD", "language": 'generate {run} "..."', "alignment": 'align {run} "source" "target"'}
    example = use.get(result.config.fit.family, "evaluate {run}").format(run=shown)
    return f"""# {shown.name}

A run of `{result.made.recipe}` (fitted model `{result.config.fit.kind}`), Attentif {__version__}.
It is finished: {result.describe_score()}.

- `report.html`: what came out, against what, and why (in French and English, works offline); `results.json`: the same for machines
- `config.toml`: the whole configuration; `attentif train {shown / "config.toml"}` fits it again
- `model.safetensors`, `tokenizer.json`: the model; `attentif {example}` uses it
- `metrics.jsonl`: what was measured on the way
"""
