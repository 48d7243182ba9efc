"""Figures: pure functions from plain numbers to plotly figures, in the language asked for.

The page, the notebook and the studio show the same ones: `loss_curves([(1, 2.3), (2, 1.9)], lang="fr").show()`.
"""

from attentif.view.figures.accumulation import error_accumulation
from attentif.view.figures.attention import alignment, attention_map, head_grid
from attentif.view.figures.axes import Axis
from attentif.view.figures.bands import Band, banded_curves
from attentif.view.figures.beam import BeamToken, beam_tree, hypotheses_of
from attentif.view.figures.classify import Reliability, calibration, confusion_matrix, reliability
from attentif.view.figures.cost import cost_bars
from attentif.view.figures.gates import gates_over_time
from attentif.view.figures.gradients import gradient_by_distance, gradient_flow
from attentif.view.figures.heat import heat_map
from attentif.view.figures.intervals import IntervalEstimate, intervals
from attentif.view.figures.lengths import Bucket, by_length
from attentif.view.figures.merges import bpe_merges, merge_steps
from attentif.view.figures.pareto import ParetoPoint, front, pareto
from attentif.view.figures.positions import position_encodings, position_similarity
from attentif.view.figures.projection import embedding_projection, principal
from attentif.view.figures.routing import expert_shares, token_routing
from attentif.view.figures.scaling import Growth, Law, scaling
from attentif.view.figures.scores import contenders
from attentif.view.figures.training import Points, learning_rate, loss_curves, metric_curves, smooth

__all__ = [
    "Axis",
    "Band",
    "BeamToken",
    "Bucket",
    "Growth",
    "IntervalEstimate",
    "Law",
    "ParetoPoint",
    "Points",
    "Reliability",
    "alignment",
    "attention_map",
    "banded_curves",
    "beam_tree",
    "bpe_merges",
    "by_length",
    "calibration",
    "confusion_matrix",
    "contenders",
    "cost_bars",
    "embedding_projection",
    "error_accumulation",
    "expert_shares",
    "front",
    "gates_over_time",
    "gradient_by_distance",
    "gradient_flow",
    "head_grid",
    "heat_map",
    "hypotheses_of",
    "intervals",
    "learning_rate",
    "loss_curves",
    "merge_steps",
    "metric_curves",
    "pareto",
    "position_encodings",
    "position_similarity",
    "principal",
    "reliability",
    "scaling",
    "smooth",
    "token_routing",
]
