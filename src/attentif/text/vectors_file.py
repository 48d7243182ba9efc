"""A file of word vectors, in the formats of word2vec or GloVe, opened as a fitted model."""

from functools import cached_property
from pathlib import Path

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
