"""Induction heads at the setting of Gu & Dao 2023: trained at one length, asked at many."""

from collections.abc import Iterator

import attentif
from benchmarks.real.trial import choose_folder, train_run

TITLE = "Induction heads, at lengths never trained on"
ABOUT = """
What followed the mark the first time, asked at the second: 16 kinds of tokens (the mark and 15 others), trained on 80,000 rows of 256, each
read once; share of 200 rows of each length that are right, chance 6.7 %. Gu & Dao (2023, section 4.1.2) train at 256 too, up to 200,000
steps of 8 rows, and report for their Mamba of two layers 100 % up to 2^20 tokens, and for every other model no more than twice the length
it was trained at.
"""
LONG = False
ROWS, LENGTHS = 200, (64, 256, 512, 1024, 4096, 16384)
COMMON = "induction data.options.length=256 data.options.symbols=15 data.options.train=80000 train.epochs=1"
MODELS = {
    "Mamba, two layers": COMMON,
    "attention with rotary positions, two layers": f"{COMMON} model.base=decoder-tiny train.lr=1e-3",
}


def run(quick: bool) -> Iterator[str]:
    lengths = LENGTHS[:2] if quick else LENGTHS
    yield "| | " + " | ".join(f"{length:,}" for length in lengths) + " |"
    yield "|---" * (len(lengths) + 1) + "|"
    for name, command in MODELS.items():
        results = train_run(command, quick=quick)
        size = sum(results["cost"]["parameters"].values())
        shares = ["" if quick else f"{100 * right(command, length):.1f} %" for length in lengths]
        yield f"| {name}, {size:,} parameters | " + " | ".join(shares) + " |"
    yield ""
    yield from (f"`attentif train {command}`, then `attentif evaluate RUN data.options.length=1024`\n" for command in MODELS.values())


def right(command: str, length: int) -> float:
    """The share of rows of this length that a kept run answers rightly."""
    asked = attentif.load(choose_folder(command.split()), data={"options": {"length": length, "train": 1, "valid": 1, "test": ROWS}})
    return float(asked.evaluate().scores["accuracy"])
