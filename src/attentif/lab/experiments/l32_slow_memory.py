"""L32: the tiled (flash) form of attention reads slow memory about d²/M times as often as the plain one.

    plain   4 n² + 4 n d numbers to and from slow memory: scores and weights are written and read
    tiled   2 n d + (4 d n / M) (3 n d + 4 n): keys and values once, queries and outputs once for each tile of keys

(Dao et al. 2022, theorem 2: Θ(n² d² M⁻¹) instead of Θ(n d + n²).) The kernel counts every number that it moves.
"""

import math
from functools import partial

import numpy as np
import torch

from attentif.kernels.tiled_attention import count_traffic, plain_attention, tiled_attention
from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, at_most
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock
from attentif.view.figures import Axis, Band, banded_curves
from attentif.view.words import Text, percent

EXACT = 1e-9  # relative difference of outputs and gradients in float64
SLOPE = 0.1  # by which the exponent of d²/M may be off 1
CONSTANT = 4.0  # the law says "about": the factor before d²/M
GAINS = 0.5  # of the plain form's traffic at the sizes of a GPU (d = 64, M = 48 K numbers)


def traffic(length: int, width: int, fast: int, tiled: bool) -> int:
    q, k, v = (torch.zeros(1, 1, length, width) for _ in range(3))
    with count_traffic() as counted:
        if tiled:
            tiled_attention(q, k, v, scale=1.0, fast=fast)
        else:
            plain_attention(q, k, v, scale=1.0)
    return counted.total


def error(seed: int) -> float:
    """Of outputs and gradients, against the equation."""
    torch.manual_seed(seed)
    q, k, v = (torch.randn(1, 2, 40, 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
    both = plain_attention(q, k, v, scale=8**-0.5), tiled_attention(q, k, v, scale=8**-0.5, fast=200)
    found = [[y.detach(), *torch.autograd.grad(y.square().sum(), (q, k, v))] for y in both]
    return max(float((a - b).abs().max() / b.abs().max()) for b, a in zip(*found, strict=True))


def measure(settings: Settings, progress: Progress) -> Measurements:
    length = settings.pick(tiny=128, normal=2048, full=8192)
    widths = settings.pick(tiny=[8, 16], normal=[16, 32, 64], full=[16, 32, 64, 128])
    memories = settings.pick(tiny=[256, 1024], normal=[4096, 16384, 49152], full=[4096, 16384, 49152, 196608])
    points = []
    for done, (width, fast) in enumerate((width, fast) for width in widths for fast in memories):
        used = memories[0] if settings.without_effect else fast
        moved = traffic(length, width, used, True) / traffic(length, width, used, False)
        points.append({"width": width, "fast": fast, "law": width**2 / fast, "moved": moved})
        progress(done + 1, len(widths) * len(memories))
    return {"length": length, "points": points, "error": error(settings.seed)}


def fit_power(found: Measurements) -> tuple[float, float]:
    """Exponent and factor of moved = factor · (d²/M)^exponent, over points where tiles are many."""
    points = [point for point in found["points"] if point["fast"] // (4 * point["width"]) * 4 <= found["length"]]
    slope, start = np.polyfit([math.log(p["law"]) for p in points], [math.log(p["moved"]) for p in points], 1)
    return float(slope), math.exp(float(start))


def verdict(found: Measurements) -> Verdict:
    slope, factor = fit_power(found)
    best = min(found["points"], key=lambda point: point["moved"])
    return Verdict(
        [
            at_most(Text("l’exposant de d²/M s’écarte de 1 de {value}", "the exponent of d²/M is off 1 by {value}"), abs(slope - 1), SLOPE),
            at_most(Text("le facteur devant d²/M est {value}", "the factor before d²/M is {value}"), factor, CONSTANT),
            at_most(
                Text(
                    f"pour d = {best['width']} et M = {best['fast']}, {{value}} du trafic de la forme ordinaire",
                    f"at d = {best['width']} and M = {best['fast']}, {{value}} of the plain form’s traffic",
                ),
                best["moved"],
                GAINS,
                percent,
            ),
        ],
        controls=[
            at_most(
                Text("sorties et gradients s’écartent de l’équation de {value}", "outputs and gradients are off the equation by {value}"),
                found["error"],
                EXACT,
            ),
            at_least(Text("points mesurés : {value}", "points measured: {value}"), float(len(found["points"])), 4.0),
        ],
    )


def figures(found: Measurements) -> list[FigureBlock]:
    bands = []
    for width in sorted({point["width"] for point in found["points"]}):
        points = sorted((point for point in found["points"] if point["width"] == width), key=lambda point: point["law"])
        bands.append(Band(f"d = {width}", [point["law"] for point in points], [point["moved"] for point in points]))
    laws = sorted(point["law"] for point in found["points"])
    bands.append(Band(Text("d²/M", "d²/M itself"), laws, laws))
    across, up = Axis("d²/M", log=True), Axis(Text("trafic, en parts de la forme ordinaire", "traffic, of the plain form’s"), log=True)
    return [
        FigureBlock(
            Text("Le trafic selon d²/M", "The traffic against d²/M"),
            partial(banded_curves, bands, across, up),
            Text(
                f"{found['length']} jetons. Un nombre lu ou écrit en mémoire lente compte pour un.",
                f"{found['length']} tokens. A number read from or written to slow memory counts once.",
            ),
        )
    ]


EXPERIMENT = Experiment(
    number=32,
    title=Text("Le trafic de l’attention par tuiles", "The traffic of attention by tiles"),
    claim=Text(
        "la forme par tuiles (flash) accède à la mémoire lente environ d²/M fois autant que la forme ordinaire",
        "the tiled (flash) form reads slow memory about d²/M times as often as the plain one",
    ),
    says={},
    method=Text(
        "Un noyau écrit pour être observé calcule l’attention par tuiles qui tiennent dans une mémoire rapide de M nombres, et compte "
        "chaque nombre lu ou écrit ailleurs ; la forme ordinaire est comptée de même. Une droite en échelle "
        "logarithmique donne l’exposant.",
        "A kernel written to be looked at computes attention by tiles that fit in a fast memory of M numbers and counts every number "
        "that is read or written elsewhere; so does the plain form. A straight line on logarithmic axes gives the exponent.",
    ),
    sabotage=Text("une mémoire rapide qui ne grandit jamais", "a fast memory that never grows"),
    tiny=".++",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Dao et al. 2022, theorem 2"],
    remarks=[
        Text(
            "Le facteur mesuré est près de 3 : requêtes, sorties lues et sorties écrites passent à chaque tuile "
            "de clés, et une tuile a M/4d clés, "
            "quand la forme ordinaire passe quatre fois par la matrice n × n.",
            "The factor comes out near 3: queries, outputs read and outputs written pass at each tile of keys, "
            "and a tile has M/4d keys, while the "
            "plain form goes over the n × n matrix four times.",
        ),
    ],
)
