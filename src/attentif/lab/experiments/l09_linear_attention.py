"""L9: linear attention computed either way round gives the same result, at n·d² instead of n²·d.

    (φ(Q) φ(K)ᵀ) V   =   φ(Q) (φ(K)ᵀ V)          the left side makes an n × n matrix, the right side one of d × d

Matrix products are associative; a softmax between the two would forbid it (Katharopoulos et al. 2020, eq. 5 and 6).
"""

import time
from collections.abc import Callable
from functools import partial
from math import log

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from attentif.kernels.attention import attention_naive
from attentif.kernels.linear_attention import linear_attention, linear_attention_weights
from attentif.lab.experiment import SECONDS, Experiment, Measurements, Settings, Verdict, at_least, at_most
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock
from attentif.view.figures import Axis, Band, banded_curves
from attentif.view.words import Text, number, with_decimals

EPS = 1e-6  # under the division, as in the mixers
ROUNDING = 1e-12  # float64 sums in another order, relative
QUADRATIC, LINEAR = 1.95, 1.05  # exponents of n in what is counted
WIDTH = 64  # d where n varies
Way = Callable[[Tensor, Tensor, Tensor], Tensor]


def by_the_matrix(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """(φ(Q) φ(K)ᵀ) V."""
    return linear_attention_weights(q, k, eps=EPS) @ v


def by_the_state(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """φ(Q) (φ(K)ᵀ V): the mixer's own way."""
    return linear_attention(q, k, v, causal=False, eps=EPS)[0]


def with_softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attention_naive(q, k, v, scale=q.shape[-1] ** -0.5)


def features(n: int, d: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """φ = elu + 1 of Gaussian queries and keys, and values: (1, 1, n, d) each."""
    q, k, v = torch.randn(3, 1, 1, n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return F.elu(q) + 1, F.elu(k) + 1, v


def operations(way: Way, n: int, d: int) -> int:
    """Floating point operations of the matrix products, counted while they run."""
    with FlopCounterMode(display=False) as counter:
        way(*features(n, d, 0))
    return int(counter.get_total_flops())


def seconds(way: Way, n: int, repeats: int) -> float:
    """The best of a few: what other programs do can only add to it."""
    q, k, v = (t.float() for t in features(n, WIDTH, 0))
    times = []
    for _ in range(repeats + 1):  # the first call is not counted
        began = time.perf_counter()
        way(q, k, v)
        times.append(time.perf_counter() - began)
    return min(times[1:])


def measure(settings: Settings, progress: Progress) -> Measurements:
    lengths = settings.pick(tiny=[64, 128, 256], normal=[128, 256, 512, 1024, 2048, 4096], full=[2**power for power in range(7, 15)])
    seeds = settings.seeds(tiny=2, normal=5, full=10)
    repeats = settings.pick(tiny=2, normal=5, full=10)
    ways: dict[str, Way] = {"matrix": by_the_matrix, "state": with_softmax if settings.without_effect else by_the_state}
    total = len(seeds) + len(lengths)
    apart = []
    for done, seed in enumerate(seeds):
        qkv = features(lengths[-1] // 4, WIDTH, seed)
        left, right = (way(*qkv) for way in ways.values())
        apart.append(float((left - right).norm() / left.norm()))
        progress(done + 1, total)
    counted: dict[str, list[int]] = {name: [] for name in ways}
    timed: dict[str, list[float]] = {name: [] for name in ways}
    for done, n in enumerate(lengths):
        for name, way in ways.items():
            counted[name].append(operations(way, n, WIDTH))
            timed[name].append(seconds(way, n, repeats))
        progress(len(seeds) + done + 1, total)
    return {"lengths": lengths, "width": WIDTH, "seeds": len(seeds), "apart": max(apart), "operations": counted, SECONDS: timed}


def verdict(found: Measurements) -> Verdict:
    lengths, last = found["lengths"], found["lengths"][-1]
    exponents = {name: log(counted[-1] / counted[0]) / log(lengths[-1] / lengths[0]) for name, counted in found["operations"].items()}
    fewer = found["operations"]["matrix"][-1] / found["operations"]["state"][-1]
    faster = found[SECONDS]["matrix"][-1] / found[SECONDS]["state"][-1]
    return Verdict(
        [
            at_most(
                Text("les deux résultats diffèrent de {value} en relatif", "the two results differ by {value}, relatively"),
                found["apart"],
                ROUNDING,
            ),
            at_least(
                Text("par la matrice, le coût croît comme n puissance {value}", "by the matrix the cost grows as n to the power {value}"),
                exponents["matrix"],
                QUADRATIC,
            ),
            at_most(Text("par l’état, {value}", "by the state, {value}"), exponents["state"], LINEAR),
            at_least(
                Text(
                    f"à n = {last} et d = {found['width']}, il y a {{value}} fois moins d’opérations",
                    f"at n = {last} and d = {found['width']} there are {{value}} times fewer operations",
                ),
                fewer,
                0.9 * last / found["width"],  # n²d over nd² is n/d; the sums under the division are the rest
            ),
        ],
        Text(
            "Chronométré, le calcul par l’état y est {faster} fois plus rapide.",
            "Timed, the way by the state is {faster} times faster there.",
        ).with_(faster=with_decimals(faster, 1) if faster < 10 else number(faster, 2)),
    )


def figures(found: Measurements) -> list[FigureBlock]:
    names = {
        "matrix": Text("(φ(Q)φ(K)ᵀ)V, par la matrice", "(φ(Q)φ(K)ᵀ)V, by the matrix"),
        "state": Text("φ(Q)(φ(K)ᵀV), par l’état", "φ(Q)(φ(K)ᵀV), by the state"),
    }
    length = Axis(Text("n (jetons)", "n (tokens)"), log=True, ticks=found["lengths"])

    def bands(what: str) -> list[Band]:
        return [Band(words, found["lengths"], found[what][name]) for name, words in names.items()]

    return [
        FigureBlock(
            Text("Opérations comptées", "Operations counted"),
            partial(banded_curves, bands("operations"), length, Axis(Text("opérations", "operations"), log=True)),
            Text("Les deux droites se coupent à n = d.", "The two lines cross at n = d."),
        ),
        FigureBlock(
            Text("Temps mesuré", "Time measured"),
            partial(banded_curves, bands(SECONDS), length, Axis(Text("secondes", "seconds"), log=True)),
            Text("Le meilleur de quelques essais, en float32.", "The best of a few trials, in float32."),
        ),
    ]


EXPERIMENT = Experiment(
    number=9,
    title=Text("L’attention linéaire, dans les deux sens", "Linear attention, either way round"),
    claim=Text(
        "l’attention linéaire calculée dans un sens ou dans l’autre donne le même résultat, en n·d² au lieu de n²·d",
        "linear attention computed either way round gives the same result, at n·d² instead of n²·d",
    ),
    says={0: "bien que P est T × T, ici on peut réduire : évaluer en ne manipulant que des matrices d × d et T × d"},
    method=Text(
        f"Les deux ordres du produit en float64 ; les opérations sont comptées pendant le calcul, n variant et d = {WIDTH} ; l’exposant "
        "est la pente en échelle logarithmique, de la première longueur à la dernière. Le temps est montré, mais ne décide pas.",
        f"Both orders of the product in float64; operations are counted while it runs, n varying and d = {WIDTH}; the exponent is the "
        "slope on logarithmic axes, from the first length to the last. Time is shown, but does not decide.",
    ),
    sabotage=Text(
        "un softmax entre les deux produits : l’ordre ne peut plus changer", "a softmax between the two products: their order cannot change"
    ),
    tiny="++++",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Katharopoulos et al. 2020, eq. 4 to 6"],
    remarks=[
        Text(
            "L’égalité vaut pour l’attention linéaire elle-même, non pour l’attention softmax qu’elle remplace.",
            "The equality holds for linear attention itself, not for the softmax attention that it stands in for.",
        )
    ],
)
