"""Token ids of large texts: words that were seen before are looked up instead of encoded again.

    ids(text) = ids(w_1) + ids(w_2) + ...        a text cut before each run of spaces and line ends

holds where the tokenizer cuts there itself and no rule of it looks further: byte-level BPE with GPT-2's expression, and WordPiece, after
normalisers that change a character alone or with its combining marks. Words repeat (Zipf's law), so that nearly all text is looked up.
Of every other tokenizer, whole texts are encoded.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from attentif.text.tokenizer import Tokenizer

MEMORY = 100_000_000  # bytes of looked-up words, about; then they are collected anew
ENTRY = 200  # bytes that a word takes besides its characters and ids
# Spaces and line ends, then what follows. Other white space (\u00a0, \f) is not parted from those after it: GPT-2's expression takes both.
WORDS = re.compile(r"[ \n\r\t]*[^ \n\r\t]+(?:(?<=[^\S \n\r\t])[ \n\r\t]+[^ \n\r\t]*)*|[ \n\r\t]+")
MODELS = ("BPE", "WordPiece", "WordLevel")


class WordEncoder:
    """Texts to the bytes of their ids, without special tokens."""

    def __init__(self, tokenizer: Tokenizer, dtype: np.dtype[Any]) -> None:
        self.tokenizer, self.dtype = tokenizer, dtype
        self.by_words = cuts_at_spaces(tokenizer)
        self.known: dict[str, bytes] = {}
        self.memory = 0

    def encode(self, texts: Sequence[str]) -> list[bytes]:
        if not self.by_words:
            return self._encode_whole(texts)
        cut = [WORDS.findall(text) for text in texts]
        if self.memory > MEMORY:
            self.known, self.memory = {}, 0
        if missing := list({word: None for words in cut for word in words if word not in self.known}):
            found = self._encode_whole(missing)
            self.known |= zip(missing, found, strict=True)
            self.memory += sum(ENTRY + len(word) + len(ids) for word, ids in zip(missing, found, strict=True))
        return [b"".join(map(self.known.__getitem__, words)) for words in cut]

    def _encode_whole(self, texts: Sequence[str]) -> list[bytes]:
        return [ids.astype(self.dtype).tobytes() for ids in self.tokenizer.ids_batch(texts, wrap="none")]


def cuts_at_spaces(tokenizer: Tokenizer) -> bool:
    """Whether encoding word by word gives the ids of the whole text."""
    said = json.loads(tokenizer.rust.to_str())
    model, added = said["model"], said["added_tokens"]
    if model["type"] not in MODELS or model.get("dropout") or not all(token["special"] for token in added):
        return False
    *digits, cutter = _steps(said["pre_tokenizer"])
    normalizers = {step.get("type") for step in _steps(said["normalizer"])}
    if any(step["type"] != "Digits" for step in digits):
        return False
    if cutter.get("type") == "BertPreTokenizer":  # white space is dropped: what a normaliser removes cannot join two words
        return normalizers <= {None, "NFC", "NFD", "Lowercase", "StripAccents", "BertNormalizer"}
    by_expression = cutter.get("type") == "ByteLevel" and cutter["use_regex"] and not cutter["add_prefix_space"]
    return by_expression and normalizers <= {None, "NFC", "NFD", "Lowercase"}


def _steps(said: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The steps of a sequence, or the one step."""
    if said is not None and said["type"] == "Sequence":
        return list(said.get("normalizers") or said.get("pretokenizers") or [{}])
    return [said or {}]
