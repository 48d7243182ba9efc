"""A whole run: configuration, data, model, training, evaluation, report. Stopped anywhere, it goes on with `resume`."""

import importlib.util
import platform
from dataclasses import dataclass
from pathlib import Path

import torch

from attentif.config import to_toml
from attentif.errors import ConfigError, RunError
from attentif.files import write_json, write_text
from attentif.models import Model, ModelConfig, build
from attentif.tasks.task import Prepared, Task
from attentif.train.config import MadeConfig, RunConfig, TrainConfig
from attentif.train.distributed import Joined, Ranks, device_of, processes
from attentif.train.load import load_run_config
from attentif.train.loop import Job, fit
from attentif.train.machine import seed_all, set_up
from attentif.train.outcome import Trained, readme
from attentif.train.place import Place
from attentif.train.progress import Display, Silent
from attentif.train.rundir import RunFolder, create, refuse_existing, save_tokenizers
from attentif.train.weights import write_weights
from attentif.version import __version__
from attentif.view.report import write_report


@dataclass(frozen=True)
class Ready:
    """A run with its data, before its weights."""

    config: RunConfig
    task: Task
    prepared: Prepared
    ranks: Ranks
    display: Display


def train(config: RunConfig, *, name: str = "run", out: Path | None = None, force: bool = False, display: Display) -> RunFolder:
    """Train what `config` says, in `out` or in `runs/<name>-<n>`."""
    task, model = check(config)
    refuse_existing(out, force)
    with Joined(device_of(config.train.device)) as ranks:
        if not ranks.main:  # what the first process has made is there for the others to read
            return go_on(RunFolder(Path(ranks.share(None))), ranks, Silent())
        prepared = task.prepare(config.data, config.tokenizer or {}, model, display.say)
        settled = config.changed(task=prepared.task, model=prepared.sizes.fill(model), made=made(name, prepared))

        def fill(path: Path) -> None:
            write_text(path / "config.toml", to_toml(settled))
            save_tokenizers(path, prepared.tokenizers)

        folder = create(out, name, fill, force=force)
        ranks.share(str(folder.path))
        return complete(folder, Ready(settled, task, prepared, ranks, display))


def resume(path: Path, *, display: Display) -> RunFolder:
    """Go on with a run from its newest sound checkpoint; a finished run only says that it is."""
    folder = RunFolder.open(path)
    if folder.finished:
        display.say(f"{path} is finished: see {folder.report}")
        return folder
    config = load_run_config(path)
    check(config)
    with Joined(device_of(config.train.device)) as ranks:
        return go_on(folder, ranks, display if ranks.main else Silent())


def go_on(folder: RunFolder, ranks: Ranks, display: Display) -> RunFolder:
    """Complete a run with the configuration and the tokenizers of its folder."""
    config = load_run_config(folder.path)
    task = config.task.build()
    prepared = task.prepare(config.data, folder.tokenizers(needed=task.needs_tokenizer), config.model, display.say)
    if config.made is None:
        raise RunError("has no [made] table: it was not written by a run", file=folder.config)
    if prepared.digest != config.made.data:
        raise RunError("the data are not those that this run was started with; start another run", file=folder.path)
    return complete(folder, Ready(config, task, prepared, ranks, display))


def check(config: RunConfig) -> tuple[Task, ModelConfig]:
    """Refuse, before any data is read, what cannot be trained."""
    settings = config.train
    device_of(settings.device)
    if settings.accumulate % processes():
        raise ConfigError(f"train.accumulate: {settings.accumulate} batches cannot be shared out among {processes()} processes")
    if settings.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise ConfigError("train.tensorboard: TensorBoard is not installed; pip install attentif[tensorboard]")
    task = config.task.build()
    model = task.adapt(config.model)
    task.check(model)
    set_up(settings)
    return task, model


def made(name: str, prepared: Prepared) -> MadeConfig:
    return MadeConfig(recipe=name, attentif=__version__, python=platform.python_version(), torch=torch.__version__, data=prepared.digest)


def fresh_model(config: ModelConfig, settings: TrainConfig, device: torch.device) -> Model:
    """Weights are a function of the seed."""
    seed_all(settings.seed)
    model = build(config).to(device)
    model.checkpointing = settings.gradient_checkpointing
    return model


def complete(folder: RunFolder, ready: Ready) -> RunFolder:
    """Train to the end, score, report."""
    config, ranks, display = ready.config, ready.ranks, ready.display
    model = fresh_model(config.model, config.train, ranks.device)
    job = Job(ready.task, model, ready.prepared.train, ready.prepared.valid, config.train, folder)
    if not ranks.main:
        fit(job, ranks, display)
        return folder
    try:
        with folder.writing():
            if not folder.readme.is_file():
                write_text(folder.readme, readme(folder, config))
            place = fit(job, ranks, display)
            write_weights(folder.weights, model)
            conclude(folder, ready, model, place)
    finally:
        display.close()
    return folder


def conclude(folder: RunFolder, ready: Ready, model: Model, place: Place) -> None:
    """Scores of the test split and of the baselines; `results.json` comes last, for it says that all is there."""
    task, prepared, display = ready.task, ready.prepared, ready.display
    model.eval()
    progress = lambda done, total: display.work("evaluate", done, total)
    budget = ready.config.train.batch_tokens
    valid = task.evaluate(model, prepared.valid, budget=budget, quick=True, progress=progress)
    test = task.evaluate(model, prepared.test, budget=budget, progress=progress)
    baselines = task.baselines(prepared, display.say)
    trained = Trained(ready.config, task, model, prepared, place, test, valid, baselines)
    write_report(folder.report, trained.report(folder))
    write_text(folder.readme, readme(folder, ready.config, trained))
    write_json(folder.results, trained.results())
