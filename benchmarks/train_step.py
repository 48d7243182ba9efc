"""One training step against transformers, at equal shapes: the same numbers of parameters, tokens and operations."""

from collections.abc import Callable, Iterator

import torch
import transformers
from torch import Tensor

from attentif.lab.timing import interleave
from attentif.models import Batch, Input, Model
from attentif.nn.seq import Seq
from attentif.tasks.base import Task
from attentif.tasks.classification.classify import ClassifyConfig
from attentif.tasks.language.language import LanguageConfig
from attentif.training.config import TrainConfig
from attentif.training.optim import optimizers
from benchmarks.common import Result, Scale, alone
from benchmarks.models import Shape, bert, gpt2, their_bert, their_gpt2

TITLE = "A training step"
ABOUT = """
Forward, backward and a fused AdamW step, in float32 and in train mode; the loss is the mean over the scored tokens (GPT-2) or rows (BERT).
Attentif's step is the one of its tasks `language` and `classify`; transformers' is the model's own loss. *Default dropout* is 0.1
on both sides; transformers also drops attention weights, which takes the fast kernel away: Attentif's own presets do not (first line),
its presets of GPT-2 and BERT do, as published (*attention weights too*).
"""
DROPOUT = 0.1
WEIGHTS_TOO = "attentif, attention weights too"  # dropped, as in the presets of the systems of old


def run(scale: Scale) -> Iterator[Result]:
    tiny = Shape(32, 2, 1, 101, 64)
    for steps, large, small in (
        (gpt2_steps, Shape(768, 12, 4, 50257, 1024), Shape(384, 6, 6, 8000, 1024)),
        (bert_steps, Shape(768, 12, 4, 30522, 512), Shape(384, 6, 6, 8000, 512)),
    ):
        if not scale.quick:
            yield steps(large, 4, 256, scale.repeats)
        shape, rows, width = scale.pick((small, 8, 256), (tiny, 2, 16))
        yield steps(shape, rows, width, scale.repeats)
        yield steps(shape, rows, width, scale.repeats, dropout=DROPOUT)


def gpt2_steps(shape: Shape, rows: int, width: int, repeats: int, dropout: float = 0.0) -> Result:
    torch.manual_seed(0)
    text = torch.randint(0, shape.vocab, (rows, width + 1))
    batch = Batch(Input(text[:, :-1], Seq.from_padded([width] * rows)), labels=text[:, 1:])
    labels = text[:, 1:].contiguous()
    task = LanguageConfig().build()
    contestants = {"attentif": our_step(task, gpt2(shape, dropout=dropout), batch)}
    if dropout:
        contestants[WEIGHTS_TOO] = our_step(task, gpt2(shape, dropout=dropout, attention_dropout=dropout), batch)
    contestants["transformers"] = their_step(their_gpt2(shape, dropout=dropout), input_ids=text[:, :-1], labels=labels, shift_labels=labels)
    timing = interleave(contestants, repeats)
    about = "default dropout" if dropout else "no dropout"
    return Result(f"GPT-2, {about}: {shape}; {rows} rows of {width} tokens", timing, "" if dropout else "transformers at least 1.05")


def bert_steps(shape: Shape, rows: int, width: int, repeats: int, dropout: float = 0.0) -> Result:
    """Rows of half the width to the whole of it, padded; Attentif also packed, as `train.packed = true` has it."""
    torch.manual_seed(0)
    lengths = torch.linspace(width // 2, width, rows).long()
    ids, labels = torch.randint(0, shape.vocab, (rows, width)), torch.randint(0, 2, (rows,))
    padded, packed = Seq.from_padded(lengths, width), Seq.from_packed(lengths)
    task = ClassifyConfig().build()
    whole, ends = Batch(Input(ids, padded), labels=labels), Batch(Input(ids[padded.valid], packed), labels=labels)
    contestants = {
        "attentif": our_step(task, bert(shape, dropout=dropout), whole),
        "attentif, packed": our_step(task, bert(shape, dropout=dropout), ends),
    }
    if dropout:
        contestants[WEIGHTS_TOO] = our_step(task, bert(shape, dropout=dropout, attention_dropout=dropout), whole)
    contestants["transformers"] = their_step(
        their_bert(shape, dropout=dropout), input_ids=ids, attention_mask=padded.valid.long(), labels=labels
    )
    timing = interleave(contestants, repeats)
    about = "default dropout" if dropout else "no dropout"
    share = f"{100 * (1 - float(lengths.sum()) / (rows * width)):.0f} % of it padding"
    case = f"BERT, {about}: {shape}; {rows} rows padded to {width} tokens, {share}"
    return Result(case, timing, "" if dropout else "transformers at least 1.0")


def our_step(task: Task, model: Model, batch: Batch) -> Callable[[], None]:
    model.train()
    (optimizer,) = optimizers(model, TrainConfig(steps=1))

    def step() -> None:
        loss = task.step(model, batch)
        (loss.total / loss.count).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def their_step(model: transformers.PreTrainedModel, **batch: Tensor | bool) -> Callable[[], None]:
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.01, fused=True)

    def step() -> None:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


if __name__ == "__main__":
    alone(TITLE, ABOUT, run)
