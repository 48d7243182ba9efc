"""Benchmarks of speed, one after the other; each writes its section of RESULTS.md when it is done (`make bench` runs them all).

python -m benchmarks [--quick] [NAME ...]
"""

import argparse
import re
from collections.abc import Iterable
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
# in the order of the page; `lengths` comes last, for what it asks of the allocator outlives it
MODULES = (train_step, epoch, recording, decode, recurrence, state_space, gated, window, reformer, linear, seq2seq, experts, lengths)
NAMES: dict[str, ModuleType] = {module.__name__.rpartition(".")[2]: module for module in MODULES}


def updated(page: str, title: str, text: str) -> str:
    """The page with one section new; sections stand in the order of `MODULES`."""
    _, *old = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    sections = {part.splitlines()[0].removeprefix("## "): part for part in old} | {title: text}
    known = [module.TITLE for module in MODULES]
    return HEADER + "\n" + "".join(sections[name].rstrip() + "\n\n" for name in known if name in sections).rstrip() + "\n"


def main(words: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[[], *NAMES], metavar="NAME", help=f"by default all: {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="tiny shapes, nothing written: only to see that everything runs")
    options = parser.parse_args(None if words is None else list(words))
    for name in options.names or NAMES:
        module = NAMES[name]
        torch.manual_seed(0)
        measured = f"Measured on {date.today().isoformat()} by `python -m benchmarks {name}`: {environment('transformers')}."
        parts = []
        for part in section(module.TITLE, f"{module.ABOUT.strip()}\n\n{measured}", module.run(QUICK if options.quick else FULL)):
            print(part, flush=True)
            parts.append(part)
        if not options.quick:
            page = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
            RESULTS.write_text(updated(page, module.TITLE, "\n".join(parts)), encoding="utf-8")


if __name__ == "__main__":
    main()
