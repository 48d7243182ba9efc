"""Which parameters of a run learn: all; all but the frozen parts (`train.freeze`); or adapters beside a frozen base (`[adapt]`)."""

from attentif.errors import ConfigError, within
from attentif.models import Model, ModelConfig, build
from attentif.nn.adapt import adapt, also_of, freeze, targets_of
from attentif.training.config import RunConfig


def check_learning(config: RunConfig, model: ModelConfig) -> None:
    """Refuse, before any data are read, names that the model does not have."""
    if config.adapt is None and not config.train.freeze:
        return
    on_paper = build(model.with_any_size(), device="meta")
    if config.adapt is not None:
        with within("adapt."):
            targets_of(on_paper, config.adapt)
            also_of(on_paper, config.adapt)
    else:
        with within("train."):
            freeze(on_paper, config.train.freeze)


def choose_learning(model: Model, config: RunConfig, *, fresh_head: bool = False) -> None:
    """Freeze what learns nothing, and add adapters, in a model that has the weights to begin with."""
    if config.adapt is not None:
        adapt(model, config.adapt)
        if fresh_head and any(name.startswith("head.") and not tensor.requires_grad for name, tensor in model.named_parameters()):
            raise ConfigError('adapt.also: the head of this task is fresh, and must learn beside the adapters; add "head"')
    elif config.train.freeze:
        for member in model.members:
            freeze(member, config.train.freeze)


def learning(model: Model) -> int:
    """How many parameters learn."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def describe_trainable(model: Model) -> str | None:
    """How many of them, in words; nothing where all do."""
    some, total = learning(model), sum(model.sizes().values())
    return None if some == total else f"{some:,} of {total:,} parameters learn ({some / total:.1%}), the others are frozen"
