"""A file of word vectors, in the formats of word2vec or GloVe, opened as a fitted model."""

from functools import cached_property
from pathlib import Path
from typing import Any

from attentif.data import DataConfig
from attentif.errors import UsageError
from attentif.tasks.fitting import Material
from attentif.tasks.task import Say, Tokenizers
from attentif.tasks.vectors.words import Words
from attentif.text import TokenizerConfig
from attentif.text.vectors import WordVectors, read_vectors
from attentif.text.word2vec import Word2Vec, Word2VecConfig


class VectorsFile(Word2Vec):
    """Word vectors without the text that they were fitted to, read when they are first asked for."""

    def __init__(self, file: Path) -> None:
        super().__init__(Word2VecConfig())
        self.file = file

    @cached_property
    def vectors(self) -> WordVectors:  # type: ignore[override]
        return read_vectors(self.file)


class JudgedWords(Words):
    """Word vectors that can be scored against people's judgement alone."""

    def prepare(self, data: DataConfig, text: TokenizerConfig | Tokenizers, model: Any, say: Say) -> Material:
        raise UsageError("word vectors alone have no text to be scored on: name judgements or analogies (--data)")
