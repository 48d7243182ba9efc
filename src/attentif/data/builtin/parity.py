"""Parity: is the number of ones odd? One bit of state is enough, and every token may change the answer.

    text 1 0 1 1     label odd     answers odd odd even odd, so far at each place

Asked at every place (the task `recall`) a recurrent network learns it at once; from the label of the whole row alone (`classify`) it is one
of the hardest things to learn, because no part of the row says anything about it.

Attention of a fixed number of layers has trouble with it as sequences grow (Hahn 2020), a recurrent network none in principle.
"""

import numpy as np
from pydantic import Field

from attentif.data.builtin.registry import BuiltIn, Options, Splits

LABELS = ("even", "odd")


class ParityOptions(Options):
    length: int = Field(32, gt=0, description="maximum bits of a row")
    shortest: int = Field(0, ge=0, description="minimum bits of a row; 0: all rows have `length`")


def load(seed: int, options: ParityOptions = ParityOptions()) -> Splits:
    """Texts of zeros and ones, their labels, and the label of every beginning of them."""
    found: Splits = {}
    for place, split in enumerate(("train", "valid", "test")):
        random = np.random.default_rng([seed, place])
        rows = getattr(options, split)
        least = min(options.shortest or options.length, options.length)
        lengths = random.integers(least, options.length + 1, rows)
        bits = random.integers(0, 2, (rows, options.length))
        kept = [row[:length] for row, length in zip(bits, lengths, strict=True)]
        so_far = [[LABELS[count % 2] for count in row.cumsum().tolist()] for row in kept]
        found[split] = {
            "text": [" ".join(map(str, row)) for row in kept],
            "label": [answers[-1] for answers in so_far],
            "answers": [" ".join(answers) for answers in so_far],
        }
    return found


SET = BuiltIn(
    name="parity",
    roles=("text", "label", "answers"),
    description="parity of a bit string",
    size="10,000 train, 500 valid, 1,000 test rows of 32 bits",
    synthetic=True,
    load=load,
    options=ParityOptions,
)
