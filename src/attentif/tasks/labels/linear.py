"""A linear classifier of words and runs of words, each weighted by how much it speaks for a class (Wang & Manning 2012).

    f_t   = (1 + log n_t) · (1 + log((1 + N) / (1 + N_t))), scaled to ‖f‖₂ = 1          TF-IDF of words, pairs and triples
    r_c,t = log (p_t / ‖p‖₁) / (q_t / ‖q‖₁),   p = 1 + Σ_{y = c} 1[f > 0],   q = 1 + Σ_{y ≠ c} 1[f > 0]
    s_c   = w_cᵀ (f ∘ r_c) + b_c,              w, b by logistic regression of c against the rest; s are log-odds

n: how often a term stands in the text; N_t: in how many of the N training texts. Wang & Manning take the presence of terms for f; TF-IDF
in its place was better wherever it was tried here. A single answer among more than two classes has p_c = σ(s_c) / Σ σ(s).

What is fitted is kept as numbers and words (safetensors): w ∘ r is one vector a class, and `Linear.load` needs nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentif.errors import RunError
from attentif.files import replacing

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
WORDS_AND_MARKS = r"\w+|[^\w\s]"  # "!" and "?" speak for a class too
LONGEST = 3  # words in a run
STRENGTH = 10.0  # how little the logistic regression is held back (1 / λ)
ENOUGH = 1000  # texts from which on a term that stands in one of them alone is left out


@dataclass(frozen=True)
class Linear:
    """Log-odds of each class: for two classes with one answer, those of the second (one column)."""

    terms: list[str]
    idf: Floats  # (terms,)
    weights: Floats  # (terms, columns)
    bias: Floats  # (columns,)

    @classmethod
    def fit(cls, texts: Sequence[str], labels: Ints, classes: int) -> "Linear":
        """`labels`: (N,) numbers of classes, or (N, classes) of 0 and 1 where a text may have several."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(
            ngram_range=(1, LONGEST), sublinear_tf=True, token_pattern=WORDS_AND_MARKS, min_df=2 if len(texts) >= ENOUGH else 1
        )
        x = vectorizer.fit_transform(texts)
        columns = [_fitted(x, own) for own in sides(labels, classes)]
        weights = np.stack([column[0] for column in columns], axis=1)
        return cls(vectorizer.get_feature_names_out().tolist(), vectorizer.idf_, weights, np.array([column[1] for column in columns]))

    def log_odds(self, texts: Sequence[str]) -> Floats:
        """(N, columns)"""
        return np.asarray(self._features(texts) @ self.weights) + self.bias

    def logits(self, texts: Sequence[str], classes: int, *, several: bool = False) -> Floats:
        """(N, classes): log-odds where a text may have several labels, else logarithms of probabilities that add up to 1."""
        s = self.log_odds(texts)
        if several:
            return s
        if classes == 2:
            s = np.concatenate([-s, s], axis=1)
        log_p = -np.logaddexp(0, -s)
        return log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True)

    def _features(self, texts: Sequence[str]) -> Any:
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(
            ngram_range=(1, LONGEST), sublinear_tf=True, token_pattern=WORDS_AND_MARKS, vocabulary={t: n for n, t in enumerate(self.terms)}
        )
        vectorizer.idf_ = self.idf
        return vectorizer.transform(texts)

    def save(self, path: Path) -> None:
        from safetensors.numpy import save_file

        words = np.frombuffer("\n".join(self.terms).encode(), dtype=np.uint8)  # no term has a line end
        tensors: dict[str, NDArray[Any]] = {
            "terms": words,
            "idf": self.idf,
            "weights": np.ascontiguousarray(self.weights),
            "bias": self.bias,
        }
        with replacing(path) as temporary:
            save_file(tensors, temporary)
            temporary.chmod(0o644)

    @classmethod
    def load(cls, path: Path) -> "Linear":
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            tensors = load_file(path)
            made = cls(tensors["terms"].tobytes().decode().split("\n"), tensors["idf"], tensors["weights"], tensors["bias"])
            if not len(made.terms) == len(made.idf) == len(made.weights) or made.weights.shape[1] != len(made.bias):
                raise ValueError("its parts have different sizes")
        except FileNotFoundError:
            raise RunError("no such file: the linear part of this run is missing", file=path) from None
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise RunError(f"this linear model cannot be used: {error}", file=path) from None
        return made


def sides(labels: Ints, classes: int) -> list[Ints]:
    """What each column of log-odds tells apart, as 0 and 1."""
    if labels.ndim == 2:
        return list(labels.T)
    return [(labels == c).astype(np.int64) for c in ((1,) if classes == 2 else range(classes))]


def _fitted(x: Any, own: Ints) -> tuple[Floats, float]:
    """w ∘ r and b of one class against the rest."""
    if own.min() == own.max():  # nobody has it, or all: its share alone, with half an example on each side, decides
        return np.zeros(x.shape[1]), float(np.log((own.sum() + 0.5) / (len(own) - own.sum() + 0.5)))
    r = log_count_ratio((x > 0).astype(np.float64), own)
    model = logistic(x.multiply(r).tocsr(), own, STRENGTH)
    return np.asarray(r * model.coef_)[0], float(model.intercept_[0])


def log_count_ratio(x: Any, own: Ints) -> Floats:
    """(1, terms): how much more often a term stands in the texts with own = 1 than in the others, as a logarithm."""
    p, q = (1 + np.asarray(x[own == side].sum(0)) for side in (1, 0))
    return np.log(p / p.sum()) - np.log(q / q.sum())


def logistic(x: Any, own: Ints, strength: float) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=strength, solver="liblinear", random_state=0).fit(x, own)
