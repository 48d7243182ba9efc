"""The plain loop: batches, loss, backward, clip, step, log; evaluate and save on a schedule.

A step's loss is the sum over the scored tokens (or examples) of all its batches, on all processes, divided by their count: how the step
is cut into batches and processes changes the rounding and nothing else.

    L = Σ_batches (Σ_tokens ℓ + count · a) / Σ_batches count

a is what mixers add to the loss (the balance of experts), a mean over the tokens of one batch: a step's is the mean over its batches, each
weighted by its count. What they count is added up over all batches and processes, and they learn from it once, after the step.

Where a model has several members, L is the mean of theirs, and each is clipped and stepped by its own: it learns as it would alone.

Everything a step does is a function of the weights, the optimiser's memory and the `TrainState`; random generators are set anew from
(seed, step, rank). A checkpoint of the three therefore resumes to the last bit.
"""

import math
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attentif.data.batching import Rows, padding_waste, plan
from attentif.errors import DataError, RunError
from attentif.models import Batch, Model, evaluating
from attentif.nn.adapt import load_own, own_tensors
from attentif.nn.aside import Aside, listening
from attentif.tasks.task import Dataset, Loss, Task
from attentif.training import checkpoint
from attentif.training.config import TrainConfig
from attentif.training.counter import Counter, added
from attentif.training.distributed import Ranks
from attentif.training.ema import Average
from attentif.training.machine import seed_all
from attentif.training.optim import load_state, optimizers, set_rate, state_of
from attentif.training.progress import Display, Status
from attentif.training.rundir import RunFolder
from attentif.training.schedule import factor, warmup_steps
from attentif.training.signals import Interrupts, StoppedError
from attentif.training.train_state import TrainState, line


@dataclass(frozen=True)
class Job:
    """What is to be trained, on what, and where it is kept."""

    task: Task
    model: Model
    train: Dataset
    valid: Dataset
    config: TrainConfig
    folder: RunFolder


class Step(nn.Module):
    """The task's loss, and what mixers said aside, as one module: what DDP and compile wrap is the whole of a step."""

    def __init__(self, task: Task, model: Model) -> None:
        super().__init__()
        self.task, self.model = task, model

    def forward(self, batch: Batch) -> tuple[Loss, Aside]:
        with listening() as aside:
            return self.task.learn(self.model, batch), aside


class AbandonedError(Exception):
    """An evaluation was cut short by a signal."""


def fit(job: Job, ranks: Ranks, display: Display) -> TrainState:
    """Train, or go on, to the end; the model is left with the weights to keep. StoppedError is raised where a signal asks for it."""
    with Interrupts() as interrupts:
        loop = Loop(job, ranks, display, interrupts)
        loop.resume()
        loop.run()
        return loop.finish()


class Loop:
    """One training, from its place on: what `fit` resumes, runs and finishes."""

    def __init__(self, job: Job, ranks: Ranks, display: Display, interrupts: Interrupts) -> None:
        self.job, self.config, self.ranks, self.display, self.interrupts = job, job.config, ranks, display, interrupts
        if not len(job.train):
            raise DataError("there is no example to train on")
        self.place = TrainState()
        self.optimizers = optimizers(job.model, self.config)
        self.parameters = [[parameter for parameter in member.parameters() if parameter.requires_grad] for member in job.model.members]
        self.counter = Counter(job.model)
        self.average = Average(job.model, self.config.ema) if self.config.ema else None
        self.best: dict[str, Tensor] = {}
        self.checkpoints = job.folder.checkpoints(self.config.keep)
        step = Step(job.task, job.model)
        if self.config.compile:
            step.compile(dynamic=True)
        self.step_module = ranks.wrap(step)
        self.plan_of: tuple[int, list[Rows]] = (-1, [])
        self.stretch = 1.0  # passes made where one was asked for
        self.steps_per_epoch = math.ceil(len(self.plan(0)) / self.config.accumulate)
        self.stretch = self.config.stretch(self.steps_per_epoch)
        self.stop = 0  # the signal that ends the run early
        self.board: Any = None

    @property
    def members(self) -> int:
        return len(self.parameters)

    # ------------------------------------------------------------------------------------------------------ the whole run

    def run(self) -> None:
        """Steps and evaluations until the end, or until a signal: then the state is saved and StoppedError raised."""
        if self.stretch > 1 and not self.place.step and self.total() >= self.config.min_steps:
            passes = f"{self.stretch * self.config.epochs:.3g} passes over them in place of {self.config.epochs:g}"
            self.display.say(f"the data are small: {passes}, for train.min_steps asks for {self.config.min_steps} steps at least")
        self.job.model.train()
        while self.place.pending or not self.place.ended:
            if self.place.pending:
                self.evaluate()
            else:
                self.step()
            if self.stop:
                break
            if not self.place.pending and self.place.step % self.config.checkpoint_every == 0:
                self.save()
        self.save()
        self.hear(None)  # a signal that came after the last step
        if self.stop:
            raise StoppedError(f"stopped at step {self.place.step}; go on with: attentif train --resume {self.job.folder.path}", self.stop)

    def finish(self) -> TrainState:
        """Leave the model with the best weights, or the averaged ones, or the last."""
        if self.best:
            load_own(self.job.model, self.best)
        elif self.average:
            self.average.keep()
        if self.board:
            self.board.close()
        return self.place

    # --------------------------------------------------------------------------------------------------------- one step

    def step(self) -> None:
        began, place = time.perf_counter(), self.place
        seed_all(self.config.seed, place.step, self.ranks.rank)
        batches = self.plan(place.epoch)[place.index :][: self.config.accumulate]
        sums, counts = self.forward_backward(batches)
        norm = self.mean_and_clip(sums["count"])
        self.check(sums["loss"], norm, batches)
        rate = self.rate()
        set_rate(self.optimizers, rate)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self.counter.learn(counts)
        place.counts = added(place.counts or self.counter.nothing(), counts)
        place.step += 1
        place.index += len(batches)
        if place.index >= len(self.plan(place.epoch)):
            place.epoch, place.index = place.epoch + 1, 0
        if self.average:
            self.average.update(place.step)
        seconds = self.hear(time.perf_counter() - began)
        place.tokens += round(sums["tokens"])
        place.seconds += seconds
        before, place.epochs = place.epochs, place.epoch + (place.index / len(self.plan(place.epoch)) if place.index else 0.0)
        place.ended = self.end()
        place.pending = len(self.job.valid) > 0 and (bool(place.ended) or self.is_evaluation_due(before))
        self.log(sums | {"seconds": seconds}, rate, norm)

    def hear(self, news: Any) -> Any:
        """The first process's news, on all of them; and whether any of them was asked to stop."""
        heard = self.ranks.gather([news, self.interrupts.number])
        self.stop = max(number for _, number in heard)
        return heard[0][0]

    def forward_backward(self, batches: list[Rows]) -> tuple[dict[str, float], list[float]]:
        """Gradients of this process's share of the batches; sums, and what mixers counted, over the shares of all."""
        mine = [(rows, True) for rows in batches[self.ranks.rank :: self.ranks.world]]
        # every process must call backward equally often: one without a batch left repeats the first, for nothing
        mine += [(batches[0], False)] * (math.ceil(len(batches) / self.ranks.world) - len(mine))
        sums, counted = {"loss": 0.0, "count": 0.0, "tokens": 0.0, "places": 0.0}, self.counter.nothing()
        self.bad: list[int] = []
        for number, (rows, counts) in enumerate(mine, 1):
            batch = self.job.train.batch(rows, packed=self.config.packed).to(self.ranks.device)
            with self.ranks.without_sync(self.step_module) if number < len(mine) else nullcontext():
                loss, aside = self.step_module(batch)
                objective = loss.total + loss.count * aside.loss / self.members
                (objective if counts else 0 * objective).backward()
            total = float(loss.total.detach())
            if not math.isfinite(total):
                self.bad += batch.rows or [int(row) for row in rows]
            found = {"loss": total, "count": float(loss.count), **sizes(batch)} | {k: float(v) for k, v in loss.metrics.items()}
            if aside.losses:
                found["balance"] = loss.count * sum(float(term.detach()) for term in aside.losses) / self.members
            for key, value in found.items():
                sums[key] = sums.get(key, 0.0) + (value if counts else 0.0)
            if counts:
                counted = added(counted, self.counter.heard(aside))
        together = self.ranks.sum([*sums.values(), *counted])
        return dict(zip(sums, together, strict=False)), together[len(sums) :]

    def mean_and_clip(self, count: float) -> float:
        """Bring the summed gradients to their mean and clip them, each member's by themselves; the norm before that, the largest."""
        scale = self.ranks.world * self.members / max(count, 1.0)  # DDP has divided by the number of processes, the mean by the members
        norms = []
        for parameters in self.parameters:
            gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
            norms.append(scale * float(nn.utils.get_total_norm(gradients)))
            torch._foreach_mul_(gradients, scale * min(1.0, self.config.clip / (norms[-1] + 1e-6)))
        return max(norms, key=lambda norm: math.inf if math.isnan(norm) else norm)

    def check(self, loss: float, norm: float, batches: list[Rows]) -> None:
        """Weights that a step would fill with not-a-number are not stepped, and the rows that did it are named."""
        if math.isfinite(loss) and math.isfinite(norm):
            return
        bad = [row for found in self.ranks.gather(self.bad) for row in found]
        rows = bad or [int(row) for batch in batches for row in batch]
        named = ", ".join(self.job.train.place(row) for row in rows[:8]) + (f" and {len(rows) - 8} more" if len(rows) > 8 else "")
        what = "loss" if bad else "gradient"
        raise RunError(
            f"step {self.place.step + 1}: the {what} is not finite, on {named}; look at these rows, or try a smaller train.lr "
            "or train.clip (the last checkpoint is untouched)",
            file=self.job.folder.path,
        )

    # ------------------------------------------------------------------------------------------------ how far, how long

    def plan(self, epoch: int) -> list[Rows]:
        """The batches of an epoch, in order."""
        if self.plan_of[0] != epoch:
            train, config = self.job.train, self.config
            batches = plan(train.lengths, config.batch_tokens, seed=config.seed, epoch=epoch, packed=config.packed)
            self.plan_of = epoch, batches
            waste = 0.0 if config.packed else padding_waste(train.lengths, batches)
            if epoch % round(self.stretch) == 0:
                self.display.say(f"epoch {epoch + 1}: {len(batches)} batches, {waste:.1%} padding")
        return self.plan_of[1]

    def total(self) -> int:
        """Steps of the whole run; where minutes limit it, judged by the time taken so far."""
        config, place = self.config, self.place
        limits = [config.steps] if config.steps else []
        if config.epochs:
            limits.append(math.ceil(config.epochs * self.stretch * self.steps_per_epoch))
        if config.minutes and place.seconds:
            limits.append(max(place.step + 1, round(place.step * 60 * config.minutes / place.seconds)))
        return min(limits) if limits else 1_000_000  # before the first step of a run limited by minutes alone

    def rate(self) -> float:
        config, total = self.config, self.total()
        warmup = warmup_steps(config.warmup, total)
        return config.lr * factor(config.schedule, self.place.step, warmup=warmup, total=total, end=config.lr_end)

    def end(self) -> str:
        """Why the run is over, or nothing."""
        config, place = self.config, self.place
        if config.steps and place.step >= config.steps:
            return "steps"
        if config.epochs and place.epochs >= config.epochs * self.stretch - 1e-9:
            return "epochs"
        return "minutes" if config.minutes and place.seconds >= 60 * config.minutes else ""

    def is_evaluation_due(self, before: float) -> bool:
        every = self.config.eval_every
        if isinstance(every, int):
            return self.place.step % every == 0
        every *= self.stretch
        return math.floor(self.place.epochs / every + 1e-9) > math.floor(before / every + 1e-9)

    # ------------------------------------------------------------------------------------------------------- evaluation

    def evaluate(self) -> None:
        """Score the validation split, keep the best weights, count the misses; a signal leaves the evaluation pending."""
        place, config = self.place, self.config
        with self.average.swapped() if self.average else nullcontext():
            scores = self.hear(self.scores() if self.ranks.main else None)
            if scores is None:
                return
            place.pending = False
            score = scores.get("loss" if config.best_by == "loss" else self.job.task.metric)
            if self.is_better(score):
                place.best, place.best_step, place.misses = score, place.step, 0
                if config.patience and self.ranks.main:
                    self.best = {name: tensor.detach().clone() for name, tensor in own_tensors(self.job.model).items()}
            else:
                place.misses += 1
        if self.ranks.main:
            self.write({"step": place.step, "split": "valid"} | scores)
            words = " · ".join(f"{name} {value:.4f}" for name, value in scores.items())
            self.display.say(f"step {place.step}: {words}{' (best so far)' if place.best_step == place.step else ''}")
        if config.patience and place.misses >= config.patience and not place.ended:
            place.ended = "patience"

    def scores(self) -> dict[str, float] | None:
        """None where a signal cut it short."""
        try:
            with evaluating(self.job.model):
                found = self.job.task.evaluate(
                    self.job.model, self.job.valid, budget=self.config.batch_tokens, quick=True, progress=self.watch
                )
        except AbandonedError:
            return None
        return {name: float(value) for name, value in found.scores.items()}

    def watch(self, done: int, total: int) -> None:
        if self.interrupts.number:
            raise AbandonedError
        self.display.work("evaluate", done, total)

    def is_better(self, score: float | None) -> bool:
        if score is None or not math.isfinite(score):
            return False
        best, rising = self.place.best, self.config.best_by == "score" and self.job.task.higher_is_better
        return best is None or (score > best if rising else score < best)

    # ------------------------------------------------------------------------------------------------- what is written

    def log(self, sums: dict[str, float], rate: float, norm: float) -> None:
        """Show the step; add it to the window, and write the window when it is full."""
        place, window = self.place, self.place.window
        for key, value in (sums | {"steps": 1.0}).items():
            window[key] = window.get(key, 0.0) + value
        if not self.ranks.main:
            return
        total, speed = self.total(), sums["tokens"] / max(sums["seconds"], 1e-9)
        left = (total - place.step) * place.seconds / place.step
        loss = sums["loss"] / max(sums["count"], 1.0)
        self.display.show(Status(place.step, total, loss, speed, 1 - sums["tokens"] / sums["places"], left))
        if place.step % self.config.log_every == 0 or place.ended:
            self.write(line(place, rate, norm) | self.counter.describe(place.counts))
            place.window, place.counts = {}, []

    def write(self, row: dict[str, Any]) -> None:
        self.job.folder.metrics.append(row)
        if self.board:
            split = row.get("split", "train")
            for name, value in row.items():
                if isinstance(value, float):
                    self.board.add_scalar(f"{split}/{name}", value, row["step"])

    def _open_board(self) -> Any:
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(self.job.folder.path / "tensorboard", purge_step=self.place.step + 1)

    # ------------------------------------------------------------------------------------------------------- checkpoints

    def save(self) -> None:
        """Write a checkpoint, unless this step has one."""
        if not self.ranks.main or any(checkpoint.parse_step(path) == self.place.step for path in self.checkpoints.paths()):
            return
        self.job.folder.metrics.flush()
        tensors = {"model": own_tensors(self.job.model), "optimizer": state_of(self.optimizers)}
        if self.average:
            tensors["average"] = self.average.mean
        if self.best:
            tensors["best"] = self.best
        self.checkpoints.save(checkpoint.Checkpoint(self.place.step, asdict(self.place), tensors))

    def resume(self) -> None:
        """Go back to the newest sound checkpoint, if there is one; what was logged after it is cut off."""
        path = None
        if self.ranks.main:
            path = self.checkpoints.latest(self.display.say)
        path = self.ranks.share(None if path is None else path.name)
        if path is not None:
            self.restore(checkpoint.read(self.checkpoints.folder / path))
            self.display.say(f"going on from step {self.place.step}")
        if self.ranks.main:
            step, redone = self.place.step, self.place.pending
            self.job.folder.metrics.cut(lambda row: row["step"] < step or (row["step"] == step and not (redone and "split" in row)))
            self.board = self._open_board() if self.config.tensorboard else None

    def restore(self, saved: checkpoint.Checkpoint) -> None:
        try:
            load_own(self.job.model, saved.tensors["model"])
            load_state(self.optimizers, saved.tensors["optimizer"])
            if self.average:
                self.average.load(saved.tensors["average"])
            self.best = saved.tensors.get("best", {})
            self.place = TrainState(**saved.state)
        except (RuntimeError, KeyError, TypeError, ValueError) as error:
            raise RunError(
                f"the checkpoint of step {saved.step} does not fit this configuration: {error}", file=self.job.folder.path
            ) from None


def sizes(batch: Batch) -> dict[str, float]:
    """Tokens of a batch, and the places they take, padding included."""
    seqs = [given.seq for given in (batch.source, batch.target) if given is not None]
    return {"tokens": float(sum(seq.tokens for seq in seqs)), "places": float(sum(seq.valid.numel() for seq in seqs))}
