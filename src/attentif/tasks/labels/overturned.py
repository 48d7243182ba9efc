"""What a network that reads a linear model's evidence makes of its answers: which it keeps, which it overturns, and on what texts."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentif.tasks.labels.classify_data import LabelledTexts
from attentif.tasks.labels.evidence import Evidence, Told
from attentif.tasks.looking import running_text
from attentif.tasks.ragged import Ints

SHOWN = 6  # texts in the report
FEW = 80  # tokens of a text that can be taken in at a glance


def overturned(dataset: LabelledTexts, told: Told, evidence: Evidence, predicted: Ints, labels: list[str]) -> dict[str, Any]:
    """Who is right how often, and texts that the linear model was surely wrong about and the network is not, as plain data."""
    true, before = dataset.labels, told.answers.argmax(1)
    by_network, by_linear = predicted == true, before == true
    counts = {
        "both": int((by_network & by_linear).sum()),
        "network": int((by_network & ~by_linear).sum()),
        "linear": int((~by_network & by_linear).sum()),
        "neither": int((~by_network & ~by_linear).sum()),
    }
    mended = np.flatnonzero(by_network & ~by_linear)
    order = mended[np.lexsort((-told.answers.max(1)[mended], dataset.lengths[mended] > FEW))][:SHOWN]  # short ones first, then the surest
    examples = []
    for row in order.tolist():
        example = dataset.example(row)
        encoding = dataset.tokenizer.encode(*example.values(), max_len=len(dataset.ids[row]))
        examples.append(
            {
                "true": labels[int(true[row])],
                "linear": labels[int(before[row])],
                "probability": float(np.exp(told.answers[row].max())),
                "place": dataset.place(row),
                "tokens": running_text(encoding, *example.values()),
                "values": [round(float(value), 4) for value in _for_class(dataset, told, evidence, row, int(before[row]))],
            }
        )
    return {"counts": counts, "examples": examples}


def _for_class(dataset: LabelledTexts, told: Told, evidence: Evidence, row: int, answer: int) -> NDArray[np.float64]:
    """What each token says for a class, all kinds of terms together."""
    own = told.tokens[dataset.ids.starts[row] : dataset.ids.starts[row] + dataset.ids.lengths[row]] * evidence.scale
    columns = len(evidence.linear.bias)
    by_class = own.reshape(len(own), -1, columns).sum(1)
    return by_class[:, answer] if columns > 1 else by_class[:, 0] * (1 if answer else -1)
