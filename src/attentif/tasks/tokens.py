"""Losses of tasks that predict tokens.

Only the places that are scored meet the vocabulary: the head is a matrix of V rows, often the dearest of a small model.
"""

from torch import Tensor

from attentif.models import Batch, Model
from attentif.models.heads import LanguageHead
from attentif.nn.seq import Seq
from attentif.tasks.ragged import UNSCORED


def scored_vectors(model: Model, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Seq]:
    """Last vectors (n, D) and labels (n,) of the scored places, their indices among the flattened places, and the Seq of all places."""
    assert batch.labels is not None
    x, seq = model.hidden(batch)
    return *scored(x, batch.labels), seq


def scored(x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The vectors and labels of the places that have one, and their indices among the flattened places."""
    labels = labels.flatten()
    places = (labels != UNSCORED).nonzero().squeeze(1)
    x = x.reshape(-1, x.shape[-1])
    if len(places) < len(labels):
        x, labels = x.index_select(0, places), labels.index_select(0, places)
    return x, labels, places


def scored_logits(model: Model, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Seq]:
    """The same with logits (n, V) instead of vectors."""
    x, labels, places, seq = scored_vectors(model, batch)
    return model.head(x, seq), labels, places, seq


def token_loss(model: Model, batch: Batch, smoothing: float = 0.0) -> tuple[Tensor, int]:
    """Summed cross-entropy (Szegedy et al. 2016 where smoothed), and how many tokens it is summed over."""
    assert isinstance(model.head, LanguageHead)  # what the tasks' `adapt` gives every model
    x, labels, _, _ = scored_vectors(model, batch)
    return model.head.loss(x, labels, smoothing), len(labels)
