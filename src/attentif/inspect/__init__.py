"""Looking inside a model from a notebook: plain functions from a model and a batch to tensors, by the paths of its sublayers.

    from attentif import inspect

    batch = inspect.batch_of([run.tokenizer.encode("Une phrase").ids])
    inspect.residual_norms(run.model, batch)["decoder.blocks.0.attn"].stream

None of them changes the model or what it computes; each runs it in evaluation mode and leaves it in the mode it was in. `attentif.record`
keeps attention maps; what the figures of these are is in `attentif.view.figures`.
"""

from attentif.inspect.activations import Norms, activations, residual_norms
from attentif.inspect.batches import batch_of
from attentif.inspect.gradients import distance_norms, gradient_by_distance, gradient_norms, stream_gradients
from attentif.inspect.heads import head_ablation, head_gates, head_importance, heads_of, without_heads
from attentif.inspect.states import gates, implied_map, routing, step_sizes

__all__ = [
    "Norms",
    "activations",
    "batch_of",
    "distance_norms",
    "gates",
    "gradient_by_distance",
    "gradient_norms",
    "head_ablation",
    "head_gates",
    "head_importance",
    "heads_of",
    "implied_map",
    "residual_norms",
    "routing",
    "step_sizes",
    "stream_gradients",
    "without_heads",
]
