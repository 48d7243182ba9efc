"""L31: a perceptron cannot separate XOR, two layers can; one hidden layer approximates any continuous function, the better the wider.

    perceptron   y = [w·x + b > 0]        two layers   y = W₂ tanh(W₁ x + b₁) + b₂

(Minsky & Papert 1969; Cybenko 1989, Hornik 1991.) No line has (0,0) and (1,1) on one side and (0,1) and (1,0) on the other: three of the
four answers are the most that a perceptron can get right. The approximation is of f(x) = sin 3πx + |x| on [−1, 1].
"""

from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, at_most, over_seeds, ratio_over_seeds
from attentif.lab.seeds import seed_band
from attentif.lab.small import make_tick, optimize
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock
from attentif.view.figures import Axis, banded_curves
from attentif.view.words import Text, percent

MOST = 0.75  # of the four answers, that any line can get right
SOLVED = 0.99  # of the four answers, by two layers: mean over seeds
FALLS = 0.25  # of the error of the narrowest layer that the widest leaves
XOR = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), torch.tensor([[0.0], [1.0], [1.0], [0.0]])


def network(hidden: int, inputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, 1)) if hidden else nn.Linear(inputs, 1)


def wave(x: Tensor) -> Tensor:
    return torch.sin(3 * torch.pi * x) + x.abs()


def measure(settings: Settings, progress: Progress) -> Measurements:
    seeds, steps = settings.seeds(tiny=2, normal=5, full=20), settings.pick(tiny=150, normal=1000, full=5000)
    widths = settings.pick(tiny=[2, 32], normal=[2, 4, 16, 64], full=[2, 4, 8, 16, 32, 64, 128])
    tick = make_tick(progress, (2 + len(widths)) * len(seeds) * steps)
    inputs, answers = XOR

    def right(hidden: int, seed: int) -> float:
        torch.manual_seed(seed)
        model = network(hidden, 2)
        optimize(model, lambda _: nn.functional.binary_cross_entropy_with_logits(model(inputs), answers), steps=steps, lr=0.1, tick=tick)
        with torch.no_grad():
            return float(((model(inputs) > 0) == (answers > 0)).double().mean())

    def off(hidden: int, seed: int) -> float:
        torch.manual_seed(seed)
        model, x = network(hidden, 1), torch.linspace(-1, 1, 256)[:, None]
        optimize(model, lambda _: (model(x) - wave(x)).square().mean(), steps=steps, lr=0.02, tick=tick)
        with torch.no_grad():
            return float((model(x) - wave(x)).square().mean().sqrt())

    deep = 0 if settings.without_effect else 8
    xor = {"perceptron": [right(0, seed) for seed in seeds], "two layers": [right(deep, seed) for seed in seeds]}
    kept = [2 if settings.without_effect else width for width in widths]
    return {
        "xor": xor,
        "best": best_line(),
        "widths": widths,
        "errors": [[off(width, seed) for seed in seeds] for width in kept],
        "steps": steps,
    }


def best_line() -> float:
    """The most of the four answers that a line gets right, among all lines of a fine grid: a bound that does not depend on training."""
    angles, shifts = np.meshgrid(np.linspace(0, 2 * np.pi, 721), np.linspace(-2, 2, 401))
    points, answers = XOR[0].numpy(), XOR[1].numpy()[:, 0] > 0
    above = np.cos(angles)[..., None] * points[:, 0] + np.sin(angles)[..., None] * points[:, 1] + shifts[..., None] > 0
    return float((above == answers).mean(-1).max())


def verdict(found: Measurements) -> Verdict:
    errors = np.array(found["errors"])
    first, last = found["widths"][0], found["widths"][-1]
    return Verdict(
        [
            at_most(
                Text("une droite répond juste au mieux {value} du temps", "the best line is right {value} of the time"),
                found["best"],
                MOST,
                percent,
            ),
            at_least(
                Text("deux couches répondent juste {value} du temps", "two layers are right {value} of the time"),
                over_seeds(found["xor"]["two layers"]),
                SOLVED,
                percent,
            ),
            at_most(
                Text(
                    f"de {first} à {last} neurones cachés, il reste {{value}} de l’erreur",
                    f"from {first} to {last} hidden units, {{value}} of the error is left",
                ),
                ratio_over_seeds((errors[-1] / errors[0]).tolist()),
                FALLS,
            ),
        ],
        controls=[
            at_most(
                Text("le perceptron entraîné répond juste {value} du temps", "the trained perceptron is right {value} of the time"),
                over_seeds(found["xor"]["perceptron"]),
                MOST,
                percent,
            )
        ],
    )


def figures(found: Measurements) -> list[FigureBlock]:
    band = seed_band(Text("une couche cachée", "one hidden layer"), found["widths"], found["errors"])
    across = Axis(Text("neurones cachés", "hidden units"), log=True, ticks=found["widths"])
    up = Axis(Text("erreur quadratique moyenne (racine)", "root mean square error"), log=True)
    return [
        FigureBlock(
            Text("Une fonction approchée par une couche", "A function approximated by one layer"),
            partial(banded_curves, [band], across, up),
            Text(f"sin 3πx + |x| sur [−1, 1], {found['steps']} pas.", f"sin 3πx + |x| on [−1, 1], {found['steps']} steps."),
        )
    ]


EXPERIMENT = Experiment(
    number=31,
    title=Text("Le perceptron, XOR et une couche cachée", "The perceptron, XOR and one hidden layer"),
    claim=Text(
        "un perceptron ne sépare pas XOR, deux couches oui ; une couche cachée approche toute fonction continue, d’autant mieux qu’elle "
        "est large",
        "a perceptron cannot separate XOR, two layers can; one hidden layer approximates any continuous function, the better the wider",
    ),
    says={},
    method=Text(
        "Toutes les droites d’une grille fine sont essayées sur les quatre points de XOR ; puis un perceptron et un réseau à une couche "
        "cachée l’apprennent. Des couches de plus en plus larges approchent ensuite une fonction continue : mêmes pas, mêmes graines.",
        "All lines of a fine grid are tried on the four points of XOR; then a perceptron and a network with one hidden layer learn it. "
        "Wider and wider layers then approximate a continuous function: the same steps and seeds.",
    ),
    sabotage=Text("aucune couche cachée, et jamais plus de deux neurones", "no hidden layer, and never more than two units"),
    tiny="+.-",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Minsky & Papert 1969", "Cybenko 1989", "Hornik 1991"],
    remarks=[
        Text(
            "Le théorème dit qu’il existe de tels poids, non que l’apprentissage les trouve : ce qui est mesuré est ce qu’il trouve.",
            "The theorem says that such weights exist, not that training finds them: what is measured is what it finds.",
        ),
    ],
)
