"""L2: a summary vector forgets long sentences; attention does not.

    summary       s_0 = h_n                      the decoder begins in the encoder's last state, and sees nothing else of the source
    attention     c_t = Σ_j α_tj h_j             it looks back at every state (Luong et al. 2015; Bahdanau et al. 2015, fig. 2)

The source is a row of tokens drawn at random, to be written backwards: nothing in it can be guessed, all of it must be remembered. The
number of tokens is what grows; the summary stays as wide as it is.
"""

from functools import partial
from typing import Any

import numpy as np

from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, at_most, over_seeds
from attentif.lab.seeds import seed_band
from attentif.lab.small import Generate, Rows, accuracy_by_place, make_tick, train_model
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock
from attentif.view.figures import Band, banded_curves
from attentif.view.figures.axes import LENGTH, RIGHT_ANSWERS
from attentif.view.words import Text, count, percent

FORGETS = 0.2  # right answers fewer in the longest sentences than in those of a quarter of their length: a difference one would notice
KEEPS = 0.05  # fewer at most: one answer in twenty
WIDER = 2  # cells of the summary: it then has more weights than the other, and is not at a disadvantage
ASKED = 200  # sentences of each length
NAMES = {"summary": Text("vecteur résumé", "summary vector"), "attention": Text("attention", "attention")}


def backwards(shortest: int, longest: int, vocab: int) -> Generate:
    """Rows of one length, drawn anew each time, and the same tokens from the end; 0 is kept for the beginning of what is written."""

    def rows(number: int, seed: int) -> Rows:
        generator = np.random.default_rng(seed)
        tokens = generator.integers(1, vocab, (number, generator.integers(shortest, longest + 1)))
        return tokens, tokens[:, ::-1].copy()

    return rows


def model(name: str, width: int, vocab: int, *, blind: bool) -> dict[str, Any]:
    """A GRU that reads and a GRU that writes. `blind`: attention to the first place only."""
    wide = {"kind": "gru", "hidden": WIDER * width}
    score = {"score": "location", "places": 1} if blind else {"score": "dot"}
    looking = {"kind": "attentive-recurrence", "cell": "gru", "feeding": "input", "start": "first"} | score
    both_ways = {"kind": "bidirectional", "join": "sum", "mixer": {"kind": "gru"}}
    reads, writes = (wide, wide) if name == "summary" else (both_ways, looking)
    stack = lambda mixer: {"placement": "none", "block": {"rnn": {"residual": False, "mixer": mixer}}}
    tokens = {"kind": "tokens", "vocab": vocab}
    values = {"width": width, "layers": 1, "dropout": 0.0, "init": {"kind": "xavier"}, "bridge": ["rnn"] if name == "summary" else []}
    return values | {
        "frontend": tokens,
        "target": tokens,
        "encoder": stack(reads),
        "decoder": stack(writes),
        "head": {"kind": "language", "tied": False},
    }


def measure(settings: Settings, progress: Progress) -> Measurements:
    longest, width, vocab = settings.pick(tiny=(8, 32, 8), normal=(20, 64, 16), full=(40, 128, 16))
    steps, seeds = settings.pick(tiny=200, normal=500, full=2000), settings.seeds(tiny=1, normal=3, full=5)
    rate = settings.pick(tiny=1e-2, normal=5e-3, full=3e-3)
    lengths = [max(1, longest * eighth // 8) for eighth in range(1, 9)]
    tick = make_tick(progress, len(NAMES) * len(seeds) * steps)
    right: dict[str, list[list[float]]] = {name: [] for name in NAMES}
    weights: dict[str, int] = {}
    for seed in seeds:
        for name in NAMES:
            values = model(name, width, vocab, blind=settings.without_effect)
            small = train_model(values, backwards(1, longest, vocab), steps=steps, lr=rate, seed=seed, tick=tick)
            weights[name] = sum(weight.numel() for weight in small.parameters())
            asked = [backwards(length, length, vocab)(ASKED, 7_000_000 + seed) for length in lengths]
            right[name].append([float(accuracy_by_place(small, rows).mean()) for rows in asked])
    return {"lengths": lengths, "vocab": vocab, "steps": steps, "seeds": len(seeds), "weights": weights, "right": right}


def verdict(found: Measurements) -> Verdict:
    short, long = found["lengths"][1], found["lengths"][-1]
    lost = {name: over_seeds([row[1] - row[-1] for row in rows]) for name, rows in found["right"].items()}
    last = {name: over_seeds([row[-1] for row in rows]) for name, rows in found["right"].items()}
    return Verdict(
        [
            at_least(
                Text(
                    f"de {short} à {long} jetons, le vecteur résumé perd {{value}} de réponses justes",
                    f"from {short} to {long} tokens the summary vector loses {{value}} of right answers",
                ),
                lost["summary"],
                FORGETS,
                percent,
            ),
            at_most(Text("l’attention en perd {value}", "attention loses {value}"), lost["attention"], KEEPS, percent),
        ],
        Text(
            "À {long} jetons, le résumé répond juste {summary} du temps et l’attention {attention} ; {few} paramètres contre {many}.",
            "At {long} tokens the summary is right {summary} of the time, attention {attention}; {few} parameters against {many}.",
        ).with_(
            long=count(long),
            summary=percent(last["summary"].value),
            attention=percent(last["attention"].value),
            few=count(found["weights"]["summary"]),
            many=count(found["weights"]["attention"]),
        ),
    )


def figures(found: Measurements) -> list[FigureBlock]:
    lengths = found["lengths"]
    bands = [seed_band(words, lengths, list(zip(*found["right"][name], strict=True))) for name, words in NAMES.items()]
    guess = 1 / (found["vocab"] - 1)
    bands.append(Band(Text("au hasard", "by chance"), [lengths[0], lengths[-1]], [guess, guess], baseline=True))
    axes = LENGTH, RIGHT_ANSWERS
    return [
        FigureBlock(
            Text("Réponses justes selon la longueur", "Right answers against length"),
            partial(banded_curves, bands, *axes),
            Text(
                "La bande est l’intervalle à 95 % entre les graines. Toutes les longueurs ont été vues à l’entraînement.",
                "The band is the 95 % interval over seeds. All lengths were seen in training.",
            ),
        )
    ]


EXPERIMENT = Experiment(
    number=2,
    title=Text("Le vecteur résumé et l’attention", "The summary vector and attention"),
    claim=Text(
        "un vecteur résumé oublie les longues phrases, l’attention non", "a summary vector forgets long sentences; attention does not"
    ),
    says={
        3: "le dernier hidden state doit représenter toute la séquence d’entrée",
        4: "pas de goulot d’étranglement : […] un vecteur pour chaque token",
    },
    method=Text(
        "Deux encodeurs-décodeurs de GRU apprennent, pendant le même nombre de pas, à réécrire à l’envers des phrases de jetons tirés au "
        "hasard, de toutes les longueurs. Une réponse est un jeton, ceux qui le précèdent étant donnés. Ce qui décide : les réponses "
        "justes perdues entre le quart de la plus grande longueur et celle-ci. Le résumé a des cellules deux fois plus larges.",
        "Two encoder-decoders of GRUs learn, for the same number of steps, to write sentences of random tokens backwards, of every length. "
        "An answer is a token, those before it being given. What decides: the right answers lost between a quarter of the greatest "
        "length and that length. The summary has cells twice as wide.",
    ),
    sabotage=Text("l’attention ne peut lire que la première place", "attention can read the first place only"),
    tiny=".+",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Sutskever et al. 2014", "Bahdanau et al. 2015, fig. 2", "Luong et al. 2015"],
    remarks=[
        Text(
            "Un résumé plus large ou entraîné plus longtemps retient davantage : la longueur à laquelle il oublie n’est pas une constante. "
            "Une vraie phrase se résume mieux que des jetons tirés au hasard.",
            "A wider summary, or one trained for longer, keeps more: the length at which it forgets is no constant. A real sentence can be "
            "summed up better than tokens drawn at random.",
        )
    ],
)
