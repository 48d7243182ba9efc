"""Word2Vec by gensim (Mikolov et al. 2013).

    skip-gram   a word predicts each of its neighbours:        log σ(u_cᵀ v_w) + Σ_{n drawn} log σ(−u_nᵀ v_w)
    cbow        the mean of the neighbours predicts the word:  log σ(u_wᵀ v̄)   + Σ_{n drawn} log σ(−u_nᵀ v̄)

One thread, one seed: the same text gives the same vectors.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from attentif.errors import DataError, RunError
from attentif.files import write_json
from attentif.text.fitted import FITTED, Fitted, FittedConfig, Row, Watch, load_arrays, no_progress, save_arrays
from attentif.text.vectors import BREAK, WordStream, WordVectors

PAIRS = 100_000  # of neighbouring words that a score is made of
LONGEST = 1000  # words of a sentence given to gensim, which cuts those of ten thousand off


class VectorsConfig(FittedConfig):
    """Options of Word2Vec and GloVe."""

    family: ClassVar[str] = "words"

    size: int = Field(100, gt=0, description="components of a word's vector")
    window: int = Field(5, gt=0, description="how many words before and after count as neighbours")
    epochs: int = Field(5, gt=0, description="passes over the data")
    seed: int = Field(0, ge=0, lt=2**32, description="of the first vectors and of what is drawn")


@FITTED.register
class Word2VecConfig(VectorsConfig):
    """Word vectors by prediction of neighbours (gensim)."""

    kind: Literal["word2vec"] = Field("word2vec", description="word vectors by prediction of neighbours (gensim)")
    algorithm: Literal["skip-gram", "cbow"] = Field("skip-gram", description="a word predicts its neighbours, or they predict it")
    negative: int = Field(5, gt=0, description="words drawn at random against each true neighbour")
    sample: float = Field(1e-3, ge=0, description="subsampling threshold: words more frequent than this are randomly skipped (0: off)")
    lr: float = Field(0.025, gt=0, description="initial learning rate; decays to zero")

    def build(self) -> "Word2Vec":
        return Word2Vec(self)


class FittedVectors(Fitted[WordStream]):
    """A model that consists of word vectors."""

    vectors: WordVectors

    def __init__(self, config: VectorsConfig) -> None:
        self.config = config

    def score(self, examples: WordStream) -> dict[str, float]:
        return {"together": cooccurrence_accuracy(self.vectors, examples, self.config.window)}

    def save(self, folder: Path) -> None:
        save_arrays(folder, {"vectors": self.vectors.matrix})
        write_json(folder / "words.json", self.vectors.words)

    def load(self, folder: Path) -> Self:
        import json

        file = folder / "words.json"
        try:
            words = json.loads(file.read_text(encoding="utf-8"))
            self.vectors = WordVectors(words, load_arrays(folder, "vectors")["vectors"])
        except FileNotFoundError:
            raise RunError("no such file: the run is incomplete", file=file) from None
        except ValueError as error:
            raise RunError(f"is damaged: {error}", file=file) from None
        return self

    def sizes(self) -> dict[str, int]:
        return {"vectors": int(self.vectors.matrix.size)}


class Word2Vec(FittedVectors):
    config: Word2VecConfig

    def fit(self, examples: WordStream, watch: Watch = no_progress) -> list[Row]:
        from gensim.models import Word2Vec as Gensim
        from gensim.models.callbacks import CallbackAny2Vec

        logging.getLogger("gensim").setLevel(logging.ERROR)  # it warns of its own estimate of the progress
        config = self.config
        rows: list[Row] = []

        class Note(CallbackAny2Vec):  # type: ignore[misc]
            def on_epoch_end(self, model: Any) -> None:
                rows.append({"epoch": len(rows) + 1, "loss": float(model.running_training_loss) / max(model.corpus_total_words, 1)})
                model.running_training_loss = 0.0

        model = Gensim(
            vector_size=config.size,
            window=config.window,
            sg=int(config.algorithm == "skip-gram"),
            negative=config.negative,
            sample=config.sample,
            alpha=config.lr,
            min_count=1,
            seed=config.seed + 1,  # gensim takes 0 for none
            workers=1,
        )
        model.build_vocab(_Sentences(examples, "count words", 1, watch))
        if not len(model.wv):
            raise DataError("the text holds no word")
        model.train(
            _Sentences(examples, "word2vec", config.epochs, watch),
            total_examples=model.corpus_count,
            epochs=config.epochs,
            compute_loss=True,
            callbacks=[Note()],
        )
        self.vectors = WordVectors(model.wv.index_to_key, model.wv.vectors.astype(np.float32))
        return rows


class _Sentences:
    """Sentences as lists of words, iterable repeatedly, with progress."""

    def __init__(self, stream: WordStream, what: str, passes: int, watch: Watch) -> None:
        self.stream, self.what, self.total, self.watch = stream, what, passes * stream.size, watch
        self.done = 0

    def __iter__(self) -> Iterator[list[str]]:
        words = self.stream.words
        for piece in self.stream.pieces():
            for sentence in np.split(piece, np.flatnonzero(piece == BREAK)):
                named = [words[number] for number in sentence.tolist() if number >= 0]
                for start in range(0, len(named), LONGEST):
                    yield named[start : start + LONGEST]
            self.done += len(piece)
            self.watch(self.what, min(self.done, self.total), self.total)


def cooccurrence_accuracy(vectors: WordVectors, stream: WordStream, window: int) -> float:
    """How often two neighbouring words are more similar than the first and a random word.

    A half is chance, which is all that one-hot vectors reach: no two of their words are nearer than any other two.
    """
    numbers = [vectors.find(word) for word in stream.words]
    number = np.array([-1 if row is None else row for row in numbers], dtype=np.int64)
    ones, others = [], []
    for piece in stream.pieces():
        known = np.where(piece >= 0, number[piece], -1)
        broken = np.cumsum(piece == BREAK)
        for distance in range(1, window + 1):
            together = (known[:-distance] >= 0) & (known[distance:] >= 0) & (broken[:-distance] == broken[distance:])
            ones.append(known[:-distance][together])
            others.append(known[distance:][together])
    one, other = (np.concatenate(side) if side else np.empty(0, dtype=np.int64) for side in (ones, others))
    if not len(one):
        return float("nan")
    rng = np.random.default_rng(0)
    chosen = rng.permutation(len(one))[:PAIRS]
    one, other = one[chosen], other[chosen]
    drawn = rng.permutation(other)
    fair = (one != other) & (one != drawn)  # a word is no neighbour of itself
    near, far = (np.einsum("ij,ij->i", vectors.unit[one[fair]], vectors.unit[side[fair]]) for side in (other, drawn))
    return float(((near > far) + (near == far) / 2).mean()) if fair.any() else float("nan")
