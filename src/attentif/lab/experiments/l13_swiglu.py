"""L13: SwiGLU does better than ReLU at equal parameters.

    relu     y = W₂ max(0, W₁ x)                       2 · D · F weights
    swiglu   y = W₂ (silu(W₁ x) ⊙ W₃ x)                3 · D · F': equal where F' = 2F/3

(Shazeer 2020, who found 2.4 % of the loss in a large model.) A small language model reads Python sources, character by character.
"""

from functools import partial

import torch.nn.functional as F

from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, over_seeds
from attentif.lab.rows import LETTERS, real_text
from attentif.lab.seeds import estimate
from attentif.lab.small import answers, compare_models, fresh, reading_forwards
from attentif.models import Model, eval_mode
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock
from attentif.view.figures import Axis, intervals
from attentif.view.words import Text, count, percent

LOWER = 0.01  # of the loss: less could not be told from another learning rate
LENGTH = 48  # of a row
HIDDEN = {"relu": 3, "swiglu": 2}  # times the width
NAMES = {"relu": Text("ReLU", "ReLU"), "swiglu": Text("SwiGLU", "SwiGLU")}


def measure(settings: Settings, progress: Progress) -> Measurements:
    width, steps = settings.pick(tiny=12, normal=36, full=72), settings.pick(tiny=25, normal=300, full=3000)
    seeds = settings.seeds(tiny=2, normal=5, full=10)
    train, held_out = real_text(LENGTH), real_text(LENGTH, "test")
    models = {}
    for name in HIDDEN:
        activation = "relu" if settings.without_effect else name
        ffn = {"kind": "feed-forward", "hidden": HIDDEN[activation] * width, "activation": activation, "bias": False}
        mixers = {"attn": {"kind": "attention", "heads": 2, "causal": True, "rotary": {}}, "ffn": ffn}
        models[name] = reading_forwards(mixers, vocab=LETTERS, width=width, layers=2)

    def loss(model: Model, seed: int) -> float:
        with eval_mode(model):
            logits, targets = answers(model, held_out(300, 7_000_000 + seed))
        return float(F.cross_entropy(logits.flatten(0, 1), targets.flatten()))

    losses = compare_models(
        models, train, loss, seeds=seeds, steps=steps, progress=progress, batch=settings.pick(tiny=8, normal=16, full=32)
    )
    parameters = {name: sum(weight.numel() for weight in fresh(model).parameters()) for name, model in models.items()}
    return {"steps": steps, "seeds": len(seeds), "parameters": parameters, "losses": losses}


def verdict(found: Measurements) -> Verdict:
    relu, swiglu = (found["losses"][name] for name in ("relu", "swiglu"))
    lower = [1 - gated / plain for plain, gated in zip(relu, swiglu, strict=True)]
    sizes = {name: count(number) for name, number in found["parameters"].items()}
    return Verdict(
        [
            at_least(
                Text("la perte de SwiGLU est inférieure de {value} à celle de ReLU", "SwiGLU’s loss is {value} below that of ReLU"),
                over_seeds(lower),
                LOWER,
                percent,
            )
        ],
        Text("Paramètres : ReLU {relu}, SwiGLU {swiglu}.", "Parameters: ReLU {relu}, SwiGLU {swiglu}.").with_(**sizes),
    )


def figures(found: Measurements) -> list[FigureBlock]:
    estimates = [estimate(words, found["losses"][name], stressed=name == "swiglu") for name, words in NAMES.items()]
    axis = Axis(Text("perte (nats par caractère)", "loss (nats a character)"))
    return [
        FigureBlock(
            Text("La perte sur des sources jamais lues", "The loss on sources never read"),
            partial(intervals, estimates, axis),
            Text(
                f"Après {found['steps']} pas. Intervalle à 95 % ; les traits sont les graines, qui vont par paires : c’est leur "
                "différence qui décide.",
                f"After {found['steps']} steps. 95 % interval; ticks are seeds, which come in pairs: their difference decides.",
            ),
        )
    ]


EXPERIMENT = Experiment(
    number=13,
    title=Text("SwiGLU et ReLU", "SwiGLU and ReLU"),
    claim=Text("à paramètres égaux, SwiGLU fait mieux que ReLU", "at equal parameters, SwiGLU does better than ReLU"),
    says={0: "Gated Activation (SWIGLU) : SWIGLU(x) = A₃(A₂x ⊙ σ(A₁x)) ← c’est quelque chose × x !"},
    method=Text(
        "Deux modèles de langue de deux couches, l’un avec ReLU, l’autre avec SwiGLU et une largeur interne des deux tiers, lisent les "
        "sources de la bibliothèque standard de Python caractère par caractère : mêmes pas, même taux d’apprentissage, mêmes graines.",
        "Two language models of two layers, one with ReLU, the other with SwiGLU and two thirds of the inner width, read the sources of "
        "Python’s standard library character by character: the same steps, learning rate and seeds.",
    ),
    sabotage=Text("ReLU des deux côtés", "ReLU on both sides"),
    tiny="-",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Shazeer 2020"],
    erratum=Text(
        "[0] écrit σ(x) = x² eˣ / (1 + eˣ) pour Swish : c’est x eˣ / (1 + eˣ), soit x · sigmoïde(x).",
        "[0] writes σ(x) = x² eˣ / (1 + eˣ) for Swish: it is x eˣ / (1 + eˣ), that is x · sigmoid(x).",
    ),
)
