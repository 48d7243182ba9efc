"""L8: attention costs n² in time and memory; the flash form n² in time, n in memory; linear attention, a window and Mamba n in both.

    attention      P = softmax(QKᵀ/√d), Y = PV          P is n × n, and is kept for the backward pass
    flash          the same Y, by blocks of keys         P is never whole (Dao et al. 2022)
    window         |i − j| ≤ w only                      n·w
    linear         φ(Q) (φ(K)ᵀV)                         a state of d × d
    Mamba          h_t = A_t h_{t-1} + B_t x_t           a state of d × N

Each is a layer with its projections, trained on one row (forward and backward) by the machinery of `attentif profile`. The width is small,
so that what grows is not hidden behind the projections' n·d². An exponent is that of a power law fitted to the longer half of the lengths.
"""

from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from typing import Any

from torch import Tensor

from attentif.kernels.attention import attention_naive
from attentif.lab.experiment import SECONDS, Experiment, Measurements, Part, Settings, Verdict, at_least, at_most
from attentif.lab.fit import PowerLaw, power_law
from attentif.lab.flops import Counting
from attentif.lab.profile.measure import measure as measured
from attentif.lab.profile.subjects import MixerSubject, Subject, mixer_config, subject
from attentif.lab.seeds import over_rounds
from attentif.nn.mixers.attention import Attention
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock, Score
from attentif.view.figures import Axis, Growth, Law, scaling
from attentif.view.words import Text

BETWEEN = 1.5  # an exponent nearer to 2 than to 1, or the other way round
DECIDES = 2048  # tokens from which seconds decide: below, they are mostly what a call costs, and what else the machine does
LEAST = 3  # lengths that a law is fitted to
PATIENCE = 20.0  # seconds that one pass may take
PAGE = 4096  # bytes: what cannot be told from nothing
ATTENTION: dict[str, Any] = {"kind": "attention", "heads": 2}
WINDOW = ATTENTION | {"pattern": [{"kind": "window", "left": 64, "right": 64}]}
MIXERS: dict[str, dict[str, Any]] = {
    "matrix": ATTENTION,
    "flash": ATTENTION,
    "window": WINDOW,
    "linear": {"kind": "linear", "heads": 2},
    "mamba": {"kind": "mamba"},
}
NAMES = {
    "matrix": Text("attention, par la matrice", "attention, by the matrix"),
    "flash": Text("attention, forme flash", "attention, flash form"),
    "window": Text("fenêtre de ± 64", "window of ± 64"),
    "linear": Text("attention linéaire", "linear attention"),
    "mamba": Text("Mamba", "Mamba"),
}
SQUARE, STRAIGHT = ("matrix", "flash"), ("window", "linear", "mamba")


class ByTheMatrix(MixerSubject):
    """Attention as its equation has it."""

    def read(self, length: int) -> Callable[[], Tensor]:
        layer, x = self.mixer, self._vectors(length).requires_grad_()
        assert isinstance(layer, Attention)

        def once() -> Tensor:
            x.grad = None
            q, k, v = (side(x).unflatten(-1, (layer.heads, -1)).transpose(1, 2) for side in (layer.q, layer.k, layer.v))
            return layer.out(attention_naive(q, k, v, scale=layer.scale).transpose(1, 2).flatten(2))

        return once


class Progressed:
    """Half of the progress for the first look at each length, half for the rounds."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def say(self, line: str) -> None: ...

    def work(self, what: str, done: int, total: int) -> None:
        self.progress(round(50 * done / total) + (0 if "first look" in what else 50), 100)


def subjects(width: int, longest: int, *, without_effect: bool) -> list[Subject]:
    """Without the effect, a window stands where attention looked at everything."""
    found: list[Subject] = []
    for name, values in MIXERS.items():
        values = {"name": name} | (WINDOW if without_effect and name in SQUARE else values)
        if name == "matrix" and not without_effect:
            config = mixer_config(ATTENTION, name=name, longest=longest, causal=False)
            found.append(ByTheMatrix(name, config, width))
        else:
            found.append(subject(values, width=width, longest=longest, causal=False))
    return found


def operations(one: Subject, length: int) -> int:
    with Counting() as counted:
        one.training(length)()
    return counted.total


def measure(settings: Settings, progress: Progress) -> Measurements:
    lengths = settings.pick(tiny=[256, 512, 1024], normal=[2**power for power in range(7, 13)], full=[2**power for power in range(8, 15)])
    width, repeats = 64, settings.pick(tiny=1, normal=5, full=9)
    taking_part = subjects(width, lengths[-1], without_effect=settings.without_effect)
    points, left = measured(taking_part, lengths, ["training"], repeats=repeats, limit=PATIENCE, watch=Progressed(progress))
    reached = {one.name: [point.length for point in points if point.subject == one.name] for one in taking_part}
    return {
        "width": width,
        "lengths": reached,
        "left_out": {one.subject: [one.length, one.reason.fr, one.reason.en] for one in left},
        "operations": {one.name: [operations(one, n) for n in reached[one.name]] for one in taking_part},
        SECONDS: {  # bytes beside them: the operating system counts pages, and never twice the same
            "of": {name: [point.seconds for point in points if point.subject == name] for name in reached},
            "bytes": {name: [point.peak for point in points if point.subject == name] for name in reached},
        },
    }


def values_of(found: Measurements, what: str, name: str) -> list[float]:
    """At each length: operations, seconds (the median) or bytes; empty where memory cannot be measured."""
    if what == "operations":
        return found["operations"][name]
    if what == "bytes":
        peaks = found[SECONDS]["bytes"][name]
        return [] if None in peaks else [max(peak, PAGE) for peak in peaks]
    return [median(rounds) for rounds in found[SECONDS]["of"][name]]


def law_of(found: Measurements, what: str, name: str) -> tuple[PowerLaw, list[int]] | None:
    """Fitted to the longer half of the lengths, and these."""
    lengths, values = found["lengths"][name], values_of(found, what, name)
    kept = max(LEAST, (len(lengths) + 1) // 2)
    return (power_law(lengths[-kept:], values[-kept:]), lengths[-kept:]) if min(len(values), len(lengths)) >= LEAST else None


def exponents(found: Measurements, what: str) -> dict[str, float]:
    return {name: law[0].exponent for name in MIXERS if (law := law_of(found, what, name)) is not None}


def verdict(found: Measurements) -> Verdict:
    work, time, memory = (exponents(found, what) for what in ("operations", SECONDS, "bytes"))
    parts: list[Part] = [
        *compare_exponents(work, Text("les opérations comptées croissent", "operations, counted, grow")),
        *(compare_exponents(time, Text("le temps croît", "time grows")) if found["lengths"]["flash"][-1] >= DECIDES else []),
    ]
    if memory:
        grows = lambda fr, en: Text(f"la mémoire {fr} croît comme n^{{value}}", f"the memory of {en} grows as n^{{value}}")
        parts += [
            at_least(grows("de l’attention par la matrice", "attention by the matrix"), memory["matrix"], BETWEEN),
            at_most(grows("de la forme flash", "the flash form"), memory["flash"], BETWEEN),
            at_most(grows("de chacun des trois autres", "each of the three others"), max(memory[name] for name in STRAIGHT), BETWEEN),
        ]
    return Verdict(parts, list_left_out(found))


def compare_exponents(found: Mapping[str, float], what: Text) -> list[Part]:
    """The least exponent of the two forms of attention, and the greatest of the others."""
    square = Text(f"{what.fr} comme n^{{value}} au moins pour l’attention", f"{what.en} as n^{{value}} at least for attention")
    straight = Text(
        f"{what.fr} comme n^{{value}} au plus pour la fenêtre, l’attention linéaire et Mamba",
        f"{what.en} as n^{{value}} at most for the window, linear attention and Mamba",
    )
    return [
        at_least(square, min(found[name] for name in SQUARE), BETWEEN),
        at_most(straight, max(found[name] for name in STRAIGHT), BETWEEN),
    ]


def list_left_out(found: Measurements) -> Text | None:
    said = [
        Text(f"{NAMES[name].fr} dès {n} : {fr}", f"{NAMES[name].en} from {n} on: {en}") for name, (n, fr, en) in found["left_out"].items()
    ]
    return Text(f"Non mesuré : {'; '.join(one.fr for one in said)}.", f"Left out: {'; '.join(one.en for one in said)}.") if said else None


def growths(found: Measurements, what: str) -> list[Growth]:
    drawn = []
    for name, words in NAMES.items():
        values, law = values_of(found, what, name), law_of(found, what, name)
        scores = [over_rounds(rounds) for rounds in found[SECONDS]["of"][name]] if what == SECONDS else [Score(value) for value in values]
        fitted = None if law is None else Law(law[0].factor, law[0].exponent, law[1][0], law[1][-1])
        drawn += [Growth(words, list(zip(found["lengths"][name], scores, strict=True)), fitted)] if scores else []
    return drawn


def figures(found: Measurements) -> list[FigureBlock]:
    length = Axis(Text("n (jetons)", "n (tokens)"), ticks=found["lengths"]["mamba"])
    axes = {
        SECONDS: (Text("Temps d’un passage", "Time of a pass"), Text("secondes", "seconds")),
        "bytes": (Text("Mémoire au plus haut", "Memory at the peak"), Text("octets", "bytes")),
        "operations": (Text("Opérations comptées", "Operations counted"), Text("opérations", "operations")),
    }
    said = Text(
        "Une pente de 1 est linéaire, de 2 quadratique ; la légende donne l’exposant de la loi ajustée, en tirets.",
        "A slope of 1 is linear, of 2 quadratic; the legend has the exponent of the fitted law, dashed.",
    )
    return [
        FigureBlock(title, partial(scaling, drawn, length, Axis(unit)), said)
        for what, (title, unit) in axes.items()
        if (drawn := growths(found, what))
    ]


EXPERIMENT = Experiment(
    number=8,
    title=Text("Le prix de la longueur", "The price of length"),
    claim=Text(
        "l’attention coûte n² en temps et en mémoire ; sa forme flash n² en temps et n en mémoire ; l’attention linéaire, une fenêtre et "
        "Mamba n",
        "attention costs n² in time and memory; the flash form n² in time and n in memory; linear attention, a window and Mamba n",
    ),
    says={
        1: "complexité quadratique O(n²d) en temps et en espace",
        2: "quadratic compute in self-attention: O(n²d)",
        4: "O(n) contre O(n²)",
    },
    method=Text(
        "Un passage d’entraînement (aller et retour) d’une couche de largeur 64 sur une ligne de n jetons. Les opérations sont comptées "
        "pendant le calcul, le temps est la médiane de tours alternés, la mémoire ce que le système d’exploitation compte au plus haut. "
        "Les exposants sont ajustés sur la moitié la plus longue des longueurs ; ce qui décide : s’ils sont plus près de 1 ou de 2. Le "
        f"temps ne décide qu’à partir de {DECIDES} jetons.",
        "A training pass (forward and backward) of a layer of width 64 over one row of n tokens. Operations are counted while it runs, "
        "time is the median of interleaved rounds, memory what the operating system counts at the peak. Exponents are fitted to the "
        f"longer half of the lengths; what decides: whether they are nearer to 1 or to 2. Time decides only from {DECIDES} tokens on.",
    ),
    sabotage=Text("l’attention ne voit que ses voisins : une fenêtre", "attention sees its neighbours only: a window"),
    tiny="++...",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Dao et al. 2022", "Katharopoulos et al. 2020", "Beltagy et al. 2020", "Gu & Dao 2023"],
    remarks=[
        Text(
            "Les projections coûtent n·d² et cachent le n² tant que n est petit devant la largeur (L21).",
            "Projections cost n·d² and hide the n² as long as n is small before the width (L21).",
        )
    ],
)
