"""L25: RWKV trained in parallel is the same function as RWKV run as an RNN.

    in parallel   y_t = Σ_s a_ts v_s / Σ_s a_ts,     a_ts = exp(k_s − (t − 1 − s) w) for s < t,   a_tt = exp(u + k_t)       every t at once
    as an RNN     y_t = (P_{t-1} + a_tt v_t) / (Q_{t-1} + a_tt),    P_t = e^{-w} P_{t-1} + e^{k_t} v_t,   Q_t = e^{-w} Q_{t-1} + e^{k_t}

(Peng et al. 2023, eq. 16.) The past fades by the same factor at each step, so its sum can be carried along. First the recurrence alone,
against the matrix a and against the form in log₂ n doubling steps; then a whole model, trained on rows read at once, run token by token.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attentif.decode.session import Session
from attentif.kernels.wkv import Runs, Sums, wkv, wkv_doubling
from attentif.lab.compare.decoding import state_bytes
from attentif.lab.exact import relative_distance
from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, at_most
from attentif.lab.rows import token_before
from attentif.lab.small import Rows, accuracy, answers, make_tick, reading_forwards, train_model
from attentif.models import Model
from attentif.tasks.base import Progress
from attentif.tasks.ragged import UNSCORED
from attentif.view.blocks import FigureBlock
from attentif.view.figures import Axis, Band, banded_curves
from attentif.view.figures.axes import DIFFERENCE
from attentif.view.words import Text, count, percent

WIDTH, VOCAB, LAYERS = 32, 12, 2
ROUNDING = 1e-10  # float64 sums in another order, relative, over thousands of steps
ROWS = 4
RATE, LEARNED = 1e-2, 0.9  # right answers after training: an untrained model would agree with itself as well
Way = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # w and u (D,), k and v (T, D): y (T, D)


def _begin(k: Tensor) -> tuple[Sums, Runs]:
    runs = Runs(torch.tensor([0]), torch.tensor([len(k)]), len(k))
    return Sums.empty(1, k.shape[1], device=k.device, dtype=k.dtype), runs


def by_the_state(w: Tensor, u: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Token after token: each call reads one, and hands the sums on."""
    sums, _ = _begin(k)
    steps = []
    for key, value in zip(k.split(1), v.split(1), strict=True):
        y, sums = wkv(w, u, key, value, sums, _begin(key)[1])
        steps.append(y)
    return torch.cat(steps)


def by_doubling(w: Tensor, u: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return wkv_doubling(w, u, k, v, *_begin(k))[0]


def by_the_matrix(w: Tensor, u: Tensor, k: Tensor, v: Tensor, *, power: bool) -> Tensor:
    """All places at once. `power`: the past fades by a power of the distance, which no sum can carry along."""
    place = torch.arange(len(k))
    back = (place[:, None] - place)[..., None]  # (T, S, 1)
    gone = w * (back.clamp(min=1).to(k.dtype).log() if power else back - 1)
    scores = torch.where(back > 0, k - gone, u + k).masked_fill(back < 0, -torch.inf)
    return torch.einsum("tsd,sd->td", scores.softmax(1), v)


def distances(length: int, seed: int, dtype: torch.dtype, *, power: bool) -> dict[str, float]:
    """How far each parallel form is from the recurrence."""
    torch.manual_seed(seed)
    w, u = torch.rand(8, dtype=torch.float64), torch.randn(8, dtype=torch.float64)
    k, v = torch.randn(2, length, 8, dtype=torch.float64)
    given = [tensor.to(dtype) for tensor in (w, u, k, v)]
    ways: dict[str, Way] = {"matrix": partial(by_the_matrix, power=power), "doubling": by_doubling}
    with torch.no_grad():
        step_by_step = by_the_state(*given)
        return {name: relative_distance(way(*given), step_by_step) for name, way in ways.items()}


def model() -> dict[str, Any]:
    return reading_forwards({"time": {"kind": "rwkv-time"}, "channel": {"kind": "rwkv-channel"}}, vocab=VOCAB, width=WIDTH, layers=LAYERS)


def step_by_step(small: Model, rows: Rows) -> Tensor:
    """Logits (rows, T, V) of the model run as an RNN."""
    tokens = torch.from_numpy(rows[0])
    session = Session(small, tokens[:, :1].tolist(), tokens.shape[1] - 1)
    logits = [session.logits]
    for column in tokens[:, 1:].unbind(1):
        session.read(column)
        logits.append(session.logits)
    return torch.stack(logits, 1)


def gradients(small: Model, logits: Tensor, rows: Rows) -> Tensor:
    """Of the loss, with respect to all weights, end to end."""
    loss = F.cross_entropy(logits.flatten(0, 1), torch.from_numpy(rows[1]).flatten(), ignore_index=UNSCORED)
    return torch.cat([grad.flatten() for grad in torch.autograd.grad(loss, list(small.parameters()))])


def measure(settings: Settings, progress: Progress) -> Measurements:
    lengths = settings.pick(tiny=[16, 64], normal=[16, 64, 256, 1024], full=[16, 64, 256, 1024])
    length, steps = settings.pick(tiny=(16, 80), normal=(64, 300), full=(128, 1000))
    seeds = settings.seeds(tiny=2, normal=5, full=10)
    tick = make_tick(progress, len(seeds) * len(lengths) + steps)
    apart: dict[str, list[float]] = {f"{name} {precision}": [] for precision in ("float64", "float32") for name in ("matrix", "doubling")}
    for own in lengths:
        worst: dict[str, float] = dict.fromkeys(apart, 0.0)
        for seed in seeds:
            for precision in ("float64", "float32"):
                for name, far in distances(own, seed, getattr(torch, precision), power=settings.without_effect).items():
                    worst[f"{name} {precision}"] = max(far, worst[f"{name} {precision}"])
            tick()
        for name, far in worst.items():
            apart[name].append(far)
    rows = token_before(VOCAB, length)
    small = train_model(model(), rows, steps=steps, lr=RATE, seed=settings.seed, tick=tick)
    learned, asked = accuracy(small, rows(200, 7_000_000)), rows(ROWS, 8_000_000)
    small = small.double()
    ways = answers(small, asked)[0], step_by_step(small, asked)
    at_once, one_by_one = ({"logits": way.detach(), "gradients": gradients(small, way, asked)} for way in ways)
    state = [state_bytes(small, places) for places in (lengths[0], lengths[-1])]
    return {
        "lengths": lengths,
        "length": length,
        "seeds": len(seeds),
        "apart": apart,
        "learned": learned,
        "model": {what: relative_distance(one_by_one[what], at_once[what]) for what in at_once} | {"state": state},
    }


def verdict(found: Measurements) -> Verdict:
    longest, whole = found["lengths"][-1], found["model"]
    return Verdict(
        [
            at_most(
                Text(
                    f"la récurrence et la matrice diffèrent de {{value}} au plus, jusqu’à {longest} pas",
                    f"the recurrence and the matrix differ by {{value}} at most, up to {longest} steps",
                ),
                max(found["apart"]["matrix float64"]),
                ROUNDING,
            ),
            at_most(
                Text("la récurrence et les pas doublants, de {value}", "the recurrence and the doubling steps, by {value}"),
                max(found["apart"]["doubling float64"]),
                ROUNDING,
            ),
            at_most(
                Text(
                    f"les scores d’un modèle entraîné, lisant {found['length']} jetons d’un coup ou un à un, diffèrent de {{value}}",
                    f"the scores of a trained model, reading {found['length']} tokens at once or one by one, differ by {{value}}",
                ),
                whole["logits"],
                ROUNDING,
            ),
            at_most(
                Text("les gradients de ses poids, de {value}", "the gradients of its weights, by {value}"), whole["gradients"], ROUNDING
            ),
            at_most(
                Text(
                    f"de {found['lengths'][0]} à {longest} jetons, son état grandit d’un facteur {{value}}",
                    f"from {found['lengths'][0]} to {longest} tokens its state grows by a factor of {{value}}",
                ),
                whole["state"][1] / whole["state"][0],
                1.0,
            ),
        ],
        Text("Son état tient en {state} octets (float64).", "Its state takes {state} bytes (float64).").with_(
            state=count(whole["state"][0])
        ),
        controls=[
            at_least(
                Text("le modèle avait appris : {value} de réponses justes", "the model had learned: {value} right answers"),
                found["learned"],
                LEARNED,
                percent,
            ),
        ],
    )


def figures(found: Measurements) -> list[FigureBlock]:
    names = {
        "matrix": Text("par la matrice", "by the matrix"),
        "doubling": Text("par pas doublants", "by doubling steps"),
    }
    bands = [
        Band(Text(f"{words.fr}, {precision}", f"{words.en}, {precision}"), found["lengths"], found["apart"][f"{name} {precision}"])
        for precision in ("float32", "float64")
        for name, words in names.items()
    ]
    axes = (
        Axis(Text("n (jetons)", "n (tokens)"), log=True, ticks=found["lengths"]),
        DIFFERENCE,
    )
    return [
        FigureBlock(
            Text("En parallèle contre jeton par jeton", "In parallel against token by token"),
            partial(banded_curves, bands, *axes),
            Text(
                "L’écart à la récurrence n’est que l’arrondi de chaque précision.",
                "What separates them from the recurrence is the rounding of each precision, and nothing else.",
            ),
        )
    ]


EXPERIMENT = Experiment(
    number=25,
    title=Text("RWKV, en parallèle et pas à pas", "RWKV, in parallel and step by step"),
    claim=Text(
        "RWKV entraîné en parallèle est la même fonction que RWKV exécuté comme un RNN",
        "RWKV trained in parallel is the same function as RWKV run as an RNN",
    ),
    says={2: "Receptance Weighted Key Value (RWKV): Efficient parallelizable training of transformers. Efficient inference of RNNs"},
    method=Text(
        "La moyenne pondérée de RWKV-4 en float64, tirée au hasard : jeton par jeton, par la matrice de tous les poids, et en log₂ n pas "
        "doublants. Puis un petit modèle entraîné sur des lignes lues d’un coup, et exécuté jeton par jeton : ses scores, et les gradients "
        "de tous ses poids par les deux chemins.",
        "RWKV-4’s weighted mean in float64, drawn at random: token by token, by the matrix of all weights, and in log₂ n doubling steps. "
        "Then a small model trained on rows that are read at once, and run token by token: its scores, and the gradients of its weights by "
        "both ways.",
    ),
    sabotage=Text(
        "dans la matrice, le passé s’efface selon une puissance de la distance, qu’aucun état ne peut suivre",
        "in the matrix the past fades by a power of the distance, which no state can follow",
    ),
    tiny="+++++",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Peng et al. 2023 (RWKV), eq. 16 and appendix D", "Hillis & Steele 1986"],
    remarks=[
        Text(
            "« En parallèle » : les produits de matrices le sont sur tous les jetons ; la moyenne elle-même est une récurrence, que la "
            "version publiée calcule pas à pas, en parallèle sur les composantes seulement.",
            "“In parallel”: the matrix products are, over all tokens; the mean itself is a recurrence, which the released version works "
            "out step by step, in parallel over components only.",
        )
    ],
)
