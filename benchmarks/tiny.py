"""Does every small preset learn in a minute? Each trains on a built-in set for the same time, in the loop of `attentif train`.

    python -m benchmarks.tiny [--seconds 60] [--out FILE] [PRESET ...]

No race: sizes, depths and learning rates are not tuned to one another. It shows that each of them runs, learns, and at what speed.
"""

import argparse
import math
import tempfile
from functools import cache
from pathlib import Path

from attentif.models import ModelConfig, preset_names, resolve
from attentif.tasks.task import Prepared, Task
from attentif.train.config import RunConfig
from attentif.train.distributed import Ranks
from attentif.train.load import load_run_config
from attentif.train.loop import Job, fit
from attentif.train.machine import keep_buffers
from attentif.train.progress import Silent
from attentif.train.run import fresh_model
from attentif.train.rundir import RunFolder
from benchmarks.common import environment

HEADER = """# Every small preset, {seconds:.0f} seconds each
Written by `python -m benchmarks.tiny --seconds {seconds:.0f}`. {environment}

Each `-tiny` preset trains on the recipe that suits its shape, with the recipe's own batches and learning rate: `reviews` (encoders;
accuracy, guessing gives 0.5), `stdlib` (decoders; bits per byte, 13 bits a token before training, a trigram of bytes 1.71) or `numbers`
(encoder-decoders; share of the target tokens predicted). Scores are of the validation split. Not a comparison: nothing is tuned.

| preset | recipe | parameters | steps | tokens/s | before | after |
|---|---|---:|---:|---:|---:|---:|
"""
SHOWN = {"reviews": "accuracy", "stdlib": "bits_per_byte", "numbers": "token_accuracy"}


def reads_tokens(name: str) -> bool:
    """Pictures, sounds and series have recipes of their own."""
    model = resolve({"base": name})
    return model.frontend.kind == "tokens" and (model.target is None or model.target.kind == "tokens")


def recipe_of(model: ModelConfig) -> str:
    return "numbers" if model.target else "stdlib" if model.encoder is None else "reviews"


@cache
def prepared(recipe: str) -> tuple[RunConfig, Task, Prepared]:
    config = load_run_config(recipe)
    task = config.task.build()
    return config, task, task.prepare(config.data, config.tokenizer or {}, config.model, lambda _: None)


def learned(name: str, seconds: float) -> str:
    """One row of the table."""
    preset = resolve({"base": name})
    recipe = recipe_of(preset)
    config, task, data = prepared(recipe)
    settings = config.train.changed(epochs=0.0, min_steps=0, minutes=seconds / 60, eval_every=10**9)
    model = fresh_model(data.sizes.fill(task.adapt(preset)), settings, Ranks().device)
    score = lambda: task.evaluate(model, data.valid, quick=True).scores.get(SHOWN[recipe], math.nan)
    before = score()
    with tempfile.TemporaryDirectory() as folder:
        place = fit(Job(task, model, data.train, data.valid, settings, RunFolder(Path(folder))), Ranks(), Silent())
    size = sum(parameter.numel() for parameter in model.parameters())
    speed = place.tokens / place.seconds
    return f"| {name} | {recipe} | {size:,} | {place.step:,} | {speed:,.0f} | {before:.3f} | {score():.3f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("presets", nargs="*", help="by default all that end in -tiny and read tokens")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path, help="write the table there too")
    options = parser.parse_args()
    keep_buffers()
    page = HEADER.format(seconds=options.seconds, environment=environment("transformers"))
    print(page, end="", flush=True)
    for name in options.presets or [name for name in preset_names() if name.endswith("-tiny") and reads_tokens(name)]:
        row = learned(name, options.seconds)
        print(row, flush=True)
        page += row + "\n"
    if options.out:
        options.out.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
