"""From token ids to vectors inside the program: embeddings by token, positions by place."""

import torch
from torch import Tensor, nn

from attentif.decode.engine.plan import Buffer, Lookup, MixerInput, Plan, Sink
from attentif.models.frontends import TokenFrontend
from attentif.nn.position import LearnedPositions, SinusoidalPositions


def lower_tokens(plan: Plan, reads: TokenFrontend, x: Buffer) -> list[Lookup] | None:
    """The tables to point to by token, then by place; None where the frontend has to be called instead."""
    weight, positions = reads.tokens.weight, _table_of_places(reads.position, plan.capacity)
    hooked = any(module._forward_hooks or module._forward_pre_hooks for module in reads.modules())
    plain = type(reads.tokens) is nn.Embedding and reads.tokens.max_norm is None and weight.is_contiguous()
    if hooked or not plain or reads.segments is not None or (positions is None and reads.position is not None):
        return None
    projected = isinstance(reads.project, nn.Linear)
    y = plan.buffer(weight.shape[1]) if projected or reads.widen is not None else x
    lookups = [plan.lookup(weight, y)]
    if reads.scale != 1.0:
        plan.norm(nn.Identity(), y, Sink(y, weight=reads.scale))
    if reads.widen is not None:
        plan.linear(MixerInput(y), [(reads.widen, x)])
        y = x
    if positions is not None:
        place = plan.buffer(y.width)
        lookups.append(plan.lookup(positions, place))
        plan.norm(nn.Identity(), place, Sink(y, add=True))
    if not isinstance(reads.norm, nn.Identity):
        plan.norm(reads.norm, y, Sink(y))
    if projected:
        plan.linear(MixerInput(y), [(reads.project, x)])
    return lookups


def _table_of_places(position: nn.Module | None, capacity: int) -> Tensor | None:
    """A line for each place that a text may reach; None for positions of other kinds."""
    match position:
        case LearnedPositions():
            table: Tensor = position.table.weight[position.offset :]
            return table
        case SinusoidalPositions():
            return position.compute(torch.arange(capacity)).float()
    return None
