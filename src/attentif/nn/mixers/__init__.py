"""All mixers, one file each; importing this package registers them."""

import pkgutil
from importlib import import_module

from attentif.nn.mixers.attention import Attention, AttentionConfig
from attentif.nn.mixers.cross import CrossAttention, CrossAttentionConfig

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["Attention", "AttentionConfig", "CrossAttention", "CrossAttentionConfig"]
