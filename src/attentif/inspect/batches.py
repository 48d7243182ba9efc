"""A few rows of tokens as a batch: what every function here looks at."""

from collections.abc import Sequence

import torch
from torch.nn.utils.rnn import pad_sequence

from attentif.errors import UsageError
from attentif.models import Batch, Input
from attentif.nn.seq import Seq


def batch_of(rows: Sequence[Sequence[int]], target: Sequence[Sequence[int]] | None = None) -> Batch:
    """Token ids, a list a row, padded: `batch_of([run.tokenizer.encode("Une phrase").ids])`; `target` is what a decoder reads besides."""
    if not rows or not all(rows) or (target is not None and (len(target) != len(rows) or not all(target))):
        raise UsageError("a batch needs a row of tokens at least, none of them empty, and as many targets as rows")
    return Batch(_padded(rows), None if target is None else _padded(target))


def _padded(rows: Sequence[Sequence[int]]) -> Input:
    return Input(pad_sequence([torch.tensor(list(row)) for row in rows], batch_first=True), Seq.padded([len(row) for row in rows]))
