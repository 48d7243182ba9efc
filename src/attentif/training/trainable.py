"""Trainable parameters: all; all but frozen parts (`train.freeze`); or adapters on a frozen base (`[adapt]`)."""

from attentif.errors import ConfigError, within
from attentif.models import ModelConfig, build
from attentif.nn.adapt import adapt, find_targets, find_trainable, freeze
from attentif.tasks.predictors import Trainable, networks_of
from attentif.training.config import RunConfig


def check_trainable(config: RunConfig, model: ModelConfig) -> None:
    """Refuse, before any data are read, names that the model does not have."""
    if config.adapt is None and not config.train.freeze:
        return
    on_paper = build(model.with_any_size(), device="meta")
    if config.adapt is not None:
        with within("adapt."):
            find_targets(on_paper, config.adapt)
            find_trainable(on_paper, config.adapt)
    else:
        with within("train."):
            freeze(on_paper, config.train.freeze)


def choose_trainable(model: Trainable, config: RunConfig, *, fresh_head: bool = False) -> None:
    """Freeze parts of a model, or add adapters to it, once its initial weights are loaded."""
    if config.adapt is not None:
        adapt(model, config.adapt)
        if fresh_head and any(name.startswith("head.") and not tensor.requires_grad for name, tensor in model.named_parameters()):
            raise ConfigError('adapt.also: the head of this task is fresh, and must learn beside the adapters; add "head"')
    elif config.train.freeze:
        for network in networks_of(model):
            freeze(network, config.train.freeze)


def count_trainable(model: Trainable) -> int:
    """Number of trainable parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def describe_trainable(model: Trainable) -> str | None:
    """The number of trainable parameters in words; None where all are."""
    some, total = count_trainable(model), sum(model.sizes().values())
    return None if some == total else f"{some:,} of {total:,} parameters are trainable ({some / total:.1%}), the others frozen"
