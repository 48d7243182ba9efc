"""The plain loop: batches, loss, backward, clip, step, log; evaluate and save on a schedule.

A step's loss is the sum over the scored tokens (or examples) of all its batches, on all processes, divided by their count: how the step
is cut into batches and processes changes the rounding and nothing else.

    L = Σ_batches (Σ_tokens ℓ + count · a) / Σ_batches count

a is what mixers add to the loss (the balance of experts), a mean over the tokens of one batch: a step's is the mean over its batches, each
weighted by its count. What they count is added up over all batches and processes, and they learn from it once, after the step.

In an ensemble L is the mean over its networks, and each is clipped and stepped by its own: it learns as it would alone.

Everything a step does is a function of the weights, the optimiser's memory and the `TrainState`; random generators are set anew from
(seed, step, number of the batch), whichever process has it. A checkpoint of the three therefore resumes to the last bit with as many
processes and threads, and to the rounding of sums with others.
"""

import math
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from attentif.data.batching import Rows
from attentif.errors import DataError, RunError
from attentif.kernels.linear import takes_onednn
from attentif.models import Batch, eval_mode
from attentif.models.precision import choose_products, set_products
from attentif.nn.auxiliary import Auxiliary, collect_auxiliary
from attentif.tasks.base import AnyTask, Dataset, Loss, TaskState
from attentif.tasks.predictors import Trainable, networks_of
from attentif.training import checkpoint
from attentif.training.config import TrainConfig
from attentif.training.counter import Counter, add_lists
from attentif.training.distributed import Ranks
from attentif.training.ema import Average
from attentif.training.epochs import Epochs
from attentif.training.machine import seed_all
from attentif.training.optim import load_state, optimizers, set_rate, state_of
from attentif.training.precision import begin_scale, lower_scale, note_step
from attentif.training.progress import Display, Status
from attentif.training.rundir import RunFolder
from attentif.training.sharding import Layout, Sharded, Whole
from attentif.training.signals import Interrupts, StoppedError
from attentif.training.train_state import TrainState, metrics_row
from attentif.training.weights import write_weights
from attentif.view.words import metric


@dataclass(frozen=True)
class Job:
    """What to train, on which data, and where to save it."""

    task: AnyTask
    model: Trainable
    train: Dataset
    valid: Dataset
    config: TrainConfig
    folder: RunFolder
    state: TaskState = field(default_factory=TaskState)

    @property
    def metric(self) -> str:
        return self.task.metric_for(self.state)


class Step(nn.Module):
    """The objective as one module: what DDP, FSDP2 and compile wrap is the whole of a step."""

    def __init__(self, task: AnyTask, model: Trainable) -> None:
        super().__init__()
        self.task, self.model, self.networks = task, model, len(networks_of(model))

    def forward(self, batch: Batch) -> tuple[Tensor, Loss, Auxiliary]:
        """The objective, which gradients are of, and what it is made of: the task's loss and the auxiliary losses."""
        with collect_auxiliary() as auxiliary:
            loss = self.task.learn(self.model, batch)
            return loss.total + loss.count * auxiliary.loss / self.networks, loss, auxiliary


class AbandonedError(Exception):
    """An evaluation was cut short by a signal."""


def fit(job: Job, ranks: Ranks, display: Display) -> TrainState:
    """Train or resume to the end, and leave the model with the final weights; StoppedError after a signal."""
    with Interrupts() as interrupts:
        loop = Loop(job, ranks, display, interrupts)
        loop.resume()
        loop.choose_precision()
        ranks.watch(job.config.stall, f"attentif train --resume {job.folder.path}")
        try:
            loop.run()
        finally:
            set_products(job.model, "float32")  # what is scored at the end is what later commands will see
        return loop.finish()


class Loop:
    """One training run, which `fit` resumes, runs and finishes."""

    def __init__(self, job: Job, ranks: Ranks, display: Display, interrupts: Interrupts) -> None:
        self.job, self.config, self.ranks, self.display, self.interrupts = job, job.config, ranks, display, interrupts
        if not len(job.train):
            raise DataError("no example to train on")
        self.state = TrainState()
        step = Step(job.task, job.model)
        if self.config.compile:
            step.compile(dynamic=True)
        sharded = self.config.shard == "full" and ranks.world > 1
        self.layout: Layout = Sharded(step, job.model, ranks) if sharded else Whole(step, job.model, ranks)
        self.optimizers = optimizers(job.model, self.config, self.layout if sharded else None)
        own = self.layout.own
        self.parameters = [[own(p) for p in network.parameters() if p.requires_grad] for network in networks_of(job.model)]
        self.counter = Counter(job.model)
        self.average = Average(job.model, self.config.ema, own) if self.config.ema else None
        self.best: dict[str, Tensor] = {}
        self.checkpoints = job.folder.checkpoints(self.config.keep)
        self.epochs = Epochs(self.config, job.train.lengths, display.say)
        self.stop = 0  # the signal that ends the run early
        self.board: Any = None
        library = "oneDNN" if takes_onednn(torch.get_num_threads()) else "torch"
        self.computing = {"processes": ranks.world, "threads": torch.get_num_threads(), "products": library}  # what rounding depends on
        self.changed_rounding = ""

    @property
    def networks(self) -> int:
        return len(self.parameters)

    # ------------------------------------------------------------------------------------------------------ the whole run

    def run(self) -> None:
        """Step and evaluate until the end; after a signal, save and raise StoppedError."""
        stretch = self.epochs.stretch
        if stretch > 1 and not self.state.step and self.epochs.total(self.state) >= self.config.min_steps:
            passes = f"{stretch * self.config.epochs:.3g} passes instead of {self.config.epochs:g}"
            self.display.say(f"the data are small: {passes}, for train.min_steps asks for {self.config.min_steps} steps at least")
        self.job.model.train()
        self.follow()
        while self.state.pending or not self.state.ended:
            if self.state.pending:
                self.evaluate()
            else:
                self.step()
                self.follow()
            if self.stop:
                break
            if not self.state.pending and self.state.step % self.config.checkpoint_every == 0:
                self.save()
        self.save()
        self.broadcast(None)  # collect a signal that came after the last step
        if self.stop:
            raise StoppedError(f"stopped at step {self.state.step}; resume with: attentif train --resume {self.job.folder.path}", self.stop)

    def finish(self) -> TrainState:
        """Leave the model with the best weights, or the averaged ones, or the last."""
        if self.best:
            self.layout.load(self.best)
        elif self.average:
            self.average.keep()
        if self.board:
            self.board.close()
        return self.state

    def choose_precision(self) -> None:
        """Set the type that linear maps are multiplied in: that of the checkpoint, or the one asked for."""
        state = self.state
        if not state.precision:
            chosen = choose_products(self.config.precision, self.ranks.device, self.display.say) if self.ranks.main else None
            state.precision = self.ranks.broadcast(chosen)
        begin_scale(state)
        set_products(self.job.model, state.precision)

    # --------------------------------------------------------------------------------------------------------- one step

    def step(self) -> None:
        began, state = time.perf_counter(), self.state
        batches = self.epochs.batches(state.epoch)[state.index :][: self.config.accumulate]
        while True:
            sums, counts = self.forward_backward(batches)
            norm = self.mean_and_clip(sums["count"])
            if math.isfinite(norm) or not math.isfinite(sums["loss"]) or not lower_scale(state):
                break
            for optimizer in self.optimizers:  # the same step again, with half the scale
                optimizer.zero_grad()
        self.check(sums["loss"], norm, batches)
        note_step(state)
        rate = self.epochs.rate(state)
        set_rate(self.optimizers, rate)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self.counter.learn(counts)
        state.counts = add_lists(state.counts or self.counter.zeros(), counts)
        state.step += 1
        state.index += len(batches)
        if state.index >= len(self.epochs.batches(state.epoch)):
            state.epoch, state.index = state.epoch + 1, 0
        if self.average:
            self.average.update(state.step)
        seconds = self.broadcast(time.perf_counter() - began)
        state.tokens += round(sums["tokens"])
        state.seconds += seconds
        before, state.epochs = state.epochs, state.epoch + (state.index / len(self.epochs.batches(state.epoch)) if state.index else 0.0)
        state.ended = self.epochs.end(state)
        state.pending = len(self.job.valid) > 0 and (bool(state.ended) or self.epochs.is_evaluation_due(state, before))
        self.log(sums | {"seconds": seconds}, rate, norm)

    def broadcast(self, value: Any) -> Any:
        """Broadcast rank 0's value; collect stop signals."""
        gathered = self.ranks.gather([value, self.interrupts.number])
        self.stop = max(number for _, number in gathered)
        return gathered[0][0]

    def forward_backward(self, batches: list[Rows]) -> tuple[dict[str, float], list[float]]:
        """Accumulate the gradients of this rank's batches; return sums and mixer counts over all ranks."""
        mine = self.ranks.share_out(batches, self.config.accumulate)
        sums, counted = {"loss": 0.0, "count": 0.0, "tokens": 0.0, "places": 0.0}, self.counter.zeros()
        self.bad: list[int] = []
        for place, (number, rows, counts) in enumerate(mine, 1):
            self.ranks.tick()
            seed_all(self.config.seed, self.state.step, number)
            batch = self.job.train.batch(rows, packed=self.config.packed).to(self.ranks.device)
            with self.layout.last_batch_only() if place < len(mine) else nullcontext():
                objective, loss, auxiliary = self.layout.module(batch)
                (self.state.scale * objective if counts else 0 * objective).backward()
            total = float(loss.total.detach())
            if not math.isfinite(total):
                self.bad += batch.rows or [int(row) for row in rows]
            found = {"loss": total, "count": float(loss.count), **sizes(batch)} | {k: float(v) for k, v in loss.metrics.items()}
            if auxiliary.losses:
                found["balance"] = loss.count * sum(float(term.detach()) for term in auxiliary.losses) / self.networks
            for key, value in found.items():
                sums[key] = sums.get(key, 0.0) + (value if counts else 0.0)
            if counts:
                counted = add_lists(counted, self.counter.collect(auxiliary))
        self.layout.take_gradients()
        together = self.ranks.sum([*sums.values(), *counted])
        return dict(zip(sums, together, strict=False)), together[len(sums) :]

    def mean_and_clip(self, count: float) -> float:
        """Divide the summed gradients by the count and clip them, per network; return the largest norm before clipping."""
        divisor = max(count, 1.0) * self.state.scale
        scale = self.layout.divisor * self.networks / divisor  # the mean over an ensemble has divided by its networks
        norms = []
        for parameters in self.parameters:
            gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
            norms.append(scale * self.layout.norm(gradients))
            torch._foreach_mul_(gradients, scale * min(1.0, self.config.clip / (norms[-1] + 1e-6)))
        return max(norms, key=lambda norm: math.inf if math.isnan(norm) else norm)

    def check(self, loss: float, norm: float, batches: list[Rows]) -> None:
        """Raise RunError, with the rows to blame, where the loss or the gradient is not finite."""
        if math.isfinite(loss) and math.isfinite(norm):
            return
        bad = [row for found in self.ranks.gather(self.bad) for row in found]
        rows = bad or [int(row) for batch in batches for row in batch]
        named = ", ".join(self.job.train.place(row) for row in rows[:8]) + (f" and {len(rows) - 8} more" if len(rows) > 8 else "")
        what = "loss" if bad else "gradient"
        raise RunError(
            f"step {self.state.step + 1}: the {what} is not finite, on {named}; look at these rows, or try a smaller train.lr "
            "or train.clip (the last checkpoint is untouched)",
            file=self.job.folder.path,
            code="diverged",
        )

    # ------------------------------------------------------------------------------------------------------- evaluation

    def evaluate(self) -> None:
        """Score validation, keep the best weights, count misses; a signal leaves the evaluation pending."""
        state, config = self.state, self.config
        with self.average.apply() if self.average else nullcontext():
            scores = self.broadcast(self.scores() if self.ranks.main or self.layout.sharded else None)
            if scores is None:
                return
            state.pending = False
            score = scores.get("loss" if config.best_by == "loss" else self.job.metric)
            if self.is_better(score):
                state.best, state.best_step, state.misses = score, state.step, 0
                if config.patience and (self.ranks.main or self.layout.sharded):
                    self.best = {name: tensor.detach().clone() for name, tensor in self.layout.tensors().items()}
            else:
                state.misses += 1
        if self.ranks.main:
            self.write({"step": state.step, "split": "valid"} | scores)
            words = " · ".join(f"{name} {value:.4f}" for name, value in scores.items())
            self.display.say(f"step {state.step}: {words}{' (best so far)' if state.best_step == state.step else ''}")
        if self.is_out_of_patience() and not state.ended:
            state.ended = "patience"
            if self.ranks.main:
                kept = f"the weights of step {state.best_step}, the best, are kept"
                self.display.say(f"stopped early: {state.misses} evaluations in a row did not improve (train.patience); {kept}")

    def is_out_of_patience(self) -> bool:
        return bool(self.config.patience) and self.state.misses >= self.config.patience

    def scores(self) -> dict[str, float] | None:
        """Validation scores; None if a signal interrupted them."""
        try:
            with eval_mode(self.job.model), self.layout.evaluating(by_block=self.job.task.evaluates_by_block):
                found = self.job.task.evaluate(
                    self.job.model, self.job.state, self.job.valid, budget=self.config.batch_tokens, quick=True, progress=self.watch
                )
        except AbandonedError:
            return None
        return {name: float(value) for name, value in found.scores.items()}

    def watch(self, done: int, total: int) -> None:
        self.ranks.tick()
        # weights in shards are evaluated by all processes together, which must leave together
        if max(self.ranks.gather(self.interrupts.number)) if self.layout.sharded else self.interrupts.number:
            raise AbandonedError
        self.display.work("evaluate", done, total)

    def is_better(self, score: float | None) -> bool:
        if score is None or not math.isfinite(score):
            return False
        best, rising = self.state.best, self.config.best_by == "score" and metric(self.job.metric).higher_is_better
        return best is None or (score > best if rising else score < best)

    # ------------------------------------------------------------------------------------------------- what is written

    def log(self, sums: dict[str, float], rate: float, norm: float) -> None:
        """Display the step, add it to the window, write the window when it is full."""
        state, window = self.state, self.state.window
        for key, value in (sums | {"steps": 1.0}).items():
            window[key] = window.get(key, 0.0) + value
        if not self.ranks.main:
            return
        total, speed = self.epochs.total(state), sums["tokens"] / max(sums["seconds"], 1e-9)
        left = (total - state.step) * state.seconds / state.step
        loss = sums["loss"] / max(sums["count"], 1.0)
        self.display.show(Status(state.step, total, loss, speed, 1 - sums["tokens"] / sums["places"], left))
        if state.step % self.config.log_every == 0 or state.ended:
            self.write(metrics_row(state, rate, norm) | self.counter.describe(state.counts))
            state.window, state.counts = {}, []

    def write(self, row: dict[str, Any]) -> None:
        self.job.folder.metrics.append(row)
        if self.board:
            split = row.get("split", "train")
            for name, value in row.items():
                if isinstance(value, float):
                    self.board.add_scalar(f"{split}/{name}", value, row["step"])

    def _open_board(self) -> Any:
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(self.job.folder.path / "tensorboard", purge_step=self.state.step + 1)

    # ------------------------------------------------------------------------------------------------------- checkpoints

    def save(self) -> None:
        """Write a checkpoint, unless this step has one."""
        if not (self.ranks.main or self.layout.sharded):
            return
        saved = any(checkpoint.parse_step(path) == self.state.step for path in self.checkpoints.paths())
        ranks = self.ranks if self.layout.sharded else Ranks()
        if ranks.broadcast(saved):
            return
        if self.ranks.main:
            self.job.folder.metrics.flush()
        tensors = {"model": self.layout.tensors(), "optimizer": state_of(self.optimizers)}
        if self.average:
            tensors["average"] = self.average.mean
        if self.best:
            tensors["best"] = self.best
        self.checkpoints.save(checkpoint.Checkpoint(self.state.step, asdict(self.state) | self.computing, tensors), ranks)

    def follow(self) -> None:
        """Save the weights of some steps, without optimiser state; not for sharded weights."""
        if self.config.follow and self.ranks.main and not self.layout.sharded and checkpoint.is_followed(self.state.step):
            path = self.job.folder.followed_weights(self.state.step)
            path.parent.mkdir(exist_ok=True)
            write_weights(path, self.job.model)

    def resume(self) -> None:
        """Restore the newest valid checkpoint, if any, and truncate the log to it."""
        path = None
        if self.ranks.main:
            path = self.checkpoints.latest(self.display.say)
        path = self.ranks.broadcast(None if path is None else path.name)
        if path is not None:
            self.restore(checkpoint.read(self.checkpoints.folder / path, self.layout.rows if self.layout.sharded else None))
            self.display.say(f"resuming from step {self.state.step}{self.changed_rounding}")
        if self.ranks.main:
            step, redone = self.state.step, self.state.pending
            self.job.folder.metrics.truncate(lambda row: row["step"] < step or (row["step"] == step and not (redone and "split" in row)))
            self.board = self._open_board() if self.config.tensorboard else None

    def restore(self, saved: checkpoint.Checkpoint) -> None:
        try:
            self.layout.load(saved.tensors["model"])
            load_state(self.optimizers, saved.tensors["optimizer"])
            if self.average:
                self.average.load(saved.tensors["average"])
            self.best = saved.tensors.get("best", {})
            before = {name: saved.state.pop(name, now) for name, now in self.computing.items()}
            differing = [f"{before[name]} {name}, now {now}" for name, now in self.computing.items() if before[name] != now]
            if differing:
                self.changed_rounding = (
                    f" ({', '.join(differing)}: sums are rounded otherwise, and bits will differ from an undisturbed run's)"
                )
            self.state = TrainState(**saved.state)
            # a run that was lengthened is no longer over
            self.state.ended = self.state.ended and (self.epochs.end(self.state) or ("patience" if self.is_out_of_patience() else ""))
        except (RuntimeError, KeyError, TypeError, ValueError) as error:
            raise RunError(
                f"the checkpoint of step {saved.step} does not fit this configuration: {error}", file=self.job.folder.path
            ) from None


def sizes(batch: Batch) -> dict[str, float]:
    """Tokens of a batch, and the places they take, padding included."""
    seqs = [given.seq for given in (batch.source, batch.target) if given is not None]
    return {"tokens": float(sum(seq.tokens for seq in seqs)), "places": float(sum(seq.valid.numel() for seq in seqs))}
