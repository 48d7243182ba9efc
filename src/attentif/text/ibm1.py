"""IBM model 1: word alignment by expectation-maximisation (Brown et al. 1993); see `kernels/ibm1.py`.

It is attention before attention: P(a_j = i | e, f) says how much the target word j was written from the source word i, and the order of
words plays no part. Each sentence's source begins with the empty word, from which words without a source come.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from attentif.kernels.ibm1 import RaggedIds, TranslationTable, em_pass, look_up, uniform
from attentif.text.fitted import FITTED, Fitted, FittedConfig, Row, Watch, load_arrays, no_progress, save_arrays

Floats = NDArray[np.float64]
MIXED = 0.01  # of the target's frequencies in a score, so that no word of another text is impossible
LEAST = 1e-9  # probabilities below this are not kept


@FITTED.register
class IBM1Config(FittedConfig):
    """Word alignment of translations, by expectation and maximisation."""

    family = "alignment"

    kind: Literal["ibm1"] = Field("ibm1", description="word alignment of translations, by expectation and maximisation")
    epochs: int = Field(10, gt=0, description="passes over the pairs of sentences")

    def build(self) -> "IBM1":
        return IBM1(self)


@dataclass(frozen=True, slots=True)
class PairedText:
    """Sentence pairs as word numbers."""

    source: list[NDArray[np.integer]]
    target: list[NDArray[np.integer]]
    source_words: int
    target_words: int


class IBM1(Fitted[PairedText]):
    def __init__(self, config: IBM1Config) -> None:
        self.config = config
        self.table = TranslationTable(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0))
        self.frequencies = np.empty(0)  # of the target's words
        self.empty = 0  # the number of the empty word: one past the source's own

    def fit(self, examples: PairedText, watch: Watch = no_progress) -> list[Row]:
        self.empty = examples.source_words
        source, target = self._with_empty(examples.source), RaggedIds.from_sentences(examples.target)
        seen = np.bincount(target.ids, minlength=examples.target_words) + 1.0
        self.frequencies = seen / seen.sum()
        self.table = uniform(source, target, self.empty + 1, examples.target_words)
        rows: list[Row] = []
        for epoch in range(1, self.config.epochs + 1):
            watch("ibm1", epoch - 1, self.config.epochs)
            self.table, likelihood = em_pass(source, target, self.table)
            rows.append({"epoch": epoch, "log_likelihood": likelihood, "loss": -likelihood / max(len(target.ids), 1)})
        watch("ibm1", self.config.epochs, self.config.epochs)
        return rows

    def _with_empty(self, sentences: list[NDArray[np.integer]]) -> RaggedIds:
        return RaggedIds.from_sentences([np.concatenate([[self.empty], sentence]) for sentence in sentences])

    def translation(self, source: NDArray[np.integer], target: NDArray[np.integer]) -> Floats:
        """t(e_j | f_i) of two sentences, (T, S + 1), the empty word first."""
        f = np.concatenate([[self.empty], source]).astype(np.int64)
        pairs = np.stack(np.meshgrid(target.astype(np.int64), f, indexing="ij"))
        return look_up(self.table, pairs[1].ravel(), pairs[0].ravel()).reshape(len(target), len(f))

    def align(self, source: NDArray[np.integer], target: NDArray[np.integer]) -> Floats:
        """P(a_j = i | e, f), (T, S + 1); words without a known source align to the empty word."""
        t = self.translation(source, target)
        total = t.sum(1, keepdims=True)
        t[total[:, 0] == 0, 0] = 1.0
        return t / np.where(total, total, 1.0)

    def translations(self, word: int, count: int = 5) -> list[tuple[int, float]]:
        """Return the most likely translations of a source word (or of the empty one)."""
        own = slice(self.table.starts[word], self.table.starts[word + 1])
        best = np.argsort(-self.table.t[own], kind="stable")[:count]
        return [(int(self.table.words[own][n]), float(self.table.t[own][n])) for n in best]

    def nats(self, examples: PairedText) -> list[Floats]:
        """Return −log P of each target word of each pair, mixed with 1 % of its frequency."""
        found = []
        for source, target in zip(examples.source, examples.target, strict=True):
            p = self.translation(source, target).mean(1)
            found.append(-np.log((1 - MIXED) * p + MIXED * self.frequencies[target]))
        return found

    def score(self, examples: PairedText) -> dict[str, float]:
        return {"loss": float(np.concatenate(self.nats(examples)).mean())}

    def save(self, folder: Path) -> None:
        rows = np.repeat(np.arange(len(self.table.starts) - 1), np.diff(self.table.starts))
        kept = self.table.t >= LEAST
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=len(self.table.starts) - 1))])
        arrays = {"starts": starts, "words": self.table.words[kept], "t": self.table.t[kept], "frequencies": self.frequencies}
        save_arrays(folder, arrays)

    def load(self, folder: Path) -> Self:
        arrays = load_arrays(folder, "starts", "words", "t", "frequencies")
        self.table = TranslationTable(arrays["starts"], arrays["words"], arrays["t"])
        self.frequencies, self.empty = arrays["frequencies"], len(arrays["starts"]) - 2
        return self

    def sizes(self) -> dict[str, int]:
        return {"probabilities": len(self.table.t)}
