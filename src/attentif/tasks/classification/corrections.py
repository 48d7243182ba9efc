"""Which answers of the linear model a stacked network corrects, which it spoils, and examples."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attentif.tasks.attention import running_text
from attentif.tasks.classification.data import LabelledTexts
from attentif.tasks.classification.linear_features import LinearFeatures, LinearReading
from attentif.tasks.classification.report import Correction, Corrections
from attentif.tasks.ragged import Ints

SHOWN = 6  # texts in the report
FEW = 80  # tokens of a text that can be taken in at a glance


def find_corrections(
    dataset: LabelledTexts, reading: LinearReading, features: LinearFeatures, predicted: Ints, labels: Sequence[str]
) -> Corrections:
    """Counts by who is right, and the texts that the linear model got most confidently wrong and the network right."""
    true, before = dataset.labels, reading.logits.argmax(1)
    by_network, by_linear = predicted == true, before == true
    counts = {
        "both": int((by_network & by_linear).sum()),
        "network": int((by_network & ~by_linear).sum()),
        "linear": int((~by_network & by_linear).sum()),
        "neither": int((~by_network & ~by_linear).sum()),
    }
    mended = np.flatnonzero(by_network & ~by_linear)
    order = mended[np.lexsort((-reading.logits.max(1)[mended], dataset.lengths[mended] > FEW))][:SHOWN]  # short ones first, then the surest
    examples: list[Correction] = []
    for row in order.tolist():
        example = dataset.example(row)
        encoding = dataset.tokenizer.encode(*example.values(), max_len=len(dataset.ids[row]))
        examples.append(
            {
                "true": labels[int(true[row])],
                "linear": labels[int(before[row])],
                "probability": float(np.exp(reading.logits[row].max())),
                "place": dataset.place(row),
                "tokens": running_text(encoding, *example.values()),
                "values": [round(float(value), 4) for value in _for_class(dataset, reading, features, row, int(before[row]))],
            }
        )
    return {"counts": counts, "examples": examples}


def _for_class(dataset: LabelledTexts, reading: LinearReading, features: LinearFeatures, row: int, answer: int) -> NDArray[np.float64]:
    """The contribution of each token to a class, summed over kinds of terms."""
    assert reading.tokens is not None
    own = reading.tokens[dataset.ids.starts[row] : dataset.ids.starts[row] + dataset.ids.lengths[row]] * features.scale
    columns = len(features.linear.bias)
    by_class = own.reshape(len(own), -1, columns).sum(1)
    return by_class[:, answer] if columns > 1 else by_class[:, 0] * (1 if answer else -1)
