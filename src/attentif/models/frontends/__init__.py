"""Frontends: data to vectors, one file per modality; importing this package registers them all."""

import pkgutil
from importlib import import_module

from attentif.models.frontends.base import ANY_SIZE, FRONTENDS, Frontend, FrontendConfig
from attentif.models.frontends.tokens import TokenFrontend, TokensConfig, position_ids

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["ANY_SIZE", "FRONTENDS", "Frontend", "FrontendConfig", "TokenFrontend", "TokensConfig", "position_ids"]
