"""L1: the gradient of an RNN vanishes or explodes with distance; clipping cures the second, LSTM and GRU soften the first.

    ∂h_T/∂h_t = Π_s diag(φ'(a_s)) U:     a product of T − t factors, all smaller or all larger than one on average

(Bengio et al. 1994; Pascanu et al. 2013.) What is measured is the gradient of the last output with respect to each input, by distance, and,
for clipping, whether a network whose gradients explode learns at all.
"""

from collections.abc import Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, at_most, over_seeds, ratio_over_seeds
from attentif.lab.seeds import seed_band
from attentif.nn.mixer import Site
from attentif.nn.mixers.gru import GRUConfig
from attentif.nn.mixers.lstm import LSTMConfig
from attentif.nn.mixers.rnn import RNN, RNNConfig
from attentif.nn.recurrent import Recurrent
from attentif.nn.seq import Seq
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock
from attentif.view.figures import Axis, banded_curves
from attentif.view.words import Text, percent

WIDTH, ROWS = 32, 8
SMALL, LARGE = 0.7, 3.0  # factors on the orthogonal weights of the state
OPEN = 3.0  # bias of an opened gate: σ(3) = 0.95 of the state is kept
VANISHED, EXPLODED = 1e-3, 1e3  # of the gradient, over the distance
SOFTENED = 100.0  # times as much gradient left as the plain RNN has: 1.1 times for each of 50 steps
CURED = 0.5  # right answers more with clipping than without
VOCAB, LENGTH, RATE, NORM = 8, 30, 0.1, 1.0  # of the training that clipping is to save
NAMES = {
    "small": Text(f"RNN, poids × {SMALL}".replace(".", ","), f"RNN, weights × {SMALL}"),
    "plain": Text("RNN, poids orthogonaux", "RNN, orthogonal weights"),
    "large": Text("RNN, poids × 3", "RNN, weights × 3"),
    "lstm": Text("LSTM", "LSTM"),
    "gru": Text("GRU", "GRU"),
    "open": Text("GRU, porte ouverte", "GRU, gate opened"),
}


class Identity(nn.Module):
    """h_t = h_{t-1} + x_t: the recurrence whose gradient neither vanishes nor explodes."""

    def forward(self, x: Tensor, seq: Seq) -> Tensor:
        return x.cumsum(1)


def cells(without_effect: bool) -> Iterator[tuple[str, nn.Module]]:
    for name in NAMES:
        if without_effect:
            yield name, Identity()
            continue
        config = {"lstm": LSTMConfig(), "gru": GRUConfig(), "open": GRUConfig()}.get(name, RNNConfig())
        cell = config.build(Site(width=WIDTH))
        assert isinstance(cell, Recurrent)
        with torch.no_grad():
            cell.w_h.mul_({"small": SMALL, "large": LARGE}.get(name, 1.0))
            if name == "open":
                cell.x.bias[WIDTH : 2 * WIDTH] = OPEN  # r, z, n: z is what is kept
        yield name, cell


def flow(cell: nn.Module, distance: int) -> list[float]:
    """‖∂(r·h_T)/∂x_{T−k}‖ over that at k = 0, for k = 0 ... distance: a geometric mean over rows."""
    x = torch.randn(ROWS, distance + 1, WIDTH, requires_grad=True)
    y = cell(x, Seq.from_padded([distance + 1] * ROWS))
    (gradient,) = torch.autograd.grad((y[:, -1] * torch.randn(ROWS, WIDTH)).sum(), x)
    norms = gradient.norm(dim=-1).double().log().mean(0).flip(0)
    return (norms - norms[0]).exp().tolist()


def train_to_recall(clip: bool, seed: int, steps: int) -> float:
    """Right answers of a ReLU network (Le et al. 2015) after training to name the last token, by plain gradient descent."""
    torch.manual_seed(seed)
    cell = RNN(RNNConfig(activation="relu"), Site(width=WIDTH))
    parts = nn.ModuleList([nn.Embedding(VOCAB, WIDTH), cell, nn.Linear(WIDTH, VOCAB)])
    optimizer = torch.optim.SGD(parts.parameters(), lr=RATE)
    seq = Seq.from_padded([LENGTH] * 32)
    right = []
    for _ in range(steps):
        tokens = torch.randint(0, VOCAB, (32, LENGTH))
        logits = parts[2](cell(parts[0](tokens), seq)[:, -1])
        F.cross_entropy(logits, tokens[:, -1]).backward()
        nn.utils.clip_grad_norm_(parts.parameters(), NORM if clip else float("inf"))
        optimizer.step()
        optimizer.zero_grad()
        right.append(float((logits.argmax(-1) == tokens[:, -1]).double().mean()))
    return sum(right[-10:]) / len(right[-10:])


def measure(settings: Settings, progress: Progress) -> Measurements:
    distance = settings.pick(tiny=40, normal=50, full=80)  # beyond, float32 underflows
    seeds = settings.seeds(tiny=3, normal=10, full=30)
    runs = settings.seeds(tiny=2, normal=5, full=10)
    steps = settings.pick(tiny=50, normal=150, full=400)
    flows: dict[str, list[list[float]]] = {name: [] for name in NAMES}
    total = len(seeds) + len(runs)
    for done, seed in enumerate(seeds):
        torch.manual_seed(seed)
        for name, cell in cells(settings.without_effect):
            flows[name].append(flow(cell, distance))
        progress(done + 1, total)
    right: dict[str, list[float]] = {"clipped": [], "free": []}
    for done, seed in enumerate(runs):
        right["clipped"].append(train_to_recall(True, seed, steps))
        right["free"].append(train_to_recall(settings.without_effect, seed, steps))
        progress(len(seeds) + done + 1, total)
    return {"distance": distance, "seeds": len(seeds), "runs": len(runs), "flows": flows, "right": right}


def verdict(found: Measurements) -> Verdict:
    far, right = found["distance"], found["right"]
    last = {name: [one[-1] for one in flows] for name, flows in found["flows"].items()}
    more = {
        name: ratio_over_seeds([ours / plain for ours, plain in zip(last[name], last["plain"], strict=True)])
        for name in ("lstm", "gru", "open")
    }
    return Verdict(
        [
            at_most(
                Text(
                    f"à {far} pas, il reste {{value}} du gradient d’un RNN aux petits poids",
                    f"after {far} steps {{value}} is left of the gradient of an RNN with small weights",
                ),
                ratio_over_seeds(last["small"]),
                VANISHED,
            ),
            at_least(Text("aux grands poids, {value}", "with large weights, {value}"), ratio_over_seeds(last["large"]), EXPLODED),
            at_least(
                Text("l’écrêtage apporte {value} de réponses justes", "clipping brings {value} more right answers"),
                over_seeds([with_ - without for with_, without in zip(right["clipped"], right["free"], strict=True)]),
                CURED,
                percent,
            ),
            *(
                at_least(
                    Text(
                        f"{NAMES[name].fr} : {{value}} fois plus de gradient que le RNN",
                        f"{NAMES[name].en}: {{value}} times the RNN’s gradient",
                    ),
                    score,
                    SOFTENED,
                )
                for name, score in more.items()
            ),
        ],
        Text("Réponses justes avec écrêtage : {clipped}, sans : {free}.", "Right answers with clipping: {clipped}, without: {free}.").with_(
            **{name: percent(over_seeds(values).value) for name, values in right.items()}
        ),
    )


def figures(found: Measurements) -> list[FigureBlock]:
    distances = list(range(found["distance"] + 1))
    bands = [seed_band(words, distances, list(zip(*found["flows"][name], strict=True)), ratio_over_seeds) for name, words in NAMES.items()]
    axis = Axis(Text("gradient (1 à distance 0)", "gradient (1 at distance 0)"), log=True)
    about = Text(
        "Chaque droite est un facteur par pas : sous 1 le gradient s’évanouit, au-dessus il explose. La bande est l’intervalle à 95 % sur "
        "les graines.",
        "Each line is a factor for each step: below 1 the gradient vanishes, above it explodes. The band is the 95 % interval over seeds.",
    )
    title = Text("Ce qui revient du gradient, selon la distance", "What comes back of the gradient, by distance")
    return [FigureBlock(title, partial(banded_curves, bands, Axis(Text("distance (pas)", "distance (steps)")), axis), about)]


EXPERIMENT = Experiment(
    number=1,
    title=Text("Le gradient d’un réseau récurrent", "The gradient of a recurrent network"),
    claim=Text(
        "le gradient d’un RNN s’évanouit ou explose avec la distance ; l’écrêtage guérit le second mal, LSTM et GRU atténuent le premier",
        "the gradient of an RNN vanishes or explodes with distance; clipping cures the second, LSTM and GRU soften the first",
    ),
    says={
        1: "Les gradients peuvent : exploser (instabilités numériques, nécessite du clipping), s’évanouir […] Les LSTM atténuent mais ne "
        "résolvent pas complètement le vanishing gradient problem.",
        2: "Exploding gradient → gradient clipping. Vanishing gradient → too difficult for RNN to preserve information over long "
        "periods of time",
        3: "Gradient vanishing",
    },
    method=Text(
        f"La norme du gradient de la dernière sortie par rapport à chaque entrée, au début de l’apprentissage (largeur {WIDTH}, poids "
        "orthogonaux multipliés par un facteur) ; LSTM et GRU comme on les commence d’habitude, et un GRU dont la porte est ouverte. "
        "L’écrêtage : un réseau ReLU entraîné avec et sans, mêmes graines.",
        f"The norm of the gradient of the last output with respect to each input, at the beginning of training (width {WIDTH}, orthogonal "
        "weights times a factor); LSTM and GRU as they are usually begun, and a GRU whose gate is opened. Clipping: a ReLU network trained "
        "with it and without, same seeds.",
    ),
    sabotage=Text(
        "chaque cellule est remplacée par une somme, et les deux apprentissages sont écrêtés",
        "every cell is replaced by a sum, and both trainings are clipped",
    ),
    tiny="+..+-+",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Bengio et al. 1994", "Pascanu et al. 2013", "Le et al. 2015", "Jozefowicz et al. 2015"],
    remarks=[
        Text(
            "Au début de l’apprentissage la porte d’un GRU est à moitié fermée (σ(0) = 1/2) : son gradient décroît comme celui d’un RNN. "
            "Celle d’un LSTM commence entrouverte, par son biais de 1. C’est ce que les portes peuvent apprendre qui les distingue d’un "
            "RNN.",
            "At the beginning of training the gate of a GRU is half closed (σ(0) = 1/2): its gradient decays as that of an RNN. That of "
            "an LSTM begins ajar, by its bias of 1. It is what gates can learn that sets them apart from an RNN.",
        )
    ],
)
