"""Export the network of a run without its linear model: another predictor, with its own scores."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attentif.errors import RunError, UsageError
from attentif.models import Model, build
from attentif.models.frontends import TokensConfig
from attentif.tasks.answers import Evaluation
from attentif.tasks.base import TaskState, Tokenizers
from attentif.tasks.predictors import Ensemble, Trainable, networks_of
from attentif.training.config import StoredConfig
from attentif.training.rundir import RunFolder, read_results
from attentif.training.stored_config import find_data

FEATURES = "frontend.features.weight"  # what the linear model says of each token


@dataclass(frozen=True)
class NetworkAlone:
    config: StoredConfig
    state: TaskState
    model: Any  # a network, or an ensemble of them
    note: str  # what is lost: its scores beside the run's


def leave_network(
    run: RunFolder, config: StoredConfig, model: Trainable, tokenizers: Tokenizers, say: Callable[[str], None]
) -> NetworkAlone:
    """Calibrate the network alone on the run's validation data, and score it there and on the test split."""
    if getattr(config.task, "linear", "none") == "none" or config.train is None or config.made is None:
        raise UsageError("--network-alone: this run has no linear model to leave out", file=run.path)
    data = find_data(config)
    assert data is not None
    alone = config.replace(task=config.task.replace(linear="none", **({"use": "network"} if hasattr(config.task, "use") else {})))
    bare, task = _without_features(model), alone.task.build()
    prepared = task.prepare(data, tokenizers, bare.config, say)
    if prepared.digest != config.made.data:
        raise RunError("its data have changed since it was trained: the network alone cannot be scored on them", file=run.path)
    budget = config.train.batch_tokens
    found = task.finalize(bare, prepared, budget=budget, say=say)
    metric = task.metric_for(found)
    score: Callable[[Any], Evaluation] = lambda split: task.evaluate(bare, found, split, budget=budget, quick=True)
    valid, test = (score(split).scores[metric] for split in (prepared.valid, prepared.test))
    whole = read_results(run).get("scores", {}).get(metric)
    beside = "" if whole is None else f", where the run with its linear model has {whole:.4g}"
    note = f"the network alone, without the linear model: {metric.replace('_', ' ')} {valid:.4g} on validation, {test:.4g} on test{beside}"
    return NetworkAlone(alone, found, bare, note)


def _without_features(model: Trainable) -> Trainable:
    """The same weights in networks that read tokens alone."""
    frontend = model.config.frontend
    if not isinstance(frontend, TokensConfig) or frontend.features is None:
        return model
    config = model.config.replace(frontend=frontend.replace(features=None))
    networks: list[Model] = []
    for network in networks_of(model):
        bare = build(config)
        bare.load_state_dict({name: weight for name, weight in network.state_dict().items() if name != FEATURES})
        networks.append(bare.eval())
    return Ensemble(networks) if isinstance(model, Ensemble) else networks[0]
