"""L4: without √d_k the softmax saturates, and its gradient dies as d_k grows.

    s_j = q·k_j,  q, k_j ~ N(0, I) in d_k dimensions:  var s = d_k      p = softmax(s)      ∂p/∂s = diag(p) − p pᵀ

Vaswani et al. 2017, section 3.2.1.
"""

from functools import partial

import torch
from torch import Tensor

from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, at_most, over_seeds, ratio_over_seeds
from attentif.lab.seeds import seed_band
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock, Score
from attentif.view.figures import Axis, banded_curves
from attentif.view.words import Text, percent

KEYS = 64  # that one query chooses among
SATURATED, SPREAD = 0.9, 0.5  # mean largest weight: from the first on one key takes all; up to the second the weight is shared
DIES, LIVES = 0.01, 0.8  # typical gradient at the largest d_k over that at the smallest: of the plain scores, of the divided ones
TOGETHER = 50  # queries, each with keys of its own, in memory at a time
KINDS = ("largest", "typical", "mean")


def measure(settings: Settings, progress: Progress) -> Measurements:
    """By d_k, seed by seed, with and without the division: the mean largest weight, the median and the mean size of the Jacobian."""
    widths = settings.pick(tiny=[4, 64, 1024], normal=[4, 16, 64, 256, 1024, 4096], full=[2**power for power in range(2, 15)])
    seeds = settings.seeds(tiny=3, normal=8, full=20)
    queries = settings.pick(tiny=150, normal=200, full=500)
    found: Measurements = {name: {kind: [[] for _ in widths] for kind in KINDS} for name in ("scaled", "plain")}
    for done, seed in enumerate(seeds):
        for place, width in enumerate(widths):
            scores = draw_scores(queries, width, seed)
            for name, factor in (("scaled", width**-0.5), ("plain", width**-0.5 if settings.without_effect else 1.0)):
                p = torch.softmax(factor * scores, -1)
                jacobian = (torch.diag_embed(p) - p[:, :, None] * p[:, None, :]).norm(dim=(1, 2))
                values = (p.amax(-1).mean(), jacobian.median(), jacobian.mean())
                for kind, value in zip(KINDS, values, strict=True):
                    found[name][kind][place].append(float(value))
        progress(done + 1, len(seeds))
    return {"widths": widths, "seeds": len(seeds), **found}


def draw_scores(queries: int, width: int, seed: int) -> Tensor:
    """Scores q·k_j of Gaussian vectors, each query with its own keys: (queries, KEYS), float64."""
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for start in range(0, queries, TOGETHER):
        rows = min(TOGETHER, queries - start)
        q, k = torch.randn(rows, 1, width, generator=generator), torch.randn(rows, KEYS, width, generator=generator)
        parts.append((q * k).double().sum(-1))
    return torch.cat(parts)


def remaining_gradient(found: Measurements, name: str) -> Score:
    """The gradient of the median query at the largest d_k over that at the smallest, seed by seed."""
    first, *_, last = found[name]["typical"]
    return ratio_over_seeds([late / early for early, late in zip(first, last, strict=True)])


def verdict(found: Measurements) -> Verdict:
    low, high = found["widths"][0], found["widths"][-1]
    largest = {name: over_seeds(found[name]["largest"][-1]) for name in ("plain", "scaled")}
    return Verdict(
        [
            at_least(
                Text(
                    f"pour d_k = {high}, sans division, le plus grand poids vaut {{value}}",
                    f"at d_k = {high}, not divided, the largest weight is {{value}}",
                ),
                largest["plain"],
                SATURATED,
                percent,
            ),
            at_most(
                Text(
                    f"de d_k = {low} à {high}, il reste {{value}} du gradient de la requête médiane sans division",
                    f"from d_k = {low} to {high}, {{value}} of the median query’s gradient is left without the division",
                ),
                remaining_gradient(found, "plain"),
                DIES,
            ),
        ],
        controls=[
            at_most(
                Text("divisé par √d_k, le plus grand poids vaut {value}", "divided by √d_k, the largest weight is {value}"),
                largest["scaled"],
                SPREAD,
                percent,
            ),
            at_least(
                Text("avec la division, il reste {value} du gradient", "with the division {value} of the gradient is left"),
                remaining_gradient(found, "scaled"),
                LIVES,
            ),
        ],
    )


def figures(found: Measurements) -> list[FigureBlock]:
    names = {"plain": Text("sans division", "not divided"), "scaled": Text("divisé par √d_k", "divided by √d_k")}
    widths = found["widths"]
    width = Axis("d_k", log=True, ticks=widths)

    mean = Text("sans division, moyenne des requêtes", "not divided, mean over queries")
    typical = [seed_band(words, widths, found[name]["typical"]) for name, words in names.items()] + [
        seed_band(mean, widths, found["plain"]["mean"])
    ]
    gradient = Axis(Text("taille du gradient ‖∂p/∂s‖", "size of the gradient ‖∂p/∂s‖"), log=True)
    largest = Axis(Text(f"plus grand poids parmi {KEYS}", f"largest weight of {KEYS}"), share=True)
    return [
        FigureBlock(
            Text("Le gradient du softmax selon d_k", "The gradient of the softmax against d_k"),
            partial(banded_curves, typical, width, gradient),
            Text(
                "Divisé, le gradient ne dépend pas de d_k. Sans la division, celui de la requête médiane s’effondre ; la moyenne baisse "
                "moins vite, portée par les rares requêtes que deux clés se disputent.",
                "Divided, the gradient does not depend on d_k. Not divided, that of the median query collapses; the mean falls more "
                "slowly, carried by the few queries that two keys compete for.",
            ),
        ),
        FigureBlock(
            Text("La saturation", "Saturation"),
            partial(banded_curves, [seed_band(words, widths, found[name]["largest"]) for name, words in names.items()], width, largest),
            Text("Sans la division, une seule clé prend tout le poids.", "Not divided, one key takes all the weight."),
        ),
    ]


EXPERIMENT = Experiment(
    number=4,
    title=Text("Pourquoi diviser par √d_k", "Why divide by √d_k"),
    claim=Text(
        "sans √d_k, le softmax sature et son gradient meurt quand d_k grandit",
        "without √d_k the softmax saturates and its gradient dies as d_k grows",
    ),
    says={
        1: "Sans ce facteur, les produits scalaires peuvent devenir très grands pour d_k élevé. Cela entraîne des gradients proches de "
        "zéro ou de un après le softmax (effet de saturation).",
        3: "when the input is large, the softmax function may have an extremely small gradient, hard for efficient learning.",
    },
    method=Text(
        f"Des requêtes et {KEYS} clés gaussiennes, comme au début d’un apprentissage ; la norme du jacobien exact du softmax, "
        "médiane des requêtes, avec un intervalle à 95 % sur les graines.",
        f"Gaussian queries and {KEYS} Gaussian keys, as at the beginning of training; the norm of the exact Jacobian of the softmax, "
        "median over queries, with a 95 % interval over seeds.",
    ),
    sabotage=Text("les scores dits non divisés le sont aussi", "the scores said not to be divided are divided too"),
    tiny="++",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Vaswani et al. 2017, section 3.2.1"],
    erratum=Text(
        "[1] écrit que les gradients tendent vers zéro ou un : ce sont les poids ; les éléments du jacobien, p_i(1 − p_i) et −p_i p_j, "
        "tendent tous vers zéro et ne dépassent jamais 1/4.",
        "[1] writes that gradients tend to zero or one: the weights do; the entries of the Jacobian, p_i(1 − p_i) and −p_i p_j, all tend "
        "to zero and never exceed 1/4.",
    ),
    remarks=[
        Text(
            "Les vecteurs sont tirés au hasard : après l’apprentissage, q et k peuvent avoir une autre taille.",
            "The vectors are drawn at random: after training, q and k may have another size.",
        )
    ],
)
