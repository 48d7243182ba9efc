"""L22: LayerNorm works with small batches, BatchNorm does not.

    y = (x − μ) / σ:     μ, σ over the components of an example (LayerNorm), or over the examples of a batch, for each component (BatchNorm)

(Ba et al. 2016, against Ioffe & Szegedy 2015.) With few examples μ and σ of a batch are noise, and other ones than the running
means that BatchNorm uses once trained. The network is the feed-forward half of a transformer, and reads handwritten digits, each
one vector.
"""

from functools import cache, partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentif.data.builtin.digits import load
from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, over_seeds
from attentif.lab.seeds import lead, seed_band
from attentif.lab.small import make_tick, optimize
from attentif.nn.seq import Seq
from attentif.nn.stack import Stack, StackConfig
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock
from attentif.view.figures import Axis, banded_curves
from attentif.view.figures.axes import RIGHT_ANSWERS
from attentif.view.words import Text, percent

PIXELS, CLASSES = 64, 10
WORKS = 0.7  # right answers of LayerNorm with the smallest batch
AHEAD = 0.2  # right answers more than BatchNorm, with the smallest batch
DUE = 0.1  # of this lead that larger batches take away: it is due to the batch
NAMES = {"layer": Text("LayerNorm", "LayerNorm"), "batch": Text("BatchNorm", "BatchNorm")}


class PictureNetwork(nn.Module):
    """Pictures (B, 64), pre-norm feed-forward sublayers, a linear classifier."""

    def __init__(self, norm: str, width: int, layers: int) -> None:
        super().__init__()
        block = {"ffn": {"mixer": {"kind": "feed-forward", "hidden": 2 * width}}}
        config = StackConfig.model_validate({"norm": {"kind": norm}, "block": block})
        self.project = nn.Linear(PIXELS, width)
        self.stack = Stack(config, width=width, layers=layers, dropout=0.0)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, pixels: Tensor) -> Tensor:
        y = self.stack(self.project(pixels)[:, None], Seq.from_padded([1] * len(pixels)))
        logits: Tensor = self.head(y[:, 0])
        return logits


@cache
def pictures(split: str) -> tuple[Tensor, Tensor]:
    columns = load(0)[split]
    pixels = torch.from_numpy(np.stack(columns["image"])).flatten(1).float() / 255
    return pixels, torch.tensor([int(label) for label in columns["label"]])


def measure(settings: Settings, progress: Progress) -> Measurements:
    sizes = settings.pick(tiny=[2, 32], normal=[2, 4, 8, 32], full=[2, 4, 8, 16, 32, 64, 128])
    steps, width = settings.pick(tiny=300, normal=1000, full=5000), settings.pick(tiny=32, normal=64, full=64)
    seeds, layers = settings.seeds(tiny=1, normal=4, full=10), settings.pick(tiny=1, normal=2, full=2)
    pixels, labels = pictures("train")
    asked, expected = pictures("test")
    tick = make_tick(progress, len(NAMES) * len(sizes) * len(seeds) * steps)

    def right(norm: str, size: int, seed: int) -> float:
        torch.manual_seed(seed)
        reader = PictureNetwork("batch" if settings.without_effect else norm, width, layers)
        drawn = np.random.default_rng(seed).integers(0, len(labels), (steps, size))
        loss = lambda step: F.cross_entropy(reader(pixels[drawn[step]]), labels[drawn[step]])
        optimize(reader, loss, steps=steps, tick=tick)
        with torch.no_grad():
            return float((reader(asked).argmax(-1) == expected).double().mean())

    answers = {norm: [[right(norm, size, seed) for seed in seeds] for size in sizes] for norm in NAMES}
    return {"sizes": sizes, "steps": steps, "seeds": len(seeds), "answers": answers}


def verdict(found: Measurements) -> Verdict:
    layer, batch = found["answers"]["layer"], found["answers"]["batch"]
    small, large = lead(layer[0], batch[0]), lead(layer[-1], batch[-1])
    least, most = found["sizes"][0], found["sizes"][-1]
    return Verdict(
        [
            at_least(
                Text(
                    f"avec {least} exemples par lot, LayerNorm répond juste {{value}} du temps",
                    f"with {least} examples in a batch, LayerNorm is right {{value}} of the time",
                ),
                over_seeds(layer[0]),
                WORKS,
                percent,
            ),
            at_least(Text("de plus que BatchNorm : {value}", "more than BatchNorm: {value}"), over_seeds(small), AHEAD, percent),
        ],
        controls=[
            at_least(
                Text(
                    f"de l’avance de LayerNorm, {most} exemples ôtent {{value}}",
                    f"of LayerNorm’s lead, {most} examples take away {{value}}",
                ),
                over_seeds(lead(small, large)),
                DUE,
                percent,
            ),
        ],
    )


def figures(found: Measurements) -> list[FigureBlock]:
    sizes = found["sizes"]
    bands = [seed_band(words, sizes, found["answers"][name]) for name, words in NAMES.items()]
    across = Axis(Text("exemples par lot", "examples in a batch"), log=True, ticks=sizes)
    up = RIGHT_ANSWERS
    return [
        FigureBlock(
            Text("Ce qui est appris, selon la taille des lots", "What is learned, by the size of batches"),
            partial(banded_curves, bands, across, up),
            Text(
                f"{found['steps']} pas à chaque taille : les grands lots voient plus d’exemples. La bande est l’intervalle à 95 % sur les "
                "graines.",
                f"{found['steps']} steps at every size: large batches see more examples. The band is the 95 % interval over seeds.",
            ),
        )
    ]


EXPERIMENT = Experiment(
    number=22,
    title=Text("LayerNorm, BatchNorm et la taille des lots", "LayerNorm, BatchNorm and the size of batches"),
    claim=Text(
        "LayerNorm fonctionne avec de petits lots, BatchNorm non",
        "LayerNorm works with small batches, BatchNorm does not",
    ),
    says={3: "Layer normalization […] Note : fonctionne avec les petits batchs à la différence d’une BatchNorm"},
    method=Text(
        "Les sous-couches d’un transformeur qui suivent l’attention (résidu, pre-norm, réseau) lisent des chiffres manuscrits (ceux de "
        "scikit-learn), un vecteur chacun, avec LayerNorm puis avec BatchNorm, pour plusieurs tailles de lot : mêmes pas, mêmes graines, "
        "mêmes exemples.",
        "The sublayers of a transformer that follow attention (residual, pre-norm, network) read handwritten digits (scikit-learn’s), one "
        "vector each, with LayerNorm and with BatchNorm, for several sizes of batch: the same steps, seeds and examples.",
    ),
    sabotage=Text("BatchNorm des deux côtés", "BatchNorm on both sides"),
    tiny="+.",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Ba et al. 2016", "Ioffe & Szegedy 2015"],
    remarks=[
        Text(
            "Un lot de suites a bien plus de jetons que d’exemples : BatchNorm sur tous les jetons y souffre moins. On l’essaie dans "
            'n’importe quel modèle avec norm = { kind = "batch" }.',
            "A batch of sequences has many more tokens than examples: BatchNorm over all of them suffers less. Any model tries it with "
            'norm = { kind = "batch" }.',
        ),
    ],
    choices=[
        Text(
            "Ce dispositif a été revu : sous une première forme de l’expérience, l’affirmation n’était pas vérifiée.",
            "This setting was redesigned: in a first form of the experiment the claim did not hold.",
        ),
    ],
)
