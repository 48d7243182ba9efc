"""L14: zero-order hold: the recurrence and the convolution of a state space are the same function.

    h' = A h + B x,  y = C h, the input held for Δ:      h_t = Ā h_{t-1} + B̄ x_t,     Ā = exp(ΔA),   B̄ = A⁻¹ (exp(ΔA) − I) B
                                                         y = K * x,                   K_l = C Āˡ B̄

The convolution is S4D's (`kernels/s4d.py`, one complex rate a pair). What the two are held against is neither: the differential equation
itself, integrated by Runge-Kutta in small steps while the input stands still.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from attentif.kernels.s4d import s4d, s4d_naive
from attentif.lab.exact import relative_distance
from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_most
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock
from attentif.view.figures import Axis, Band, banded_curves
from attentif.view.figures.axes import DIFFERENCE
from attentif.view.words import Text, number

CHANNELS, STATE = 4, 8  # complex numbers of state for each channel
ROUNDING = 1e-10  # float64, relative; an FFT of 16,384 places loses four digits
INTEGRATED = 1e-8  # Runge-Kutta's own error, (Δ/substeps)⁴ a step
SUBSTEPS = 32
SHOWN = 48  # outputs in the figure
Way = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # x (B, T, D), Δ (D,), A and C (D, S): y (B, T, D)


def recurrence(x: Tensor, step: Tensor, A: Tensor, C: Tensor) -> Tensor:
    return s4d_naive(x, step, A, C, torch.zeros_like(step), A.new_zeros(len(x), *A.shape))[0]


def convolution(x: Tensor, step: Tensor, A: Tensor, C: Tensor) -> Tensor:
    return s4d(x, step, A, C, torch.zeros_like(step))


def discretise(x: Tensor, step: Tensor, A: Tensor, C: Tensor, *, euler: bool) -> Tensor:
    """A recurrence that is not the hold: Euler's step Ā = 1 + ΔA, B̄ = Δ, or the hold with the Δ that [4] has too many."""
    held = torch.exp(step[:, None] * A)
    kept, added = (1 + step[:, None] * A, step[:, None] + 0 * A) if euler else (held, (held - 1) / A * step[:, None])
    h, steps = A.new_zeros(len(x), *A.shape), []
    for now in x.unbind(1):
        h = kept * h + added * now[..., None]
        steps.append(2 * (C * h).sum(-1).real)
    return torch.stack(steps, 1)


def continuous(x: Tensor, step: Tensor, A: Tensor, C: Tensor) -> Tensor:
    """h' = A h + x by Runge-Kutta (order 4), the input constant during each Δ."""
    h, steps = A.new_zeros(len(x), *A.shape), []
    small = step[:, None] / SUBSTEPS
    for now in x.unbind(1):
        slope = lambda state, now=now: A * state + now[..., None]
        for _ in range(SUBSTEPS):
            k1 = slope(h)
            k2 = slope(h + small / 2 * k1)
            k3 = slope(h + small / 2 * k2)
            k4 = slope(h + small * k3)
            h = h + small / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        steps.append(2 * (C * h).sum(-1).real)
    return torch.stack(steps, 1)


def measure(settings: Settings, progress: Progress) -> Measurements:
    """Relative distances, the worst over seeds, by length: recurrence and convolution, and each against the continuous system."""
    lengths = settings.pick(tiny=[16, 128], normal=[16, 64, 256, 1024, 4096], full=[16, 64, 256, 1024, 4096, 16384])
    integrated = settings.pick(tiny=64, normal=256, full=1024)  # integration costs 128 evaluations a step
    seeds = settings.seeds(tiny=2, normal=5, full=10)
    step_by_step: Way = partial(discretise, euler=True) if settings.without_effect else recurrence
    apart: dict[str, list[list[float]]] = {"float64": [[] for _ in lengths], "float32": [[] for _ in lengths]}
    against: dict[str, list[float]] = {"recurrence": [], "convolution": [], "stray": []}
    example: dict[str, list[float]] = {}
    for done, seed in enumerate(seeds):
        torch.manual_seed(seed)
        step = torch.empty(CHANNELS, dtype=torch.float64).uniform_(0.05, 0.2)
        A = torch.complex(-torch.rand(CHANNELS, STATE).double() - 0.5, torch.randn(CHANNELS, STATE).double().clamp(-2, 2))
        C = torch.randn(CHANNELS, STATE, dtype=torch.complex128)
        for place, length in enumerate(lengths):
            x = torch.randn(2, length, CHANNELS, dtype=torch.float64)
            apart["float64"][place].append(relative_distance(step_by_step(x, step, A, C), convolution(x, step, A, C)))
            single = (x.float(), step.float(), A.to(torch.complex64), C.to(torch.complex64))
            apart["float32"][place].append(relative_distance(step_by_step(*single), convolution(*single)))
        x = torch.randn(1, integrated, CHANNELS, dtype=torch.float64)
        truth = continuous(x, step, A, C)
        ways: dict[str, Way] = {
            "recurrence": step_by_step, "convolution": convolution, "stray": partial(discretise, euler=False)
        }  # fmt: skip
        outputs = {name: way(x, step, A, C) for name, way in ways.items()}
        for name, y in outputs.items():
            against[name].append(relative_distance(y, truth))
        if not example:
            drawn = {"continuous": truth, **outputs}
            example = {name: y[0, :SHOWN, 0].tolist() for name, y in drawn.items()}
        progress(done + 1, len(seeds))
    worst = {kind: [max(values) for values in by_length] for kind, by_length in apart.items()}
    return {"lengths": lengths, "seeds": len(seeds), "apart": worst, "against": {k: max(v) for k, v in against.items()}, "example": example}


def verdict(found: Measurements) -> Verdict:
    longest, against = found["lengths"][-1], found["against"]
    return Verdict(
        [
            at_most(
                Text(
                    f"récurrence et convolution diffèrent de {{value}} au plus, jusqu’à {longest} pas",
                    f"recurrence and convolution differ by {{value}} at most, up to {longest} steps",
                ),
                max(found["apart"]["float64"]),
                ROUNDING,
            ),
        ],
        Text(
            "En float32, récurrence et convolution diffèrent de {single} ; avec le Δ de trop de [4], l’écart au système continu "
            "est de {stray}.",
            "In float32, recurrence and convolution differ by {single}; with the Δ that [4] has too many, the distance to the continuous "
            "system is {stray}.",
        ).with_(single=number(max(found["apart"]["float32"]), 3), stray=number(against["stray"], 3)),
        controls=[
            at_most(
                Text("la récurrence s’écarte du système continu de {value}", "the recurrence is {value} from the continuous system"),
                against["recurrence"],
                INTEGRATED,
            ),
        ],
    )


def figures(found: Measurements) -> list[FigureBlock]:
    example = found["example"]
    names = {
        "continuous": Text("système continu", "continuous system"),
        "recurrence": Text("récurrence", "recurrence"),
        "convolution": Text("convolution", "convolution (FFT)"),
        "stray": Text("avec le Δ de trop de [4]", "with the stray Δ of [4]"),
    }
    places = list(range(1, len(example["continuous"]) + 1))
    outputs = [Band(words, places, example[name], baseline=name == "stray") for name, words in names.items()]
    errors = [Band(Text(f"en {kind}", f"in {kind}"), found["lengths"], values) for kind, values in found["apart"].items()]
    return [
        FigureBlock(
            Text("Trois calculs, une fonction", "Three computations, one function"),
            partial(banded_curves, outputs, Axis(Text("pas", "step")), Axis(Text("sortie", "output"))),
            Text("Les trois courbes sont l’une sur l’autre.", "The three curves lie on one another."),
        ),
        FigureBlock(
            Text("Écart entre récurrence et convolution", "Recurrence against convolution"),
            partial(
                banded_curves,
                errors,
                Axis(Text("longueur", "length"), log=True, ticks=found["lengths"]),
                DIFFERENCE,
            ),
            Text("Ce n’est que l’arrondi de chaque précision.", "It is the rounding of each precision, and nothing else."),
        ),
    ]


EXPERIMENT = Experiment(
    number=14,
    title=Text("Le maintien d’ordre zéro", "Zero-order hold"),
    claim=Text(
        "discrétisées par maintien d’ordre zéro, la récurrence et la convolution d’un modèle d’états sont la même fonction",
        "zero-order hold: the recurrence and the convolution of a state space are the same function",
    ),
    says={4: "discrétisation par maintien d'ordre zéro (zero-order hold ou ZOH) : A_d = e^{ΔA}, B_d = A⁻¹(e^{ΔA} − I)BΔ"},
    method=Text(
        "Des systèmes diagonaux tirés au hasard : la récurrence pas à pas, la convolution par FFT, et l’équation différentielle intégrée "
        f"par Runge-Kutta ({SUBSTEPS} sous-pas), l’entrée restant constante pendant Δ.",
        "Diagonal systems drawn at random: the recurrence step by step, the convolution by FFT, and the differential equation integrated "
        f"by Runge-Kutta ({SUBSTEPS} substeps) while the input stands still for Δ.",
    ),
    sabotage=Text("la récurrence fait des pas d’Euler au lieu du maintien", "the recurrence takes Euler steps instead of the hold"),
    tiny="+",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Gu et al. 2022 (S4, S4D)", "Gu & Dao 2023, eq. 4"],
    erratum=Text(
        "[4] multiplie B̄ par un Δ de trop : A⁻¹(exp(ΔA) − I)B le contient déjà (Gu & Dao 2023 l’écrivent (ΔA)⁻¹(exp(ΔA) − I)·ΔB).",
        "[4] multiplies B̄ by a Δ too many: A⁻¹(exp(ΔA) − I)B has it already (Gu & Dao 2023 write (ΔA)⁻¹(exp(ΔA) − I)·ΔB).",
    ),
)
