"""Every mixer, one file an idea; importing this package registers them all."""

from attentif.nn.mixers.attention import Attention, AttentionConfig
from attentif.nn.mixers.cross import CrossAttention, CrossAttentionConfig

__all__ = ["Attention", "AttentionConfig", "CrossAttention", "CrossAttentionConfig"]
