"""A linear model of words for numbers: ridge regression on TF-IDF, the baseline of `regress` and what its network is stacked on.

ŷ = wᵀ f + b,   w, b = argmin Σ (y - ŷ)² + λ‖w‖²        f as in `classification/linear.py`, λ by the error on rows left out
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attentif.tasks.classification.linear import Floats, Ints, LinearModel, Terms, count_terms, reads_of

STRENGTHS = (0.3, 1.0, 3.0)  # λ
FOLDS, SEED = 5, 0


def fit_ridge(texts: Sequence[str], values: Floats) -> tuple[LinearModel, Floats]:
    """Fit a model on all rows; also return out-of-fold predictions for each row."""
    from scipy.sparse import hstack

    terms, parts = [], []
    for reads in reads_of(len(texts)):
        vectorizer, counted = count_terms(reads, texts)
        parts.append(counted)
        terms.append(Terms(reads, vectorizer.get_feature_names_out().tolist(), vectorizer.idf_))
    x = hstack(parts).tocsr()
    part = np.random.default_rng(SEED).permutation(len(texts)) % FOLDS
    said = {strength: _predict_left_out(x, values, part, strength) for strength in STRENGTHS}
    best = min(STRENGTHS, key=lambda strength: float(np.square(said[strength] - values).mean()))
    model = _ridge(x, values, best)
    return LinearModel(terms, np.asarray(model.coef_).reshape(-1, 1), np.array([float(model.intercept_)])), said[best]


def _predict_left_out(x: Any, values: Floats, part: Ints, strength: float) -> Floats:
    found = np.full(len(values), values.mean())
    for own in np.unique(part):
        rest = part != own
        if rest.any():
            found[~rest] = _ridge(x[rest], values[rest], strength).predict(x[~rest])
    return found


def _ridge(x: Any, values: Floats, strength: float) -> Any:
    from sklearn.linear_model import Ridge

    return Ridge(alpha=strength, solver="sparse_cg", random_state=SEED).fit(x, values)
