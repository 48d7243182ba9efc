"""Words hidden at random in training, so that none may be relied upon alone (word dropout; Iyyer et al. 2015)."""

from dataclasses import replace

import torch

from attentif.models import Batch
from attentif.text import Tokenizer


def hide(batch: Batch, share: float, tokenizer: Tokenizer) -> Batch:
    """The batch with a share of its tokens turned into [UNK]; those that frame a text or fill a row stay."""
    ids = batch.source.data
    unknown = tokenizer.mask if tokenizer.unk is None else tokenizer.unk
    frame = torch.tensor(
        [tokenizer.pad, *(token for some in tokenizer.framed("cls").around(pair=True) for token in some)], device=ids.device
    )
    hidden = (torch.rand(ids.shape, device=ids.device) < share) & ~torch.isin(ids, frame)
    return replace(batch, source=replace(batch.source, data=ids.masked_fill(hidden, unknown)))
