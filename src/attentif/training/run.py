"""A whole run: configuration, data, model, training, evaluation, report. Stopped anywhere, it goes on with `resume`."""

import importlib.util
import platform
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch

from attentif.config import to_toml
from attentif.errors import ConfigError, RunError, UsageError, within
from attentif.files import write_text
from attentif.models import Model, ModelConfig, build
from attentif.nn.adapt import merge
from attentif.runtime import configure_process
from attentif.tasks.task import Prepared, Task, Tokenizers
from attentif.text import TokenizerConfig
from attentif.training.backbone import Backbone, find_backbone, has_same_head
from attentif.training.config import FORMAT, KeptConfig, MadeConfig, RunConfig, TrainConfig
from attentif.training.distributed import ProcessGroup, Ranks, count_processes, device_of
from attentif.training.learning import check_learning, choose_learning, describe_trainable
from attentif.training.load import load_run_config
from attentif.training.loop import Job, fit
from attentif.training.machine import seed_all
from attentif.training.outcome import Trained, readme
from attentif.training.pretrain import STAGE, TEXTS, capture_texts, stage_config, stage_results, texts_read, write_texts
from attentif.training.progress import Display, Silent
from attentif.training.rundir import RunFolder, create, refuse_existing, save_tokenizers
from attentif.training.signals import StoppedError
from attentif.training.train_state import TrainState
from attentif.training.vectors import FoundVectors, check_vectors, find_vectors, give_vectors
from attentif.training.weights import map_model, read_weights, write_weights
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
    vectors: Sequence[FoundVectors] | None = None  # that embeddings begin with; None: not read yet
    trial: bool = False  # judged on validation alone: neither the test split is looked at, nor is a report written


def train(
    config: RunConfig, *, name: str = "run", out: Path | None = None, force: bool = False, trial: bool = False, display: Display
) -> RunFolder:
    """Train what `config` says, in `out` or in `runs/<name>-<n>`; a `trial` ends with its loss on validation."""
    model = check(config)[1]
    base = check_backbone(config, model, out)
    check_learning(config, model)
    check_vectors(config.model)
    refuse_existing(out, force)
    with configure(config.train), ProcessGroup(device_of(config.train.device)) as ranks:
        if not ranks.main:  # what the first process has made is there for the others to read
            return continue_run(RunFolder(Path(ranks.share(None))), ranks, Silent())
        folder, ready = make(config, choose_tokenizers(config, base), name=name, out=out, force=force, ranks=ranks, display=display)
        ranks.share(str(folder.path))
        return complete(folder, replace(ready, trial=trial))


def make(
    config: RunConfig, text: TokenizerConfig | Tokenizers, *, name: str, out: Path | None, force: bool, ranks: Ranks, display: Display
) -> tuple[RunFolder, Ready]:
    """Read the data and make the folder: configuration, tokenizers, and the texts of a first stage, where there is one."""
    task, model = check(config)
    with capture_texts(config) as heard:
        prepared = task.prepare(config.data, text, model, display.say)
    sized = prepared.sizes.fill(model)
    base = find_backbone(config)
    if config.adapt is not None and base is not None:  # the run will need its base wherever it is used from
        sized = sized.changed(from_=str(base.path.resolve()))
    settled = config.changed(task=prepared.task, model=sized, made=describe_origin(name, prepared, base))
    vectors = find_vectors(settled, prepared.tokenizers)  # a file that cannot be used leaves no folder, and none replaced

    def fill(path: Path) -> None:
        write_text(path / "config.toml", to_toml(settled))
        save_tokenizers(path, prepared.tokenizers)
        task.keep(path)
        if config.pretrain is not None:
            write_texts(heard, path / TEXTS, config.data.text)

    return create(out, name, fill, force=force), Ready(settled, task, prepared, ranks, display, vectors)


def resume(path: Path, *, trial: bool = False, display: Display) -> RunFolder:
    """Go on with a run from its newest sound checkpoint; a finished run only says that it is."""
    folder = RunFolder.open(path)
    if folder.finished:
        display.say(f"{path} is finished: see {folder.report}")
        return folder
    config = load_run_config(path)
    check(config)
    with configure(config.train), ProcessGroup(device_of(config.train.device)) as ranks:
        return continue_run(folder, ranks, display if ranks.main else Silent(), trial=trial)


def continue_run(folder: RunFolder, ranks: Ranks, display: Display, *, trial: bool = False) -> RunFolder:
    """Complete a run with the configuration and the tokenizers of its folder."""
    config = load_run_config(folder.path)
    task = config.task.build()
    task.recall(folder.path)
    prepared = task.prepare(config.data, folder.tokenizers(config.tokenizer), config.model, display.say)
    if config.made is None:
        raise RunError("has no [made] table: it was not written by a run", file=folder.config)
    if prepared.digest != config.made.data:
        raise RunError("the data are not those that this run was started with; start another run", file=folder.path)
    return complete(folder, Ready(config, task, prepared, ranks, display, trial=trial))


def check(config: RunConfig) -> tuple[Task, ModelConfig]:
    """Refuse, before any data is read, what cannot be trained."""
    settings = config.train
    device_of(settings.device)
    if settings.accumulate % count_processes():
        raise ConfigError(f"train.accumulate: {settings.accumulate} batches cannot be shared out among {count_processes()} processes")
    if settings.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise ConfigError("train.tensorboard: TensorBoard is not installed; pip install attentif[tensorboard]")
    task = config.task.build()
    model = task.adapt(config.model)
    if config.pretrain is not None:
        with within("pretrain: "):
            _, stage = check(stage_config(config, Path()))
        model = stage.changed(dropout=model.dropout, members=model.members).with_head(model.head)
    if model.members > 1 and not task.averages:
        why = f"what {config.task.kind} answers here is not made of numbers that could be averaged, as classes and direct forecasts are"
        raise ConfigError(f"model.members: {why}; leave it out")
    if model.members > 1 and config.adapt is not None:
        raise ConfigError("model.members: adapters stand beside one model; leave one of the two out")
    task.check(model)
    return task, model


def configure(settings: TrainConfig) -> AbstractContextManager[None]:
    """Apply the process-wide settings of a run while it trains or is measured."""
    return configure_process(threads=settings.threads or 0, deterministic=settings.deterministic)


def describe_origin(name: str, prepared: Prepared, base: Backbone | None) -> MadeConfig:
    versions = {"attentif": __version__, "python": platform.python_version(), "torch": torch.__version__}
    family = base.config.made.family if base is not None and base.config.made is not None else None
    return MadeConfig(recipe=name, **versions, format=FORMAT, data=prepared.digest, weights=base.digest if base else None, family=family)


def check_backbone(config: RunConfig, model: ModelConfig, out: Path | None = None) -> Backbone | None:
    """The run that this one begins with; refused where its weights do not fit, or where this one would take its place."""
    base = find_backbone(config)
    if base is not None:
        base.check(model)
        if out is not None and out.resolve() == base.path.resolve():
            raise UsageError("is the run that model.from begins with; choose another place for this one", file=out)
    return base


def choose_tokenizers(config: RunConfig, base: Backbone | None) -> TokenizerConfig | Tokenizers:
    """The tokenizers of the run that this one begins with, or how to train its own."""
    return (config.tokenizer or {}) if base is None else base.tokenizers()


def fresh_model(config: ModelConfig, settings: TrainConfig, device: torch.device) -> Model:
    """Weights are a function of the seed."""
    seed_all(settings.seed)
    model = build(config).to(device)
    model.checkpointing = settings.gradient_checkpointing
    return model


class Begun(NamedTuple):
    """What a model began with."""

    said: str
    fresh_head: bool


def begin(model: Model, folder: RunFolder, config: RunConfig) -> Begun | None:
    """Copy the base model of the first stage, or the one that `model.from` names, and say so.

    Where a checkpoint has all weights already, the other run is no longer needed; adapters need it always."""
    if config.adapt is None and next(folder.checkpoints().sound(), None) is not None:
        return None
    base = find_backbone(config) if config.pretrain is None else Backbone.of(folder.path / STAGE)
    if base is None:
        return None
    if config.pretrain is None and config.made is not None and base.digest != config.made.weights:
        way_out = "start another run" if config.adapt is None else "bring those back: its adapters fit no others"
        raise RunError(f"the weights of {base.path} are not those that this run was started with; {way_out}", file=folder.path)
    fresh_head = not has_same_head(config, base.config)
    said = [base.give(member, fresh_head=fresh_head) for member in model.members]
    return Begun(said[0], fresh_head)


def open_model(folder: RunFolder, config: KeptConfig, device: torch.device) -> Model:
    """The model of a run with its newest weights; adapters are put together with the base that they were trained beside, and merged."""
    if not isinstance(config, RunConfig) or config.adapt is None:
        return map_model(folder.latest_weights(), config.model).to(device).eval()
    model = build(config.model).to(device)
    try:
        begin(model, folder, config)
        choose_learning(model, config)
    except ConfigError as error:
        way_out = f"where that has moved, change model.from there, then: attentif verify {folder.path} --accept"
        raise RunError(f"its adapters need the model they were trained beside ({error}); {way_out}", file=folder.config) from None
    read_weights(folder.latest_weights(), model)
    merge(model)
    return model.eval()


def run_first_stage(folder: RunFolder, ready: Ready) -> None:
    """Train the base model on texts without labels, or go on with it: a run of its own, inside this one."""
    config, ranks, display = ready.config, ready.ranks, ready.display
    assert config.made is not None
    stage = RunFolder(folder.path / STAGE)
    if stage.finished or next(folder.checkpoints().sound(), None) is not None:
        return
    display.say(f"first stage, in {stage.path}")
    try:
        if ranks.main and not stage.config.is_file():
            name, text = f"{config.made.recipe}: {STAGE}", ready.prepared.tokenizers
            first = make(stage_config(config, folder.path), text, name=name, out=stage.path, force=False, ranks=ranks, display=display)
            ranks.wait()
            complete(*first)
        else:
            ranks.wait()
            continue_run(stage, ranks, display)
    except StoppedError as stopped:  # it is the whole run that goes on
        raise StoppedError(stopped.message.replace(str(stage.path), str(folder.path)), stopped.exit_code - 128) from None
    display.say("second stage")


def complete(folder: RunFolder, ready: Ready) -> RunFolder:
    """Train to the end, score, report."""
    config, ranks, display = ready.config, ready.ranks, ready.display
    if config.pretrain is not None:
        run_first_stage(folder, ready)
        ready.prepared.notes.append(texts_read(folder.path, config.pretrain))
    model = fresh_model(config.model, config.train, ranks.device)
    if next(folder.checkpoints().sound(), None) is None:
        vectors = find_vectors(config, ready.prepared.tokenizers) if ready.vectors is None else ready.vectors
        give_vectors(model, vectors, display.say)
    if begun := begin(model, folder, config):
        display.say(begun.said)
    elif next(folder.checkpoints().sound(), None) is None:
        ready.task.begin(model, ready.prepared, display.say)
    choose_learning(model, config, fresh_head=begun is not None and begun.fresh_head)
    if said := describe_trainable(model):
        display.say(said)
    job = Job(ready.task, model, ready.prepared.train, ready.prepared.valid, config.train, folder)
    if not ranks.main:
        fit(job, ranks, display)
        return folder
    try:
        with folder.writing():
            if not folder.readme.is_file():
                write_text(folder.readme, readme(folder, config))
            folder.unseal()
            place = fit(job, ranks, display)
            write_weights(folder.weights if config.adapt is None else folder.adapter, model)
            conclude(folder, ready, model, place)
    finally:
        display.close()
    return folder


def conclude(folder: RunFolder, ready: Ready, model: Model, place: TrainState) -> None:
    """Scores of the test split and of the baselines; `results.json` comes last, for it says that all is there. Of a trial, `trial.json`."""
    task, prepared, display = ready.task, ready.prepared, ready.display
    model.eval()
    progress = lambda done, total: display.work("evaluate", done, total)
    budget = ready.config.train.batch_tokens
    task.settle(model, prepared, folder.path, budget=budget, say=display.say, progress=progress)
    valid = task.evaluate(model, prepared.valid, budget=budget, quick=True, progress=progress)
    if ready.trial:
        folder.seal(folder.trial, {"metric": task.metric, "valid": valid.scores, "steps": place.step, "seconds": place.seconds})
        return
    test = task.evaluate(model, prepared.test, budget=budget, progress=progress)
    baselines = task.baselines(prepared, display.say) if ready.config.train.baselines else []
    trained = Trained(ready.config, task, model, prepared, place, test, valid, baselines)
    write_report(folder.report, trained.report(folder))
    write_text(folder.readme, readme(folder, ready.config, trained))
    folder.seal(folder.results, trained.results() | stage_results(folder.path))
