"""L6: sinusoidal positions: PE(p)·PE(p+k) depends on the offset alone, PE(p+k) is a linear map of PE(p), and they extend past the trained
length where learned ones cannot.

    PE(p) = (sin ω_i p, cos ω_i p)_i:    PE(p)·PE(p+k) = Σ_i cos ω_i k,     PE(p+k) = R_k PE(p),  R_k rotations by ω_i k

The first two are exact. The third is about models, and is measured on one: a layer of attention learns to copy the token before, on short
sequences, and is asked on longer ones. (Vaswani et al. 2017, section 3.5; Press et al. 2022 found the third wanting in language models.)
"""

from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, at_most, over_seeds
from attentif.lab.rows import token_before
from attentif.lab.small import accuracy_by_place, make_tick, train_model
from attentif.nn.position import SinusoidalPositions
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock
from attentif.view.figures import Axis, Band, banded_curves
from attentif.view.figures.axes import RIGHT_ANSWERS
from attentif.view.words import Text, percent

WIDTH, BASE = 64, 10_000.0  # of the table that is looked at
ROUNDING = 1e-10  # float64, relative: cosines of angles up to a few thousand
SOLVED = 0.9  # right answers beyond the trained length: they extend
AHEAD = 0.1  # right answers more than with a learned table, just beyond the trained length
JUST_BEYOND = 0.25  # of the trained length
VOCAB = 16


def model(position: dict[str, Any], width: int) -> dict[str, Any]:
    return {
        "width": width,
        "layers": 1,
        "init": {"kind": "xavier"},
        "head": {"kind": "language", "tied": False},
        "frontend": {"kind": "tokens", "vocab": VOCAB, "position": position},
        "encoder": {"block": {"attn": {"mixer": {"kind": "attention", "heads": 2}}}},
    }


def table(places: int, settings: Settings) -> NDArray[np.float64]:
    """PE (places, WIDTH); without the effect, a table such as a model might learn."""
    if settings.without_effect:
        return np.random.default_rng(settings.seed).standard_normal((places, WIDTH))
    return SinusoidalPositions(WIDTH, BASE).compute(torch.arange(places)).numpy()


def measure(settings: Settings, progress: Progress) -> Measurements:
    places, offsets = settings.pick(tiny=500, normal=4000, full=20_000), [1, 2, 5, 10, 20, 50, 100]
    length, width = settings.pick(tiny=8, normal=32, full=64), settings.pick(tiny=16, normal=64, full=64)
    steps, seeds = settings.pick(tiny=20, normal=250, full=1500), settings.seeds(tiny=2, normal=3, full=8)
    PE = table(places + max(offsets), settings)
    products, misses = [], []
    for offset in offsets:
        here, there = PE[:places], PE[offset : offset + places]
        dots = (here * there).sum(1)
        products.append({"offset": offset, "least": float(dots.min()), "most": float(dots.max())})
        fitted = here @ np.linalg.lstsq(here, there, rcond=None)[0]  # the one map that serves all places best
        misses.append(float(np.linalg.norm(fitted - there) / np.linalg.norm(there)))
    learned = {"kind": "learned", "max_len": 4 * length}
    kinds = {"sinusoidal": learned if settings.without_effect else {"kind": "sinusoidal", "base": BASE}, "learned": learned}
    tick = make_tick(progress, len(kinds) * len(seeds) * steps)
    right: dict[str, list[list[float]]] = {name: [] for name in kinds}
    for seed in seeds:
        for name, position in kinds.items():
            small = train_model(model(position, width), token_before(VOCAB, length), steps=steps, seed=seed, tick=tick)
            right[name].append(accuracy_by_place(small, token_before(VOCAB, 4 * length)(300, 7_000_000 + seed))[1:].tolist())
    return {"width": WIDTH, "products": products, "misses": misses, "length": length, "steps": steps, "seeds": len(seeds), "right": right}


def mean_right(found: Measurements, name: str, low: int, high: int) -> list[float]:
    """Of each seed, over the places low + 1 ... high."""
    return [float(np.mean(places[low - 1 : high - 1])) for places in found["right"][name]]


def verdict(found: Measurements) -> Verdict:
    spread = max(product["most"] - product["least"] for product in found["products"]) / (found["width"] / 2)
    length, just = found["length"], round((1 + JUST_BEYOND) * found["length"])
    inside = over_seeds(mean_right(found, "sinusoidal", 1, length))
    pairs = zip(*(mean_right(found, name, length, just) for name in ("sinusoidal", "learned")), strict=True)
    return Verdict(
        [
            at_most(
                Text("à décalage égal, PE(p)·PE(p+k) ne varie que de {value}", "for one offset, PE(p)·PE(p+k) varies by {value}"),
                spread,
                ROUNDING,
            ),
            at_most(
                Text(
                    "une seule application linéaire par décalage donne PE(p+k) à {value} près",
                    "one linear map for each offset gives PE(p+k) to within {value}",
                ),
                max(found["misses"]),
                ROUNDING,
            ),
            at_least(
                Text(
                    f"un modèle entraîné sur {length} places répond juste {{value}} du temps entre {length} et {2 * length}",
                    f"a model trained on {length} places is right {{value}} of the time between {length} and {2 * length}",
                ),
                over_seeds(mean_right(found, "sinusoidal", length, 2 * length)),
                SOLVED,
                percent,
            ),
            at_least(
                Text(
                    f"jusqu’à la place {just}, l’avance sur des positions apprises est de {{value}}",
                    f"up to place {just}, the lead over learned positions is {{value}}",
                ),
                over_seeds([ours - theirs for ours, theirs in pairs]),
                AHEAD,
                percent,
            ),
        ],
        Text(
            "Sur les longueurs vues, il répond juste {inside} du temps.", "On the lengths it has seen, it is right {inside} of the time."
        ).with_(inside=percent(inside.value)),
    )


def figures(found: Measurements) -> list[FigureBlock]:
    offsets = [product["offset"] for product in found["products"]]
    ends = [Band(words, offsets, [product[end] for product in found["products"]]) for end, words in ENDS.items()]
    names = {"sinusoidal": Text("sinusoïdales", "sinusoidal"), "learned": Text("apprises", "learned")}
    curves = []
    for name, words in names.items():
        by_place = np.array(found["right"][name])
        places = list(range(2, by_place.shape[1] + 2))
        curves.append(Band(words, places, by_place.mean(0).tolist(), by_place.min(0).tolist(), by_place.max(0).tolist()))
    length = found["length"]
    return [
        FigureBlock(
            Text("Le produit scalaire ne dépend que du décalage", "The dot product depends on the offset alone"),
            partial(banded_curves, ends, Axis(Text("décalage k", "offset k"), log=True, ticks=offsets), Axis("PE(p)·PE(p+k)")),
            Text(
                "Pour toutes les places p, la plus petite et la plus grande valeur se confondent.",
                "Over all places p, the smallest and the largest value are one.",
            ),
        ),
        FigureBlock(
            Text("Au-delà de la longueur apprise", "Past the trained length"),
            partial(banded_curves, curves, Axis(Text("place", "place")), RIGHT_ANSWERS),
            Text(
                f"Entraîné sur {length} places, interrogé sur {4 * length} ; la bande va de la pire à la meilleure graine. Le "
                f"hasard : {1 / VOCAB:.0%}.",
                f"Trained on {length} places, asked on {4 * length}; the band goes from the worst to the best seed. "
                f"Chance: {1 / VOCAB:.0%}.",
            ),
        ),
    ]


ENDS = {"most": Text("la plus grande sur p", "largest over p"), "least": Text("la plus petite sur p", "smallest over p")}

EXPERIMENT = Experiment(
    number=6,
    title=Text("Les positions sinusoïdales", "Sinusoidal positions"),
    claim=Text(
        "positions sinusoïdales : le produit scalaire ne dépend que du décalage, PE(p+k) est une fonction linéaire de PE(p), et elles "
        "valent au-delà de la longueur apprise, au contraire des positions apprises",
        "sinusoidal positions: the dot product depends on the offset alone, PE(p+k) is a linear map of PE(p), and they extend past the "
        "trained length where learned ones cannot",
    ),
    says={
        1: "PE_{pos+k} · PE_{pos} ≈ fonction de k. […] Généralisable à des séquences plus longues que celles vues en entraînement. "
        "PE_{pos+k} peut être exprimé comme fonction linéaire de PE_{pos}",
        2: "Generalization to sequences of any size ✓",
    },
    method=Text(
        "Les deux égalités sur des milliers de places, en float64 (l’application linéaire est ajustée par moindres carrés, une par "
        "décalage). Puis une couche d’attention apprend à recopier le mot d’avant sur des suites courtes, et on l’interroge sur de plus "
        "longues ; la table apprise y a des lignes qui n’ont jamais servi.",
        "The two equalities over thousands of places, in float64 (the linear map is fitted by least squares, one for each offset). Then a "
        "layer of attention learns to copy the token before on short sequences, and is asked on longer ones; the learned table has rows "
        "there that were never used.",
    ),
    sabotage=Text(
        "une table tirée au hasard, comme on en apprend, au lieu des sinusoïdes", "a random table, such as is learned, instead of sinusoids"
    ),
    tiny="++--",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Vaswani et al. 2017, section 3.5", "Press et al. 2022 (ALiBi), section 2"],
    erratum=Text(
        "[1] écrit ≈ : le produit scalaire est exactement Σ cos ω_i k. « Généralisable » est vrai de la formule, qui donne un vecteur à "
        "toute place ; non du modèle, qui n’a pas appris à s’en servir.",
        "[1] writes ≈: the dot product is exactly Σ cos ω_i k. “Generalises” is true of the formula, which has a vector for every place; "
        "not of the model, which has not learned to use it.",
    ),
)
