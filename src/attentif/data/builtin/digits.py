"""Handwritten digits, 8 × 8 pixels: scikit-learn's copy of the UCI optical recognition set (Alpaydin & Kaynak 1998).

Real, small, and on every machine that has scikit-learn. Pixels count 0 to 16 strokes of a 4 × 4 block; here they are bytes, 0 to 255. The
set has one file: it is cut by the seed, class by class, so that each split has its share of every digit.
"""

import numpy as np

from attentif.data.builtin.registry import BuiltIn, Columns, Splits

SHARES = {"test": 0.2, "valid": 0.1}  # of every class; the rest is for training


def load(seed: int) -> Splits:
    """Pictures (8, 8) of bytes and their labels, "0" to "9"."""
    from sklearn.datasets import load_digits

    stored = load_digits()
    pixels = np.rint(stored.images * (255 / 16)).astype(np.uint8)
    random = np.random.default_rng(seed)
    rows: dict[str, list[int]] = {"train": [], "valid": [], "test": []}
    for digit in range(10):
        own = random.permutation(np.flatnonzero(stored.target == digit)).tolist()
        for split, share in SHARES.items():
            taken, own = own[: round(share * len(own))], own[round(share * len(own)) :]
            rows[split] += taken
        rows["train"] += own
    return {split: _columns(pixels, stored.target, sorted(chosen)) for split, chosen in rows.items()}


def _columns(pixels: np.ndarray, target: np.ndarray, rows: list[int]) -> Columns:
    return {"image": [pixels[row] for row in rows], "label": [str(target[row]) for row in rows]}


SET = BuiltIn(
    name="digits",
    roles=("image", "label"),
    description="handwritten digits of 8 × 8 pixels (scikit-learn's, from UCI)",
    size="1,295 train, 143 valid, 359 test pictures",
    synthetic=False,
    load=load,
)
