"""Training with products in bf16 against float32: the time of a step, and what 500 steps learn.

python -m benchmarks.bf16 [--quick]
"""

import statistics
from collections.abc import Iterator
from pathlib import Path

import torch

from attentif.lab.timing import interleave
from attentif.models import Batch, Input
from attentif.models.precision import set_products
from attentif.nn.seq import Seq
from attentif.tasks.language.language import LanguageConfig
from attentif.training.config import TrainConfig
from attentif.training.optim import optimizers, set_rate
from benchmarks.common import Result, Scale, alone
from benchmarks.decoding import instruction_sets
from benchmarks.models import Shape, gpt2
from benchmarks.train_step import our_step

TITLE = "Training in bf16"
ABOUT = """
The GPT-2 of *A training step*, without dropout: linear maps and the language head multiplied in bf16 (`train.precision = "bf16"`), all
else in float32. Then the same small GPT-2 is trained for 500 steps on the bytes of this project's documentation with three seeds in each
precision: the loss is the mean of the last 50 steps, and noise is what the seed alone changes.
"""
SHAPE, TINY = Shape(768, 12, 4, 50257, 1024), Shape(32, 2, 1, 101, 64)
SMALL = Shape(128, 4, 3, 256, 128)
STEPS, LAST, ROWS, WIDTH, SEEDS = 500, 50, 8, 128, 3


def run(scale: Scale) -> Iterator[Result | str]:
    yield f"Instruction sets: {', '.join(instruction_sets())}."
    torch.manual_seed(0)
    shape, rows, width = scale.pick((SHAPE, 4, 256), (TINY, 2, 16))
    text = torch.randint(0, shape.vocab, (rows, width + 1))
    batch = Batch(Input(text[:, :-1], Seq.from_padded([width] * rows)), labels=text[:, 1:])
    models = {"bf16": gpt2(shape), "float32": gpt2(shape)}
    set_products(models["bf16"], "bf16")
    steps = {name: our_step(LanguageConfig().build(), model, batch) for name, model in models.items()}
    yield Result(f"GPT-2: {shape}; {rows} rows of {width} tokens", interleave(steps, scale.pick(9, 2)), "float32 at least 1.4")
    del steps, models
    yield curves(scale.pick(STEPS, 4))


def curves(steps: int) -> str:
    text = b"\n".join(path.read_bytes() for path in sorted(Path(__file__).parent.parent.glob("docs/*.md")))
    ends = {precision: [learn(precision, seed, steps, text) for seed in range(SEEDS)] for precision in ("float32", "bf16")}
    lines = [f"**Loss after {steps} steps: {SMALL}; {ROWS} rows of {WIDTH} bytes** (goal: equal within noise)", ""]
    lines += ["| | " + " | ".join(f"seed {seed}" for seed in range(SEEDS)) + " | mean |", "|---|" + "---:|" * (SEEDS + 1)]
    lines += [f"| {name} | " + " | ".join(f"{end:.4f}" for end in own) + f" | {statistics.mean(own):.4f} |" for name, own in ends.items()]
    apart = [bf16 - float32 for bf16, float32 in zip(ends["bf16"], ends["float32"], strict=True)]
    noise = statistics.stdev(ends["float32"])
    said = ", ".join(f"{difference:+.4f}" for difference in apart)
    return "\n".join([*lines, "", f"bf16 minus float32 by seed: {said}; the seeds of float32 spread by {noise:.4f} (standard deviation)."])


def learn(precision: str, seed: int, steps: int, text: bytes) -> float:
    """The mean loss of the last steps."""
    torch.manual_seed(seed)
    model, task = gpt2(SMALL).train(), LanguageConfig().build()
    set_products(model, precision)
    (optimizer,) = optimizers(model, TrainConfig(steps=steps))
    values, generator = torch.frombuffer(bytearray(text), dtype=torch.uint8).long(), torch.Generator().manual_seed(seed)
    losses = []
    for step in range(steps):
        set_rate([optimizer], 2e-3 * min(1.0, (step + 1) / 50) * (1 - step / steps))
        starts = torch.randint(len(values) - WIDTH - 1, (ROWS,), generator=generator)
        rows = torch.stack([values[start : start + WIDTH + 1] for start in starts.tolist()])
        loss = task.step(model, Batch(Input(rows[:, :-1], Seq.from_padded([WIDTH] * ROWS)), labels=rows[:, 1:]))
        mean = loss.total / loss.count
        mean.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(mean.detach()))
    return statistics.mean(losses[-LAST:])


if __name__ == "__main__":
    alone(TITLE, ABOUT, run)
