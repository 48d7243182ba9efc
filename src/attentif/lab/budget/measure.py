"""What a model takes in a setting: operations, seconds, memory of a training run, on the task's own batches."""

import math
import statistics
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from attentif.data.batching import Rows, places, plan
from attentif.errors import UsageError
from attentif.lab.flops import Flops, count
from attentif.lab.machine import peak_bytes
from attentif.models import ModelConfig
from attentif.tasks.base import AnyPrepared, AnyTask, Dataset, Sizes
from attentif.tasks.predictors import Trainable
from attentif.training.config import TrainConfig
from attentif.training.distributed import device_of
from attentif.training.estimate import Trial, plan_steps
from attentif.training.optim import state_of
from attentif.training.run import fresh_model

EXAMPLES = 5  # of different lengths, whose operations are counted
STEPS, LONG_ENOUGH = 3, 1.0  # timed at least, after one that is not, and until so many seconds have passed
MOST = 30  # steps timed


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What measuring needs: the sizes that the data decide, real examples, the task's loss, how long is trained."""

    task: AnyTask
    sizes: Sizes
    train: Dataset
    config: TrainConfig

    @classmethod
    def of(cls, task: AnyTask, prepared: AnyPrepared, config: TrainConfig) -> Self:
        return cls(task=task, sizes=prepared.sizes, train=prepared.train, config=config)

    @cached_property
    def batches(self) -> list[Rows]:
        """Of the first epoch."""
        config = self.config
        return plan(self.train.lengths, config.batch_tokens, seed=config.seed, epoch=0, packed=config.packed)

    @cached_property
    def steps_per_epoch(self) -> int:
        return math.ceil(len(self.batches) / self.config.accumulate)

    @cached_property
    def steps(self) -> int:
        """Optimiser steps of the run; its minutes are not looked at, for they say nothing that is the same on another day."""
        if not (self.config.steps or self.config.epochs):
            raise UsageError("a budget needs a run of known length: give train.steps or train.epochs, not train.minutes alone")
        return plan_steps(self.config.replace(minutes=0.0), self.steps_per_epoch, seconds=1.0)

    @cached_property
    def tokens_per_step(self) -> float:
        return float(self.train.lengths.sum()) / self.steps_per_epoch

    @property
    def tokens(self) -> int:
        """Read in the whole run, padding not counted."""
        return round(self.tokens_per_step * self.steps)

    @cached_property
    def examples(self) -> list[int]:
        """A few, from short to long: the middles of five equal parts of the data, those of one length once."""
        lengths = np.asarray(self.train.lengths).reshape(len(self.train), -1)
        order = np.lexsort((*lengths.T, lengths.sum(1)))
        middles = [int(order[len(order) * (2 * part + 1) // (2 * EXAMPLES)]) for part in range(EXAMPLES)]
        return list({tuple(lengths[row]): row for row in middles}.values())

    def build(self, model: ModelConfig) -> Trainable:
        return fresh_model(self.sizes.fill(model), self.config, device_of(self.config.device))


def flops(setting: Setting, model: Trainable) -> Flops:
    """Of a few examples of typical lengths, one at a time, so that no padding is counted: their operations and tokens, added up."""
    device = next(model.parameters()).device
    found = []
    for row in setting.examples:
        batch = setting.train.batch([row]).to(device)
        counted = count(model.train(), batch, lambda m, b: setting.task.learn(m, b).total)
        found.append(counted)
    tokens = int(np.asarray(setting.train.lengths)[setting.examples].sum())
    return Flops(forward=sum(f.forward for f in found), training=sum(f.training for f in found), tokens=tokens)


def seconds(setting: Setting, model: Trainable) -> float:
    """Of the whole run, evaluation not counted: the median of a few real steps, by their places (tokens and padding)."""
    trial = Trial(setting.task, model, setting.train, setting.config)
    trial.step(setting.batches[0])
    rates: list[float] = []
    began = time.perf_counter()
    while len(rates) < STEPS or (time.perf_counter() - began < LONG_ENOUGH and len(rates) < MOST):
        rows = setting.batches[(1 + len(rates)) % len(setting.batches)]
        start = time.perf_counter()
        taken = trial.step(rows)
        rates.append((time.perf_counter() - start) / max(taken, 1))
    mean_places = statistics.fmean(places(setting.train.lengths, rows) for rows in setting.batches)
    return statistics.median(rates) * mean_places * setting.config.accumulate * setting.steps


def memory(setting: Setting, model: Trainable) -> int:
    """Peak bytes of a training step on the largest batch: weights and the optimiser's numbers as they lie there, and what the process takes
    beside them during the step (gradients, activations, buffers), by the operating system's count."""
    trial = Trial(setting.task, model, setting.train, setting.config)
    largest = max(setting.batches, key=lambda rows: places(setting.train.lengths, rows))
    trial.step(largest)  # the optimiser makes its tensors, kernels are compiled
    beside = peak_bytes(lambda: trial.step(largest))
    if beside is None:
        raise UsageError("a budget of memory needs Linux, which lets a process ask for its own peak; give params or flops")
    kept = [*model.parameters(), *model.buffers(), *state_of(trial.optimizers).values()]
    return beside + sum(tensor.nbytes for tensor in kept)
