"""Base of frontends: they map an `Input` to (x, Seq)."""

from typing import Annotated, ClassVar, Self

from torch import nn

from attentif.config import Config, OneOf, Registry

ANY_SIZE = 16  # placeholder for sizes that depend on the data


class FrontendConfig(Config):
    """Base of all frontend configurations."""

    kind: str
    from_data: ClassVar[tuple[str, ...]] = ()  # keys that the data fill in where they are left open

    def build(self, width: int, dropout: float) -> nn.Module:
        raise NotImplementedError

    @property
    def limit(self) -> int | None:
        """Longest sequence it can read, or None."""
        return None

    def with_any_size(self) -> Self:
        """Fill in open sizes with placeholders, to build the model before any data are read."""
        return self.replace(**{key: ANY_SIZE for key in self.from_data if getattr(self, key) is None})


FRONTENDS: Registry[FrontendConfig] = Registry("frontend")
Frontend = Annotated[FrontendConfig, OneOf(FRONTENDS)]
