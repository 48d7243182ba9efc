"""Base of heads: they map the last vectors and their Seq to logits."""

from typing import Annotated, ClassVar, Self

from torch import nn

from attentif.config import Config, OneOf, Registry
from attentif.errors import ConfigError
from attentif.models.frontends.base import ANY_SIZE


class HeadConfig(Config):
    """Base of all head configurations."""

    kind: str
    from_data: ClassVar[tuple[str, ...]] = ()  # keys that the data fill in where they are left open

    def build(self, width: int, embedding: nn.Embedding | None, dropout: float) -> nn.Module:
        """Build the head; `embedding` is that of the predicted tokens, `dropout` the model's."""
        raise NotImplementedError

    def with_any_size(self) -> Self:
        """Fill in open sizes with placeholders, to build the model before any data are read."""
        return self.replace(**{key: ANY_SIZE for key in self.from_data if getattr(self, key) is None})


def require_classes(classes: int | None) -> int:
    """Return the number of classes, or raise if it is still unknown."""
    if classes is None:
        raise ConfigError("head.classes: the number of classes is not known yet; give it, or train on labelled data")
    return classes


HEADS: Registry[HeadConfig] = Registry("head")
Head = Annotated[HeadConfig, OneOf(HEADS)]
