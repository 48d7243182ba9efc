"""GloVe word vectors (Pennington, Socher & Manning 2014); `kernels/glove.py` has the equations.

The vector of a word is w_i + w̃_i, as in the paper: the two differ by where they began alone.
"""

from typing import Literal

import numpy as np
from pydantic import Field

from attentif.errors import DataError
from attentif.kernels.glove import Cooccurrence, begin, glove_pass, weights
from attentif.text.fitted import FITTED, Row, Watch, no_progress
from attentif.text.vectors import WordStream, WordVectors
from attentif.text.word2vec import FittedVectors, VectorsConfig


@FITTED.register
class GloveConfig(VectorsConfig):
    """Word vectors from counts of co-occurrence, by weighted least squares."""

    kind: Literal["glove"] = Field("glove", description="word vectors from counts of co-occurrence, by weighted least squares")
    window: int = Field(10, gt=0, description="how many words before and after count as neighbours, each by 1 / distance")
    epochs: int = Field(15, gt=0, description="passes over the pairs of words that were seen together")
    x_max: float = Field(100.0, gt=0, description="pairs seen more often than this weigh no more")
    alpha: float = Field(0.75, gt=0, le=1, description="how fast the weight of rarer pairs falls")
    lr: float = Field(0.05, gt=0, description="of AdaGrad")

    def build(self) -> "Glove":
        return Glove(self)


class Glove(FittedVectors):
    config: GloveConfig

    def fit(self, examples: WordStream, watch: Watch = no_progress) -> list[Row]:
        config = self.config
        seen, done = np.zeros(len(examples.words), dtype=np.int64), 0
        table = Cooccurrence(len(examples.words), config.window)
        for piece in examples.pieces():
            table.count(piece)
            seen += np.bincount(piece[piece >= 0], minlength=len(seen))
            done += len(piece)
            watch("count co-occurrences", min(done, examples.size), examples.size)
        entries = table.entries()
        if not len(entries.counts):
            raise DataError("no two words stand together in the text")
        f = weights(entries.counts, config.x_max, config.alpha)
        parameters, rng = begin(len(examples.words), config.size, config.seed), np.random.default_rng([config.seed, 1])
        rows: list[Row] = []
        for epoch in range(1, config.epochs + 1):
            watch("glove", epoch - 1, config.epochs)
            cost = glove_pass(entries, f, rng.permutation(len(f)), parameters, config.lr)
            rows.append({"epoch": epoch, "loss": cost / len(f)})
        watch("glove", config.epochs, config.epochs)
        order = [number for number in np.argsort(-seen, kind="stable").tolist() if seen[number]]
        matrix = (parameters.words + parameters.contexts)[order, :-1]
        self.vectors = WordVectors([examples.words[number] for number in order], matrix)
        return rows
