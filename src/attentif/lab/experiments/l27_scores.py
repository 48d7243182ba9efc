"""L27: linear q, k, v suffice, and the scores must depend on x.

    q, k, v = xW_q, xW_k, xW_v      against      q, k, v = networks of x      and      softmax(S) xW_v, S learned, the same for every x

(Tay et al. 2021 call the last a random synthesizer.) The task is to look something up: a row holds a value for each key, in any order, and
a last token asks for one of them. Which place to read is not known before the row is.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, at_most, over_seeds
from attentif.lab.seeds import lead, right_answers
from attentif.lab.small import Generate, Rows, accuracy, compare_models, fresh, reading_forwards
from attentif.models import Model
from attentif.nn.mixer import Caps, Mixer
from attentif.nn.mixers.attention import Attention
from attentif.nn.seq import Seq
from attentif.nn.state import NoState, State
from attentif.tasks.base import Progress
from attentif.tasks.ragged import UNSCORED
from attentif.view.blocks import FigureBlock
from attentif.view.words import Text, percent

VALUES, HEADS = 8, 2
LEARNED = 0.9  # right answers with linear maps: otherwise there is nothing to compare
SUFFICES = 0.05  # right answers more with networks instead of linear maps: less is no reason to pay for them
NEEDED = 0.5  # right answers more than with scores that are the same for every row
NAMES = {
    "linear": Text("q, k, v linéaires", "linear q, k, v"),
    "networks": Text("q, k, v par des réseaux", "q, k, v by networks"),
    "fixed": Text("scores indépendants de x", "scores that do not depend on x"),
}


class FixedScores(Mixer):
    """y = W_o softmax(S) W_v x: a learned matrix S for each head, whatever x is."""

    caps = Caps(causal=True, bidirectional=False, streaming="none")

    def __init__(self, like: Attention, places: int) -> None:
        super().__init__()
        self.v, self.out, self.heads = like.v, like.out, like.heads
        self.scores = nn.Parameter(torch.zeros(self.heads, places, places))
        self.later: Tensor
        self.register_buffer("later", torch.ones(places, places, dtype=torch.bool).triu(1), persistent=False)

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> State:
        return NoState()

    def forward(self, x: Tensor, seq: Seq, state: State | None = None) -> Tensor:
        weights = self.scores.masked_fill(self.later, -torch.inf).softmax(-1)  # (H, T, T)
        v = self.v(x).unflatten(-1, (self.heads, -1))  # (B, T, H, K)
        return self.out(torch.einsum("hts,bshk->bthk", weights, v).flatten(2))


def build_model(kind: str, keys: int, width: int) -> Model:
    attention = {"kind": "attention", "heads": HEADS, "causal": True}
    mixers = {"attn": attention, "ffn": {"kind": "feed-forward", "hidden": 2 * width}}
    model = fresh(reading_forwards(mixers, vocab=keys * VALUES + keys, width=width, layers=1))
    assert model.decoder is not None
    for _, sublayer in model.decoder.sublayers():
        if isinstance(mixer := sublayer.mixer, Attention):
            if kind == "fixed":
                sublayer.mixer = FixedScores(mixer, keys + 1)
            elif kind == "networks":
                for name in ("q", "k", "v"):
                    setattr(mixer, name, nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)))
    return model


def look_up(keys: int) -> Generate:
    """A token for each key with its value, in any order; then a key. Asked: its value."""

    def rows(count: int, seed: int) -> Rows:
        random = np.random.default_rng(seed)
        values = random.integers(0, VALUES, (count, keys))
        order = random.permuted(np.tile(np.arange(keys), (count, 1)), axis=1)
        asked = random.integers(0, keys, count)
        held = order * VALUES + np.take_along_axis(values, order, 1)
        tokens = np.concatenate([held, keys * VALUES + asked[:, None]], 1)
        targets = np.full_like(tokens, UNSCORED)
        targets[:, -1] = values[np.arange(count), asked]
        return tokens, targets

    return rows


def measure(settings: Settings, progress: Progress) -> Measurements:
    keys, width = settings.pick(tiny=3, normal=8, full=16), settings.pick(tiny=16, normal=32, full=64)
    steps, seeds = settings.pick(tiny=120, normal=500, full=3000), settings.seeds(tiny=1, normal=5, full=10)
    rows = look_up(keys)
    kinds: dict[str, Callable[[], Model]] = {
        name: partial(build_model, "fixed" if settings.without_effect else name, keys, width) for name in NAMES
    }
    score = lambda model, seed: accuracy(model, rows(1000, 7_000_000 + seed))
    answers = compare_models(kinds, rows, score, seeds=seeds, steps=steps, progress=progress, batch=64, lr=1e-2)
    return {"keys": keys, "steps": steps, "seeds": len(seeds), "answers": answers}


def verdict(found: Measurements) -> Verdict:
    answers = found["answers"]
    return Verdict(
        [
            at_most(
                Text(
                    "des réseaux au lieu de q, k, v linéaires apportent {value} de réponses justes",
                    "networks instead of linear q, k, v bring {value} more right answers",
                ),
                over_seeds(lead(answers["networks"], answers["linear"])),
                SUFFICES,
                percent,
            ),
            at_least(
                Text("de plus qu’avec des scores indépendants de x : {value}", "more than with scores that do not depend on x: {value}"),
                over_seeds(lead(answers["linear"], answers["fixed"])),
                NEEDED,
                percent,
            ),
        ],
        Text(
            "Avec des réseaux, {networks} de réponses justes ; avec des scores indépendants de x, {fixed}.",
            "With networks {networks} right answers; with scores that do not depend on x, {fixed}.",
        ).with_(**{name: percent(over_seeds(answers[name]).value) for name in ("networks", "fixed")}),
        controls=[
            at_least(
                Text("avec q, k, v linéaires, {value} de réponses justes", "with linear q, k, v, {value} right answers"),
                over_seeds(answers["linear"]),
                LEARNED,
                percent,
            ),
        ],
    )


def figures(found: Measurements) -> list[FigureBlock]:
    about = Text(f"{found['keys']} clefs par ligne, {found['steps']} pas.", f"{found['keys']} keys in a row, {found['steps']} steps.")
    return [
        right_answers(Text("Retrouver la valeur d’une clef", "Looking up the value of a key"), NAMES, found["answers"], 1 / VALUES, about)
    ]


EXPERIMENT = Experiment(
    number=27,
    title=Text("Les scores et leurs projections", "Scores and their projections"),
    claim=Text(
        "des q, k, v linéaires suffisent, et les scores doivent dépendre de x",
        "linear q, k, v suffice, and the scores must depend on x",
    ),
    says={
        0: "On pourrait appeler S directement, mais elle doit dépendre de x […] On fait le choix que K, q, v sont linéaires. C’est pas "
        "obligé […] le lin est suffisant",
    },
    method=Text(
        "Une couche de transformeur doit retrouver, parmi des clefs dans un ordre quelconque, la valeur de celle qui est demandée : "
        "avec des projections linéaires, avec un réseau à la place de chacune, et avec une matrice de scores apprise, la même "
        "pour toute entrée.",
        "One transformer layer has to find, among keys in any order, the value of the one asked for: with linear projections, with a "
        "network in the place of each, and with a learned matrix of scores that is the same for every input.",
    ),
    sabotage=Text("des scores indépendants de x partout", "scores that do not depend on x everywhere"),
    tiny=".-",
    measure=measure,
    verdict=verdict,
    figures=figures,
    choices=[
        Text(
            "La comparaison avec des réseaux, d’abord une remarque, décide depuis une première mesure : avant, c’était 95 % de réponses "
            "justes avec q, k, v linéaires, ce qui ne les comparait à rien.",
            "The comparison with networks, a remark at first, decides since a first measurement: before, 95 % right answers with linear "
            "q, k, v did, which compared them with nothing.",
        ),
    ],
    papers=["Vaswani et al. 2017", "Tay et al. 2021 (Synthesizer)"],
    remarks=[
        Text(
            "Une entrée qui passe déjà par un réseau à chaque couche : rendre q, k, v non linéaires ajoute peu à ce que la couche d’avant "
            "peut faire.",
            "Inputs already go through a network in every layer: q, k, v that are not linear add little to what the layer before can do.",
        )
    ],
)
