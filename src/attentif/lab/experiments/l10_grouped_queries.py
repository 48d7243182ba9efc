"""L10: grouped-query attention divides the cache by the group size at nearly the same quality.

    head_h = attention(q_h, k_g, v_g),  g = ⌊h / group⌋         G = H / group heads of keys and values are kept, 2·T·G·K numbers a layer

G = H is multi-head, G = 1 multi-query (Shazeer 2019), between them grouped-query (Ainslie et al. 2023). Small decoders learn real text, all
but their keys' heads alike; the cache is counted, the quality is the surprise at text they have not read, in bits a character.
"""

from functools import partial
from math import log
from typing import Any

import torch.nn.functional as F

from attentif.lab.compare.decoding import state_bytes
from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, at_most, ratio_over_seeds
from attentif.lab.rows import LETTERS, real_text
from attentif.lab.seeds import seed_band
from attentif.lab.small import Rows, answers, make_tick, reading_forwards, train_model
from attentif.models import Model, eval_mode
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock
from attentif.view.figures import Axis, banded_curves
from attentif.view.words import Text, count, percent, size, with_decimals

HEADS, GROUP = 8, 4  # heads of queries, and how many share keys where it is decided: LLaMA 3 and Mistral 7B have 4
GROUPS = [1, GROUP, HEADS]  # queries' heads that share keys: multi-head, grouped-query, multi-query
NEARLY = 1.02  # bits a character, over those of multi-head attention
REMEMBERED = 1024  # tokens in the cache that is counted
ASKED = 200  # windows of text not read


def model(group: int, width: int, layers: int) -> dict[str, Any]:
    attention = {"kind": "attention", "heads": HEADS, "kv_heads": HEADS // group, "causal": True, "rotary": {}}
    return reading_forwards({"attn": attention, "ffn": {"kind": "feed-forward"}}, vocab=LETTERS, width=width, layers=layers)


def bits(small: Model, rows: Rows) -> float:
    """Surprise at each character, in bits."""
    with eval_mode(small):
        logits, targets = answers(small, rows)
    return float(F.cross_entropy(logits.flatten(0, 1), targets.flatten())) / log(2)


def measure(settings: Settings, progress: Progress) -> Measurements:
    length, width, layers = settings.pick(tiny=(16, 64, 1), normal=(48, 64, 2), full=(128, 128, 4))
    steps, seeds = settings.pick(tiny=60, normal=250, full=2000), settings.seeds(tiny=1, normal=3, full=5)
    tick = make_tick(progress, len(GROUPS) * len(seeds) * steps)
    unread = real_text(length, "test")(ASKED, 7_000_000)
    surprise: list[list[float]] = []
    caches: list[int] = []
    for group in GROUPS:
        surprise.append([])
        for seed in seeds:
            shared = 1 if settings.without_effect else group
            small = train_model(model(shared, width, layers), real_text(length), steps=steps, batch=16, lr=5e-3, seed=seed, tick=tick)
            surprise[-1].append(bits(small, unread))
        caches.append(state_bytes(small, REMEMBERED) or 0)
    return {"groups": GROUPS, "caches": caches, "bits": surprise, "steps": steps, "seeds": len(seeds)}


def verdict(found: Measurements) -> Verdict:
    groups, caches = found["groups"], found["caches"]
    place = groups.index(GROUP)
    worse = [ratio_over_seeds([ours / full for ours, full in zip(own, found["bits"][0], strict=True)]) for own in found["bits"]]
    return Verdict(
        [
            at_least(
                Text(
                    f"par groupes de {GROUP} têtes, le cache de {REMEMBERED} jetons est {{value}} fois plus petit",
                    f"in groups of {GROUP} heads, the cache of {REMEMBERED} tokens is {{value}} times smaller",
                ),
                caches[0] / caches[place],
                GROUP,
            ),
            at_most(
                Text("il faut {value} fois autant de bits par caractère", "it takes {value} times as many bits a character"),
                worse[place],
                NEARLY,
            ),
        ],
        Text(
            "Une seule tête de clés pour les {heads} : {small} au lieu de {large}, et {more} fois autant de bits.",
            "A single head of keys for all {heads}: {small} instead of {large}, and {more} times as many bits.",
        ).with_(heads=count(HEADS), small=size(caches[-1]), large=size(caches[0]), more=with_decimals(worse[-1].value, 3)),
    )


def figures(found: Measurements) -> list[FigureBlock]:
    caches = [cache / 1024 for cache in found["caches"]]
    band = seed_band(Text("8, 2 et 1 têtes de clés", "8, 2 and 1 heads of keys"), caches, found["bits"])
    across = Axis(Text(f"cache de {REMEMBERED} jetons (Kio)", f"cache of {REMEMBERED} tokens (KiB)"), log=True, ticks=sorted(set(caches)))
    return [
        FigureBlock(
            Text("La qualité selon la taille du cache", "Quality against the size of the cache"),
            partial(banded_curves, [band], across, Axis(Text("bits par caractère", "bits a character"))),
            Text(
                "Plus bas est mieux. La bande est l’intervalle à 95 % entre les graines.",
                "Lower is better. The band is the 95 % interval over seeds.",
            ),
        )
    ]


EXPERIMENT = Experiment(
    number=10,
    title=Text("Des têtes qui partagent leurs clés", "Heads that share their keys"),
    claim=Text(
        "l’attention à requêtes groupées divise le cache par la taille du groupe pour presque la même qualité",
        "grouped-query attention divides the cache by the group size at nearly the same quality",
    ),
    says={},
    method=Text(
        f"De petits décodeurs à {HEADS} têtes apprennent, caractère par caractère, le texte de la bibliothèque standard de Python ; "
        "seules changent les têtes de clés et de valeurs. Le cache est compté ; la qualité est le nombre de bits par caractère sur des "
        f"fichiers non lus, graine par graine. Ce qui décide : des groupes de {GROUP}, et au plus {percent(NEARLY - 1, 0).fr} de bits de "
        "plus.",
        f"Small decoders of {HEADS} heads learn, character by character, the text of Python’s standard library; only the heads of keys and "
        "values differ. The cache is counted; quality is the bits a character on files that were not read, seed by seed. What decides: "
        f"groups of {GROUP}, and at most {percent(NEARLY - 1, 0).en} more bits.",
    ),
    sabotage=Text(
        "chaque tête garde ses propres clés : les groupes sont d’une tête", "each head keeps its own keys: groups are of one head"
    ),
    tiny="+.",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Ainslie et al. 2023", "Shazeer 2019"],
    remarks=[
        Text(
            "Moins de têtes de clés, c’est aussi moins de paramètres : rien n’a été ajouté ailleurs pour compenser.",
            "Fewer heads of keys are fewer parameters too: nothing was added elsewhere to make up for them.",
        )
    ],
)
