"""The smallest run that has everything: a task, a model with dropout, ragged data. Trains in well under a second.

python toy.py FOLDER '{"steps": 30}'       start the run, or go on with it; under torchrun, with all its processes
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from attentif.errors import AttentifError
from attentif.files import write_json
from attentif.models.batch import Batch, Input
from attentif.nn.seq import Seq
from attentif.nn.stack import Stack, StackConfig
from attentif.tasks.base import Evaluation, Loss
from attentif.training.config import TrainConfig
from attentif.training.distributed import ProcessGroup, Ranks
from attentif.training.heartbeat import RankLostError
from attentif.training.loop import Job, fit
from attentif.training.machine import seed_all
from attentif.training.progress import Silent
from attentif.training.rundir import RunFolder, create
from attentif.training.sharding import is_sharded
from attentif.training.train_state import TrainState
from attentif.training.weights import write_weights

VOCAB, WIDTH = 32, 16


class Texts:
    """Rows of random tokens; the label says whether the first token is an even one."""

    def __init__(self, rows=96, seed=0, name="train"):
        random = np.random.default_rng(seed)
        self.name = name
        self.lengths = random.integers(3, 12, rows)
        self.ids = [random.integers(0, VOCAB, length) for length in self.lengths]
        self.labels = np.array([row[0] % 2 for row in self.ids])

    def __len__(self):
        return len(self.ids)

    def batch(self, rows, *, packed=False):
        ids = [torch.from_numpy(self.ids[row]) for row in rows]
        lengths = torch.tensor([len(row) for row in ids])
        data = torch.cat(ids) if packed else nn.utils.rnn.pad_sequence(ids, batch_first=True)
        seq = Seq.from_packed(lengths) if packed else Seq.from_padded(lengths)
        return Batch(Input(data, seq), labels=torch.from_numpy(self.labels[rows]), rows=tuple(int(row) for row in rows))

    def place(self, row):
        return f"toy.csv:{row + 2}"


class Model(nn.Module):
    def __init__(self, dropout=0.1):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, WIDTH)
        self.hidden = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, batch):
        x = self.dropout(torch.tanh(self.hidden(self.tokens(batch.source.data))))
        return self.head(x.reshape(-1, WIDTH)[batch.source.seq.first()])


class Routed(Model):
    """The same with two mixtures of experts in place of the hidden layer."""

    def __init__(self, balance, recompute=False):
        super().__init__(dropout=0.0)
        mixer = {"kind": "experts", "experts": 4, "hidden": 16, "balance": balance}
        self.hidden = Stack(StackConfig.model_validate({"block": {"ffn": {"mixer": mixer}}}), width=WIDTH, layers=2, dropout=0.0)
        self.hidden.checkpointing = recompute

    def forward(self, batch):
        seq = batch.source.seq
        return self.head(self.hidden(self.tokens(batch.source.data), seq).reshape(-1, WIDTH)[seq.first()])


class Task:
    metric = "accuracy"
    evaluates_by_block = True

    def metric_for(self, state):
        return self.metric

    def __init__(self, pause=0.0):
        self.pause = pause  # seconds added to each batch of an evaluation, for signals to arrive in

    def step(self, model, batch):
        logits = model(batch)
        total = nn.functional.cross_entropy(logits, batch.labels, reduction="sum")
        return Loss(total, len(batch.labels), {"accuracy": (logits.argmax(-1) == batch.labels).sum()})

    def learn(self, model, batch):
        return self.step(model, batch)

    def evaluate(self, model, state, dataset, *, budget=8192, quick=False, progress=None):
        right = 0
        for row in range(len(dataset)):
            batch = dataset.batch([row])
            right += int((model(batch).argmax(-1) == batch.labels).sum())
            time.sleep(self.pause)
            if progress:
                progress(row + 1, len(dataset))
        return Evaluation({"accuracy": right / len(dataset)}, examples=len(dataset), split=dataset.name)


def settings(**changes):
    values = {"steps": 24, "lr": 0.01, "batch_tokens": 64, "eval_every": 6, "checkpoint_every": 4, "log_every": 3}
    return TrainConfig(**(values | changes))


def job(folder, config, *, task=None, dropout=0.1, train=None, balance=None, recompute=False):
    seed_all(config.seed)
    model = Model(dropout) if balance is None else Routed(balance, recompute)
    return Job(task or Task(), model, Texts() if train is None else train, Texts(16, 1, "valid"), config, folder)


def folder(path):
    """The run's folder, made where there is none."""
    if (path / "config.toml").is_file():
        return RunFolder.open(path)
    return create(path, "toy", lambda new: (new / "config.toml").write_text(""))


def train(path, config, *, ranks=Ranks(), display=None, fail=None, **options) -> TrainState:
    """Start or go on, to the end: what a whole run does around the loop."""
    if ranks.main:
        folder(path)
    ranks.barrier()
    run = RunFolder(path)
    if not ranks.main:
        work = job(run, config, **options)
        place = fit(work, ranks, Silent())
        if is_sharded(work.model):
            write_weights(run.weights, work.model, writing=False)
        return place
    with run.writing():
        work = job(run, config, **options)
        place = fit(work, ranks, display or Silent())
        write_weights(run.weights, work.model)
        write_json(run.results, {"step": place.step})
    return place


class Words(Silent):
    """Notes what is said; Ctrl-C at a step."""

    def __init__(self, stop_at=None):
        self.lines, self.stop_at = [], stop_at

    def say(self, line):
        self.lines.append(line)

    def show(self, status):
        if status.step == self.stop_at:
            os.kill(os.getpid(), signal.SIGINT)


class Interrupted(Task):
    """Presses Ctrl-C in the middle of a step."""

    def __init__(self, batches):
        super().__init__()
        self.left = batches

    def step(self, model, batch):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return super().step(model, batch)


class Failing(Task):
    """In a batch, the process is killed, or hangs: once, before the launcher starts it again."""

    def __init__(self, how, batch):
        super().__init__()
        self.how, self.left = how, batch

    def step(self, model, batch):
        self.left -= 1
        if self.left == 0 and os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0":
            os.kill(os.getpid(), signal.SIGKILL) if self.how == "die" else time.sleep(60)
        return super().step(model, batch)


def run(
    path, *, ranks=Ranks(), rows=96, dropout=0.1, pause=0.0, interrupt=0, balance=None, recompute=False, display=None, fail=None, **options
) -> TrainState:
    """`interrupt`: the step in which Ctrl-C is pressed, in the last of the processes."""
    config = settings(**options)
    last = ranks.rank == ranks.world - 1
    task = Interrupted(max(1, interrupt * config.accumulate // ranks.world)) if interrupt and last else Task(pause)
    if fail and last:
        task = Failing(*fail)
    return train(
        path, config, ranks=ranks, display=display, task=task, dropout=dropout, train=Texts(rows), balance=balance, recompute=recompute
    )


def main() -> int:
    torch.set_num_threads(1)
    code = 0
    try:
        with ProcessGroup(torch.device("cpu")) as ranks:
            for name, options in json.loads(sys.argv[2]):
                try:
                    run(Path(sys.argv[1]) / name, ranks=ranks, **options)
                except AttentifError as error:
                    print(f"error: {error}", file=sys.stderr)
                    code = error.exit_code
    except RankLostError as error:
        if not error.quiet:
            print(f"error: {error}", file=sys.stderr)
        code = error.exit_code
    return code


if __name__ == "__main__":
    sys.exit(main())
