"""L12: a mixture of experts buys quality at the same cost per token, if the router is kept balanced.

    y = p_i f_i(x),   i = argmax p,   p = softmax(W_r x):     E networks f_i in memory, one of them in use for each token

(Jacobs et al. 1991; Shazeer et al. 2017; Fedus et al. 2021.) What more weights without more operations can give is memory: the task is to
learn a table by heart, too large for the dense network. Unbalanced, some experts are worn out and others idle; where each lives on
a machine of its own, all wait for the busiest.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import plotly.graph_objects as go

from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, over_seeds, ratio_over_seeds
from attentif.lab.flops import count
from attentif.lab.rows import facts
from attentif.lab.seeds import lead, right_answers
from attentif.lab.small import accuracy, batch_of, make_tick, reading_forwards, train_model
from attentif.models.experts import expert_counts
from attentif.nn.balance import evenness
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock
from attentif.view.figures import heat_map
from attentif.view.words import Lang, Text, number, percent

EXPERTS, WIDTH, HIDDEN, ANSWERS = 8, 32, 16, 16
BALANCE = 0.01  # weight of the loss, as Fedus et al. chose it
AHEAD = 0.05  # right answers more than the dense network
SPARED = 0.02  # right answers more than the mixture left to itself
CROWDED = 1.5  # load of the busiest expert, left to itself over balanced
ASKED = 2000
NAMES = {
    "balanced": Text("experts équilibrés", "experts, balanced"),
    "free": Text("experts laissés à eux-mêmes", "experts left to themselves"),
    "dense": Text("réseau dense", "dense network"),
}


def model(ffn: dict[str, Any], names: int) -> dict[str, Any]:
    mixers = {"attn": {"kind": "attention", "heads": 2, "causal": True}, "ffn": ffn}
    return reading_forwards(mixers, vocab=names, width=WIDTH, layers=1, position={"kind": "learned", "max_len": 2})


def kinds(without_effect: bool) -> dict[str, dict[str, Any]]:
    each = {"hidden": HIDDEN, "activation": "relu", "bias": False}
    dense = {"kind": "feed-forward", **each}
    if without_effect:
        return dict.fromkeys(NAMES, dense)
    experts = {"kind": "experts", "experts": EXPERTS, "top_k": 1, "normalised": False, **each}
    return {
        "dense": dense,
        "balanced": {**experts, "balance": [{"kind": "switch", "weight": BALANCE}]},
        "free": {**experts, "balance": []},
    }


def measure(settings: Settings, progress: Progress) -> Measurements:
    names, steps = settings.pick(tiny=16, normal=48, full=64), settings.pick(tiny=100, normal=600, full=4000)
    seeds = settings.seeds(tiny=1, normal=4, full=10)
    batch = settings.pick(tiny=64, normal=256, full=256)
    models = kinds(settings.without_effect)
    tick = make_tick(progress, len(models) * len(seeds) * steps)
    answers: dict[str, list[float]] = {name: [] for name in models}
    shares: dict[str, list[list[float]]] = {name: [] for name in models}
    flops: dict[str, float] = {}
    for seed in seeds:
        rows = facts(names, ANSWERS, seed)
        asked = rows(ASKED, 7_000_000 + seed)
        for name, ffn in models.items():
            small = train_model(model(ffn, names), rows, steps=steps, batch=batch, lr=1e-2, seed=seed, tick=tick)
            answers[name].append(accuracy(small, asked))
            read = batch_of(small, asked)
            flops[name] = count(small, read).forward_per_token
            counts = next(iter(expert_counts(small, [read]).values()), None)
            shares[name].append([1.0] if counts is None else (counts / counts.sum()).tolist())
    return {"facts": names**2, "steps": steps, "seeds": len(seeds), "answers": answers, "shares": shares, "flops": flops}


def busiest(shares: Sequence[float]) -> float:
    """Its load over an equal one."""
    return max(shares) * len(shares)


def verdict(found: Measurements) -> Verdict:
    answers, shares, flops = found["answers"], found["shares"], found["flops"]
    crowded = [busiest(free) / busiest(even) for free, even in zip(shares["free"], shares["balanced"], strict=True)]
    cost = number(flops["balanced"] / flops["dense"], 3)
    even = {name: number(over_seeds([evenness(own) for own in shares[name]]).value, 2) for name in ("balanced", "free")}
    return Verdict(
        [
            at_least(
                Text(
                    f"pour {cost.fr} fois les opérations par jeton du réseau dense, {EXPERTS} experts ont juste {{value}} plus souvent",
                    f"for {cost.en} times the dense network’s operations a token, {EXPERTS} experts are right {{value}} more often",
                ),
                over_seeds(lead(answers["balanced"], answers["dense"])),
                AHEAD,
                percent,
            ),
            at_least(
                Text("l’équilibrage y apporte {value}", "balancing brings {value} of it"),
                over_seeds(lead(answers["balanced"], answers["free"])),
                SPARED,
                percent,
            ),
            at_least(
                Text(
                    "sans lui l’expert le plus chargé a {value} fois la charge qu’il a avec",
                    "without it the busiest expert has {value} times the load that it has with it",
                ),
                ratio_over_seeds(crowded),
                CROWDED,
            ),
        ],
        Text(
            "Entropie des parts, 1 si elles sont égales : {balanced} avec équilibrage, {free} sans.",
            "Entropy of the shares, 1 where they are equal: {balanced} with balancing, {free} without.",
        ).with_(**even),
    )


def figures(found: Measurements) -> list[FigureBlock]:
    about = Text(
        f"Une table de {found['facts']} faits, {found['steps']} pas.", f"A table of {found['facts']} facts, {found['steps']} steps."
    )
    first = {name: sorted(found["shares"][name][0], reverse=True) for name in ("balanced", "free")}
    return [
        right_answers(Text("Ce qui est su par cœur", "What is known by heart"), NAMES, found["answers"], 1 / ANSWERS, about),
        FigureBlock(
            Text("La part de chaque expert", "The share of each expert"),
            partial(shares_drawn, first),
            Text("Première graine, du plus chargé au moins chargé.", "First seed, from the busiest to the least busy."),
        ),
    ]


def shares_drawn(shares: Mapping[str, Sequence[float]], *, lang: Lang = "en") -> go.Figure:
    places = [str(place + 1) for place in range(max(map(len, shares.values())))]
    axes = (Text("routeur", "router"), Text("expert", "expert"))
    return heat_map(list(shares.values()), [NAMES[name][lang] for name in shares], places, axes, lang=lang)


EXPERIMENT = Experiment(
    number=12,
    title=Text("Le mélange d’experts", "Mixtures of experts"),
    claim=Text(
        "un mélange d’experts achète de la qualité à coût égal par jeton, si le routeur reste équilibré",
        "a mixture of experts buys quality at the same cost per token, if the router is kept balanced",
    ),
    says={
        0: "On a un classifieur « router » I : x → I(x) ∈ {1, …, n}. Puis MOE(x) = ρ_{I(x)}(x) […] on s’entraîne avec un certain "
        "KL(ρ_I, unif) petit.",
    },
    method=Text(
        f"Une table tirée au hasard (deux noms, une réponse) est apprise par cœur, par un réseau dense, par {EXPERTS} experts de la même "
        "taille dont chaque jeton n’en utilise qu’un, avec la perte d’équilibrage de Switch et sans elle. Les opérations par jeton sont "
        "comptées, routeur compris.",
        f"A table drawn at random (two names, an answer) is learned by heart, by a dense network, and by {EXPERTS} experts of the same "
        "size of which each token uses one, with Switch’s balancing loss and without. Operations are counted for each token, the router’s "
        "included.",
    ),
    sabotage=Text("le réseau dense à la place des experts", "the dense network in the place of the experts"),
    tiny="++-",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Jacobs et al. 1991", "Shazeer et al. 2017", "Fedus et al. 2021"],
    remarks=[
        Text(
            "À coût égal, non à taille égale : les experts tiennent en mémoire, et un réseau dense de leur taille totale en saurait plus.",
            "At the same cost, not at the same size: all experts have to be kept in memory, and a dense network of their total size would "
            "know more.",
        )
    ],
)
