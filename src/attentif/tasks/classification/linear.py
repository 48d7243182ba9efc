"""A linear classifier of words, runs of words and pieces of words, each weighted by how much it speaks for a class (Wang & Manning 2012).

    f_t   = (1 + log n_t) · (1 + log((1 + N) / (1 + N_t)))               TF-IDF of words, pairs and triples, scaled to ‖f‖₂ = 1;
                                                                         beside it that of 3 to 5 letters of a word, scaled alike
    r_c,t = log (p_t / ‖p‖₁) / (q_t / ‖q‖₁),   p = 1 + Σ_{y = c} 1[f > 0],   q = 1 + Σ_{y ≠ c} 1[f > 0]         words and letters apart
    s_c   = w_cᵀ (f ∘ r_c) + b_c,              w, b by logistic regression of c against the rest; s are log-odds

n: how often a term stands in the text; N_t: in how many of the N training texts. Wang & Manning take the presence of terms for f; TF-IDF
in its place was better wherever it was tried here. Letters know words that training never had by their stems and endings: on French reviews
of series kept apart they took the loss from 0.29 to 0.25. A single answer among more than two classes has p_c = σ(s_c) / Σ σ(s).

What is fitted is kept as numbers and words (safetensors): w ∘ r is one vector a class, and `LinearModel.load` needs nothing else.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentif.errors import RunError
from attentif.files import replace_atomically

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
WORDS_AND_MARKS = r"\w+|[^\w\s]"  # "!" and "?" speak for a class too
READS: dict[str, dict[str, Any]] = {  # what is counted in a text, as scikit-learn calls it
    "words": {"ngram_range": (1, 3), "token_pattern": WORDS_AND_MARKS},
    "letters": {"ngram_range": (3, 5), "analyzer": "char_wb"},
    "pairs": {"ngram_range": (1, 2), "token_pattern": WORDS_AND_MARKS},  # of the plain baseline
}
PLAIN_STRENGTH = 10.0  # of the plain baseline, whose features are not weighted
STRENGTH = 3.0  # how little the logistic regression is held back (1 / λ)
ENOUGH = 1000  # texts from which on a term that stands in one of them alone is left out
PLENTY = 50_000  # texts from which on letters are left out: words alone know enough, and letters would take minutes


@dataclass(frozen=True)
class Terms:
    """Words, or letters, that stood in the training texts, and how rare each was there."""

    reads: str  # a key of READS
    names: list[str]
    idf: Floats  # (terms,)

    def features(self, texts: Sequence[str]) -> Any:
        """(N, terms), sparse"""
        vectorizer = _vectorizer(self.reads, vocabulary={term: n for n, term in enumerate(self.names)})
        vectorizer.idf_ = self.idf
        return vectorizer.transform(texts)


@dataclass(frozen=True)
class LinearModel:
    """Log-odds of each class: for two classes with one answer, those of the second (one column)."""

    terms: list[Terms]
    weights: Floats  # (all terms, columns)
    bias: Floats  # (columns,)

    @classmethod
    def fit(cls, texts: Sequence[str], labels: Ints, classes: int, reads: Sequence[str] = ()) -> "LinearModel":
        """`labels`: (N,) numbers of classes, or (N, classes) of 0 and 1 where a text may have several; `reads`: keys of READS."""
        return next(cls.fits(texts, labels, classes, [np.arange(len(texts))], reads))

    @classmethod
    def fits(
        cls, texts: Sequence[str], labels: Ints, classes: int, choices: Sequence[Ints], reads: Sequence[str] = ()
    ) -> "Iterator[LinearModel]":
        """Fit a model on each choice of rows, all over the terms of all texts; yield them one by one."""
        terms, parts = [], []
        for own in reads or reads_of(len(texts)):
            vectorizer, counted = count_terms(own, texts)
            parts.append(counted)
            terms.append(Terms(own, vectorizer.get_feature_names_out().tolist(), vectorizer.idf_))
        for rows in choices:
            columns = [_fit_class([part[rows] for part in parts], side[rows]) for side in sides(labels, classes)]
            yield cls(terms, np.stack([column[0] for column in columns], axis=1), np.array([column[1] for column in columns]))

    @classmethod
    def fit_plain(cls, texts: Sequence[str], labels: Ints, classes: int) -> "LinearModel":
        """Fit on TF-IDF of words and pairs, unweighted: the usual baseline."""
        vectorizer = _vectorizer("pairs")
        x = vectorizer.fit_transform(texts)
        columns = [_fit_class([x], side, weighted=False) for side in sides(labels, classes)]
        terms = Terms("pairs", vectorizer.get_feature_names_out().tolist(), vectorizer.idf_)
        return cls([terms], np.stack([column[0] for column in columns], axis=1), np.array([column[1] for column in columns]))

    def again(self, texts: Sequence[str], labels: Ints, classes: int) -> "LinearModel":
        """Fit again on other texts, with the same kinds of terms."""
        reads = [own.reads for own in self.terms]
        return LinearModel.fit_plain(texts, labels, classes) if reads == ["pairs"] else LinearModel.fit(texts, labels, classes, reads)

    def log_odds(self, texts: Sequence[str]) -> Floats:
        """(N, columns)"""
        from scipy.sparse import hstack

        return np.asarray(hstack([own.features(texts) for own in self.terms]) @ self.weights) + self.bias

    def logits(self, texts: Sequence[str], classes: int, *, several: bool = False) -> Floats:
        """(N, classes): log-odds where a text may have several labels, else logarithms of probabilities that add up to 1."""
        return as_logits(self.log_odds(texts), classes, several=several)

    def save(self, path: Path, **beside: Floats) -> None:
        """Save; `beside` are further arrays of the caller."""
        from safetensors.numpy import save_file

        tensors: dict[str, NDArray[Any]] = {"weights": np.ascontiguousarray(self.weights), "bias": self.bias, **beside}
        for own in self.terms:
            names = "\n".join(own.names)  # no term has a line end
            tensors |= {own.reads: np.frombuffer(names.encode(), dtype=np.uint8), f"{own.reads}.idf": own.idf}
        with replace_atomically(path) as temporary:
            save_file(tensors, temporary)
            temporary.chmod(0o644)

    @classmethod
    def load(cls, path: Path) -> "LinearModel":
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            tensors = load_file(path)
            made = cls([_load_terms(reads, tensors) for reads in READS if reads in tensors], tensors["weights"], tensors["bias"])
            if sum(len(own.idf) for own in made.terms) != len(made.weights) or made.weights.shape[1] != len(made.bias):
                raise ValueError("its parts have different sizes")
        except FileNotFoundError:
            raise RunError("no such file: the linear part of this run is missing", file=path) from None
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise RunError(f"this linear model cannot be used: {error}", file=path) from None
        return made


def reads_of(texts: int) -> list[str]:
    """What is counted, depending on the number of texts."""
    return ["words", "letters"] if texts < PLENTY else ["words"]


def _vectorizer(reads: str, **settings: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(sublinear_tf=True, **READS[reads], **settings)


def count_terms(reads: str, texts: Sequence[str]) -> tuple[Any, Any]:
    """Count the terms of these texts; return the terms and their features (N, terms)."""
    if len(texts) >= ENOUGH:
        common = _vectorizer(reads, min_df=2)
        with suppress(ValueError):  # no term stands in two texts: each is one long word of its own, as DNA is
            return common, common.fit_transform(texts)
    every = _vectorizer(reads)
    return every, every.fit_transform(texts)


def _load_terms(reads: str, tensors: Mapping[str, NDArray[Any]]) -> Terms:
    made = Terms(reads, tensors[reads].tobytes().decode().split("\n"), tensors[f"{reads}.idf"])
    if len(made.names) != len(made.idf):
        raise ValueError(f"its {reads} have different sizes")
    return made


def as_logits(s: Floats, classes: int, *, several: bool) -> Floats:
    """(N, columns) of log-odds to (N, classes): the same where a text may have several labels, else logarithms of probabilities."""
    if several:
        return s
    if classes == 2:
        s = np.concatenate([-s, s], axis=1)
    log_p = -np.logaddexp(0, -s)
    return log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True)


def sides(labels: Ints, classes: int) -> list[Ints]:
    """What each column of log-odds tells apart, as 0 and 1."""
    if labels.ndim == 2:
        return list(labels.T)
    return [(labels == c).astype(np.int64) for c in ((1,) if classes == 2 else range(classes))]


def _fit_class(parts: Sequence[Any], own: Ints, *, weighted: bool = True) -> tuple[Floats, float]:
    """w ∘ r and b of one class against the rest; unweighted, r is 1."""
    from scipy.sparse import hstack

    if own.min() == own.max():  # nobody has it, or all: its share alone, with half an example on each side, decides
        return np.zeros(sum(x.shape[1] for x in parts)), float(np.log((own.sum() + 0.5) / (len(own) - own.sum() + 0.5)))
    if not weighted:
        plain = logistic(hstack(parts).tocsr(), own, PLAIN_STRENGTH)
        return np.asarray(plain.coef_)[0], float(plain.intercept_[0])
    r = np.concatenate([log_count_ratio((x > 0).astype(np.float64), own) for x in parts], axis=1)
    model = logistic(hstack(parts).tocsr().multiply(r).tocsr(), own, STRENGTH)
    return np.asarray(r * model.coef_)[0], float(model.intercept_[0])


def log_count_ratio(x: Any, own: Ints) -> Floats:
    """(1, terms): how much more often a term stands in the texts with own = 1 than in the others, as a logarithm."""
    p, q = (1 + np.asarray(x[own == side].sum(0)) for side in (1, 0))
    return np.log(p / p.sum()) - np.log(q / q.sum())


def logistic(x: Any, own: Ints, strength: float) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=strength, solver="liblinear", random_state=0).fit(x, own)
