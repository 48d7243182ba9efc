"""L30: amplitude and binary positions fail where sinusoids work.

    amplitude   P(p) = (p, p, ..., p)         binary   P(p) = the bits of p         sinusoids   P(p) = (sin ω_i p, cos ω_i p)_i

A layer of attention learns to copy the token before, so its scores have to single out place p − 1 from place p. Vectors are brought to one
size by their root mean square, not centred: LayerNorm would take away an amplitude, which is the same in every component, altogether.
"""

from typing import Any

from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, over_seeds
from attentif.lab.rows import token_before
from attentif.lab.seeds import lead, right_answers
from attentif.lab.small import accuracy, compare_models, reading_forwards
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock
from attentif.view.words import Text, percent

VOCAB = 8
WORKS = 0.9  # right answers with sinusoids
FAILS = 0.3  # right answers fewer
NAMES = {
    "sinusoidal": Text("sinusoïdes", "sinusoids"),
    "binary": Text("binaires", "binary"),
    "amplitude": Text("amplitude", "amplitude"),
}


def model(kind: str, width: int) -> dict[str, Any]:
    mixers = {"attn": {"kind": "attention", "heads": 2, "causal": True}}
    config = reading_forwards(mixers, vocab=VOCAB, width=width, layers=1, position={"kind": kind})
    return config | {"decoder": config["decoder"] | {"norm": {"kind": "rms"}}}


def measure(settings: Settings, progress: Progress) -> Measurements:
    length, width = settings.pick(tiny=8, normal=32, full=64), settings.pick(tiny=32, normal=64, full=64)
    steps, seeds = settings.pick(tiny=80, normal=250, full=2000), settings.seeds(tiny=1, normal=5, full=10)
    rows = token_before(VOCAB, length)
    models = {name: model("amplitude" if settings.without_effect else name, width) for name in NAMES}
    score = lambda model, seed: accuracy(model, rows(300, 7_000_000 + seed))
    answers = compare_models(
        models, rows, score, seeds=seeds, steps=steps, progress=progress, lr=settings.pick(tiny=1e-2, normal=3e-3, full=3e-3)
    )
    return {"length": length, "steps": steps, "seeds": len(seeds), "answers": answers}


def verdict(found: Measurements) -> Verdict:
    answers = found["answers"]
    fewer = {name: over_seeds(lead(answers["sinusoidal"], answers[name])) for name in ("amplitude", "binary")}
    return Verdict(
        [
            at_least(
                Text("avec des sinusoïdes, {value} de réponses justes", "with sinusoids, {value} right answers"),
                over_seeds(answers["sinusoidal"]),
                WORKS,
                percent,
            ),
            at_least(Text("avec l’amplitude, {value} en moins", "with the amplitude, {value} fewer"), fewer["amplitude"], FAILS, percent),
            at_least(Text("en binaire, {value} en moins", "in binary, {value} fewer"), fewer["binary"], FAILS, percent),
        ]
    )


def figures(found: Measurements) -> list[FigureBlock]:
    about = Text(f"{found['length']} places, {found['steps']} pas.", f"{found['length']} places, {found['steps']} steps.")
    return [right_answers(Text("Copier le jeton d’avant", "Copying the token before"), NAMES, found["answers"], 1 / VOCAB, about)]


EXPERIMENT = Experiment(
    number=30,
    title=Text("Amplitude, binaire, sinusoïdes", "Amplitude, binary, sinusoids"),
    claim=Text(
        "les positions par amplitude et en binaire échouent là où les sinusoïdes réussissent",
        "amplitude and binary positions fail where sinusoids work",
    ),
    says={
        2: "Coding amplitude […] Simple relationship between the encoding of two known positions ✗ […] Hard to optimize",
    },
    method=Text(
        "Une couche d’attention apprend à recopier le jeton d’avant, avec chacune des trois façons de dire la place : mêmes pas, mêmes "
        "graines.",
        "A layer of attention learns to copy the token before, with each of the three ways to say the place: the same steps and seeds.",
    ),
    sabotage=Text("l’amplitude partout", "the amplitude everywhere"),
    tiny=".+-",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Vaswani et al. 2017, section 3.5"],
)
