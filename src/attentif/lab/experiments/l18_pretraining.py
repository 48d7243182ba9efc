"""L18: pre-training pays: accuracy against the number of labelled examples, with and without.

Texts of which few have a label. One classifier begins with the weights of a model that has found hidden words in all of them (Devlin
et al. 2019; Dai & Le 2015), the other with weights drawn at random; the rest is the same: shape, labels, steps. `attentif curve` measures
the same for any recipe and any data.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, over_seeds
from attentif.lab.seeds import lead, seed_band
from attentif.lab.small import make_tick
from attentif.lab.texts import PACKAGES, WORDS, School, TextSizes
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock
from attentif.view.figures import Axis, Band, banded_curves
from attentif.view.figures.axes import RIGHT_ANSWERS
from attentif.view.words import Text, count, percent

PAYS = 0.05  # right answers more, the mean over all numbers of labels: one in twenty
TIMES = 4  # from one number of labels to the next; so many times fewer labels with pre-training should do as well as without it
NAMES = {"with": Text("avec pré-entraînement", "with pre-training"), "without": Text("sans pré-entraînement", "without pre-training")}


def measure(settings: Settings, progress: Progress) -> Measurements:
    sizes, seeds = TextSizes.of(settings), settings.seeds(tiny=1, normal=4, full=8)
    labels = [64, 256] if settings.size == "tiny" else [16, 64, 256, 1024]
    tick = make_tick(progress, len(seeds) * (sizes.reading + sizes.teaching * len(labels) * len(NAMES)))
    right: dict[str, list[list[float]]] = {name: [] for name in NAMES}
    for seed in seeds:
        school = School(sizes, seed, tick, senseless=settings.without_effect)
        pretrained = school.pretrain("masked")
        for name in NAMES:
            start = pretrained if name == "with" else None
            right[name].append([school.right("masked", own, start) for own in labels])
    return {
        "labels": labels,
        "texts": len(school.read),
        "steps": sizes.reading,
        "seeds": len(seeds),
        "chance": school.chance,
        "right": right,
    }


def gains(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """Of one seed: right answers more with as many labels, and with so many times fewer; the means over numbers of labels."""
    same, fewer = lead(ours, theirs), lead(ours[:-1], theirs[1:])
    return float(np.mean(same)), float(np.mean(fewer))


def verdict(found: Measurements) -> Verdict:
    labels, right = found["labels"], found["right"]
    same, fewer = zip(*map(gains, right["with"], right["without"]), strict=True)
    first, last = (over_seeds(lead(*([row[place] for row in right[name]] for name in NAMES))).value for place in (0, -1))
    return Verdict(
        [
            at_least(
                Text(
                    f"de {labels[0]} à {labels[-1]} étiquettes, le pré-entraînement apporte en moyenne {{value}} de réponses justes",
                    f"from {labels[0]} to {labels[-1]} labels pre-training brings {{value}} more right answers on average",
                ),
                over_seeds(same),
                PAYS,
                percent,
            ),
            at_least(
                Text(
                    f"avec {TIMES} fois moins d’étiquettes que sans lui, la différence est de {{value}}",
                    f"with {TIMES} times fewer labels than without it, the difference is {{value}}",
                ),
                over_seeds(fewer),
                0.0,
                percent,
            ),
        ],
        Text(
            "Avec {fewest} étiquettes, il apporte {first} ; avec {most}, {last}. Lus sans étiquettes : {texts} passages.",
            "With {fewest} labels it brings {first}, with {most} {last}. Read without labels: {texts} passages.",
        ).with_(
            fewest=count(labels[0]),
            most=count(labels[-1]),
            first=percent(first),
            last=percent(last),
            texts=count(found["texts"]),
        ),
    )


def figures(found: Measurements) -> list[FigureBlock]:
    labels = found["labels"]
    bands = [seed_band(words, labels, list(zip(*found["right"][name], strict=True))) for name, words in NAMES.items()]
    bands.append(Band(Text("toujours le même paquet", "always the same package"), labels, [found["chance"]] * len(labels), baseline=True))
    axes = (
        Axis(Text("passages étiquetés", "labelled passages"), log=True, ticks=labels),
        RIGHT_ANSWERS,
    )
    return [
        FigureBlock(
            Text("Réponses justes selon le nombre d’étiquettes", "Right answers against the number of labels"),
            partial(banded_curves, bands, *axes),
            Text("La bande est l’intervalle à 95 % entre les graines.", "The band is the 95 % interval over seeds."),
        )
    ]


EXPERIMENT = Experiment(
    number=18,
    title=Text("Le pré-entraînement", "Pre-training"),
    claim=Text(
        "le pré-entraînement paie : les réponses justes selon le nombre d’exemples étiquetés, avec et sans lui",
        "pre-training pays: accuracy against the number of labelled examples, with and without",
    ),
    says={
        2: "Pretraining, two objectives: MLM (Masked Language Model), NSP (Next Sentence Prediction). Fine tuning using transfer learning",
        4: "Pré-entraîné sur deux tâches clés […] Cela améliore considérablement les performances sur des tâches telles que l'analyse de "
        "sentiments, la classification de texte et la réponse aux questions.",
    },
    method=Text(
        f"Des passages de {WORDS} mots de la bibliothèque standard de Python ; il faut dire de quel paquet chacun vient "
        f"({', '.join(PACKAGES)}). Un encodeur retrouve des mots cachés dans tous ; puis deux classifieurs de même forme apprennent sur "
        "quelques passages étiquetés, pendant autant de pas : l’un à partir de ses poids, l’autre de poids tirés au hasard. Ce qui "
        f"décide : les réponses justes sur d’autres passages, graine par graine, à nombre égal d’étiquettes et avec {TIMES} fois moins.",
        f"Passages of {WORDS} words of Python’s standard library; which package is each from ({', '.join(PACKAGES)})? An encoder finds "
        "hidden words in all of them; then two classifiers of the same shape learn from a few labelled passages, for as many steps: one "
        "from its weights, the other from random ones. What decides: right answers on other passages, seed by seed, with as many labels "
        f"and with {TIMES} times fewer.",
    ),
    sabotage=Text(
        "les mots des textes du pré-entraînement sont redistribués au hasard entre eux, et n’ont plus de lien",
        "the words of what pre-training reads are dealt out at random among the texts, and say nothing of each other",
    ),
    tiny="+-",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Dai & Le 2015", "Howard & Ruder 2018", "Devlin et al. 2019"],
    remarks=[
        Text(
            "Les passages étiquetés sont parmi ceux qui ont été lus. `attentif curve` mesure la même courbe sur vos données.",
            "The labelled passages are among those read. `attentif curve` measures the same curve on your data.",
        ),
    ],
    choices=[
        Text(
            "Textes, pas et taux d’apprentissage ont été choisis au vu d’essais à d’autres tailles ou avec d’autres graines, les limites "
            "avant : sur les critiques de films intégrées, bien plus difficiles, un modèle de cette taille n’apprend presque rien, avec ou "
            "sans pré-entraînement (au plus 56 % de réponses justes, pour deux classes).",
            "Texts, steps and learning rates were chosen in view of trials at other sizes or with other seeds, the limits before: of the "
            "built-in film reviews, which are much harder, a model of this size learns hardly anything, pre-trained or not (at most 56 % "
            "right, of two classes).",
        ),
    ],
)
