"""Narrowing to types that `Task.check` and `Task.adapt` have established, with an error where they have not."""

from typing import TypeVar

from torch import Tensor

from attentif.models import Batch, Model
from attentif.models.frontends import TokenFrontend

T = TypeVar("T")


def narrow(value: object, kind: type[T]) -> T:
    """Return `value` as a `kind`; TypeError if it is another type."""
    if not isinstance(value, kind):
        raise TypeError(f"{kind.__name__} expected, not {type(value).__name__}")
    return value


def labels_of(batch: Batch) -> Tensor:
    """Return the labels of a batch; TypeError if it has none."""
    return narrow(batch.labels, Tensor)


def token_embedding(model: Model) -> TokenFrontend:
    """Return the frontend of a model that reads tokens."""
    return narrow(model.frontend, TokenFrontend)
