"""Text to tokens and back."""

from attentif.text.kinds import TOKENIZERS, TokenizerConfig
from attentif.text.tokenizer import Encoding, Tokenizer, Wrap

__all__ = ["TOKENIZERS", "Encoding", "Tokenizer", "TokenizerConfig", "Wrap"]
