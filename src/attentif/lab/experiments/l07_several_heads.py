"""L7: several heads capture several relations that one head of the same width cannot.

    head_h = softmax(q_h k_hᵀ/√(D/H)) v_h          Y = W_O [head_1 ... head_H]          H distributions over places instead of one

A relation is a place to look at: the token before, the second before, and so on. At each place several are asked for at once, in order, so
that a mean of what they hold is not an answer. The one head has all the width; the several share it. A feed-forward network follows both,
to take apart what a head may have mixed.
"""

from functools import partial
from typing import Any

import numpy as np

from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, at_most, over_seeds
from attentif.lab.seeds import seed_band
from attentif.lab.small import Generate, Rows, accuracy, make_tick, train_model
from attentif.tasks.base import Progress
from attentif.tasks.ragged import UNSCORED
from attentif.view.blocks import FigureBlock
from attentif.view.figures import Axis, Band, banded_curves
from attentif.view.figures.axes import RIGHT_ANSWERS
from attentif.view.words import Text, percent

OFFSETS = [1, 2, 4]  # places back, of the relations
KINDS = 4  # of tokens; an answer is one of KINDS ** relations
HEADS = {"one": 1, "several": 4}
SOLVED = 0.95  # right answers: the relations are captured
CANNOT = 0.5  # right answers of the single head at most: it fails more often than not
NAMES = {"one": Text("une tête", "one head"), "several": Text("quatre têtes", "four heads")}


def look_back(offsets: list[int], length: int) -> Generate:
    """At each place, the tokens so many places back, as the digits of one number."""

    def rows(number: int, seed: int) -> Rows:
        tokens = np.random.default_rng(seed).integers(0, KINDS, (number, length))
        targets = sum(np.roll(tokens, offset, axis=1) * KINDS**digit for digit, offset in enumerate(offsets))
        targets[:, : max(OFFSETS)] = UNSCORED  # there is nothing so far back
        return tokens, targets

    return rows


def model(heads: int, width: int) -> dict[str, Any]:
    attention = {"mixer": {"kind": "attention", "heads": heads}}
    return {
        "width": width,
        "layers": 1,
        "dropout": 0.0,
        "init": {"kind": "xavier"},
        "frontend": {"kind": "tokens", "vocab": KINDS ** len(OFFSETS), "position": {"kind": "sinusoidal"}},
        "encoder": {"block": {"attn": attention, "ffn": {"mixer": {"kind": "feed-forward"}}}},
        "head": {"kind": "language", "tied": False},
    }


def measure(settings: Settings, progress: Progress) -> Measurements:
    length, width = settings.pick(tiny=(12, 32), normal=(14, 64), full=(32, 128))
    steps, seeds = settings.pick(tiny=200, normal=500, full=3000), settings.seeds(tiny=1, normal=3, full=6)
    relations = settings.pick(tiny=[2], normal=[1, 2, 3], full=[1, 2, 3])
    apart = settings.pick(tiny=OFFSETS[::2], normal=OFFSETS, full=OFFSETS)  # two neighbours are no trouble for one head: see the figure
    tick = make_tick(progress, len(HEADS) * len(relations) * len(seeds) * steps)
    answers: dict[str, list[list[float]]] = {name: [] for name in HEADS}
    for name, heads in HEADS.items():
        for number in relations:
            offsets = apart[:1] * number if settings.without_effect else apart[:number]
            answers[name].append([])
            for seed in seeds:
                small = train_model(model(heads, width), look_back(offsets, length), steps=steps, lr=1e-2, seed=seed, tick=tick)
                answers[name][-1].append(accuracy(small, look_back(offsets, length)(500, 7_000_000 + seed)))
    return {"relations": relations, "length": length, "width": width, "steps": steps, "seeds": len(seeds), "right": answers}


def verdict(found: Measurements) -> Verdict:
    relations, of = found["relations"], lambda name, place: over_seeds(found["right"][name][place])
    parts = [
        at_least(
            Text(
                f"à qui l’on demande {relations[-1]} relations à la fois, quatre têtes répondent juste {{value}} du temps",
                f"asked for {relations[-1]} relations at once, four heads are right {{value}} of the time",
            ),
            of("several", -1),
            SOLVED,
            percent,
        )
    ]
    for place, number in enumerate(relations):
        said = Text(
            f"une seule tête de la même largeur, à qui l’on en demande {number}, {{value}}",
            f"a single head of the same width, asked for {number}, {{value}}",
        )
        parts += [at_most(said, of("one", place), CANNOT, percent)] if number > 1 else []
    alone = Text("Pour une seule relation, une tête suffit : {value}.", "For a single relation, one head is enough: {value}.")
    return Verdict(parts, alone.with_(value=percent(of("one", 0).value)) if relations[0] == 1 else None)


def figures(found: Measurements) -> list[FigureBlock]:
    relations = found["relations"]
    bands = [seed_band(words, relations, found["right"][name]) for name, words in NAMES.items()]
    known = [KINDS ** (1 - number) for number in relations]
    bands.append(Band(Text("qui n’en connaît qu’une", "who knows one of them"), relations, known, baseline=True))
    asked = Axis(Text("relations demandées à la fois", "relations asked for at once"), ticks=relations)
    return [
        FigureBlock(
            Text("Réponses justes selon le nombre de relations", "Right answers against the number of relations"),
            partial(banded_curves, bands, asked, RIGHT_ANSWERS),
            Text(
                "La bande est l’intervalle à 95 % entre les graines. En pointillé : une relation sue, les autres devinées.",
                "The band is the 95 % interval over seeds. Dotted: one relation known, the others guessed.",
            ),
        )
    ]


EXPERIMENT = Experiment(
    number=7,
    title=Text("Plusieurs têtes, plusieurs relations", "Several heads, several relations"),
    claim=Text(
        "plusieurs têtes captent plusieurs relations, ce qu’une seule tête de la même largeur ne peut pas",
        "several heads capture several relations that one head of the same width cannot",
    ),
    says={
        1: "une seule tête d’attention capte une seule relation de dépendance par position",
        2: "there may exist several types of dependencies",
    },
    method=Text(
        "Un bloc d’attention et de MLP apprend à donner, à chaque place, les jetons qui se trouvent 1, 2 et 4 places avant, tous à la "
        "fois et dans l’ordre ; avec une tête ou avec quatre de même largeur totale, donc autant de paramètres et de pas. Ce qui décide : "
        "les réponses entièrement justes.",
        "A block of attention and MLP learns to give, at each place, the tokens 1, 2 and 4 places before, all at once and in order; with "
        "one head or with four of the same width together, hence as many parameters and steps. What decides: answers that are right as a "
        "whole.",
    ),
    sabotage=Text("on demande plusieurs fois la même relation", "the same relation is asked for several times"),
    tiny="++",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Vaswani et al. 2017, section 3.2.2"],
    remarks=[
        Text(
            "« Ne peut pas » veut dire ici : n’apprend pas en autant de pas. Une tête qui regarde deux places avec des poids inégaux ne "
            "perd pas leur ordre, et le MLP peut les séparer ; plusieurs couches d’une tête aussi.",
            "“Cannot” means here: does not learn in as many steps. A head that looks at two places with unequal weights does not lose "
            "their order, and the MLP can take them apart; so can several layers of one head.",
        )
    ],
)
