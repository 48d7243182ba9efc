"""A whole run: configuration, data, model, training, evaluation, report. `resume` continues an interrupted one."""

import importlib.util
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch

from attentif.config import to_toml
from attentif.errors import ConfigError, RunError, UsageError, within
from attentif.files import write_text
from attentif.models import ModelConfig, build
from attentif.nn.adapt import merge
from attentif.runtime import configure_process
from attentif.tasks.base import AnyPrepared, AnyTask, TaskState, Tokenizers
from attentif.tasks.predictors import Ensemble, Trainable, networks_of
from attentif.tasks.states import save_state
from attentif.text import TokenizerConfig
from attentif.training.backbone import Backbone, find_backbone, has_same_head
from attentif.training.config import MadeConfig, RunConfig, StoredConfig, TrainConfig
from attentif.training.distributed import ProcessGroup, Ranks, device_of
from attentif.training.keep_alive import keep_alive
from attentif.training.load import load_run_config
from attentif.training.loop import Job, fit
from attentif.training.machine import seed_all
from attentif.training.outcome import TrainingResult, readme
from attentif.training.pretrain import STAGE, TEXTS, describe_texts, record_texts, stage_config, stage_results, write_texts
from attentif.training.progress import Display, Silent
from attentif.training.relaunch import find_begun, mark_launch
from attentif.training.rundir import RunFolder, create, refuse_existing, save_tokenizers
from attentif.training.sharding import is_sharded
from attentif.training.signals import StoppedError
from attentif.training.stored_config import find_data, read_state
from attentif.training.train_state import TrainState
from attentif.training.trainable import check_trainable, choose_trainable, describe_trainable
from attentif.training.vectors import FoundVectors, check_vectors, copy_vectors, find_vectors
from attentif.training.weights import map_model, read_weights, write_weights
from attentif.view.report import write_report


@dataclass(frozen=True)
class PreparedRun:
    """A run whose data are prepared and whose weights are not."""

    config: RunConfig
    task: AnyTask
    prepared: AnyPrepared
    ranks: Ranks
    display: Display
    vectors: Sequence[FoundVectors] | None = None  # that embeddings begin with; None: not read yet
    trial: bool = False  # judged on validation alone: neither the test split is looked at, nor is a report written


def train(
    config: RunConfig, *, name: str = "run", out: Path | None = None, force: bool = False, trial: bool = False, display: Display
) -> RunFolder:
    """Train the configured model, in `out` or in `runs/<name>-<n>`; a `trial` ends with its loss on validation."""
    if (begun := find_begun(out, name)) is not None:
        return resume(begun.path, trial=trial, display=display)
    model = check_config(config)[1]
    base = check_backbone(config, model, out)
    check_trainable(config, model)
    check_vectors(config.model)
    refuse_existing(out, force)
    with configure(config.train), ProcessGroup(device_of(config.train.device)) as ranks:
        if not ranks.main:  # what the first process has made is there for the others to read
            return continue_run(RunFolder(Path(ranks.broadcast(None))), ranks, Silent())
        folder, ready = create_run(config, choose_tokenizers(config, base), name=name, out=out, force=force, ranks=ranks, display=display)
        ranks.broadcast(str(folder.path))
        return train_and_report(folder, replace(ready, trial=trial))


def create_run(
    config: RunConfig, text: TokenizerConfig | Tokenizers, *, name: str, out: Path | None, force: bool, ranks: Ranks, display: Display
) -> tuple[RunFolder, PreparedRun]:
    """Read the data and create the folder: configuration, tokenizers, and the texts of a first stage, if any."""
    task, model = check_config(config)
    recorder = record_texts(config, text)
    with keep_alive(display, "reading the data") as watch:
        prepared = task.prepare(config.data, recorder, model, watch.say)
    sized = prepared.sizes.fill(model)
    base = find_backbone(config)
    if config.adapt is not None and base is not None:  # the run will need its base wherever it is used from
        sized = sized.replace(from_=str(base.path.resolve()))
    settled = config.replace(model=sized, made=describe_origin(name, prepared, base))
    vectors = find_vectors(settled, prepared.tokenizers)  # a file that cannot be used leaves no folder, and none replaced

    def fill(path: Path) -> None:
        write_text(path / "config.toml", to_toml(settled))
        save_tokenizers(path, prepared.tokenizers)
        save_state(path, prepared.state)
        mark_launch(path)
        if config.pretrain is not None:
            write_texts(recorder, path / TEXTS, config.data.text)

    return create(out, name, fill, force=force), PreparedRun(settled, task, prepared, ranks, display, vectors)


def resume(path: Path, *, trial: bool = False, display: Display) -> RunFolder:
    """Resume a run from its newest valid checkpoint; a finished run is returned as it is."""
    folder = RunFolder.open(path)
    if folder.finished:
        display.say(f"{path} is finished: see {folder.report}")
        return folder
    config = load_run_config(path)
    check_config(config)
    with configure(config.train), ProcessGroup(device_of(config.train.device)) as ranks:
        return continue_run(folder, ranks, display if ranks.main else Silent(), trial=trial)


def continue_run(folder: RunFolder, ranks: Ranks, display: Display, *, trial: bool = False) -> RunFolder:
    """Complete a run with the configuration and the tokenizers of its folder."""
    config = load_run_config(folder.path)
    task = config.task.build()
    tokenizers = folder.tokenizers(config.tokenizer)
    with keep_alive(display, "reading the data") as watch:
        prepared = task.prepare(find_data(config) or config.data, tokenizers, config.model, watch.say, read_state(folder.path, task))
    if config.made is None:
        raise RunError("has no [made] table: it was not written by a run", file=folder.config)
    if prepared.digest != config.made.data:
        raise RunError("the data are not those that this run was started with; start another run", file=folder.path)
    return train_and_report(folder, PreparedRun(config, task, prepared, ranks, display, trial=trial))


def check_config(config: RunConfig) -> tuple[AnyTask, ModelConfig]:
    """Refuse impossible configurations before any data is read."""
    settings = config.train
    if device_of(settings.device).type == "cpu" and settings.precision == "fp16":
        raise ConfigError("train.precision: fp16 is for GPUs; a CPU takes bf16, or auto, which measures")
    if settings.shard == "full" and settings.optimizer == "adafactor":
        raise ConfigError(
            "train.shard: adafactor keeps means over whole rows and columns, of which a process has a part; take adamw or muon"
        )
    if settings.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise ConfigError("train.tensorboard: TensorBoard is not installed; pip install attentif[tensorboard]")
    task = config.task.build()
    model = task.adapt(config.model)
    if config.pretrain is not None:
        with within("pretrain: "):
            _, stage = check_config(stage_config(config, Path()))
        model = stage.replace(dropout=model.dropout).with_head(model.head)
    if settings.ensemble > 1 and not task.averages:
        why = f"what {config.task.kind} answers here is not made of numbers that could be averaged, as classes and direct forecasts are"
        raise ConfigError(f"train.ensemble: {why}; leave it out")
    if settings.ensemble > 1 and config.adapt is not None:
        raise ConfigError("train.ensemble: adapters stand beside one model; leave one of the two out")
    task.check(model)
    return task, model


def configure(settings: TrainConfig) -> AbstractContextManager[None]:
    """Apply the process-wide settings of a run while it trains or is measured."""
    return configure_process(threads=settings.threads or 0, deterministic=settings.deterministic)


def describe_origin(name: str, prepared: AnyPrepared, base: Backbone | None) -> MadeConfig:
    made = base.config.made if base is not None else None
    begun = {} if made is None else {"family": made.family, "origin": made.origin}
    return MadeConfig.of(name, data=prepared.digest, folder=str(Path.cwd()), weights=base.digest if base else None, **begun)


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


def fresh_model(config: ModelConfig, settings: TrainConfig, device: torch.device) -> Trainable:
    """A network, or an ensemble, with fresh weights: a function of the seed."""
    seed_all(settings.seed)
    networks = [build(config).to(device) for _ in range(settings.ensemble)]
    for network in networks:
        network.checkpointing = settings.gradient_checkpointing
    return networks[0] if settings.ensemble == 1 else Ensemble(networks)


class InitialWeights(NamedTuple):
    """Where the initial weights came from."""

    message: str
    fresh_head: bool


def load_initial_weights(model: Trainable, folder: RunFolder, config: RunConfig, state: TaskState | None = None) -> InitialWeights | None:
    """Copy the weights of the first stage, or of the model that `model.from` names.

    Once a checkpoint has all weights, the source is no longer needed; adapters always need it."""
    if config.adapt is None and next(folder.checkpoints().sound(), None) is not None:
        return None
    base = find_backbone(config) if config.pretrain is None else Backbone.of(folder.path / STAGE)
    if base is None:
        return None
    if config.pretrain is None and config.made is not None and base.digest != config.made.weights:
        way_out = "start another run" if config.adapt is None else "bring those back: its adapters fit no others"
        raise RunError(f"the weights of {base.path} are not those that this run was started with; {way_out}", file=folder.path)
    fresh_head = not has_same_head(config, state, base)
    messages = [base.copy_into(network, fresh_head=fresh_head) for network in networks_of(model)]
    return InitialWeights(messages[0], fresh_head)


def open_model(folder: RunFolder, config: StoredConfig, device: torch.device) -> Trainable:
    """The model of a run with its newest weights; adapters are put together with the base that they were trained beside, and merged."""
    if not isinstance(config, RunConfig) or config.adapt is None:
        ensemble = config.train.ensemble if isinstance(config, RunConfig) else 1
        return map_model(folder.latest_weights(), config.model, ensemble).to(device).eval()
    model = build(config.model).to(device)
    try:
        load_initial_weights(model, folder, config)
        choose_trainable(model, config)
    except ConfigError as error:
        way_out = f"where that has moved, change model.from there, then: attentif verify {folder.path} --accept"
        raise RunError(f"its adapters need the model they were trained beside ({error}); {way_out}", file=folder.config) from None
    read_weights(folder.latest_weights(), model)
    merge(model)
    return model.eval()


def run_first_stage(folder: RunFolder, ready: PreparedRun) -> None:
    """Train the base model on unlabelled texts, or resume that: a separate run inside this one."""
    config, ranks, display = ready.config, ready.ranks, ready.display
    assert config.made is not None
    stage = RunFolder(folder.path / STAGE)
    if stage.finished or next(folder.checkpoints().sound(), None) is not None:
        return
    display.say(f"first stage, in {stage.path}")
    try:
        if ranks.main and not stage.config.is_file():
            name, text = f"{config.made.recipe}: {STAGE}", ready.prepared.tokenizers
            first = create_run(
                stage_config(config, folder.path), text, name=name, out=stage.path, force=False, ranks=ranks, display=display
            )
            ranks.barrier()
            train_and_report(*first)
        else:
            ranks.barrier()
            continue_run(stage, ranks, display)
    except StoppedError as stopped:  # it is the whole run that goes on
        raise StoppedError(stopped.message.replace(str(stage.path), str(folder.path)), stopped.exit_code - 128) from None
    display.say("second stage")


def train_and_report(folder: RunFolder, ready: PreparedRun) -> RunFolder:
    """Train to the end, score, report."""
    config, ranks, display = ready.config, ready.ranks, ready.display
    if config.pretrain is not None:
        run_first_stage(folder, ready)
        ready.prepared.notes.append(describe_texts(folder.path, config.pretrain))
    model = fresh_model(config.model, config.train, ranks.device)
    if next(folder.checkpoints().sound(), None) is None:
        vectors = find_vectors(config, ready.prepared.tokenizers) if ready.vectors is None else ready.vectors
        copy_vectors(model, vectors, display.say)
    if initial := load_initial_weights(model, folder, config, ready.prepared.state):
        display.say(initial.message)
    elif next(folder.checkpoints().sound(), None) is None:
        ready.task.init_weights(model, ready.prepared, display.say)
    choose_trainable(model, config, fresh_head=initial is not None and initial.fresh_head)
    if message := describe_trainable(model):
        display.say(message)
    prepared = ready.prepared
    job = Job(ready.task, model, prepared.train, prepared.valid, config.train, folder, prepared.state)
    if not ranks.main:
        fit(job, ranks, display)
        if is_sharded(model):
            write_weights(folder.weights, model, writing=False)
        return folder
    try:
        with folder.writing():
            if not folder.readme.is_file():
                write_text(folder.readme, readme(folder, config))
            folder.unseal()
            train_state = fit(job, ranks, display)
            write_weights(folder.weights if config.adapt is None else folder.adapter, model)
            score_and_report(folder, ready, reopen(folder, ready) if is_sharded(model) else model, train_state)
    finally:
        display.close()
    return folder


def reopen(folder: RunFolder, ready: PreparedRun) -> Trainable:
    """The model of a sharded training as a whole, mapped from the file that it was written to."""
    config, device = ready.config, ready.ranks.device
    if config.adapt is None:
        model = map_model(folder.weights, config.model, config.train.ensemble).to(device)
    else:
        model = fresh_model(config.model, config.train, device)
        load_initial_weights(model, folder, config, ready.prepared.state)
    choose_trainable(model, config)
    if config.adapt is not None:
        read_weights(folder.adapter, model)
    return model


def score_and_report(folder: RunFolder, ready: PreparedRun, model: Trainable, train_state: TrainState) -> None:
    """Scores of the test split and of the baselines; `results.json` is written last, to mark completion; `trial.json` for a trial."""
    task, display = ready.task, ready.display
    model.eval()
    progress = lambda done, total: display.work("evaluate", done, total)
    budget = ready.config.train.batch_tokens
    with keep_alive(display, "choosing on validation") as watch:
        work = lambda done, total: watch.work("evaluate", done, total)
        state = task.finalize(model, ready.prepared, budget=budget, say=watch.say, progress=work)
    save_state(folder.path, state)
    prepared = replace(ready.prepared, state=state)
    valid = task.evaluate(model, state, prepared.valid, budget=budget, quick=True, progress=progress)
    if ready.trial:
        folder.seal(
            folder.trial,
            {"metric": task.metric_for(state), "valid": valid.scores, "steps": train_state.step, "seconds": train_state.seconds},
        )
        return
    test = task.evaluate(model, state, prepared.test, budget=budget, progress=progress)
    for warning in task.warnings(test):
        display.say(f"warning: {warning.en}")
    with keep_alive(display, "fitting the baselines") as watch:
        baselines = task.baselines(prepared, watch.say) if ready.config.train.baselines else []
    trained = TrainingResult(
        config=ready.config,
        task=task,
        model=model,
        prepared=prepared,
        train_state=train_state,
        test=test,
        valid=valid,
        baselines=baselines,
    )
    write_report(folder.report, trained.report(folder))
    write_text(folder.readme, readme(folder, ready.config, trained))
    folder.seal(folder.results, trained.results() | stage_results(folder.path))
    if ready.config.train.ensemble > 1:  # several times the weights and their optimiser: a finished ensemble is not lengthened
        folder.checkpoints().clear()
