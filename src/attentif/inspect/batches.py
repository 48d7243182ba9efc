"""Small batches of token ids, to inspect models with."""

from collections.abc import Sequence

import torch
from torch.nn.utils.rnn import pad_sequence

from attentif.errors import UsageError
from attentif.models import Batch, Input
from attentif.nn.seq import Seq


def make_batch(rows: Sequence[Sequence[int]], target: Sequence[Sequence[int]] | None = None) -> Batch:
    """Pad rows of token ids to a batch; `target` is for the decoder of an encoder-decoder."""
    if not rows or not all(rows) or (target is not None and (len(target) != len(rows) or not all(target))):
        raise UsageError("a batch needs a row of tokens at least, none of them empty, and as many targets as rows")
    return Batch(_pad_rows(rows), None if target is None else _pad_rows(target))


def _pad_rows(rows: Sequence[Sequence[int]]) -> Input:
    return Input(pad_sequence([torch.tensor(list(row)) for row in rows], batch_first=True), Seq.from_padded([len(row) for row in rows]))
