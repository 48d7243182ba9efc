"""Plan the runs of a comparison: read the data once and size every model to the budget.

Measured budgets (seconds, memory) never come out the same twice: sizes are stored by cache key, so that a comparison that is resumed
keeps them.
"""

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attentif.config import Document, Layer, to_toml
from attentif.errors import UsageError
from attentif.lab.budget import Budget, Setting, Solved, solve
from attentif.lab.compare.cache_key import MeasurementFile, digest, program_version
from attentif.lab.compare.decoding import state_bytes
from attentif.lab.compare.suite import Contestant, SuitePart
from attentif.models import ModelConfig, build
from attentif.plugin import list_plugins
from attentif.tasks.base import AnyPrepared, AnyTask
from attentif.training.config import RunConfig
from attentif.training.run import check_backbone, check_config, choose_tokenizers
from attentif.view.words import metric

Say = Callable[[str], None]


@dataclass(frozen=True)
class Sized:
    """A model at the size that it will have, and what it costs."""

    name: str
    config: RunConfig
    lr: float | None  # its own, where one was given
    own_width: int  # before the budget
    changed: dict[str, Any]  # by the budget: dotted keys of the run
    parameters: int
    embedding_parameters: int
    active_parameters: int
    flops_per_token: float  # forward and backward
    amount: float | None  # of the budget's kind
    wanted: float | None
    tokens: int  # that a run will read
    context: int | None  # the longest example that it will see
    state_bytes: int | None  # of one row of that length, while writing

    @property
    def error(self) -> float | None:
        return None if self.amount is None or not self.wanted else self.amount / self.wanted - 1


@dataclass(frozen=True)
class Planned:
    """A comparison whose data were read and whose models were sized."""

    part: SuitePart
    models: list[Sized]
    data: str  # SHA-256
    examples: dict[str, int]  # by split
    task: str
    metric: str
    higher_is_better: bool
    notes: list[str]


class DataCache:
    """The data of one comparison, encoded once for all models that read the same lengths, with the task that read them."""

    def __init__(self, say: Say) -> None:
        self.say = say
        self.found: dict[Any, tuple[AnyTask, AnyPrepared]] = {}

    def of(self, task: AnyTask, config: RunConfig, model: ModelConfig) -> tuple[AnyTask, AnyPrepared]:
        """Not always the task given: only the one that read the data knows what they taught (a tokenizer, classes)."""
        key = (model.max_len, model.max_target_len, type(model.frontend).__name__, config.model.from_)
        if key not in self.found:
            text = choose_tokenizers(config, check_backbone(config, model))
            known = next((found.tokenizers for (*_, run), (_, found) in self.found.items() if run == key[-1]), None)
            say = (lambda _: None) if self.found else self.say
            self.found[key] = task, task.prepare(config.data, known or text, model, say)
        return self.found[key]


def plan(part: SuitePart, *, threads: int, kept: MeasurementFile, say: Say) -> Planned:
    """Read the data and size the models; `kept` are the sizes that were solved before."""
    reading = DataCache(say)
    models, prepared, task = [], None, None
    for contestant in part.models:
        config = contestant.config.replace(train=contestant.config.train.replace(threads=threads, baselines=False))
        task, model = check_config(config)
        task, prepared = reading.of(task, config, model)
        try:
            models.append(_size_model(replace(contestant, config=config), part.budget, task, model, prepared, kept, say))
        except UsageError as error:
            named = error.message.startswith(f"{contestant.name} ")
            raise UsageError(f"models: {error.message}" if named else f"models: {contestant.name}: {error.message}") from None
    assert prepared is not None
    assert task is not None
    _, first = next(iter(reading.found.values()))
    examples = {split.name: len(split) for split in (first.train, first.valid, first.test)}
    notes, counts = [*part.notes, *first.notes], task.metric_for(first.state)
    return Planned(part, models, first.digest, examples, task.config.kind, counts, metric(counts).higher_is_better, notes)


def _size_model(
    contestant: Contestant, budget: Budget | None, task: AnyTask, model: ModelConfig, prepared: AnyPrepared, kept: MeasurementFile, say: Say
) -> Sized:
    config = contestant.config
    asked = {"config": to_toml(config), "budget": str(budget), "evaluations": contestant.evaluations, "stops": contestant.stops}
    key = digest(asked | {"data": prepared.digest, "program": program_version(list_plugins())})
    if (values := kept.get(key)) is None:
        setting = Setting.of(task, prepared, config.train)
        solved = _solve(model, budget, setting, lambda line: say(f"{contestant.name}: {line}"))
        settled = change_config(config.replace(model=solved.model), {k: v for k, v in solved.changed.items() if k.startswith("train.")})
        setting = Setting.of(task, prepared, settled.train)
        if contestant.evaluations is not None:
            every = math.ceil(setting.steps / contestant.evaluations)
            settled = change_config(settled, {"train.eval_every": every})
        if settled.train.patience and not contestant.stops:
            settled = change_config(settled, {"train.patience": setting.steps})  # the best weights are kept, and the whole budget is spent
        longest = prepared.sizes.max_len or int(np.max(prepared.train.lengths))
        values = {
            "config": to_toml(settled),
            "own_width": model.width,
            "changed": solved.changed,
            "parameters": solved.parameters,
            "embedding_parameters": solved.embedding_parameters,
            "active_parameters": solved.active_parameters,
            "flops_per_token": solved.flops_per_token,
            "amount": solved.amount if budget else None,
            "wanted": solved.wanted if budget else None,
            "tokens": setting.tokens,
            "context": longest,
            "state_bytes": state_bytes(build(prepared.sizes.fill(solved.model)), longest),
        }
        kept.set(key, values)
    settled = Document([Layer(tomllib.loads(values["config"]), "sizes")]).build(RunConfig)
    rest = {key: value for key, value in values.items() if key != "config"}
    return Sized(contestant.name, settled, contestant.lr, **rest)


def _solve(model: ModelConfig, budget: Budget | None, setting: Setting, say: Say) -> Solved:
    """Without a budget, the model as it is: it meets one of as many tokens as the recipe reads, and nothing is to be changed for that."""
    if budget is not None:
        measured = budget.kind in ("seconds", "memory")  # takes a while; what is counted is there at once
        return solve(model, budget, setting, say if measured else None)
    return replace(solve(model, Budget("tokens", setting.tokens), setting), changed={})


def change_config(config: RunConfig, dotted: Mapping[str, Any]) -> RunConfig:
    """A run with some keys of its tables changed: {"train.steps": 350}."""
    tables: dict[str, dict[str, Any]] = {}
    for key, value in dotted.items():
        table, _, name = key.partition(".")
        tables.setdefault(table, {})[name] = value
    return config.replace(**{table: getattr(config, table).replace(**values) for table, values in tables.items()})
