"""Short films of a handwritten digit that moves, and how it moves: what no single frame can tell.

    [8 frames]  ->  left | right | up | down | still | turning

One of scikit-learn's digits on a dark canvas of 16 × 16 pixels; what leaves it on one side comes back on the other. Where a digit begins
and which of four ways it is turned are drawn at random, so a frame by itself has the same distribution whatever the movement. Digits of
the three splits come from disjoint originals.
"""

from random import Random

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from attentif.data.builtin.registry import BuiltIn, Columns, Options, Splits

Bytes = NDArray[np.uint8]
SIDE, FRAMES = 16, 8
STEPS = {"left": (0, -1), "right": (0, 1), "up": (-1, 0), "down": (1, 0), "still": (0, 0), "turning": (0, 0)}
SPEEDS = (1, 2)  # pixels a frame
NOISE = 24  # deviation of the pixels' noise, of 255


class MovingOptions(Options):
    """How many films there are."""

    train: int = Field(3_000, gt=0, description="films to train on")
    valid: int = Field(300, gt=0, description="films to choose by")
    test: int = Field(600, gt=0, description="films to score")


def load(seed: int, options: MovingOptions | None = None) -> Splits:
    """Films (frames, height, width) of bytes and their labels."""
    from sklearn.datasets import load_digits

    options = options or MovingOptions()
    digits = np.rint(load_digits().images * (255 / 16)).astype(np.uint8)
    order = Random(f"moving digits {seed}").sample(range(len(digits)), len(digits))
    originals = {"train": order[540:], "valid": order[360:540], "test": order[:360]}
    splits: Splits = {}
    for split, chosen in originals.items():
        rng = np.random.default_rng([seed, *split.encode()])
        columns: Columns = {"image": [], "label": []}
        for number in range(getattr(options, split)):
            label = list(STEPS)[number % len(STEPS)]
            columns["image"].append(render_film(digits[rng.choice(chosen)], label, rng))
            columns["label"].append(label)
        splits[split] = columns
    return splits


def render_film(digit: Bytes, label: str, rng: np.random.Generator) -> Bytes:
    """(FRAMES, SIDE, SIDE)."""
    down, across = (int(step * rng.choice(SPEEDS)) for step in STEPS[label])
    top, left = rng.integers(SIDE, size=2)
    turn = int(rng.integers(4))
    direction = int(rng.choice((-1, 1))) if label == "turning" else 0
    film = np.zeros((FRAMES, SIDE, SIDE))
    for time, canvas in enumerate(film):
        canvas[: len(digit), : len(digit)] = np.rot90(digit, turn + direction * time)
        canvas[:] = np.roll(canvas, (top + down * time, left + across * time), axis=(0, 1))
    return np.clip(np.rint(film + rng.normal(0, NOISE, film.shape)), 0, 255).astype(np.uint8)


SET = BuiltIn(
    name="moving-digits",
    roles=("image", "label"),
    description="films of eight frames in which a handwritten digit moves; the label is the movement",
    size="3,000 train, 300 valid, 600 test films; data.options",
    synthetic=True,
    load=load,
    options=MovingOptions,
)
