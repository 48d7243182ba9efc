"""Heads: from the last vectors to predictions, one file each; importing this registers them all."""

import pkgutil
from importlib import import_module

from attentif.models.heads.base import HEADS, Head, HeadConfig
from attentif.models.heads.classify import ClassifyHead, ClassifyHeadConfig
from attentif.models.heads.language import LanguageHead, LanguageHeadConfig
from attentif.models.heads.pooling import pool_sequence
from attentif.models.heads.tokens import TokensHead, TokensHeadConfig

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "HEADS",
    "ClassifyHead",
    "ClassifyHeadConfig",
    "Head",
    "HeadConfig",
    "LanguageHead",
    "LanguageHeadConfig",
    "TokensHead",
    "TokensHeadConfig",
    "pool_sequence",
]
