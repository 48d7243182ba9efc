"""Word dropout (Iyyer et al. 2015): tokens replaced by [UNK] at random in training."""

from dataclasses import replace

import torch

from attentif.models import Input
from attentif.text import Tokenizer


def drop_words(source: Input, share: float, tokenizer: Tokenizer) -> Input:
    """Replace a share of the tokens by [UNK]; special tokens and padding stay."""
    ids = source.data
    unknown = next(tokenizer.special[name] for name in ("unk", "mask", "pad") if name in tokenizer.special)  # LLaMA 3 has only the last
    frame = torch.tensor(
        [tokenizer.pad, *(token for some in tokenizer.frame_for("cls").around(pair=True) for token in some)], device=ids.device
    )
    hidden = (torch.rand(ids.shape, device=ids.device) < share) & ~torch.isin(ids, frame)
    return replace(source, data=ids.masked_fill(hidden, unknown))
