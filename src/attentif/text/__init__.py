"""Tokenizers and text models."""

import attentif.text.kinds  # noqa: F401 (registers them)
from attentif.text.learned import TOKENIZERS, TokenizerConfig
from attentif.text.tokenizer import Encoding, Tokenizer, Wrap

__all__ = ["TOKENIZERS", "Encoding", "Tokenizer", "TokenizerConfig", "Wrap"]
