"""Quantize a run to int8, with its scores before and after."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attentif.errors import RunError, UsageError
from attentif.files import write_json, write_text
from attentif.models.int8 import is_int8, quantize
from attentif.tasks.base import AnyTask, TaskState
from attentif.tasks.predictors import Trainable
from attentif.training.config import StoredConfig
from attentif.training.distributed import device_of
from attentif.training.load import Given, other_rows
from attentif.training.progress import Display
from attentif.training.rewrite import rewrite_run
from attentif.training.run import open_model
from attentif.training.rundir import RunFolder, read_results, refuse_existing
from attentif.training.stored_config import read_run_config, read_state
from attentif.training.weights import pieces_of

BUDGET = 8192  # tokens of a batch, where the run has no training of its own


@dataclass(frozen=True)
class Quantized:
    """A run in int8, with its scores before and after."""

    folder: RunFolder
    maps: int  # linear maps in bytes
    metric: str
    scored_on: str  # "valid", or the file; empty: nothing was at hand to score it on
    before: dict[str, float]
    after: dict[str, float]
    bytes: tuple[int, int]  # of the weights on disk


def quantize_run(run: Path, out: Path, *, data: Given | None = None, force: bool = False, display: Display) -> Quantized:
    """Write a run with its linear maps in int8, scored before and after on its validation rows, or on all rows of `data`."""
    folder = RunFolder.open(run)
    if not folder.finished and not folder.sealed:
        raise RunError(f"is not finished; resume with: attentif train --resume {run}", file=run)
    if out.resolve() == run.resolve():
        raise UsageError("is the run itself; choose another place for the new one", file=out)
    refuse_existing(out, force)
    folder.verify()
    config = read_run_config(folder.path)
    model = open_model(folder, config, device_of("cpu"))
    if is_int8(model):
        raise UsageError("is in int8 already", file=run)
    task = config.task.build()
    state = read_state(folder.path, task)
    dataset, scored_on = _dataset(folder, config, task, state, model, data, display)
    budget = config.train.batch_tokens if config.train is not None else BUDGET

    def score() -> dict[str, float]:
        if dataset is None:
            return {}
        watch = lambda done, total: display.work("evaluate", done, total)
        return dict(task.evaluate(model, state, dataset, budget=budget, quick=True, progress=watch).scores)

    before = score()
    paths = quantize(model)
    if not paths:
        raise UsageError("has no linear map large enough to gain from int8", file=run)
    after = score()
    report = {"run": str(run), "maps": len(paths), "scored_on": scored_on, "before": before, "after": after}

    def fill(path: Path) -> None:
        write_text(path / "README.md", _readme(run, out, report, task.metric_for(state)))
        results = read_results(folder)
        if results:
            write_json(path / "results.json", results | {"quantized": report})

    made = rewrite_run(folder, out, config.replace(adapt=None), model, fill, force=force)
    before_size, after_size = (sum(piece.stat().st_size for piece in pieces_of(one.latest_weights())) for one in (folder, made))
    return Quantized(made, len(paths), task.metric_for(state), scored_on, before, after, (before_size, after_size))


def _dataset(
    folder: RunFolder, config: StoredConfig, task: AnyTask, state: TaskState, model: Trainable, data: Given | None, display: Display
) -> tuple[Any, str]:
    """The data that the quantized model is scored on, and their name."""
    tokenizers = folder.tokenizers(config.tokenizer)
    if data is not None:
        return task.read(state, other_rows(config.data, data), tokenizers, model.config, display.say), str(data)
    if config.data is None:
        display.say("imported, so its data are not known: name a file (--data) to learn what int8 costs")
        return None, ""
    prepared = task.prepare(config.data, tokenizers, config.model, display.say, state)
    if config.made is None or prepared.digest != config.made.data:
        raise RunError("its data have changed since it was trained: name a file to score it on (--data)", file=folder.path)
    return prepared.valid, "valid"


def _readme(run: Path, out: Path, report: dict[str, Any], metric: str) -> str:
    cost = f"On `{report['scored_on']}`, {metric}: {report['before'][metric]:.6g} before, {report['after'][metric]:.6g} after.\n"
    return f"""# {out.name}

`{run}` with {report["maps"]} linear maps in int8 (a scale for each block of 32 weights); embeddings and norms are float32.
{cost if report["before"] else ""}All commands use it as any run; it cannot be trained further.
`report.html` and `metrics.jsonl` are those of `{run}`.
"""
