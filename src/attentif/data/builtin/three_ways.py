"""Numbers three ways: written by hand, in words, and dialled on a telephone, for models that bring pictures, texts and sounds together.

    picture of 407 (8 × 24 pixels)   "quatre zéro sept"   the tones of the keys 4, 0, 7 over a noisy line (`tones.py`)

A number has three digits. Its picture holds three of scikit-learn's digits side by side, its text their names, its sound their tones. The
200 numbers of the test and 100 of validation are in no training row, and test pictures are drawn from originals that training never shows:
who finds them has learned to read, not by heart. In the test every number stands once, so that each has one right answer.
"""

from random import Random

import numpy as np
from pydantic import Field

from attentif.data.builtin.numbers import french
from attentif.data.builtin.registry import BuiltIn, Columns, Options, Splits
from attentif.data.builtin.scenes import DIGIT, ORIGINALS
from attentif.data.builtin.tones import NOISE_DB, RATE, dial

DIGITS = 3
HELD_OUT = {"test": 200, "valid": 100}  # of the thousand numbers


class NumberOptions(Options):
    train: int = Field(4_000, gt=0, description="training rows, several of each number")
    valid: int = Field(HELD_OUT["valid"], gt=0, le=HELD_OUT["valid"], description="validation rows, each of another number")
    test: int = Field(HELD_OUT["test"], gt=0, le=HELD_OUT["test"], description="test rows, each of another number")


def load(seed: int = 0, options: Options = NumberOptions()) -> Splits:
    """The three splits; roles `image` (8 × 24 bytes), `text`, `audio` (8,000 samples a second) and `rate`."""
    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)
    inks = np.rint(pixels.reshape(-1, DIGIT, DIGIT) * (255 / 16)).astype(np.uint8)
    order = Random(f"three ways originals {seed}").sample(range(len(digits)), len(digits))
    first, second = ORIGINALS["test"], ORIGINALS["test"] + ORIGINALS["valid"]
    originals = {"test": order[:first], "valid": order[first:second], "train": order[second:]}
    numbers = Random(f"three ways numbers {seed}").sample([f"{number:0{DIGITS}d}" for number in range(10**DIGITS)], 10**DIGITS)
    held = HELD_OUT["test"] + HELD_OUT["valid"]
    chosen = {
        "train": Random(f"three ways rows {seed}").choices(numbers[held:], k=options.train),
        "valid": numbers[HELD_OUT["test"] : HELD_OUT["test"] + options.valid],
        "test": numbers[: options.test],
    }
    splits: Splits = {}
    for place, (split, rows) in enumerate(chosen.items()):
        rng, random = Random(f"three ways {split} {seed}"), np.random.default_rng((seed, place))
        by_digit = [[one for one in originals[split] if digits[one] == digit] for digit in range(10)]
        columns: Columns = {"image": [], "text": [], "audio": [], "rate": [RATE] * len(rows)}
        for number in rows:
            columns["image"].append(np.concatenate([inks[rng.choice(by_digit[int(digit)])] for digit in number], 1))
            columns["text"].append(" ".join(french(int(digit)) for digit in number))
            columns["audio"].append(dial(number, random, float(random.uniform(*NOISE_DB))))
        splits[split] = columns
    return splits


SET = BuiltIn(
    name="three-ways",
    roles=("image", "text", "audio"),
    description="numbers of three digits as pictures, words and sounds: handwritten, named in French, dialled",
    size="4,000 train, 100 valid, 200 test rows of three kinds; test numbers are in no training row",
    synthetic=True,
    load=load,
    options=NumberOptions,
)
