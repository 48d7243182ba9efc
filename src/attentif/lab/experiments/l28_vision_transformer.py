"""L28: with little data a vision transformer is behind a convolutional network of the same size; more data bring it nearer.

    CNN   a 5 × 5 window with the same weights at every place; half as fine from stage to stage       (LeCun et al. 1998)
    ViT   patches as tokens: what stands next to what, and that it looks alike elsewhere, is learned   (Dosovitskiy et al. 2021)

The pictures are real: scikit-learn's handwritten digits, 8 × 8 pixels.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentif.data.builtin import digits
from attentif.data.builtin.registry import Columns
from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, over_seeds
from attentif.lab.seeds import seed_band
from attentif.lab.small import make_tick, optimize
from attentif.models import Batch, Input, build, resolve
from attentif.nn.seq import Seq
from attentif.tasks.base import Progress
from attentif.tasks.vision.image import channel_scale, standardise
from attentif.tasks.vision.image_baselines import network
from attentif.view.blocks import FigureBlock
from attentif.view.figures import Axis, banded_curves
from attentif.view.figures.axes import RIGHT_ANSWERS
from attentif.view.words import Text, count, percent

AHEAD = 0.05  # right answers by which the CNN leads with the fewest pictures: more than the draw of the test pictures moves it
NEARER = 0.05  # right answers by which that lead has shrunk with all of them
BATCH = 32
SIDE, CLASSES, PATCH = 8, 10, 2
TOKENS = 1 + (SIDE // PATCH) ** 2  # the class token and the patches
RATE = 1e-2  # in trials with all pictures and two seeds, for both no worse than 3e-3
NAMES = {"cnn": Text("réseau convolutif", "convolutional network"), "vit": Text("transformer (ViT)", "transformer (ViT)")}


def vision_transformer() -> nn.Module:
    """`vit-tiny` with the positions of the paper, narrow and shallow enough to have as many parameters as the network."""
    position = {"kind": "learned", "max_len": TOKENS}
    frontend = {"size": PATCH, "channels": 1, "height": SIDE, "width": SIDE, "position": position}
    return build(resolve({"base": "vit-tiny", "width": 24, "layers": 2, "frontend": frontend, "head": {"classes": CLASSES}}))


def answers(model: nn.Module, pictures: Tensor) -> Tensor:
    """Logits (B, CLASSES)."""
    if isinstance(model, nn.Sequential):
        return model(pictures)
    logits, _ = model(Batch(Input(pictures, Seq.from_padded([TOKENS] * len(pictures)))))
    return logits


def arrays(columns: Columns, order: np.ndarray) -> tuple[np.ndarray, Tensor]:
    """Pictures (B, 1, 8, 8) with their pixels in this order, and labels."""
    pixels = np.stack(columns["image"]).reshape(-1, SIDE * SIDE)[:, order].reshape(-1, 1, SIDE, SIDE)
    return pixels, torch.tensor([int(label) for label in columns["label"]])


def right_answers(
    kind: str, pictures: int, steps: int, seed: int, tick: Callable[[], None], *, shuffled: bool = False
) -> tuple[float, int]:
    """The share of right answers on the test pictures after training on so many others, and the number of parameters."""
    splits = digits.load(seed)
    draws = np.random.default_rng(seed)
    chosen = draws.permutation(len(splits["train"]["label"]))[:pictures]  # fewer pictures are among the more
    order = draws.permutation(SIDE * SIDE) if shuffled else np.arange(SIDE * SIDE)
    (seen, labels), (unseen, true) = (arrays(splits[split], order) for split in ("train", "test"))
    ready = partial(standardise, mean=channel_scale(seen[chosen])[0], std=channel_scale(seen[chosen])[1])
    x, y = ready(seen[chosen]), labels[chosen]
    torch.manual_seed(seed)
    model = network(1, SIDE, CLASSES) if kind == "cnn" else vision_transformer()

    def loss(_: int) -> Tensor:
        rows = torch.from_numpy(draws.integers(0, len(x), BATCH))
        return F.cross_entropy(answers(model, x[rows]), y[rows])

    optimize(model, loss, steps=steps, lr=RATE, tick=tick)
    with torch.no_grad():
        right = float((answers(model, ready(unseen)).argmax(-1) == true).float().mean())
    return right, sum(weight.numel() for weight in model.parameters())


def measure(settings: Settings, progress: Progress) -> Measurements:
    """By kind of model and number of pictures, seed by seed; and with the fewest pictures, their pixels shuffled."""
    all_of_them = len(digits.load(0)["train"]["label"])
    sizes = settings.pick(tiny=[50, all_of_them], normal=[50, 150, 450, all_of_them], full=[25, 50, 100, 200, 400, 800, all_of_them])
    steps, seeds = settings.pick(tiny=80, normal=400, full=1500), settings.seeds(tiny=1, normal=3, full=8)
    tick = make_tick(progress, len(NAMES) * len(seeds) * (len(sizes) + 1) * steps)
    found: Measurements = {"sizes": sizes, "steps": steps, "seeds": len(seeds), "weights": {}, "right": {}, "shuffled": {}}
    for kind in NAMES:
        found["right"][kind] = []
        for size in sizes:
            given = all_of_them if settings.without_effect else size
            runs = [right_answers(kind, given, steps, seed, tick) for seed in seeds]
            found["right"][kind].append([right for right, _ in runs])
            found["weights"][kind] = runs[0][1]
        found["shuffled"][kind] = [right_answers(kind, sizes[0], steps, seed, tick, shuffled=True)[0] for seed in seeds]
    return found


def verdict(found: Measurements) -> Verdict:
    few, many = found["sizes"][0], found["sizes"][-1]
    lead = lambda by_kind: [cnn - vit for cnn, vit in zip(by_kind["cnn"], by_kind["vit"], strict=True)]
    first, last = (lead({kind: rows[place] for kind, rows in found["right"].items()}) for place in (0, -1))
    return Verdict(
        [
            at_least(
                Text(
                    f"avec {few} images, le réseau convolutif répond juste {{value}} plus souvent",
                    f"with {few} pictures the convolutional network is right {{value}} more often",
                ),
                over_seeds(first),
                AHEAD,
                percent,
            ),
            at_least(
                Text(f"avec {count(many).fr}, son avance a baissé de {{value}}", f"with {count(many).en} its lead has shrunk by {{value}}"),
                over_seeds([early - late for early, late in zip(first, last, strict=True)]),
                NEARER,
                percent,
            ),
        ],
        Text(
            "Avec toutes les images, le réseau convolutif ({cnn_weights} paramètres) répond juste {cnn} du temps, le transformer "
            "({vit_weights}) {vit}. Les pixels mélangés, avec {few} images, l’avance est encore de {shuffled}.",
            "With all pictures the convolutional network ({cnn_weights} parameters) is right {cnn} of the time, the transformer "
            "({vit_weights}) {vit}. With the pixels shuffled and {few} pictures, the lead is still {shuffled}.",
        ).with_(
            few=count(few),
            shuffled=percent(over_seeds(lead(found["shuffled"])).value),
            **{kind: percent(over_seeds(found["right"][kind][-1]).value) for kind in NAMES},
            **{f"{kind}_weights": count(found["weights"][kind]) for kind in NAMES},
        ),
    )


def figures(found: Measurements) -> list[FigureBlock]:
    sizes = found["sizes"]
    bands = [seed_band(words, sizes, found["right"][kind]) for kind, words in NAMES.items()]
    axes = (
        Axis(Text("images d’entraînement", "training pictures"), log=True, ticks=sizes),
        RIGHT_ANSWERS,
    )
    return [
        FigureBlock(
            Text("Réponses justes selon le nombre d’images", "Right answers against the number of pictures"),
            partial(banded_curves, bands, *axes),
            Text(
                f"{found['steps']} pas de {BATCH} images pour chacun ; la bande est l’intervalle à 95 % entre les graines.",
                f"{found['steps']} steps of {BATCH} pictures for each; the band is the 95 % interval over seeds.",
            ),
        )
    ]


EXPERIMENT = Experiment(
    number=28,
    title=Text("Transformer de vision et réseau convolutif", "Vision transformer and convolutional network"),
    claim=Text(
        "avec peu de données un ViT est derrière un réseau convolutif de même taille, et davantage de données l’en rapproche",
        "with little data a ViT is behind a convolutional network of the same size, and more data bring it nearer",
    ),
    says={
        0: "on se rend compte que transformers peut remplacer les convolutions",
        2: "“Tokenize” the image by cutting it into patches",
    },
    method=Text(
        "Un petit ViT et un petit réseau convolutif, de même taille à un huitième près, apprennent à lire les chiffres manuscrits de "
        "scikit-learn, avec le même nombre de pas et sans augmentation. Ce qui décide : les réponses justes sur les mêmes images de test, "
        "qu’aucun n’a vues.",
        "A small ViT and a small convolutional network, of the same size within an eighth, learn to read scikit-learn’s handwritten "
        "digits, with the same number of steps and no augmentation. What decides: the right answers on the same test pictures, which "
        "neither has seen.",
    ),
    sabotage=Text(
        "toutes les images sont données, quel que soit le nombre demandé", "all pictures are given, whatever the number asked for"
    ),
    tiny="++",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["LeCun et al. 1998", "Dosovitskiy et al. 2021, fig. 3 and 4", "Raghu et al. 2021"],
    choices=[
        Text(
            "Le taux d’apprentissage a été choisi au vu d’essais avec toutes les images et deux graines.",
            "The learning rate was chosen in view of trials with all pictures and two seeds.",
        )
    ],
    remarks=[
        Text(
            "« Remplacer les convolutions » demande bien plus d’images que ces chiffres : chez Dosovitskiy et al., le ViT pré-entraîné "
            "sur 1,3 million d’images reste derrière, et passe devant avec 300 millions.",
            "“Replacing convolutions” takes far more pictures than these digits: with Dosovitskiy et al., a ViT pre-trained on "
            "1.3 million pictures stays behind, and comes out ahead with 300 million.",
        ),
        Text(
            "Les pixels mélangés (de la même façon dans toutes les images), être voisin ne veut plus rien dire : ce qui reste de l’avance "
            "ne vient pas du voisinage. Sur 8 × 8 pixels, une fenêtre de 5 × 5 voit presque tout.",
            "With the pixels shuffled, the same way in all pictures, being neighbours means nothing any more: what is left of the lead "
            "does not come from it. On 8 × 8 pixels, a window of 5 × 5 sees nearly everything.",
        ),
    ],
)
