"""From data to vectors, one file a kind of data; importing this package registers them all."""

import pkgutil
from importlib import import_module

from attentif.models.frontends.base import ANY_SIZE, FRONTENDS, Frontend, FrontendConfig
from attentif.models.frontends.tokens import Tokens, TokensConfig, places

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["ANY_SIZE", "FRONTENDS", "Frontend", "FrontendConfig", "Tokens", "TokensConfig", "places"]
