"""L11: residuals and normalisation are what lets depth train; pre-norm needs no warm-up.

    pre   x + f(n(x))        post   n(x + f(x))        without residual   f(n(x))        without norm   x + f(x)

(He et al. 2016 for the sum, Ba et al. 2016 for the norm, Xiong et al. 2020 for its place.) The task is one that a single layer can do, to
name the token before: whatever a deeper stack loses on it, it loses by its depth.
"""

from functools import partial
from typing import Any

from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, over_seeds
from attentif.lab.rows import token_before
from attentif.lab.seeds import estimate, intervals_caption, lead, seed_band
from attentif.lab.small import accuracy, make_tick, train_model
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock
from attentif.view.figures import Axis, banded_curves, intervals
from attentif.view.figures.axes import RIGHT_ANSWERS
from attentif.view.words import Text, percent

VOCAB, LENGTH, RATE = 8, 8, 3e-3
WARM = 0.3  # of the steps, with warm-up
TRAINS = 0.9  # right answers from which on the network has learned its task
LOST = 0.2  # of the answers, without the part in question: more than seeds differ by
HELD_OUT = 500
KINDS: dict[str, tuple[Text, dict[str, Any]]] = {
    "both": (Text("les deux (pre-norm)", "both (pre-norm)"), {}),
    "no-norm": (Text("sans normalisation", "without normalisation"), {"placement": "none"}),
    "no-residual": (Text("sans résidu", "without residuals"), {"residual": False}),
}
STARTS: dict[str, tuple[Text, str, float]] = {
    "pre-cold": (Text("pre-norm, sans échauffement", "pre-norm, no warm-up"), "pre", 0.0),
    "post-warm": (Text("post-norm, avec échauffement", "post-norm, warm-up"), "post", WARM),
    "post-cold": (Text("post-norm, sans échauffement", "post-norm, no warm-up"), "post", 0.0),
}


def model(layers: int, width: int, *, placement: str = "pre", residual: bool = True) -> dict[str, Any]:
    mixers: dict[str, dict[str, Any]] = {
        "attn": {"kind": "attention", "heads": 2},
        "ffn": {"kind": "feed-forward", "hidden": 2 * width, "activation": "relu"},
    }
    return {
        "width": width,
        "layers": layers,
        "dropout": 0.0,
        "init": {"kind": "xavier", "depth_scaled": False},  # as in 2017: nothing but the norm keeps the sum from growing
        "frontend": {"kind": "tokens", "vocab": VOCAB, "position": {"kind": "learned", "max_len": LENGTH}},
        "encoder": {"placement": placement, "block": {name: {"mixer": mixer, "residual": residual} for name, mixer in mixers.items()}},
        "head": {"kind": "language", "tied": False},
    }


def measure(settings: Settings, progress: Progress) -> Measurements:
    depths = settings.pick(tiny=[1, 2], normal=[1, 3, 8], full=[1, 2, 4, 8, 16])
    width, steps = settings.pick(tiny=16, normal=32, full=32), settings.pick(tiny=45, normal=200, full=600)
    seeds = settings.seeds(tiny=1, normal=3, full=8)
    rows = token_before(VOCAB, settings.pick(tiny=4, normal=LENGTH, full=LENGTH))
    tick = make_tick(progress, len(seeds) * (len(KINDS) * len(depths) + len(STARTS)) * steps)

    def train_depth(seed: int, layers: int, warm_up: float = WARM, **parts: Any) -> float:
        if settings.without_effect:
            parts = {"placement": "none", "residual": False}
        rate = settings.pick(tiny=1e-2, normal=RATE, full=RATE)
        small = train_model(model(layers, width, **parts), rows, steps=steps, batch=16, lr=rate, warm_up=warm_up, seed=seed, tick=tick)
        return accuracy(small, rows(HELD_OUT, 7_000_000 + seed))

    by_depth = {name: [[train_depth(seed, depth, **parts) for seed in seeds] for depth in depths] for name, (_, parts) in KINDS.items()}
    starts = {name: [train_depth(seed, depths[-1], warm, placement=place) for seed in seeds] for name, (_, place, warm) in STARTS.items()}
    return {"depths": depths, "steps": steps, "seeds": len(seeds), "by_depth": by_depth, "starts": starts}


def verdict(found: Measurements) -> Verdict:
    depth, starts = found["depths"][-1], found["starts"]
    deepest = {name: right[-1] for name, right in found["by_depth"].items()}
    gained = over_seeds(lead(starts["post-warm"], starts["post-cold"]))
    return Verdict(
        [
            at_least(
                Text(
                    f"avec résidus et normalisation, {depth} couches répondent juste {{value}} du temps",
                    f"with residuals and normalisation, {depth} layers are right {{value}} of the time",
                ),
                over_seeds(deepest["both"]),
                TRAINS,
                percent,
            ),
            at_least(
                Text("sans résidu, {value} de réponses justes en moins", "without residuals, {value} fewer right answers"),
                over_seeds(lead(deepest["both"], deepest["no-residual"])),
                LOST,
                percent,
            ),
            at_least(
                Text("sans normalisation, {value} en moins", "without normalisation, {value} fewer"),
                over_seeds(lead(deepest["both"], deepest["no-norm"])),
                LOST,
                percent,
            ),
            at_least(
                Text("pre-norm sans échauffement : {value} de réponses justes", "pre-norm without warm-up: {value} right answers"),
                over_seeds(starts["pre-cold"]),
                TRAINS,
                percent,
            ),
        ],
        Text(
            "À post-norm l’échauffement apporte {gained} de réponses justes ({warm} avec, {cold} sans).",
            "To post-norm warm-up brings {gained} more right answers ({warm} with it, {cold} without).",
        ).with_(
            gained=percent(gained.value),
            warm=percent(over_seeds(starts["post-warm"]).value),
            cold=percent(over_seeds(starts["post-cold"]).value),
        ),
    )


def figures(found: Measurements) -> list[FigureBlock]:
    depths, axis = found["depths"], RIGHT_ANSWERS
    bands = [seed_band(words, depths, found["by_depth"][name]) for name, (words, _) in KINDS.items()]
    warm = estimate(Text("pre-norm, avec échauffement", "pre-norm, warm-up"), found["by_depth"]["both"][-1])
    others = [estimate(words, found["starts"][name], stressed=place == "pre") for name, (words, place, _) in STARTS.items()]
    return [
        FigureBlock(
            Text("Ce qu’apprend un réseau, selon sa profondeur", "What a network learns, by its depth"),
            partial(banded_curves, bands, Axis(Text("couches", "layers"), log=True, ticks=depths), axis),
            Text(
                f"Une couche suffit à la tâche. La bande est l’intervalle à 95 % sur les graines ; le hasard : {percent(1 / VOCAB).fr}.",
                f"One layer is enough for the task. The band is the 95 % interval over seeds; chance: {percent(1 / VOCAB).en}.",
            ),
        ),
        FigureBlock(
            Text(f"L’échauffement, à {depths[-1]} couches", f"Warm-up, at {depths[-1]} layers"),
            partial(intervals, [warm, *others], axis, reference=1 / VOCAB),
            intervals_caption(Text(f"{found['steps']} pas.", f"{found['steps']} steps.")),
        ),
    ]


EXPERIMENT = Experiment(
    number=11,
    title=Text("Résidus, normalisation et profondeur", "Residuals, normalisation and depth"),
    claim=Text(
        "résidus et normalisation permettent d’entraîner des réseaux profonds ; pre-norm se passe d’échauffement",
        "residuals and normalisation are what lets depth train; pre-norm needs no warm-up",
    ),
    says={
        0: "La normalisation permet que le réseau voit toujours la même distribution de données et stabilise le système.",
        1: "Connexions résiduelles et normalisation sont essentielles pour l’optimisation.",
        2: "Residual connections / Layer normalization: Improve training efficiency",
        3: "Layer normalization : stabiliser l’apprentissage et éviter l’explosion de gradients",
    },
    method=Text(
        "Des transformeurs de plus en plus profonds apprennent à nommer le jeton d’avant, en autant de pas, avec et sans résidus, "
        "avec et sans LayerNorm (initialisation de 2017). Puis, à la plus grande profondeur, pre-norm et post-norm, avec et sans "
        "échauffement du taux d’apprentissage.",
        "Deeper and deeper transformers learn to name the token before, in the same number of steps, with and without residuals, with and "
        "without LayerNorm (initialised as in 2017). Then, at the greatest depth, pre-norm and post-norm, with and without warming up the "
        "learning rate.",
    ),
    sabotage=Text("aucun réseau n’a ni résidu ni normalisation", "no network has residuals or normalisation"),
    tiny=".++.",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["He et al. 2016", "Ba et al. 2016", "Xiong et al. 2020"],
    remarks=[
        Text(
            "Un autre chemin existe : une initialisation qui tient compte de la profondeur (Zhang et al. 2019, Fixup) entraîne des réseaux "
            "profonds sans normalisation.",
            "There is another way: an initialisation that takes depth into account (Zhang et al. 2019, Fixup) trains deep networks without "
            "normalisation.",
        )
    ],
)
