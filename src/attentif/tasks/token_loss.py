"""Losses of tasks that predict tokens.

Logits are computed at scored positions alone: the head, a matrix of V rows, is often the largest cost of a small model.
"""

from torch import Tensor

from attentif.models import Batch, Model
from attentif.models.heads import LanguageHead
from attentif.nn.seq import Seq
from attentif.nn.state import StateTree
from attentif.tasks.narrow import labels_of, narrow
from attentif.tasks.ragged import UNSCORED


def scored_vectors(model: Model, batch: Batch, state: StateTree | None = None) -> tuple[Tensor, Tensor, Tensor, Seq]:
    """Hidden states (n, D), labels (n,) and flat indices of the scored positions, and the Seq of all positions."""
    x, seq = model.hidden(batch, state)
    return *select_scored(x, labels_of(batch)), seq


def select_scored(x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states, labels and flat indices of the positions that have a label."""
    labels = labels.flatten()
    places = (labels != UNSCORED).nonzero().squeeze(1)
    x = x.reshape(-1, x.shape[-1])
    if len(places) < len(labels):
        x, labels = x.index_select(0, places), labels.index_select(0, places)
    return x, labels, places


def scored_logits(model: Model, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Seq]:
    """As `scored_vectors`, with logits (n, V)."""
    x, labels, places, seq = scored_vectors(model, batch)
    return model.head(x, seq), labels, places, seq


def token_loss(model: Model, batch: Batch, smoothing: float = 0.0, state: StateTree | None = None) -> tuple[Tensor, int]:
    """Summed cross-entropy, with label smoothing (Szegedy et al. 2016), and the number of tokens."""
    x, labels, _, _ = scored_vectors(model, batch, state)
    return narrow(model.head, LanguageHead).loss(x, labels, smoothing), len(labels)
