"""The batches of each epoch, and when a run evaluates, slows down and ends."""

import math

import numpy as np
from numpy.typing import NDArray

from attentif.data.batching import Rows, padding_waste, plan
from attentif.tasks.base import Say
from attentif.training.config import TrainConfig
from attentif.training.schedule import factor, warmup_steps
from attentif.training.train_state import TrainState


class Epochs:
    """How far a run goes through its training data: functions of its configuration, the lengths of its rows and its `TrainState`."""

    def __init__(self, config: TrainConfig, lengths: NDArray[np.int64], say: Say) -> None:
        self.config, self.lengths, self.say = config, lengths, say
        self.planned: tuple[int, list[Rows]] = (-1, [])
        self.stretch = 1.0  # passes over the data for each one asked for
        self.steps = math.ceil(len(self.batches(0)) / config.accumulate)  # of one epoch
        self.stretch = config.stretch(self.steps)

    def batches(self, epoch: int) -> list[Rows]:
        """The batches of an epoch, in order."""
        if self.planned[0] != epoch:
            config = self.config
            batches = plan(self.lengths, config.batch_tokens, seed=config.seed, epoch=epoch, packed=config.packed)
            self.planned = epoch, batches
            waste = 0.0 if config.packed else padding_waste(self.lengths, batches)
            if epoch % round(self.stretch) == 0:
                self.say(f"epoch {epoch + 1}: {len(batches)} batches, {waste:.1%} padding")
        return self.planned[1]

    def total(self, state: TrainState) -> int:
        """Total steps of the run; under a limit of minutes, extrapolated from the time so far."""
        config = self.config
        limits = [config.steps] if config.steps else []
        if config.epochs:
            limits.append(math.ceil(config.epochs * self.stretch * self.steps))
        if config.minutes and state.seconds:
            limits.append(max(state.step + 1, round(state.step * 60 * config.minutes / state.seconds)))
        return min(limits) if limits else 1_000_000  # before the first step of a run limited by minutes alone

    def rate(self, state: TrainState) -> float:
        """The learning rate of the next step."""
        config, total = self.config, self.total(state)
        warmup = warmup_steps(config.warmup, total)
        return config.lr * factor(config.schedule, state.step, warmup=warmup, total=total, end=config.lr_end)

    def end(self, state: TrainState) -> str:
        """Why the run is over; empty while it is not."""
        config = self.config
        if config.steps and state.step >= config.steps:
            return "steps"
        if config.epochs and state.epochs >= config.epochs * self.stretch - 1e-9:
            return "epochs"
        return "minutes" if config.minutes and state.seconds >= 60 * config.minutes else ""

    def is_evaluation_due(self, state: TrainState, before: float) -> bool:
        """Whether validation is to be scored after this step; `before` is how many epochs were done before it."""
        every = self.config.eval_every
        if isinstance(every, int):
            return state.step % every == 0
        every *= self.stretch
        return math.floor(state.epochs / every + 1e-9) > math.floor(before / every + 1e-9)
