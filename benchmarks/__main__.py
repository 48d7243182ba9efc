"""Benchmarks of speed, one after the other; each writes its section of RESULTS.md when it is done (`make bench` runs them all).

python -m benchmarks [--quick] [NAME ...]
"""

import argparse
import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from types import ModuleType

import torch

from benchmarks import (
    decode,
    epoch,
    experts,
    gated,
    lengths,
    linear,
    recording,
    recurrence,
    reformer,
    seq2seq,
    state_space,
    train_step,
    window,
)
from benchmarks.common import FULL, QUICK, environment, section

RESULTS = Path(__file__).with_name("RESULTS.md")
HEADER = """# Speed against named peers
Written by `make bench`; `python -m benchmarks NAME` measures one section again.

Contestants take turns in one process, round after round, with the same number of threads. A ratio is the median over the rounds of the
ratio within a round, its quartiles in brackets; above 1, the contestant took longer than the first one of its table.
"""
# in the order of the page
MODULES = (train_step, epoch, recording, decode, recurrence, state_space, gated, window, reformer, linear, seq2seq, experts, lengths)
NAMES: dict[str, ModuleType] = {module.__name__.rpartition(".")[2]: module for module in MODULES}


def updated(page: str, title: str, text: str) -> str:
    """The page with one section new; sections stand in the order of `MODULES`."""
    _, *old = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    sections = {part.splitlines()[0].removeprefix("## "): part for part in old} | {title: text}
    known = [module.TITLE for module in MODULES]
    return HEADER + "\n" + "".join(sections[name].rstrip() + "\n\n" for name in known if name in sections).rstrip() + "\n"


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
        page = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
        RESULTS.write_text(updated(page, module.TITLE, "\n".join(parts)), encoding="utf-8")


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
