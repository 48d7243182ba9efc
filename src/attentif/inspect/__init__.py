"""Inspecting a model: functions from a model and a batch to tensors by sublayer path.

    from attentif import inspect

    batch = inspect.make_batch([run.tokenizer.encode("Une phrase").ids])
    inspect.residual_norms(run.model, batch)["decoder.blocks.0.attn"].stream

None of them changes the model; each runs it in evaluation mode and restores its mode. `attentif.record` records attention maps, and
`attentif.view.figures` draws them.
"""

from attentif.inspect.activations import Norms, activations, residual_norms
from attentif.inspect.architecture import ModelArchitecture, architecture
from attentif.inspect.attention_steps import AttentionSteps, attention_steps
from attentif.inspect.batches import make_batch
from attentif.inspect.gradients import distance_norms, gradient_by_distance, gradient_norms, stream_gradients
from attentif.inspect.heads import count_heads, head_ablation, head_gates, head_importance, without_heads
from attentif.inspect.interventions import Change, HeadEffect, intervene, rank_heads
from attentif.inspect.lens import LogitLens, logit_lens
from attentif.inspect.state_steps import LinearAttentionSteps, StateSpaceSteps, linear_attention_steps, state_space_steps
from attentif.inspect.states import gates, implied_map, routing, step_sizes

__all__ = [
    "AttentionSteps",
    "Change",
    "HeadEffect",
    "LinearAttentionSteps",
    "LogitLens",
    "ModelArchitecture",
    "Norms",
    "StateSpaceSteps",
    "activations",
    "architecture",
    "attention_steps",
    "count_heads",
    "distance_norms",
    "gates",
    "gradient_by_distance",
    "gradient_norms",
    "head_ablation",
    "head_gates",
    "head_importance",
    "implied_map",
    "intervene",
    "linear_attention_steps",
    "logit_lens",
    "make_batch",
    "rank_heads",
    "residual_norms",
    "routing",
    "state_space_steps",
    "step_sizes",
    "stream_gradients",
    "without_heads",
]
