"""What a run would take, before it is run: sizes, memory, time. Nothing is written, but for a corpus' tokens in the cache.

Memory is counted: weights, gradients and the optimiser's by their tensors, activations by what autograd keeps of the largest batch.
Time is measured on a few real steps of the run's own batches, and grows with the places (tokens and padding) of a batch.
"""

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from attentif.data import padding_waste, plan
from attentif.data.batching import Rows, places
from attentif.models import Model
from attentif.nn.block import Block
from attentif.tasks.task import Dataset, Say, Task, Tokenizers
from attentif.text import TokenizerConfig
from attentif.training.config import RunConfig, TrainConfig
from attentif.training.distributed import device_of
from attentif.training.learning import check_learning, choose_learning, learning
from attentif.training.optim import optimizers, state_of
from attentif.training.pretrain import TEXTS, capture_texts, stage_config, write_texts
from attentif.training.run import check, check_backbone, choose_tokenizers, configure, fresh_model

MEASURED = 3  # steps that are timed, after one that is not


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a run would take."""

    examples: dict[str, int]  # by split
    parameters: dict[str, int]  # by part of the model
    learning: int  # of them
    memory: dict[str, int]  # bytes by use; activations are those of the largest batch
    steps: int
    epochs: float
    tokens: int  # read in training, padding not counted
    padding: float  # share of the places
    seconds: float  # of training; evaluation, baselines and report come on top
    notes: list[str]
    pretrain: "Estimate | None" = None  # the first stage, where there is one


def estimate(config: RunConfig, say: Say) -> Estimate:
    """Read the data, build the model, try a few steps."""
    model = check(config)[1]
    base = check_backbone(config, model)
    check_learning(config, model)
    with configure(config.train):
        return _measured(config, choose_tokenizers(config, base), say)


def _measured(config: RunConfig, text: TokenizerConfig | Tokenizers, say: Say) -> Estimate:
    settings = config.train
    task, adapted = check(config)
    with capture_texts(config) as heard:
        prepared = task.prepare(config.data, text, adapted, say)
    stage = None
    if config.pretrain is not None:
        with TemporaryDirectory() as folder:
            write_texts(heard, Path(folder) / TEXTS, config.data.text)
            stage = _measured(stage_config(config, Path(folder)), prepared.tokenizers, say)
    model = fresh_model(prepared.sizes.fill(adapted), settings, device_of(settings.device))
    choose_learning(model, config)
    trial = Trial(task, model, prepared.train, settings)
    lengths, batches = prepared.train.lengths, trial.batches
    padding = 0.0 if settings.packed else padding_waste(lengths, batches)
    per_epoch = math.ceil(len(batches) / settings.accumulate)
    seconds_per_epoch = trial.seconds_per_place() * float(lengths.sum()) / (1 - padding)
    steps = plan_steps(settings, per_epoch, seconds_per_epoch / per_epoch)
    return Estimate(
        examples={split.name: len(split) for split in (prepared.train, prepared.valid, prepared.test)},
        parameters=model.sizes(),
        learning=learning(model),
        memory=trial.memory(),
        steps=steps,
        epochs=steps / per_epoch,
        tokens=round(float(lengths.sum()) * steps / per_epoch),
        padding=padding,
        seconds=seconds_per_epoch * steps / per_epoch,
        notes=prepared.notes,
        pretrain=stage,
    )


def plan_steps(config: TrainConfig, per_epoch: int, seconds: float) -> int:
    """Steps until the first of the limits, where one takes so many seconds."""
    limits = [config.steps] if config.steps else []
    if config.epochs:
        limits.append(math.ceil(config.epochs * config.stretch(per_epoch) * per_epoch))
    if config.minutes:
        limits.append(max(1, round(60 * config.minutes / seconds)))
    return min(limits)


class Trial:
    """A model that takes a few steps and is thrown away."""

    def __init__(self, task: Task, model: Model, train: Dataset, config: TrainConfig) -> None:
        self.task, self.model, self.train, self.config = task, model.train(), train, config
        self.optimizers = optimizers(model, config)
        self.batches = plan(train.lengths, config.batch_tokens, seed=config.seed, epoch=0, packed=config.packed)
        self.device = next(model.parameters()).device

    def step(self, rows: Rows) -> int:
        """One step on one batch; its places."""
        batch = self.train.batch(rows, packed=self.config.packed).to(self.device)
        loss = self.task.learn(self.model, batch)
        (loss.total / max(loss.count, 1)).backward()
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return places(self.train.lengths, rows)

    def seconds_per_place(self) -> float:
        self.step(self.batches[0])
        began, read = time.perf_counter(), 0
        for rows in self.batches[1 : 1 + MEASURED] or self.batches[:1]:
            read += self.step(rows)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return (time.perf_counter() - began) / max(read, 1)

    def memory(self) -> dict[str, int]:
        """Bytes by use, after a step: the optimiser has made its tensors."""
        weights, learned = _bytes(self.model.parameters()), _bytes(tensor for tensor in self.model.parameters() if tensor.requires_grad)
        found = {"weights": weights, "gradients": learned, "optimizer": _bytes(state_of(self.optimizers).values())}
        if self.config.ema:
            found["average"] = learned
        largest = max(self.batches, key=lambda rows: places(self.train.lengths, rows))
        with _kept_for_backward(self.model) as kept, _block_inputs(self.model) as inputs:
            loss = self.task.learn(self.model, self.train.batch(largest, packed=self.config.packed).to(self.device))
        del loss
        recomputed = _recomputed(self.model, inputs) if self.model.checkpointing else 0
        return found | {"activations": sum(kept.values()) + recomputed}


@contextmanager
def _block_inputs(model: nn.Module) -> Iterator[list[tuple[Block, tuple[Any, ...]]]]:
    """Every block with what it was called with."""
    inputs: list[tuple[Block, tuple[Any, ...]]] = []
    hooks = [
        module.register_forward_pre_hook(lambda block, given: inputs.append((block, given)))
        for module in model.modules()
        if isinstance(module, Block)
    ]
    try:
        yield inputs
    finally:
        for hook in hooks:
            hook.remove()


def _recomputed(model: nn.Module, inputs: list[tuple[Block, tuple[Any, ...]]]) -> int:
    """Bytes under gradient checkpointing: the inputs of all blocks stay, and the activations of one block at a time come back."""
    largest = 0
    for block, given in inputs:
        with _kept_for_backward(model) as kept:
            block(*given)
        largest = max(largest, sum(kept.values()))
    return largest + _bytes(given[0] for _, given in inputs)


@contextmanager
def _kept_for_backward(model: nn.Module) -> Iterator[dict[int, int]]:
    """Storages that autograd keeps for the backward pass, with their bytes; weights do not count."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        yield kept


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)
