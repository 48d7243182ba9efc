"""Pruning of rarely used experts.

counts = expert_counts(model, batches)                                    # or `expert_shares` in metrics.jsonl
keep = most_used(counts["decoder.blocks.0.ffn"], 6)
smaller = prune_experts(model, "decoder.blocks.0.ffn", keep)              # a new model
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from attentif.errors import ConfigError
from attentif.models.batch import Batch
from attentif.models.config import ModelConfig
from attentif.models.model import Model, build, eval_mode
from attentif.nn.auxiliary import collect_auxiliary
from attentif.nn.mixers.experts import PER_EXPERT, Experts
from attentif.nn.tape import sublayer_path


def mixtures(model: Model) -> dict[str, tuple[str, Experts]]:
    """Return every mixture of experts by path, with its module name."""
    return {sublayer_path(name): (name, module) for name, module in model.named_modules() if isinstance(module, Experts)}


def expert_counts(model: Model, batches: Iterable[Batch]) -> dict[str, Tensor]:
    """Count the tokens each expert is chosen for, (E,) by path, padding excluded."""
    found = mixtures(model)
    totals = {path: torch.zeros(mixer.config.experts, dtype=torch.long) for path, (_, mixer) in found.items()}
    with eval_mode(model):
        for batch in batches:
            with collect_auxiliary() as auxiliary:
                model.hidden(batch)
            for path, (_, mixer) in found.items():
                totals[path] += auxiliary.counts[mixer][:-1].cpu()
    return totals


def select_most_used(counts: Tensor, number: int) -> list[int]:
    """Return the `number` experts with the most tokens, in index order."""
    return sorted(counts.topk(number).indices.tolist())


def prune_experts(model: Model, path: str, keep: Sequence[int]) -> Model:
    """Return the model with only these experts in the mixture at `path`, and its configuration.

    Where the weights of a token's experts are normalised, tokens that chose none of the others keep their outputs exactly.
    """
    found = mixtures(model)
    if path not in found:
        raise ConfigError(f"there is no mixture of experts at {path!r}; there are: {', '.join(found) or 'none'}")
    name, mixer = found[path]
    refuse_choice(mixer, path, keep)
    smaller = build(pruned_config(model.config, path, len(keep)), dtype=mixer.out.weight.dtype).to(mixer.out.weight.device)
    chosen = torch.tensor(keep, device=mixer.out.weight.device)
    tensors = {}
    for key, tensor in model.state_dict().items():
        own = key.startswith(f"{name}.") and key.removeprefix(f"{name}.").split(".")[0] in PER_EXPERT
        tensors[key] = tensor.index_select(0, chosen) if own else tensor
    smaller.load_state_dict(tensors)
    smaller.checkpointing = model.checkpointing
    return smaller.train(model.training)


def refuse_choice(mixer: Experts, path: str, keep: Sequence[int]) -> None:
    experts, groups = mixer.config.experts, mixer.config.groups
    if len(set(keep)) != len(keep) or not all(0 <= number < experts for number in keep):
        raise ConfigError(f"{path}: keep = {list(keep)} does not name different experts of 0 to {experts - 1}")
    if len(keep) < mixer.config.top_k:
        raise ConfigError(f"{path}: a token uses {mixer.config.top_k} experts, so at least as many must be kept")
    members = [number * groups // experts for number in keep]
    if members != sorted(members) or len({members.count(group) for group in range(groups)}) > 1:
        raise ConfigError(f"{path}: the {groups} groups must keep their order, and equally many experts")


def pruned_config(config: ModelConfig, path: str, experts: int) -> ModelConfig:
    """Return the configuration with another number of experts in one block."""
    side, _, block, *names = path.split(".")
    stack = getattr(config, side)
    plan = [
        {name: sublayer.model_dump() for name, sublayer in sublayers.items()} for sublayers in stack.plan(stack.layers or config.layers)
    ]
    place: Any = plan[int(block)]
    for name in names[:-1]:
        place = place[name]["mixer"]["branches"]
    place[names[-1]]["mixer"]["experts"] = experts
    blocks = [{"sublayers": sublayers, "repeat": len(list(alike))} for sublayers, alike in groupby(plan)]
    values = config.model_dump() | {"base": None, "from_": None}  # a preset would restore its own blocks
    values[side] |= {"block": {}, "blocks": blocks}
    return ModelConfig.model_validate(values)
