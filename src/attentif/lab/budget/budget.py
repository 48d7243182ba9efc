"""Budgets, and models at the size that meets one.

    solve(task.adapt(preset), Budget.parse("params=1M"), Setting.of(task, prepared, config.train)).model

    params      outside the tables of tokens and places and the map onto the vocabulary, which are counted apart     within 2 %
    flops       of the whole training run: operations for each token, forwards and backwards, times the tokens       within 2 %
    seconds     of the whole training run, by timing a few real steps on this machine                                within 10 %
    memory      peak of a training step on the largest batch                                                        within 10 %
    tokens      read in training: the model stays as it is, and the number of steps is what is solved

`sizes.py` says what changes with a model's size, `measure.py` what it then takes, `solver.py` how the size is found.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args

from attentif.config import did_you_mean
from attentif.errors import UsageError
from attentif.lab.budget import measure
from attentif.lab.budget.measure import Setting
from attentif.lab.budget.sizes import Parameters, Sizing, build_on_meta, parameters
from attentif.lab.budget.solver import Search
from attentif.lab.machine import available_memory
from attentif.models import ModelConfig

__all__ = ["TOLERANCE", "Budget", "Setting", "Solved", "amount_words", "solve"]

Kind = Literal["params", "flops", "seconds", "tokens", "memory"]
Say = Callable[[str], None]  # tells the user one line: what was tried, and what it took
TOLERANCE: dict[Kind, float] = {"params": 0.02, "flops": 0.02, "seconds": 0.10, "memory": 0.10, "tokens": 0.02}
COUNTS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12, "p": 1e15}
UNITS: dict[Kind, dict[str, float]] = {
    "params": COUNTS,
    "flops": COUNTS,
    "tokens": COUNTS,
    "seconds": {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0},
    "memory": {"": 1.0, "b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30},
}
MENTIONED = {"params": "1M", "flops": "2T", "tokens": "3M", "seconds": "5min", "memory": "500MB"}


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget that every model has to meet."""

    kind: Kind
    amount: float

    @classmethod
    def parse(cls, word: str) -> Self:
        """`params=1M`, `flops=2e12`, `seconds=5min`, `tokens=3M`, `memory=500MB`."""
        name, equals, written = word.partition("=")
        name, written = name.strip(), written.strip().replace("_", "")
        kinds = get_args(Kind)
        if not equals or name not in kinds:
            guess = did_you_mean(name, kinds) or f"; it is one of {', '.join(f'{kind}={MENTIONED[kind]}' for kind in kinds)}"
            raise UsageError(f"budget {word!r} is not of the form kind=amount{guess}")
        kind: Kind = next(known for known in kinds if known == name)
        match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)(e[+-]?\d+)?\s*([a-z]*)", written.lower())
        unit = UNITS[kind].get(match[3]) if match else None
        if match is None or unit is None:
            units = ", ".join(unit for unit in UNITS[kind] if unit)
            raise UsageError(f"budget {word!r}: {written!r} is not an amount such as {MENTIONED[kind]} (units: {units})")
        amount = float(match[1] + (match[2] or "")) * unit
        if not 0 < amount < float("inf"):
            raise UsageError(f"budget {word!r}: there must be something to spend")
        return cls(kind, amount)

    def __str__(self) -> str:
        return amount_words(self.kind, self.amount)


def amount_words(kind: Kind, amount: float) -> str:
    """An amount in words: 1.02 M parameters, 5 min, 512 MB."""
    if kind == "seconds":
        unit, size = next(((u, s) for u, s in (("h", 3600.0), ("min", 60.0)) if amount >= s), ("s", 1.0))
        return f"{_digits(amount / size)} {unit}"
    steps = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))
    prefix, size = next(((u, s) for u, s in steps if amount >= s), ("", 1.0))
    what = {"params": "parameters", "flops": "FLOPs", "tokens": "tokens", "memory": "B"}[kind]
    return f"{_digits(amount / size)} {prefix}{'' if kind == 'memory' or not prefix else ' '}{what}"


def _digits(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """A model that meets the budget, and what had to change for it."""

    model: ModelConfig  # what the data decide is left open where it was
    changed: dict[str, Any] = field(
        default_factory=dict
    )  # keys of the run with their new values: {"model.width": 144}, {"train.steps": 350}
    parameters: int  # outside the embedding tables and the map onto the vocabulary
    embedding_parameters: int  # in them
    active_parameters: int  # of `parameters`, those that one token uses: fewer only where there are experts
    flops_per_token: float  # forwards and backwards
    amount: float  # what the model takes of the budget's kind, counted or measured
    wanted: float  # the budget's amount

    @property
    def error(self) -> float:
        """(amount - wanted) / wanted"""
        return self.amount / self.wanted - 1


def solve(model: ModelConfig, budget: Budget, setting: Setting, progress: Say | None = None) -> Solved:
    """The model at the size that meets the budget; UsageError, with the nearest size that can be reached, where none does."""
    if budget.kind == "tokens":
        return _length(model, budget, setting)
    sizing = Sizing(model)
    search = Search(
        sizing,
        wanted=budget.amount,
        tolerance=TOLERANCE[budget.kind],
        amount=lambda config: _amount(budget.kind, config, setting),
        counted=budget.kind in ("params", "flops"),
        words=lambda amount: amount_words(budget.kind, amount),
        say=progress or (lambda _: None),
    )
    found = search.run()
    search.say("counting operations")
    return _summarize(found.config, sizing.changes(found.config), found.amount, budget.amount, setting)


def _amount(kind: Kind, config: ModelConfig, setting: Setting) -> float:
    if kind == "params":
        return on_paper_parameters(config, setting).body
    if needs_more_than_there_is(config, setting):
        return math.inf
    model = setting.build(config)
    if kind == "flops":
        return measure.flops(setting, model).training_per_token * setting.tokens
    return measure.seconds(setting, model) if kind == "seconds" else measure.memory(setting, model)


def on_paper_parameters(config: ModelConfig, setting: Setting) -> Parameters:
    return parameters(build_on_meta(setting.sizes.fill(config)))


def needs_more_than_there_is(config: ModelConfig, setting: Setting) -> bool:
    """Whether weights, gradients and optimiser state exceed the available memory."""
    sizes, free = on_paper_parameters(config, setting), available_memory()
    return free is not None and 4 * 4 * (sizes.body + sizes.embedding) > free


def _length(model: ModelConfig, budget: Budget, setting: Setting) -> Solved:
    """As many steps as read so many tokens."""
    each = setting.tokens_per_step
    steps = max(1, round(budget.amount / each))
    error = abs(steps * each / budget.amount - 1)
    if error > TOLERANCE["tokens"]:
        many = f", and {steps} of them {amount_words('tokens', steps * each)}" if steps > 1 else ""
        raise UsageError(f"{budget} cannot be met: a step reads {amount_words('tokens', each)}{many}; make train.batch_tokens smaller")
    length = {"train.steps": steps, "train.epochs": 0.0, "train.min_steps": 0, "train.minutes": 0.0}
    return _summarize(model, length, steps * each, budget.amount, setting)


def _summarize(config: ModelConfig, changed: dict[str, Any], amount: float, wanted: float, setting: Setting) -> Solved:
    sizes = on_paper_parameters(config, setting)
    return Solved(
        model=config,
        changed=changed,
        parameters=sizes.body,
        embedding_parameters=sizes.embedding,
        active_parameters=sizes.active,
        flops_per_token=measure.flops(setting, setting.build(config)).training_per_token,
        amount=amount,
        wanted=wanted,
    )
