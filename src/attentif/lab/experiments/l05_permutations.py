"""L5: self-attention without positions is permutation-equivariant: f(P X) = P f(X). It is not invariant: f(P X) ≠ f(X).

What is invariant is what forgets the order of the outputs: their mean.
"""

from functools import partial

import torch

from attentif.lab.exact import relative_distance
from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, at_most
from attentif.nn.mixer import Site
from attentif.nn.mixers.attention import AttentionConfig
from attentif.nn.position import SinusoidalConfig
from attentif.nn.seq import Seq
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock, Score
from attentif.view.figures import IntervalEstimate, intervals
from attentif.view.figures.axes import DIFFERENCE
from attentif.view.words import Text

WIDTH, HEADS = 64, 4
ROUNDING = 1e-12  # of float64 sums in another order, relative: measured 1e-15
MOVED = 0.01  # relative change from which outputs count as changed: ten orders of magnitude above rounding
NAMES = {
    "equivariant": Text("f(PX) contre P f(X), sans positions", "f(PX) against P f(X), no positions"),
    "invariant": Text("f(PX) contre f(X), sans positions", "f(PX) against f(X), no positions"),
    "pooled": Text("moyenne de f(PX) contre moyenne de f(X)", "mean of f(PX) against mean of f(X)"),
    "causal": Text("f(PX) contre P f(X), attention causale", "f(PX) against P f(X), causal attention"),
    "positions": Text("f(PX) contre P f(X), avec positions", "f(PX) against P f(X), with positions"),
}


def measure(settings: Settings, progress: Progress) -> Measurements:
    """Relative distances between what is computed before and after a permutation, the worst over seeds and lengths."""
    lengths = settings.pick(tiny=[5, 16], normal=[2, 5, 16, 64, 256], full=[2, 5, 16, 64, 256, 1024])
    seeds = settings.seeds(tiny=3, normal=20, full=50)
    found: dict[str, list[float]] = {name: [] for name in NAMES}
    for done, seed in enumerate(seeds):
        torch.manual_seed(seed)
        both, causal = (AttentionConfig(heads=HEADS, causal=one_way).build(Site(width=WIDTH)).double() for one_way in (False, True))
        positions = SinusoidalConfig().build(WIDTH)
        for length in lengths:
            x = torch.randn(1, length, WIDTH, dtype=torch.float64)
            order = torch.randperm(length)
            while length > 1 and bool((order == torch.arange(length)).all()):
                order = torch.randperm(length)
            seq = Seq.from_padded([length])
            places = positions(seq.pos, torch.float64)
            added = places if settings.without_effect else torch.zeros_like(places)
            with torch.no_grad():
                plain, moved = both(x + added, seq), both(x[:, order] + added, seq)
                found["equivariant"].append(relative_distance(moved, plain[:, order]))
                found["invariant"].append(relative_distance(moved, plain))
                found["pooled"].append(relative_distance(moved.mean(1), plain.mean(1)))
                found["causal"].append(relative_distance(causal(x[:, order], seq), causal(x, seq)[:, order]))
                found["positions"].append(relative_distance(both(x[:, order] + places, seq), both(x + places, seq)[:, order]))
        progress(done + 1, len(seeds))
    spread = {name: {"least": min(values), "most": max(values)} for name, values in found.items()}
    return {"lengths": lengths, "seeds": len(seeds), "distances": spread}


def verdict(found: Measurements) -> Verdict:
    of = found["distances"]
    return Verdict(
        [
            at_most(
                Text(
                    "entre f(PX) et P f(X), l’écart relatif ne dépasse pas {value}",
                    "between f(PX) and P f(X) the relative difference is {value} at most",
                ),
                of["equivariant"]["most"],
                ROUNDING,
            ),
            at_least(
                Text("entre f(PX) et f(X), il vaut au moins {value}", "between f(PX) and f(X) it is {value} at least"),
                of["invariant"]["least"],
                MOVED,
            ),
        ],
        Text(
            "Avec des positions, ou un masque causal, l’équivariance disparaît : écarts jusqu’à {positions} et {causal}.",
            "With positions, or a causal mask, equivariance is gone: differences up to {positions} and {causal}.",
        ).with_(**{name: at_most(NAMES[name], of[name]["most"], 0).value for name in ("positions", "causal")}),
        controls=[
            at_most(
                Text("la moyenne des sorties ne change que de {value}", "the mean of the outputs changes by {value} only"),
                of["pooled"]["most"],
                ROUNDING,
            ),
        ],
    )


def figures(found: Measurements) -> list[FigureBlock]:
    rows = [
        IntervalEstimate(words, Score(found["distances"][name]["most"]), stressed=name in ("equivariant", "pooled"))
        for name, words in NAMES.items()
    ]
    axis = DIFFERENCE
    about = Text(
        "À gauche, l’erreur d’arrondi : ces deux quantités sont égales. À droite, elles diffèrent vraiment.",
        "On the left, rounding: these two quantities are equal. On the right, they really differ.",
    )
    return [FigureBlock(Text("Ce qu’une permutation change", "What a permutation changes"), partial(intervals, rows, axis), about)]


EXPERIMENT = Experiment(
    number=5,
    title=Text("Équivariante, non invariante", "Equivariant, not invariant"),
    claim=Text(
        "sans positions, l’auto-attention est équivariante aux permutations, et non invariante comme l’écrivent les documents",
        "self-attention without positions is permutation-equivariant, not invariant as the documents say",
    ),
    says={
        1: "Le mécanisme d'attention est invariant à la permutation des positions : Attention(X) = Attention(PX) pour toute permutation P",
        4: "le mécanisme d'attention du transformer […] est intrinsèquement invariant à l'ordre",
    },
    method=Text(
        f"Une couche d’attention aux poids tirés au hasard (largeur {WIDTH}, {HEADS} têtes, float64), des suites permutées, plusieurs "
        "longueurs et graines ; le pire écart décide.",
        f"An attention layer of random weights (width {WIDTH}, {HEADS} heads, float64), permuted sequences, several lengths and seeds; the "
        "worst difference decides.",
    ),
    sabotage=Text("des positions sinusoïdales sont ajoutées à l’entrée", "sinusoidal positions are added to the input"),
    tiny="++",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Lee et al. 2019 (Set Transformer), property 1"],
    erratum=Text(
        "[1] et [4] écrivent « invariant » ; l’égalité Attention(X) = Attention(PX) de [1] est fausse, la bonne est "
        "P Attention(X) = Attention(PX).",
        "[1] and [4] write “invariant”; the equality Attention(X) = Attention(PX) of [1] is wrong, the right one is "
        "P Attention(X) = Attention(PX).",
    ),
)
