"""What a frontend is: it reads an `Input` and returns (x, Seq); the Seq may differ from the one it was given (patches, a class token)."""

from typing import Annotated, ClassVar, Self

from torch import nn

from attentif.config import Config, OneOf, Registry

ANY_SIZE = 16  # of a vocabulary, a picture or a set of classes while nothing is known about the data


class FrontendConfig(Config):
    """Base of every frontend's configuration."""

    kind: str
    from_data: ClassVar[tuple[str, ...]] = ()  # keys that the data fill in where they are left open

    def build(self, width: int, dropout: float) -> nn.Module:
        raise NotImplementedError

    @property
    def limit(self) -> int | None:
        """Longest sequence it can read, where there is one."""
        return None

    def with_any_size(self) -> Self:
        """What is still open filled with anything: enough to build the model on paper, before any data are read."""
        return self.changed(**{key: ANY_SIZE for key in self.from_data if getattr(self, key) is None})


FRONTENDS: Registry[FrontendConfig] = Registry("frontend")
Frontend = Annotated[FrontendConfig, OneOf(FRONTENDS)]
