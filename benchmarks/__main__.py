"""Benchmarks of speed, one after the other; each writes its section of RESULTS.md when it is done (`make bench` runs them all).

python -m benchmarks [--quick] [NAME ...]
"""

import argparse
import subprocess
import sys
from datetime import date
from types import ModuleType

import torch

from benchmarks import (
    bf16,
    decode,
    decoding,
    decoding_shapes,
    encoding,
    epoch,
    experts,
    finetuning,
    gated,
    lengths,
    linear,
    loading,
    recording,
    recurrence,
    reformer,
    sentences,
    seq2seq,
    state_space,
    train_step,
    window,
)
from benchmarks.common import FULL, QUICK, environment, section
from benchmarks.page import put

MODULES = (
    train_step,
    epoch,
    recording,
    decode,
    decoding,
    decoding_shapes,
    encoding,
    bf16,
    sentences,
    recurrence,
    state_space,
    gated,
    window,
    reformer,
    linear,
    seq2seq,
    experts,
    finetuning,
    loading,
    lengths,
)
NAMES: dict[str, ModuleType] = {module.__name__.rpartition(".")[2]: module for module in MODULES}


def measure(name: str, quick: bool) -> None:
    """One section, printed as it is measured, then put into the page."""
    module = NAMES[name]
    torch.manual_seed(0)
    measured = f"Measured on {date.today().isoformat()} by `python -m benchmarks {name}`: {environment('transformers')}."
    parts = []
    for part in section(module.TITLE, f"{module.ABOUT.strip()}\n\n{measured}", module.run(QUICK if quick else FULL)):
        print(part, flush=True)
        parts.append(part)
    if not quick:
        put(module.TITLE, "\n".join(parts))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"by default all: {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="tiny shapes, nothing written: only to see that everything runs")
    options = parser.parse_args()
    names = options.names or list(NAMES)
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"no benchmark is called {unknown[0]!r}; there are {', '.join(NAMES)}")
    if len(names) == 1:
        measure(names[0], options.quick)
        return
    for name in names:  # in a process of its own: what one asks of the allocator or of threads does not touch the next
        subprocess.run([sys.executable, "-m", "benchmarks", name, *["--quick"] * options.quick], check=True)


if __name__ == "__main__":
    main()
