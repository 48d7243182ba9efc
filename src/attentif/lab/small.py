"""Small models trained for an experiment: generated rows, a fixed number of steps, nothing written.

What `attentif train` does for a run (tokenizers, checkpoints, reports) an experiment does not need: its rows are arrays of token numbers
with a target at each place, or UNSCORED.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from attentif.models import Batch, Input, Model, ModelConfig, build, eval_mode
from attentif.nn.auxiliary import collect_auxiliary
from attentif.nn.seq import Seq
from attentif.tasks.base import Progress
from attentif.tasks.ragged import UNSCORED

Rows = tuple[NDArray[np.int64], NDArray[np.int64]]  # tokens and targets, (rows, T) each
Generate = Callable[[int, int], Rows]  # how many, seed
WARM_UP = 0.1  # of the steps
NORM = 1.0  # to which gradients are clipped
M = TypeVar("M", bound=nn.Module)
Mixers = Mapping[str, Mapping[str, Any]]
Recipe = ModelConfig | Mapping[str, Any] | Callable[[], Model]  # a model, or what builds it where a configuration cannot say it


def _language_model(
    stack: str, mixers: Mixers, *, vocab: int, width: int, layers: int, position: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A stack of these mixers, by the names of their sublayers, that says a token at each place."""
    placed = {} if position is None else {"position": position}
    return {
        "width": width,
        "layers": layers,
        "dropout": 0.0,
        "init": {"kind": "xavier"},
        "frontend": {"kind": "tokens", "vocab": vocab, **placed},
        stack: {"block": {name: {"mixer": mixer} for name, mixer in mixers.items()}},
        "head": {"kind": "language", "tied": False},
    }


reading_forwards, reading_both_ways = partial(_language_model, "decoder"), partial(_language_model, "encoder")


def train_model(
    model: Recipe,
    rows: Generate,
    *,
    steps: int,
    batch: int = 32,
    lr: float = 3e-3,
    warm_up: float = WARM_UP,
    seed: int = 0,
    tick: Callable[[], None] = lambda: None,
) -> Model:
    """Train a model on fresh rows at every step; `tick` is called after each step."""
    torch.manual_seed(seed)
    built = model() if callable(model) else fresh(model)

    def loss(step: int) -> Tensor:
        logits, targets = answers(built, rows(batch, seed * 1_000_003 + step))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=UNSCORED)

    return optimize(built, loss, steps=steps, lr=lr, warm_up=warm_up, tick=tick)


def fresh(config: ModelConfig | Mapping[str, Any]) -> Model:
    """An untrained model."""
    return build(config if isinstance(config, ModelConfig) else ModelConfig.model_validate(dict(config)))


def compare_models(
    models: Mapping[str, Recipe],
    rows: Generate,
    score: Callable[[Model, int], float],
    *,
    seeds: Sequence[int],
    steps: int,
    progress: Progress,
    **how: Any,
) -> dict[str, list[float]]:
    """The score of each model trained on the same rows, seed by seed; `score` is given the model and the seed, `how` goes to `trained`."""
    tick = make_tick(progress, len(models) * len(seeds) * steps)
    scores: dict[str, list[float]] = {name: [] for name in models}
    for seed in seeds:
        for name, model in models.items():
            scores[name].append(score(train_model(model, rows, steps=steps, seed=seed, tick=tick, **how), seed))
    return scores


def optimize(
    model: M,
    loss: Callable[[int], Tensor],
    *,
    steps: int,
    lr: float = 3e-3,
    warm_up: float = WARM_UP,
    tick: Callable[[], None] = lambda: None,
) -> M:
    """Optimise any module on a loss that is a function of the step (AdamW, one cycle, clipping)."""
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=lr, weight_decay=0.0, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=steps, pct_start=warm_up)
    for step in range(steps):
        with collect_auxiliary() as auxiliary:  # a mixture of experts asks for balance, a batch norm moves its running means
            objective = loss(step)
        (objective + auxiliary.loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), NORM)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        for module, counts in auxiliary.counts.items():
            module.learn(counts.tolist())
        tick()
    return model.eval()


def make_tick(progress: Progress, total: int) -> Callable[[], None]:
    """A `tick` for models that share one progress bar of `total` steps."""
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        progress(done, total)

    return tick


def answers(model: Model, rows: Rows) -> tuple[Tensor, Tensor]:
    """Logits (rows, T, V) and targets (rows, T); the decoder of an encoder-decoder reads the targets before each place, and 0 first."""
    logits, _ = model(batch_of(model, rows))
    return logits, torch.from_numpy(rows[1])


def batch_of(model: Model, rows: Rows) -> Batch:
    """Rows as this model reads them."""
    tokens, targets = map(torch.from_numpy, rows)
    seq = Seq.from_padded([tokens.shape[1]] * len(tokens))
    given = None if model.target is None else Input(F.pad(targets[:, :-1], (1, 0)), seq)
    return Batch(Input(tokens, seq), given)


def accuracy_by_place(model: Model, rows: Rows) -> NDArray[np.float64]:
    """The share of right answers at each place (T,); nan where nothing is scored."""
    with eval_mode(model):
        logits, targets = answers(model, rows)
    right, scored = (logits.argmax(-1) == targets).numpy(), (targets != UNSCORED).numpy()
    counts = scored.sum(0)
    return np.where(counts > 0, (right & scored).sum(0) / np.maximum(counts, 1), np.nan)


def accuracy(model: Model, rows: Rows) -> float:
    """The share of right answers."""
    with eval_mode(model):
        logits, targets = answers(model, rows)
    scored = targets != UNSCORED
    return float((logits.argmax(-1) == targets)[scored].double().mean())


def exact_match(model: Model, rows: Rows) -> float:
    """The share of rows in which every answer is right."""
    with eval_mode(model):
        logits, targets = answers(model, rows)
    return float(((logits.argmax(-1) == targets) | (targets == UNSCORED)).all(1).float().mean())
