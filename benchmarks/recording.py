"""What looking at attention costs: a tape over the fast kernel, against transformers' `output_attentions`, which needs the slow one."""

from collections.abc import Callable, Collection, Iterator
from functools import partial

import torch
import transformers
from torch import Tensor

from attentif.lab.timing import interleave
from attentif.models import Batch, Input, Model
from attentif.nn.seq import Seq
from attentif.nn.tape import record
from attentif.tasks.language.language import LanguageConfig
from benchmarks.common import Result, Scale, alone
from benchmarks.models import Shape, gpt2, their_gpt2
from benchmarks.train_step import our_step, their_step

TITLE = "Recording attention maps"
ABOUT = """
GPT-2's shape without dropout. Each library against itself: the reference is its own fastest forward or training step. Attentif keeps
queries and keys while it runs and works maps out when they are asked for; transformers must leave the fused kernel and returns the maps
of all layers or none.
"""
GOAL = "recording one layer below 1.05"


def run(scale: Scale) -> Iterator[Result]:
    shape = scale.pick(Shape(384, 6, 6, 8000, 1024), Shape(32, 2, 2, 101, 64))
    rows, width = scale.pick((8, 256), (2, 16))
    torch.manual_seed(0)
    text = torch.randint(0, shape.vocab, (rows, width + 1))
    yield our_forward(shape, text, scale.repeats)
    yield their_forward(shape, text, scale.repeats)
    yield our_training(shape, text, scale.repeats)
    yield their_training(shape, text, scale.repeats)


def our_forward(shape: Shape, text: Tensor, repeats: int) -> Result:
    model, batch = gpt2(shape).eval(), batch_of(text)
    layer, layers = [shape.layers // 2], range(shape.layers)
    contestants = {
        "forward": partial(record_maps, model, batch, (), maps=False),
        "recording one layer": partial(record_maps, model, batch, layer, maps=False),
        "recording one layer, and its maps": partial(record_maps, model, batch, layer, maps=True),
        "recording all layers, and their maps": partial(record_maps, model, batch, layers, maps=True),
    }
    return Result(f"attentif, forward: {shape}; {sizes(text)}", interleave(contestants, repeats), GOAL)


@torch.no_grad()
def record_maps(model: Model, batch: Batch, layers: Collection[int], *, maps: bool) -> object:
    if not layers:
        return model(batch)
    with record(model, layers) as tape:
        logits = model(batch)
    return logits, [tape.maps(path) for path in tape] if maps else tape


def their_forward(shape: Shape, text: Tensor, repeats: int) -> Result:
    timing = interleave(their_contestants(shape, lambda model, **how: partial(run_theirs, model, text[:, :-1], **how)), repeats)
    return Result(f"transformers, forward: {shape}; {sizes(text)}", timing)


@torch.no_grad()
def run_theirs(model: transformers.GPT2LMHeadModel, ids: Tensor, **how: bool) -> object:
    return model.eval()(input_ids=ids, **how)


def our_training(shape: Shape, text: Tensor, repeats: int) -> Result:
    model, batch = gpt2(shape), batch_of(text)
    step = our_step(LanguageConfig().build(), model, batch)

    def run_recorded() -> object:
        with record(model, [shape.layers // 2]) as tape:
            step()
        return tape

    timing = interleave({"training step": step, "recording one layer": run_recorded}, repeats)
    return Result(f"attentif, training step: {shape}; {sizes(text)}", timing, GOAL)


def their_training(shape: Shape, text: Tensor, repeats: int) -> Result:
    batch = {"input_ids": text[:, :-1], "labels": text[:, :-1], "shift_labels": text[:, 1:].contiguous()}
    timing = interleave(their_contestants(shape, lambda model, **how: their_step(model, **batch, **how)), repeats)
    return Result(f"transformers, training step: {shape}; {sizes(text)}", timing)


def their_contestants(shape: Shape, call: Callable[..., Callable[[], object]]) -> dict[str, Callable[[], object]]:
    return {
        "sdpa": call(their_gpt2(shape, attn_implementation="sdpa")),
        "output_attentions (eager)": call(their_gpt2(shape, attn_implementation="eager"), output_attentions=True),
    }


def batch_of(text: Tensor) -> Batch:
    rows, width = text.shape
    return Batch(Input(text[:, :-1], Seq.from_padded([width - 1] * rows)), labels=text[:, 1:])


def sizes(text: Tensor) -> str:
    return f"{len(text)} rows of {text.shape[1] - 1} tokens"


if __name__ == "__main__":
    alone(TITLE, ABOUT, run)
