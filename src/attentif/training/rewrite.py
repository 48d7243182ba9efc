"""Rewrite a finished run without training: merge adapters, prune experts."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attentif.config import to_toml
from attentif.data import plan
from attentif.errors import RunError, UsageError
from attentif.files import write_json, write_text
from attentif.models import Model
from attentif.models.experts import expert_counts, mixtures, prune_experts, select_most_used
from attentif.tasks.answers import Baseline
from attentif.tasks.base import AnyPrepared
from attentif.tasks.batches import format_count
from attentif.tasks.predictors import Trainable
from attentif.training.config import StoredConfig
from attentif.training.distributed import device_of
from attentif.training.load import load_run_config
from attentif.training.manifest import MANIFEST
from attentif.training.outcome import TrainingResult, readme
from attentif.training.progress import Display
from attentif.training.run import open_model
from attentif.training.rundir import RunFolder, create, read_results, refuse_existing
from attentif.training.stored_config import read_state
from attentif.training.train_state import TrainState
from attentif.training.weights import stem_of, write_weights
from attentif.view.report import write_report
from attentif.view.words import Text

# written anew; all other files are copied
OF_THE_WEIGHTS = ("config.toml", "README.md", "model.safetensors", "adapter.safetensors", MANIFEST)


def open_finished_run(run: Path, out: Path, force: bool) -> RunFolder:
    """The finished run to rewrite; refused where `out` is the run itself or exists."""
    folder = RunFolder.open(run)
    if not folder.finished:
        raise RunError(f"is not finished; resume with: attentif train --resume {run}", file=run)
    if out.resolve() == run.resolve():
        raise UsageError("is the run itself; choose another place for the new one", file=out)
    refuse_existing(out, force)
    folder.verify()
    return folder


def rewrite_run(
    folder: RunFolder, out: Path, config: StoredConfig, model: Trainable, fill: Callable[[Path], Any], *, force: bool
) -> RunFolder:
    """A run like `folder`, with another configuration and other weights; `fill` writes what differs besides."""

    def whole(path: Path) -> None:
        for file in folder.path.iterdir():
            kind = f"{stem_of(file)}{file.suffix}"  # of a piece of large weights: that of the whole
            of_weights = kind in OF_THE_WEIGHTS or file.name.removesuffix(".index.json") in OF_THE_WEIGHTS
            if file.is_file() and not of_weights and file.name != "lock" and not file.name.startswith("."):
                shutil.copyfile(file, path / file.name)
        write_text(path / "config.toml", to_toml(config))
        write_weights(path / "model.safetensors", model)
        fill(path)

    return create(out, out.name, whole, force=force, seal=True)


# ---------------------------------------------------------------------------------------------------------------- adapters


def merge_run(run: Path, out: Path, *, force: bool = False) -> RunFolder:
    """Write a run of adapters as a plain one: its weights are those of its base plus what the adapters add, and it needs neither."""
    folder = open_finished_run(run, out, force)
    config = load_run_config(folder.path)
    if config.adapt is None:
        raise UsageError("has no adapters: it is a plain run already", file=run)
    model = open_model(folder, config, device_of("cpu"))
    about = (
        f"# {out.name}\n\n`{run}` with its adapters merged into the weights of `{config.model.from_}`: `attentif predict {out}` and all\n"
    )
    about += "other commands use it as any run. `results.json`, `report.html` and `metrics.jsonl` are those of the run with adapters.\n"
    return rewrite_run(folder, out, config.replace(adapt=None), model, lambda path: write_text(path / "README.md", about), force=force)


# ----------------------------------------------------------------------------------------------------------------- experts


@dataclass(frozen=True)
class Pruned:
    """Result of pruning: experts removed, scores before and after."""

    folder: RunFolder
    removed: dict[str, dict[int, float]]  # by mixture: each expert that went, with its share of the choices on validation
    metric: str
    before: dict[str, float]  # the metric by split
    after: dict[str, float]
    parameters: tuple[int, int]


def prune_run(run: Path, out: Path, *, experts: int | None = None, force: bool = False, display: Display) -> Pruned:
    """Keep, in every mixture, the `experts` that the validation rows choose most often; by default all but one (of each group)."""
    folder = open_finished_run(run, out, force)
    config = load_run_config(folder.path)
    model = open_model(folder, config, device_of("auto"))
    if not isinstance(model, Model):
        raise UsageError("is an average of several networks, whose experts differ", file=run)
    wanted = _choose_sizes(model, experts, run)
    task = config.task.build()
    state = read_state(folder.path, task)
    prepared = task.prepare(config.data, folder.tokenizers(config.tokenizer), config.model, display.say, state)
    if config.made is None or prepared.digest != config.made.data:
        raise RunError("its data have changed since it was trained: there is nothing to measure the use of its experts on", file=run)
    budget = config.train.batch_tokens
    watch = lambda done, total: display.work("evaluate", done, total)
    score = lambda of, split, quick: task.evaluate(of, state, split, budget=budget, quick=quick, progress=watch)

    before = score(model, prepared.valid, True)
    smaller, removed = _remove_least_used(model, wanted, prepared, budget)
    after, test = score(smaller, prepared.valid, True), score(smaller, prepared.test, False)

    results = read_results(folder)
    settled = config.replace(model=smaller.config, adapt=None)
    trained = TrainingResult(
        config=settled,
        task=task,
        model=smaller,
        prepared=prepared,
        train_state=_read_train_state(folder, results),
        test=test,
        valid=after,
        baselines=_baselines(results),
    )

    def fill(path: Path) -> None:
        write_report(path / "report.html", trained.report(folder))
        about = readme(RunFolder(out), settled, trained)
        write_text(path / "README.md", f"{about}\nIt is `{run}` without its least used experts (`attentif prune`).\n")
        write_json(path / "results.json", trained.results() | {"pruned": {"run": str(run), "removed": removed}})

    made = rewrite_run(folder, out, settled, smaller, fill, force=force)
    metric = task.metric_for(state)
    split = lambda valid, test: {"valid": valid[metric], "test": test[metric]}
    sizes = (sum(model.sizes().values()), sum(smaller.sizes().values()))
    return Pruned(made, removed, metric, split(before.scores, results["scores"]), split(after.scores, test.scores), sizes)


def _choose_sizes(model: Model, experts: int | None, run: Path) -> dict[str, int]:
    """How many experts stay in each mixture."""
    found = {path: mixer.config for path, (_, mixer) in mixtures(model).items()}
    if not found:
        raise UsageError("has no mixture of experts: there is nothing to prune", file=run)
    wanted = {}
    for path, config in found.items():
        keep = config.experts - config.groups if experts is None else experts
        least = max(config.top_k, config.groups)
        if not least <= keep < config.experts or keep % config.groups:
            of = f" in {config.groups} groups" if config.groups > 1 else ""
            raise UsageError(
                f"{path} has {format_count(config.experts, 'expert')}{of}, of which a token uses {config.top_k}: {keep} cannot stay",
                file=run,
            )
        wanted[path] = keep
    return wanted


def _remove_least_used(
    model: Model, wanted: dict[str, int], prepared: AnyPrepared, budget: int
) -> tuple[Model, dict[str, dict[int, float]]]:
    valid, device = prepared.valid, next(model.parameters()).device
    batches = (valid.batch(rows).to(device) for rows in plan(valid.lengths, budget, seed=0, epoch=0))
    counts, removed = expert_counts(model, batches), {}
    for path, number in wanted.items():
        keep = _most_used_by_group(counts[path], number, mixtures(model)[path][1].config.groups)
        total = max(int(counts[path].sum()), 1)
        removed[path] = {expert: int(count) / total for expert, count in enumerate(counts[path].tolist()) if expert not in keep}
        model = prune_experts(model, path, keep)
    return model.eval(), removed


def _most_used_by_group(counts: Tensor, number: int, groups: int) -> list[int]:
    size = len(counts) // groups
    return [
        group * size + expert
        for group, own in enumerate(torch.unbind(counts.view(groups, size)))
        for expert in select_most_used(own, number // groups)
    ]


def _read_train_state(folder: RunFolder, results: dict[str, Any]) -> TrainState:
    """The train state of a finished run."""
    epochs = max((row.get("epoch", 0.0) for row in folder.metrics.rows()), default=0.0)
    cost = results["cost"]
    return TrainState(
        step=results["steps"],
        best_step=results["best_step"],
        ended=results["ended"],
        epochs=epochs,
        tokens=cost["tokens"],
        seconds=cost["seconds"],
    )


def _baselines(results: dict[str, Any]) -> list[Baseline]:
    return [
        Baseline(Text(**given["name"]), given["scores"], {key: tuple(pair) for key, pair in given["intervals"].items()}, given["seconds"])
        for given in results["baselines"]
    ]
