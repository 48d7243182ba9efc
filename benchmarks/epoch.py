"""One epoch over real French reviews: batches of similar lengths against rows padded to 128, as a course's notebook has them."""

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import numpy as np
import torch
import transformers

from attentif.data import DataConfig
from attentif.data.batching import padding_waste, plan
from attentif.lab.timing import interleave
from attentif.models import Model
from attentif.tasks.base import Task
from attentif.tasks.classification.classify import ClassifyConfig
from attentif.tasks.classification.data import LabelledTexts
from attentif.text.kinds import WordPiece
from attentif.training.config import TrainConfig
from attentif.training.optim import optimizers
from benchmarks.common import Result, Scale, alone
from benchmarks.models import Shape, bert, their_bert

TITLE = "An epoch of reviews"
MAX_LEN, ROWS = 128, 16
BUDGET = MAX_LEN * ROWS  # tokens in a batch, the same on both sides
ABOUT = f"""
A BERT-shaped classifier over the training part of `reviews_fr`, every review cut to {MAX_LEN} tokens by the same tokenizer. transformers
pads every row to {MAX_LEN}, {ROWS} rows a batch. Attentif fills batches of at most {BUDGET:,} places with reviews of similar length.
*transformers, same batches* gets Attentif's own batches, padded to their longest row: what it gains is padding, what is left is code.
"""
DROPOUT = 0.1
VOCAB = 8000


def run(scale: Scale) -> Iterator[Result | str]:
    folder = os.environ.get("ATTENTIF_DATA")
    if not folder:
        yield "Left out: the environment variable ATTENTIF_DATA does not name the folder of real data."
        return
    file, limit = Path(folder, "reviews_fr", "films_train.csv"), scale.pick(0, 64)
    task = ClassifyConfig(max_len=MAX_LEN).build()
    shape = scale.pick(Shape(256, 4, 4, VOCAB, MAX_LEN), Shape(32, 2, 1, VOCAB, MAX_LEN))
    data = DataConfig(train=str(file), limit=limit)
    train = task.prepare(data, WordPiece(vocab=VOCAB), bert(shape).config, lambda _: None).train
    assert isinstance(train, LabelledTexts)
    yield epochs(task, train, shape, scale.pick(4, 2), 0.0)
    yield epochs(task, train, shape, 2, DROPOUT)


def epochs(task: Task, train: LabelledTexts, shape: Shape, repeats: int, dropout: float) -> Result:
    torch.manual_seed(0)
    batches, tokens = plan(train.lengths, BUDGET, seed=0, epoch=0), int(train.lengths.sum())
    steps = -(-len(train) // ROWS)
    padding = 100 * (1 - tokens / (MAX_LEN * len(train)))
    ours = f"{len(batches)} batches, {100 * padding_waste(train.lengths, batches):.1f} % padding"
    timing = interleave(
        {
            "attentif": our_epoch(task, train, bert(shape, dropout=dropout)),
            "attentif, packed": our_epoch(task, train, bert(shape, dropout=dropout), packed=True),
            "transformers": their_epoch(train, their_bert(shape, dropout=dropout), similar=False),
            "transformers, same batches": their_epoch(train, their_bert(shape, dropout=dropout), similar=True),
        },
        repeats,
        warmup=0,
    )
    notes = {
        "attentif": ours,
        "attentif, packed": "no padding",
        "transformers": f"{steps} batches, {padding:.1f} % padding",
        "transformers, same batches": ours,
    }
    about = "default dropout on each side" if dropout else "no dropout"
    case = f"{len(train):,} film reviews, {tokens:,} tokens, {about}: {shape}"
    return Result(case, timing, "" if dropout else "transformers at least 1.4", notes)


def our_epoch(task: Task, train: LabelledTexts, model: Model, *, packed: bool = False) -> Callable[[], None]:
    model.train()
    (optimizer,) = optimizers(model, TrainConfig(steps=1))
    numbers = count()

    def epoch() -> None:
        for rows in plan(train.lengths, BUDGET, seed=0, epoch=next(numbers), packed=packed):
            loss = task.step(model, train.batch(rows, packed=packed))
            (loss.total / loss.count).backward()
            optimizer.step()
            optimizer.zero_grad()

    return epoch


def their_epoch(train: LabelledTexts, model: transformers.PreTrainedModel, *, similar: bool) -> Callable[[], None]:
    """Rows are padded once, before the epoch; with `similar`, batches are Attentif's and cut to their longest row."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    ids = torch.zeros(len(train), MAX_LEN, dtype=torch.long)
    for row in range(len(train)):
        ids[row, : train.lengths[row]] = torch.from_numpy(train.ids[row].astype(np.int64))
    lengths, labels = torch.from_numpy(train.lengths), torch.from_numpy(train.labels)
    mask = (torch.arange(MAX_LEN) < lengths[:, None]).long()
    numbers = count()

    def epoch() -> None:
        number = next(numbers)
        batches = plan(train.lengths, BUDGET, seed=0, epoch=number) if similar else torch.randperm(len(train)).split(ROWS)
        for rows in map(torch.as_tensor, batches):
            width = int(lengths[rows].max()) if similar else MAX_LEN
            model(input_ids=ids[rows, :width], attention_mask=mask[rows, :width], labels=labels[rows]).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return epoch


if __name__ == "__main__":
    alone(TITLE, ABOUT, run)
