"""L20: errors accumulate when a model is fed its own predictions.

    teacher forcing     x̂_{t+1} = f(x_1 ... x_t)                        the truth is read, as in training
    roll-out            x̂_{t+1} = f(x_1 ... x_s, x̂_{s+1} ... x̂_t)       after s steps nothing but its own answers is

A GRU learns to give the next value of waves without noise: all that it gets wrong is its own fault. Then it goes on alone. Beside it, the
same model is told the truth after each answer: if that error does not grow, it is not the distance that does it, but the feeding.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, at_most, ratio_over_seeds
from attentif.lab.seeds import seed_band
from attentif.lab.small import make_tick, optimize
from attentif.models import Batch, Input, Model, ModelConfig, build, eval_mode
from attentif.nn.seq import Seq
from attentif.tasks.base import Progress
from attentif.tasks.series.rollout import predict_next, roll_out
from attentif.view.blocks import FigureBlock
from attentif.view.figures import Axis, Band, banded_curves
from attentif.view.words import Text, percent

ACCUMULATE = 3.0  # times the first step's error at the last one
STAYS = 1.5  # times at most, where the truth is read
PERIODS = (8.0, 40.0)  # steps, of the two waves that are added up
ASKED = 500  # series
NAMES = {"own": Text("lit ses propres réponses", "reads its own answers"), "truth": Text("lit la vérité", "reads the truth")}


def waves(rows: int, steps: int, seed: int) -> Tensor:
    """(rows, steps, 1): two sines of periods, phases and heights drawn at random."""
    random = np.random.default_rng(seed)
    period, phase, height = (random.uniform(low, high, (rows, 1, 2)) for low, high in (PERIODS, (0, 2 * np.pi), (0.3, 1.0)))
    places = np.arange(steps)[None, :, None]
    return torch.from_numpy((height * np.sin(2 * np.pi * places / period + phase)).sum(2, keepdims=True)).float()


def model(width: int) -> ModelConfig:
    values = {
        "width": width,
        "layers": 1,
        "dropout": 0.0,
        "init": {"kind": "xavier"},
        "frontend": {"kind": "series", "channels": 1},
        "decoder": {"placement": "none", "block": {"cell": {"residual": False, "mixer": {"kind": "gru"}}}},
        "head": {"kind": "horizon", "pool": "each", "horizon": 1, "channels": 1, "quantiles": 1},
    }
    return ModelConfig.model_validate(values)


def cut(series: Tensor, read: int) -> Batch:
    """What is read, and what is to come."""
    return Batch(Input(series[:, :read], Seq.from_padded([read] * len(series))), labels=series[:, read:])


def forecaster(config: ModelConfig, read: int, horizon: int, steps: int, seed: int, tick: Callable[[], None]) -> Model:
    torch.manual_seed(seed)
    small = build(config)

    def loss(step: int) -> Tensor:
        given, true = predict_next(small, cut(waves(32, read + horizon, seed * 1_000_003 + step), read))
        return F.mse_loss(given[..., 0], true)

    return optimize(small, loss, steps=steps, lr=1e-2, tick=tick)


def errors(small: Model, batch: Batch, *, own: bool) -> list[float]:
    """The root of the mean square error at each step of the horizon."""
    assert batch.labels is not None
    horizon = batch.labels.shape[1]
    with eval_mode(small):
        if own:
            given = roll_out(small, batch.source, horizon, lambda answer: answer[..., 0])[1]
        else:
            given = predict_next(small, batch)[0][:, -horizon:, :, 0]
    return (given - batch.labels).square().mean((0, 2)).sqrt().tolist()


def measure(settings: Settings, progress: Progress) -> Measurements:
    read, horizon = settings.pick(tiny=(24, 16), normal=(48, 48), full=(96, 96))
    width, steps = settings.pick(tiny=(24, 80), normal=(64, 500), full=(128, 3000))
    seeds = settings.seeds(tiny=1, normal=5, full=10)
    tick = make_tick(progress, len(seeds) * steps)
    found: dict[str, list[list[float]]] = {name: [] for name in NAMES}
    for seed in seeds:
        small = forecaster(model(width), read, horizon, steps, seed, tick)
        asked = cut(waves(ASKED, read + horizon, 7_000_000 + seed), read)
        for name in NAMES:
            found[name].append(errors(small, asked, own=name == "own" and not settings.without_effect))
    spread = float(waves(ASKED, horizon, 7_000_000).std())
    return {"read": read, "horizon": horizon, "steps": steps, "seeds": len(seeds), "errors": found, "spread": spread}


def verdict(found: Measurements) -> Verdict:
    grown = {name: ratio_over_seeds([row[-1] / row[0] for row in rows]) for name, rows in found["errors"].items()}
    last = {name: ratio_over_seeds([row[-1] / found["spread"] for row in rows]).value for name, rows in found["errors"].items()}
    return Verdict(
        [
            at_least(
                Text(
                    f"nourri de ses réponses, le modèle se trompe au pas {found['horizon']} {{value}} fois autant qu’au premier",
                    f"fed its own answers, the model errs at step {found['horizon']} {{value}} times as much as at the first",
                ),
                grown["own"],
                ACCUMULATE,
            ),
        ],
        Text(
            "L’erreur y est de {own} de l’écart-type de la série, contre {truth} avec la vérité.",
            "Its error is then {own} of the series’ standard deviation, against {truth} with the truth.",
        ).with_(own=percent(last["own"]), truth=percent(last["truth"])),
        controls=[
            at_most(
                Text("nourri de la vérité, {value} fois autant qu’au premier", "fed the truth, {value} times as much as at the first"),
                grown["truth"],
                STAYS,
            ),
        ],
    )


def figures(found: Measurements) -> list[FigureBlock]:
    places = list(range(1, found["horizon"] + 1))
    bands = [seed_band(words, places, list(zip(*found["errors"][name], strict=True)), ratio_over_seeds) for name, words in NAMES.items()]
    guess = Band(Text("qui répond toujours la moyenne", "who always says the mean"), places, [found["spread"]] * len(places), baseline=True)
    axes = (
        Axis(Text("pas après la dernière vérité lue", "steps after the last truth read")),
        Axis(Text("erreur (RMSE)", "error (RMSE)"), log=True),
    )
    return [
        FigureBlock(
            Text("L’erreur selon le pas", "The error against the step"),
            partial(banded_curves, [*bands, guess], *axes),
            Text("La bande est l’intervalle à 95 % entre les graines.", "The band is the 95 % interval over seeds."),
        )
    ]


EXPERIMENT = Experiment(
    number=20,
    title=Text("Se lire soi-même", "Reading oneself"),
    claim=Text(
        "les erreurs s’accumulent quand un modèle est nourri de ses propres prédictions",
        "errors accumulate when a model is fed its own predictions",
    ),
    says={3: "prédiction du prochain timestep ; réutilisation des prédictions ; accumulation des erreurs"},
    method=Text(
        "Un GRU apprend à donner la valeur suivante d’ondes sans bruit (deux sinus tirés au hasard), puis continue seul ; à côté, le même "
        "modèle apprend la vérité après chaque réponse. Ce qui décide : l’erreur du dernier pas rapportée à celle du premier, pour l’un "
        "et pour l’autre.",
        "A GRU learns to give the next value of waves without noise (two sines drawn at random), then goes on alone; beside it, the same "
        "model is told the truth after each answer. What decides: the error of the last step over that of the first, for the one and the "
        "other.",
    ),
    sabotage=Text("la vérité est lue dans les deux cas", "the truth is read in both cases"),
    tiny="+",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Bengio et al. 2015 (scheduled sampling)"],
    remarks=[
        Text(
            "Deux sinus obéissent à une récurrence d’ordre quatre, où une faute grandit d’abord comme t(t+1)(t+2)/6 : 1, 4, 10, 20. "
            "L’erreur ne peut grandir sans fin ici : un modèle borné qui a perdu la phase se trompe autant que s’il devinait.",
            "Two sines obey a recurrence of order four, in which a mistake grows at first as t(t+1)(t+2)/6: 1, 4, 10, 20. "
            "The error cannot grow without end here: a bounded model that has lost the phase errs as much as one that guesses.",
        )
    ],
)
