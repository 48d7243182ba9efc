"""Figures: pure functions from plain numbers to plotly figures, in the language asked for.

The page, the notebook and the studio show the same ones: `loss_curves([(1, 2.3), (2, 1.9)], lang="fr").show()`.
"""

from attentif.view.figures.attention import alignment, attention_map, head_grid
from attentif.view.figures.classify import Reliability, calibration, confusion_matrix, reliability
from attentif.view.figures.cost import cost_bars
from attentif.view.figures.lengths import Bucket, by_length, length_histogram
from attentif.view.figures.scores import contenders
from attentif.view.figures.training import Points, learning_rate, loss_curves, metric_curves, smoothed

__all__ = [
    "Bucket",
    "Points",
    "Reliability",
    "alignment",
    "attention_map",
    "by_length",
    "calibration",
    "confusion_matrix",
    "contenders",
    "cost_bars",
    "head_grid",
    "learning_rate",
    "length_histogram",
    "loss_curves",
    "metric_curves",
    "reliability",
    "smoothed",
]
