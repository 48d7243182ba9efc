"""L16: recurrent and state-space models lose to attention on exact recall; attention's memory grows.

    attention     every key and value is kept: n · 2 · D numbers after n tokens, and what is asked for is looked up
    the others    a state of fixed size: what does not fit is mixed with the rest       (Arora et al. 2023; Jelassi et al. 2024)

Pairs of a key and a value, then the keys again in another order; each asks for its value. All models have the same block around their
mixer: a convolution over four tokens before it, by which a value knows its key, and a feed-forward after it.
"""

from functools import partial
from typing import Any

import numpy as np

from attentif.data.builtin.recall import associative_recall
from attentif.lab.compare.decoding import state_bytes
from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, at_most, over_seeds
from attentif.lab.seeds import seed_band
from attentif.lab.small import Generate, Rows, accuracy, make_tick, reading_forwards, train_model
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock
from attentif.view.figures import Axis, Band, banded_curves
from attentif.view.figures.axes import RIGHT_ANSWERS
from attentif.view.words import Text, count, percent

SOLVES = 0.9  # of the answers, by attention: otherwise there is nothing to lose to
LOSES = 0.1  # right answers fewer than attention: one in ten
GROWS = 0.9  # of the factor by which the text grows
WINDOW = 4  # tokens of the convolution; and all that attention sees when it is sabotaged
ASKED = 200  # rows
NAMES = {
    "attention": Text("attention", "attention"),
    "gru": Text("GRU", "GRU"),
    "s4d": Text("S4D", "S4D"),
    "rwkv": Text("RWKV", "RWKV"),
    "mamba": Text("Mamba", "Mamba"),
}
OTHERS = [name for name in NAMES if name != "attention"]


def mixers(name: str, width: int, *, blind: bool) -> dict[str, dict[str, Any]]:
    """The sublayers of a block. `blind`: attention to the last few tokens only."""
    kinds: dict[str, dict[str, Any]] = {
        "attention": {"kind": "attention", "heads": 4, "causal": True}
        | ({"pattern": [{"kind": "window", "left": WINDOW - 1, "right": 0}]} if blind else {}),
        "rwkv": {"kind": "rwkv-time"},
        "s4d": {"kind": "s4d", "state": 32},
    }
    before = {"kind": "conv", "windows": [WINDOW], "causal": True}
    return {"conv": before, "memory": kinds.get(name, {"kind": name}), "ffn": {"kind": "feed-forward", "hidden": 2 * width}}


def recall(pairs: list[int], symbols: int) -> Generate:
    """Rows with one of these numbers of pairs, drawn anew each time; as many keys as values."""

    def rows(number: int, seed: int) -> Rows:
        held = int(np.random.default_rng(seed).choice(pairs))
        return associative_recall(number, pairs=held, keys=symbols, values=symbols, seed=seed)

    return rows


def measure(settings: Settings, progress: Progress) -> Measurements:
    most, width = settings.pick(tiny=(8, 32), normal=(8, 32), full=(32, 64))
    pairs = [2**power for power in range(1, most.bit_length())]
    steps, rate = settings.pick(tiny=(110, 1e-2), normal=(600, 1e-2), full=(4000, 3e-3))
    seeds = settings.seeds(tiny=1, normal=3, full=5)
    tick = make_tick(progress, len(NAMES) * len(seeds) * steps)
    lengths = [2**power for power in range(4, 13)]
    shares: dict[str, list[list[float]]] = {name: [] for name in NAMES}
    weights, state = {}, {}
    for seed in seeds:
        for name in NAMES:
            values = reading_forwards(mixers(name, width, blind=settings.without_effect), vocab=2 * most + 1, width=width, layers=1)
            small = train_model(values, recall(pairs, most), steps=steps, lr=rate, seed=seed, tick=tick)
            shares[name].append([accuracy(small, recall([held], most)(ASKED, 7_000_000 + seed)) for held in pairs])
            weights[name] = sum(weight.numel() for weight in small.parameters())
            state[name] = [state_bytes(small, length) for length in lengths]
    return {"pairs": pairs, "steps": steps, "seeds": len(seeds), "right": shares, "weights": weights, "lengths": lengths, "state": state}


def verdict(found: Measurements) -> Verdict:
    most, lengths = found["pairs"][-1], found["lengths"]
    last = {name: [row[-1] for row in rows] for name, rows in found["right"].items()}
    growth = {name: state[-1] / state[0] for name, state in found["state"].items()}
    longer = lengths[-1] / lengths[0]
    return Verdict(
        [
            *(
                at_least(
                    Text(
                        f"{NAMES[name].fr} répond juste {{value}} de moins que l’attention",
                        f"{NAMES[name].en} is right {{value}} less often than attention",
                    ),
                    over_seeds([ours - theirs for ours, theirs in zip(last["attention"], last[name], strict=True)]),
                    LOSES,
                    percent,
                )
                for name in OTHERS
            ),
            at_least(
                Text(
                    f"de {lengths[0]} à {lengths[-1]} jetons, la mémoire de l’attention grandit {{value}} fois",
                    f"from {lengths[0]} to {lengths[-1]} tokens attention’s memory grows {{value}} times",
                ),
                growth["attention"],
                GROWS * longer,
            ),
        ],
        Text(
            "À {long} jetons, l’attention garde {kept} octets, Mamba {mamba}.",
            "At {long} tokens attention keeps {kept} bytes, Mamba {mamba}.",
        ).with_(long=count(lengths[-1]), kept=count(found["state"]["attention"][-1]), mamba=count(found["state"]["mamba"][-1])),
        controls=[
            at_least(
                Text(
                    f"avec {most} paires, l’attention répond juste {{value}} du temps",
                    f"with {most} pairs attention is right {{value}} of the time",
                ),
                over_seeds(last["attention"]),
                SOLVES,
                percent,
            ),
            at_most(
                Text("la mémoire des autres grandit {value} fois", "the memory of the others grows {value} times"),
                max(growth[name] for name in OTHERS),
                1.0,
            ),
        ],
    )


def figures(found: Measurements) -> list[FigureBlock]:
    pairs, lengths = found["pairs"], found["lengths"]
    answered = [seed_band(words, pairs, list(zip(*found["right"][name], strict=True))) for name, words in NAMES.items()]
    kept = [Band(words, lengths, found["state"][name]) for name, words in NAMES.items()]
    how_many = Axis(Text("paires à retenir", "pairs to remember"), log=True, ticks=pairs)
    return [
        FigureBlock(
            Text("Réponses justes selon le nombre de paires", "Right answers against the number of pairs"),
            partial(banded_curves, answered, how_many, RIGHT_ANSWERS),
            Text(
                "La bande est l’intervalle à 95 % entre les graines. Tous les nombres de paires ont été vus à l’entraînement.",
                "The band is the 95 % interval over seeds. Every number of pairs was seen in training.",
            ),
        ),
        FigureBlock(
            Text("Ce que chacun garde en mémoire", "What each of them keeps"),
            partial(
                banded_curves,
                kept,
                Axis(Text("longueur lue (jetons)", "length read (tokens)"), log=True, ticks=lengths[::2]),
                Axis(Text("octets", "bytes"), log=True),
            ),
            Text("D’une ligne, entre deux jetons ; float32.", "Of one row, between two tokens; float32."),
        ),
    ]


EXPERIMENT = Experiment(
    number=16,
    title=Text("Se rappeler exactement", "Exact recall"),
    claim=Text(
        "les modèles récurrents et les espaces d’états rappellent moins exactement que l’attention, dont la mémoire grandit",
        "recurrent and state-space models lose to attention on exact recall; attention’s memory grows",
    ),
    says={
        2: "Reduced memory and computational requirements compared to Transformers […] But Today it seems that Transformers are still "
        "obtaining the state of the art results",
        4: "Mémoire : constante (optimisée) / élevée (stocke toutes les interactions)",
    },
    method=Text(
        "Rappel associatif : des paires d’une clé et d’une valeur, puis les clés dans un autre ordre. Cinq mélangeurs dans le même bloc "
        "(convolution de quatre jetons, mélangeur, perceptron), entraînés autant sur tous les nombres de paires. Ce qui décide : les "
        "réponses justes au plus grand nombre de paires, graine par graine, et les octets gardés selon la longueur.",
        "Associative recall: pairs of a key and a value, then the keys in another order. Five mixers in the same block (a convolution over "
        "four tokens, the mixer, a feed-forward), trained alike on every number of pairs. What decides: right answers at the largest "
        "number of pairs, seed by seed, and the bytes kept against the length.",
    ),
    sabotage=Text("l’attention ne voit que les quatre derniers jetons", "attention sees the last four tokens only"),
    tiny="++++.",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Arora et al. 2023 (Zoology)", "Jelassi et al. 2024", "Ba et al. 2016"],
    remarks=[
        Text(
            "Ce qui limite est aussi ce qui s’apprend en si peu de pas : un état de quelques milliers de nombres pourrait contenir ces "
            "paires. Entraînés plus longtemps, ces modèles en retiennent davantage ; mais leur état, lui, ne grandit pas.",
            "What limits is also what is learned in so few steps: a state of a few thousand numbers could hold these pairs. Trained for "
            "longer these models keep more of them; but their state does not grow.",
        )
    ],
)
