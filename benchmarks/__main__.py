"""Every benchmark of speed, one after the other: `python -m benchmarks` writes RESULTS.md beside this file (`make bench`)."""

import argparse
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import torch

from benchmarks import decode, epoch, recording, train_step
from benchmarks.common import FULL, QUICK, Scale, environment, section

RESULTS = Path(__file__).with_name("RESULTS.md")
HEADER = """# Speed against named peers
Written by `make bench` (`python -m benchmarks`) on {day}.

{environment}

Contestants take turns in one process, round after round, with the same number of threads. A ratio is the median over the rounds of the
ratio within a round, its quartiles in brackets; above 1, the contestant took longer than the first one of its table.
"""


def parts(scale: Scale) -> Iterator[str]:
    """The page, as it is measured."""
    yield HEADER.format(day=date.today().isoformat(), environment=environment("transformers"))
    for module in (train_step, epoch, recording):
        yield from section(module.TITLE, module.ABOUT, module.run(scale))
    what, _, how = (decode.__doc__ or "").strip().split("\n\n")
    yield f"## Decoding\n\n{what}\n{how}\n"
    shapes = scale.pick(tuple(decode.SHAPES), ("tiny",))
    yield "\n".join(decode.table(shapes, repeats=scale.pick(9, 2), tokens=scale.pick(64, 8))) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny shapes, nothing written: only to see that everything runs")
    quick = parser.parse_args().quick
    torch.manual_seed(0)
    page = []
    for part in parts(QUICK if quick else FULL):
        print(part, flush=True)
        page.append(part)
    if not quick:
        RESULTS.write_text("\n".join(page), encoding="utf-8")
        print(f"written: {RESULTS.name}")


if __name__ == "__main__":
    main()
