"""Does every small preset learn in a minute? Each trains on a built-in set for the same time, on one core, in the loop of `attentif train`.

    python -m benchmarks.tiny [--seconds 60] [PRESET ...]

No race: sizes, depths and learning rates are not tuned to one another. It shows that each of them runs, learns, and at what speed.
"""

import argparse
import math
import multiprocessing
import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from attentif.config import Layer
from attentif.models import ModelConfig, preset_names, resolve
from attentif.runtime import keep_buffers
from attentif.tasks.base import Prepared, Task
from attentif.training.config import RunConfig
from attentif.training.distributed import Ranks
from attentif.training.load import load_run_config
from attentif.training.loop import Job, fit
from attentif.training.progress import Silent
from attentif.training.run import fresh_model
from attentif.training.rundir import RunFolder
from benchmarks.common import environment
from benchmarks.page import put

TITLE = "Every small preset, a minute each"
ABOUT = """
Each `-tiny` preset trains on one core, as many at once as there are cores, on the recipe that suits its shape, with the recipe's own
batches and learning rate: `reviews` (encoders that classify, here from labels alone; accuracy, guessing gives 0.5), `masked` (encoders that
predict tokens, and Linformer; share of the hidden ones found), `replaced` (ELECTRA; area under the ROC curve, guessing gives 0.5), `stdlib`
(decoders; bits per byte, 13 bits a token before training, a trigram of bytes 1.71) or `numbers` (encoder-decoders; share of the target
tokens predicted). Scores are of the validation split. Not a comparison: nothing is tuned.
"""
COLUMNS = "| preset | recipe | parameters | steps | tokens/s | before | after |\n|---|---|---:|---:|---:|---:|---:|"
MINUTE = 60.0
SHOWN = {"reviews": "accuracy", "masked": "accuracy", "replaced": "auc", "stdlib": "bits_per_byte", "numbers": "token_accuracy"}
OF_ENCODERS = {"classify": "reviews", "language": "masked", "tokens": "replaced"}  # by the head of the preset
OWN: dict[str, dict[str, Any]] = {  # changes to a recipe: what a network finds in a minute
    "reviews": {
        "task": {"vectors": False, "adversarial": 2.0},
        "tokenizer": {"kind": "bpe", "vocab": 8000},
        "train": {"lr": 4e-3},
    }
}
MIXED = {"linformer-tiny": "masked"}  # its summaries mix all places: which word stands beside which takes it long


def reads_tokens(name: str) -> bool:
    """Pictures, sounds and series have recipes of their own."""
    model = resolve({"base": name})
    return model.frontend.kind == "tokens" and (model.target is None or model.target.kind == "tokens")


def recipe_of(name: str, model: ModelConfig) -> str:
    if name in MIXED:
        return MIXED[name]
    if model.target:
        return "numbers"
    return "stdlib" if model.encoder is None else OF_ENCODERS[model.head.kind]


@cache
def prepare_recipe(recipe: str) -> tuple[RunConfig, Task, Prepared]:
    config = load_run_config(recipe, [Layer(OWN.get(recipe, {}), "a minute each")])
    task = config.task.build()
    return config, task, task.prepare(config.data, config.tokenizer or {}, config.model, lambda _: None)


def measure_learning(name: str, seconds: float) -> str:
    """One row of the table."""
    preset = resolve({"base": name})
    recipe = recipe_of(name, preset)
    config, task, data = prepare_recipe(recipe)
    settings = config.train.replace(epochs=0.0, min_steps=0, minutes=seconds / 60, eval_every=10**9)
    model = fresh_model(data.sizes.fill(task.adapt(preset)), settings, Ranks().device)
    score = lambda: task.evaluate(model, data.state, data.valid, quick=True).scores.get(SHOWN[recipe], math.nan)
    before = score()
    with tempfile.TemporaryDirectory() as folder:
        place = fit(Job(task, model, data.train, data.valid, settings, RunFolder(Path(folder))), Ranks(), Silent())
    size = sum(parameter.numel() for parameter in model.parameters())
    speed = place.tokens / place.seconds
    return f"| {name} | {recipe} | {size:,} | {place.step:,} | {speed:,.0f} | {before:.3f} | {score():.3f} |"


def small_presets() -> list[str]:
    return [name for name in preset_names() if name.endswith("-tiny") and reads_tokens(name)]


def rows(names: Sequence[str], seconds: float) -> Iterator[str]:
    """A row a preset, in their order; a core each."""
    cores = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(cores, multiprocessing.get_context("spawn"), on_one_core) as pool:
        yield from pool.map(partial(measure_learning, seconds=seconds), names)


def on_one_core() -> None:
    torch.set_num_threads(1)
    keep_buffers()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("presets", nargs="*", help="by default all that end in -tiny and read tokens; only then RESULTS.md is written")
    parser.add_argument("--seconds", type=float, default=MINUTE, help="for each; RESULTS.md has those of a minute")
    options = parser.parse_args()
    on_one_core()
    measured = f"Measured on {date.today().isoformat()} by `python -m benchmarks.tiny`: {environment()}."
    lines = [f"## {TITLE}\n\n{ABOUT.strip()}\n\n{measured}\n\n{COLUMNS}"]
    print(lines[0], flush=True)
    for row in rows(options.presets or small_presets(), options.seconds):
        print(row, flush=True)
        lines.append(row)
    if not options.presets and options.seconds == MINUTE:
        put(TITLE, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
