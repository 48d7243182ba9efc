"""L26: state spaces suit continuous signals better than text.

    S4D      h_t = Ā h_{t-1} + B̄ x_t                      a fixed system in continuous time, sampled: damped oscillations   (Gu et al. 2022)
    Mamba    h_t = exp(Δ_t A) h_{t-1} + Δ_t B_t x_t       a system that each step changes                                  (Gu & Dao 2023)

Everywhere the next step is asked for, and scored in nats a step: of signals, in which of many equally frequent intervals the next value
lies; of texts, which character it is. The same block surrounds each mixer (a convolution over four steps before it, a feed-forward after
it) and gives all as many parameters. Who is ahead on signals tells nothing by itself, nor who is on texts: what the claim says is
that the lead over attention is larger on signals than on texts, and that difference decides.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch.nn.functional as F

from attentif.lab.budget.sizes import build_on_meta, parameters
from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, over_seeds
from attentif.lab.seeds import estimate, lead
from attentif.lab.signals import SignalSource, source
from attentif.lab.small import Generate, answers, compare_models, reading_forwards
from attentif.models import Model, ModelConfig, eval_mode
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock
from attentif.view.figures import Axis, intervals
from attentif.view.words import Text, count, with_decimals

SUITS = 0.05  # nats a step by which the lead over attention is larger on signals: the right answer is 5 % likelier, step by step
WINDOW = 4  # steps of the convolution
RATE, BATCH = 1e-2, 8  # in a trial with another seed, better than 5e-3 for all three on both signals
ATTENTION = "attention"
STATE_SPACES = {"s4d": Text("S4D", "S4D"), "mamba": Text("Mamba", "Mamba")}
SIGNALS = {"tones": Text("sons de touches", "key tones"), "heartbeats": Text("battements de cœur", "heartbeats")}
TEXTS = {"sources": Text("sources de Python", "Python sources"), "reviews": Text("critiques de films", "film reviews")}
KINDS = {"signals": SIGNALS, "texts": TEXTS}
DIGITS = partial(with_decimals, decimals=3)


def contestants(read: SignalSource, width: int, layers: int, *, blind: bool = False) -> dict[str, ModelConfig]:
    """Each mixer in the same block, with hidden layers that give all as many parameters. `blind`: attention sees the present step alone."""
    mixers: dict[str, dict[str, Any]] = {
        ATTENTION: {"kind": "attention", "heads": 4, "causal": True, "rotary": {}},
        "s4d": {"kind": "s4d", "state": 32},
        "mamba": {"kind": "mamba"},
    }
    if blind:
        mixers[ATTENTION]["pattern"] = [{"kind": "window", "left": 0, "right": 0}]

    def model(name: str, hidden: int) -> ModelConfig:
        block = {
            "conv": {"kind": "conv", "windows": [1 if blind and name == ATTENTION else WINDOW], "causal": True},
            "memory": mixers[name],
            "ffn": {"kind": "feed-forward", "hidden": hidden},
        }
        values = reading_forwards(block, vocab=read.symbols, width=width, layers=layers)
        if read.values:
            values["frontend"] = {"kind": "series", "channels": 1}
        return ModelConfig.model_validate(values | {"head": {"kind": "tokens", "classes": read.symbols}})

    size = lambda name, hidden: parameters(build_on_meta(model(name, hidden))).body
    wanted = size("s4d", 4 * width)
    return {name: model(name, 1 + round((wanted - size(name, 1)) / (size(name, 2) - size(name, 1)))) for name in mixers}


def nats(rows: Generate, asked: int, model: Model, seed: int) -> float:
    """Cross-entropy of so many rows, the mean over steps."""
    with eval_mode(model):
        logits, targets = answers(model, rows(asked, 7_000_000 + seed))
    return float(F.cross_entropy(logits.flatten(0, 1), targets.flatten()))


def measure(settings: Settings, progress: Progress) -> Measurements:
    length, width, layers = settings.pick(tiny=(32, 32, 1), normal=(128, 32, 1), full=(512, 64, 2))
    steps, asked = settings.pick(tiny=(60, 100), normal=(250, 200), full=(2000, 500))
    seeds = settings.seeds(tiny=1, normal=3, full=6)
    names = [*SIGNALS, *TEXTS]
    found: Measurements = {"length": length, "steps": steps, "seeds": len(seeds), "parameters": {}, "nats": {}}
    for place, name in enumerate(names):
        read = source(name, length)
        models = contestants(read, width, layers, blind=settings.without_effect and read.values)
        part: Progress = partial(_part, progress, place, len(names))
        score = partial(nats, read.test, asked)
        found["parameters"][name] = {kind: parameters(build_on_meta(model)).body for kind, model in models.items()}
        found["nats"][name] = compare_models(models, read.train, score, seeds=seeds, steps=steps, progress=part, lr=RATE, batch=BATCH)
    return found


def _part(progress: Progress, place: int, parts: int, done: int, total: int) -> None:
    """Progress of one part among others as long."""
    progress(place * total + done, parts * total)


def leads(found: Measurements, name: str, data: Mapping[str, Text]) -> list[float]:
    """Nats by which a state space is ahead of attention, seed by seed, the mean over these data."""
    own = [lead(found["nats"][one][ATTENTION], found["nats"][one][name]) for one in data]
    return np.mean(own, 0).tolist()


def differences(found: Measurements, name: str) -> list[float]:
    """How much more it is ahead on signals than on texts."""
    return lead(leads(found, name, SIGNALS), leads(found, name, TEXTS))


def verdict(found: Measurements) -> Verdict:
    means = {f"{name}_{kind}": over_seeds(leads(found, name, data)).value for name in STATE_SPACES for kind, data in KINDS.items()}
    return Verdict(
        [
            at_least(
                Text(
                    f"l’avance de {words.fr} sur l’attention est plus grande sur les signaux que sur les textes de {{value}} nats par pas",
                    f"the lead of {words.en} over attention is larger on signals than on texts by {{value}} nats a step",
                ),
                over_seeds(differences(found, name)),
                SUITS,
                DIGITS,
            )
            for name, words in STATE_SPACES.items()
        ],
        Text(
            "Avance sur l’attention : S4D {s4d_signals} sur les signaux et {s4d_texts} sur les textes ; Mamba {mamba_signals} et "
            "{mamba_texts}. Paramètres : {attention}, {s4d} et {mamba}.",
            "Lead over attention: S4D {s4d_signals} on signals and {s4d_texts} on texts; Mamba {mamba_signals} and {mamba_texts}. "
            "Parameters: {attention}, {s4d} and {mamba}.",
        ).with_(
            **{key: DIGITS(value) for key, value in means.items()},
            **{kind: count(size) for kind, size in found["parameters"]["tones"].items()},
        ),
    )


def figures(found: Measurements) -> list[FigureBlock]:
    decide = [estimate(words, differences(found, name)) for name, words in STATE_SPACES.items()]
    by_data = [
        estimate(
            Text(f"{words.fr}, {about.fr}", f"{words.en}, {about.en}"),
            lead(found["nats"][one][ATTENTION], found["nats"][one][name]),
            stressed=one in SIGNALS,
        )
        for name, words in STATE_SPACES.items()
        for one, about in (SIGNALS | TEXTS).items()
    ]
    return [
        FigureBlock(
            Text("L’avance sur les signaux, moins l’avance sur les textes", "The lead on signals, less the lead on texts"),
            partial(intervals, decide, Axis(Text("nats par pas", "nats a step")), reference=0.0),
            Text(
                "C’est ce qui décide. Intervalle à 95 % ; les traits sont les graines.",
                "This is what decides. 95 % interval; ticks are seeds.",
            ),
        ),
        FigureBlock(
            Text("L’avance sur l’attention, par données", "The lead over attention, by data"),
            partial(
                intervals, by_data, Axis(Text("nats par pas de moins que l’attention", "nats a step less than attention")), reference=0.0
            ),
            Text(
                "À droite de la ligne, l’espace d’états prédit mieux que l’attention. En couleur, les signaux ; en gris, les textes.",
                "To the right of the line the state space predicts better than attention. Signals are coloured, texts grey.",
            ),
        ),
    ]


EXPERIMENT = Experiment(
    number=26,
    title=Text("Espaces d’états, signaux et textes", "State spaces, signals and texts"),
    claim=Text(
        "les espaces d’états conviennent mieux aux signaux continus qu’au texte",
        "state spaces suit continuous signals better than text",
    ),
    says={2: "State Spaces Models (SSM): […] Better suited for continuous data (e.g., audio, video, time series). […] Example: MAMBA"},
    method=Text(
        "S4D, Mamba et l’attention, dans le même bloc et à paramètres égaux, prédisent le pas suivant de deux signaux (le son des touches "
        "d’un téléphone, des battements de cœur) et de deux textes (les sources de Python, des critiques de films, par caractères) : mêmes "
        "longueurs, mêmes pas, mêmes lignes. Ce qui décide : de combien l’avance sur l’attention, en nats par pas, est plus grande sur les "
        "signaux que sur les textes, graine par graine.",
        "S4D, Mamba and attention, in the same block and with as many parameters, predict the next step of two signals (the sound of a "
        "telephone’s keys, heartbeats) and of two texts (Python sources, film reviews, by characters): the same lengths, steps and rows. "
        "What decides: by how much the lead over attention, in nats a step, is larger on signals than on texts, seed by seed.",
    ),
    sabotage=Text(
        "sur les signaux, l’attention ne voit que le pas présent : l’avance sur les signaux doit alors décider autrement",
        "on signals attention sees the present step alone: the lead on signals must then decide otherwise",
    ),
    tiny="--",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Gu et al. 2022 (S4, S4D)", "Goel et al. 2022 (SaShiMi)", "Gu & Dao 2023, sections 3.6 and 4.4"],
    remarks=[
        Text(
            "L’intervalle est pris entre les graines, non entre les données : deux jeux de chaque genre en disent peu, et la seconde "
            "figure montre combien ils diffèrent entre eux. Les modèles sont petits, les lignes courtes, l’entraînement bref ; les "
            "résultats publiés en faveur des signaux portent sur des sons de milliers d’échantillons.",
            "The interval is over seeds, not over data: two sets of each kind say little of it, and the second figure shows how much they "
            "differ from each other. The models are small, the rows short, training brief; published results in favour of signals are "
            "about sounds of thousands of samples.",
        ),
    ],
    choices=[
        Text(
            "Le taux d’apprentissage, la taille et la ligne la moins bruitée (personne ne prédit le bruit) ont été choisis au vu d’un "
            "essai sur les signaux avec une autre graine ; la limite, les données et ce qui décide, avant.",
            "The learning rate, the size and the quietest line (nobody predicts noise) were chosen in view of a trial on the signals with "
            "another seed; the limit, the data and what decides, before.",
        ),
    ],
)
