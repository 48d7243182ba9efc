"""Losses of tasks that predict tokens.

Only the places that are scored meet the vocabulary: the head is a matrix of V rows, often the dearest of a small model.
"""

import torch.nn.functional as F
from torch import Tensor

from attentif.models import Batch, Model
from attentif.nn.seq import Seq
from attentif.tasks.ragged import UNSCORED


def scored_logits(model: Model, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Seq]:
    """Logits (n, V) and labels (n,) of the scored places, their indices among the flattened places, and the Seq of all places."""
    assert batch.labels is not None
    x, seq = model.hidden(batch)
    labels = batch.labels.flatten()
    places = (labels != UNSCORED).nonzero().squeeze(1)
    x = x.reshape(-1, x.shape[-1])
    if len(places) < len(labels):
        x, labels = x[places], labels[places]
    return model.head(x, seq), labels, places, seq


def token_loss(model: Model, batch: Batch, smoothing: float = 0.0) -> tuple[Tensor, int]:
    """Summed cross-entropy (Szegedy et al. 2016 where smoothed), and how many tokens it is summed over."""
    logits, labels, _, _ = scored_logits(model, batch)
    return F.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing), len(labels)
