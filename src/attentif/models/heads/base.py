"""What a head is: it reads the last vectors and their Seq, and returns logits."""

from typing import Annotated, ClassVar, Self

from torch import nn

from attentif.config import Config, OneOf, Registry
from attentif.errors import ConfigError
from attentif.models.frontends.base import ANY_SIZE


class HeadConfig(Config):
    """Base of every head's configuration."""

    kind: str
    from_data: ClassVar[tuple[str, ...]] = ()  # keys that the data fill in where they are left open

    def build(self, width: int, embedding: nn.Embedding | None, dropout: float) -> nn.Module:
        """`embedding` is that of the tokens being predicted, for heads that share it; `dropout` the model's."""
        raise NotImplementedError

    def with_any_size(self) -> Self:
        """What is still open filled with anything: enough to build the model on paper, before any data are read."""
        return self.changed(**{key: ANY_SIZE for key in self.from_data if getattr(self, key) is None})


def known(classes: int | None) -> int:
    """The number of classes, which a head cannot be built without."""
    if classes is None:
        raise ConfigError("head.classes: the number of classes is not known yet; give it, or train on labelled data")
    return classes


HEADS: Registry[HeadConfig] = Registry("head")
Head = Annotated[HeadConfig, OneOf(HEADS)]
