"""Estimators for scikit-learn: texts in, labels, numbers or forecasts out.

    from attentif.sklearn import AttentifClassifier

    model = AttentifClassifier(overrides={"train": {"epochs": 3}}).fit(df["text"], df["label"])
    model.predict_proba(["Quel film !"])
    cross_val_score(AttentifClassifier(), texts, labels, cv=5)

A fit is a run like any other, in `out` or in a temporary folder that lives as long as the estimator.
"""

import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from attentif.api import Run, train
from attentif.data.readers import cell_text
from attentif.errors import UsageError
from attentif.tasks.details import EstimateAnswer, require_details
from attentif.training.progress import Silent, display

__all__ = ["AttentifClassifier", "AttentifForecaster", "AttentifRegressor"]


class _Estimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What a fit shares: a recipe, changes of it, and the run that comes out."""

    def __init__(
        self, recipe: str, overrides: Mapping[str, Any] | None = None, out: str | Path | None = None, seed: int = 0, verbose: bool = False
    ) -> None:
        self.recipe, self.overrides, self.out, self.seed, self.verbose = recipe, overrides, out, seed, verbose

    def _fit(self, data: Mapping[str, Any]) -> Run:
        """Train a run; `run_` holds it."""
        changes = {key: dict(values) for key, values in (self.overrides or {}).items()}
        given = dict(data) | changes.pop("data", {})
        changes["train"] = {"seed": self.seed, "baselines": False} | changes.get("train", {})
        if self.out is None:
            parent = tempfile.mkdtemp(prefix="attentif-")
            weakref.finalize(self, shutil.rmtree, parent, ignore_errors=True)
        place = Path(self.out) if self.out is not None else Path(parent) / "run"
        self.run_ = train(self.recipe, given, out=place, force=True, watch=display() if self.verbose else Silent(), **changes)
        return self.run_

    def __getstate__(self) -> dict[str, Any]:
        raise UsageError("a fitted estimator is a run: keep its folder (out=...) and open it with attentif.load", code="pickle")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "run_")


class _TextEstimator(_Estimator):
    """An estimator whose inputs are texts, or pairs of texts."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, True, False
        tags.non_deterministic = False
        return tags


class AttentifClassifier(ClassifierMixin, _TextEstimator):  # type: ignore[misc]
    """Classify texts (one column) or pairs of texts (two columns).

    Parameters: `recipe`, a recipe of classification (`attentif list recipes`); `overrides`, tables of its configuration, as far as they
    differ; `out`, the folder of the run; `seed`; `verbose`, whether progress is shown.
    """

    def __init__(
        self,
        recipe: str = "classify",
        overrides: Mapping[str, Any] | None = None,
        out: str | Path | None = None,
        seed: int = 0,
        verbose: bool = False,
    ) -> None:
        super().__init__(recipe, overrides, out, seed, verbose)

    def fit(self, X: Any, y: Any) -> Self:
        """Train on texts and their labels; a tenth of the rows is kept to choose by, a tenth to be scored on (`run_.results`)."""
        labels = np.asarray(y)
        if labels.ndim != 1 or len(labels) != len(X):
            raise ValueError(f"y has shape {labels.shape} where X has {len(X)} rows: expected one label per row")
        self.classes_ = np.unique(labels)
        self._fit({"train": (_as_texts(X), labels)})
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """(rows, classes), in the order of `classes_`."""
        check_is_fitted(self)
        names = self._names()
        answers = self.run_.predict(_as_texts(X))
        return np.array([[answer.scores.get(name, 0.0) for name in names] for answer in answers]).reshape(len(X), len(names))

    def predict(self, X: Any) -> NDArray[Any]:
        """The answer to each text: the likeliest label, or, where labels are rare, one whose probability reaches its threshold."""
        check_is_fitted(self)
        place = {name: number for number, name in enumerate(self._names())}
        return np.asarray(self.classes_[[place[answer.output] for answer in self.run_.predict(_as_texts(X))]])

    def _names(self) -> list[str]:
        """The classes as the run calls them."""
        return [cell_text(label.item() if isinstance(label, np.generic) else label, "label")[0] for label in self.classes_]


class AttentifRegressor(RegressorMixin, _TextEstimator):  # type: ignore[misc]
    """Predict a number for each text."""

    def __init__(
        self,
        recipe: str = "regress",
        overrides: Mapping[str, Any] | None = None,
        out: str | Path | None = None,
        seed: int = 0,
        verbose: bool = False,
    ) -> None:
        super().__init__(recipe, overrides, out, seed, verbose)

    def fit(self, X: Any, y: Any) -> Self:
        """Train on texts and their numbers."""
        values = np.asarray(y, dtype=np.float64)
        if values.ndim != 1 or len(values) != len(X):
            raise ValueError(f"y has shape {values.shape} where X has {len(X)} rows: expected one number per row")
        self._fit({"train": (_as_texts(X), values)})
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """A number for each text."""
        check_is_fitted(self)
        return np.array([require_details(answer, EstimateAnswer)["value"] for answer in self.run_.predict(_as_texts(X))])


class AttentifForecaster(_Estimator):
    """Forecast the next steps of a table of series: a DataFrame with a column (or an index) of dates."""

    def __init__(
        self,
        recipe: str = "forecast",
        overrides: Mapping[str, Any] | None = None,
        out: str | Path | None = None,
        seed: int = 0,
        verbose: bool = False,
    ) -> None:
        super().__init__(recipe, overrides, out, seed, verbose)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on the rows of a table, in their order."""
        self._fit({"train": X})
        return self

    def predict(self, X: Any) -> list[dict[str, Any]]:
        """The steps after the last row of `X`: a row for each, with its date, every column and its quantiles."""
        check_is_fitted(self)
        return [row for answer in self.run_.predict(X) for row in answer.table]


def _as_texts(data: Any) -> Any:
    """A table with columns `text` and, of pairs, `pair`; texts as they are."""
    width = 1 if getattr(data, "ndim", 1) == 1 or isinstance(data, list) else data.shape[1]
    if width > 2:
        raise ValueError(f"X has {width} columns: expected one column of texts, or two of pairs")
    if isinstance(data, list | tuple):
        return np.array([*data], dtype=object)
    columns = data.columns if hasattr(data, "columns") else None
    if columns is not None:
        return data.rename(columns=dict(zip(columns, ("text", "pair"), strict=False)))
    if getattr(data, "ndim", 1) == 2:
        return [{"text": row[0]} | ({"pair": row[1]} if width == 2 else {}) for row in data.tolist()]
    return data.rename("text") if hasattr(data, "rename") else data
