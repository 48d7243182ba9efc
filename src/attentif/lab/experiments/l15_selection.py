"""L15: Mamba's selection solves selective copying that a fixed state space cannot; its state stays constant in size.

    fixed         h_t = Ā h_{t-1} + B̄ x_t                      every token is written with the same weights: what is kept depends on places
    selective     h_t = exp(Δ_t A) h_{t-1} + Δ_t B_t x_t       Δ_t, B_t and C_t are functions of x_t: a blank can be passed over

(Gu & Dao 2023, section 3.1.) Symbols stand among blanks at places drawn anew in each row, to be said again in order. The control is the
same task with places that never change: there a fixed state space can know where to look.
"""

from functools import partial
from typing import Any

import numpy as np

from attentif.data.builtin.selective_copying import MARK, NOISE, make_selective_copying
from attentif.inspect import step_sizes
from attentif.lab.compare.decoding import state_bytes
from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, at_most, over_seeds
from attentif.lab.small import Generate, Rows, batch_of, exact_match, make_tick, reading_forwards, train_model
from attentif.models import Model
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock
from attentif.view.figures import Axis, Band, IntervalEstimate, banded_curves, intervals
from attentif.view.words import Text, count, percent

SOLVES, FAILS = 0.9, 0.5  # of the rows, every answer right: nearly all, and not even every second one
WIDER = 2  # channels of the fixed state space: it then has more weights than Mamba, and a larger state
CONTROL = 3  # of the control's training: a part of the steps is enough
ASKED = 500  # rows
NAMES = {
    "selective": Text("Mamba, copie sélective", "Mamba, selective copying"),
    "fixed": Text("S4D, copie sélective", "S4D, selective copying"),
    "control": Text("S4D, places fixes", "S4D, fixed places"),
}


def at_known_places(rows: int, *, length: int, copied: int, symbols: int, seed: int) -> Rows:
    """The control: the same rows, but symbols stand at even distances."""
    drawn, targets = make_selective_copying(rows, length=length, copied=copied, symbols=symbols, seed=seed)
    tokens = np.where(drawn == MARK, MARK, NOISE)
    tokens[:, np.arange(copied) * length // copied] = targets[:, length:]
    return tokens, targets


def contestants(width: int, layers: int, symbols: int, *, selecting: bool) -> dict[str, dict[str, Any]]:
    fixed_one = reading_forwards({"ssm": {"kind": "s4d", "state": 32}}, vocab=symbols + 2, width=WIDER * width, layers=layers)
    mamba = reading_forwards({"ssm": {"kind": "mamba"}}, vocab=symbols + 2, width=width, layers=layers)
    return {"selective": mamba if selecting else fixed_one, "fixed": fixed_one, "control": fixed_one}


def steps_by_token(mamba: Model, rows: Rows) -> dict[str, list[float]]:
    """Mamba's Δ, the mean over channels and layers, at every place of one row; and the row."""
    sizes = [found.mean(-1) for found in step_sizes(mamba, batch_of(mamba, rows)).values()]
    return {"tokens": rows[0][0].tolist(), "sizes": np.mean([size[0].numpy() for size in sizes], 0).tolist()}


def measure(settings: Settings, progress: Progress) -> Measurements:
    sizes = settings.pick(tiny=(20, 3, 6), normal=(20, 4, 6), full=(48, 8, 8))
    task = dict(zip(("length", "copied", "symbols"), sizes, strict=True))
    width, layers = settings.pick(tiny=(32, 1), normal=(48, 1), full=(64, 2))
    steps, rate = settings.pick(tiny=(200, 1e-2), normal=(500, 1e-2), full=(4000, 3e-3))
    seeds = settings.seeds(tiny=1, normal=3, full=5)
    selective: Generate = lambda rows, seed: make_selective_copying(rows, **task, seed=seed)
    known: Generate = lambda rows, seed: at_known_places(rows, **task, seed=seed)
    tasks = {"selective": (selective, steps), "fixed": (selective, steps), "control": (known, steps // CONTROL)}
    tick = make_tick(progress, len(seeds) * sum(own for _, own in tasks.values()))
    models = contestants(width, layers, task["symbols"], selecting=not settings.without_effect)
    shares: dict[str, list[float]] = {name: [] for name in NAMES}
    lengths = [2**power for power in range(4, 13)]
    found: Measurements = {**task, "steps": steps, "seeds": len(seeds), "solved": shares, "weights": {}, "lengths": lengths, "state": {}}
    for seed in seeds:
        for name, (rows, own) in tasks.items():
            small = train_model(models[name], rows, steps=own, lr=rate, seed=seed, tick=tick)
            shares[name].append(exact_match(small, rows(ASKED, 7_000_000 + seed)))
            found["weights"][name] = sum(weight.numel() for weight in small.parameters())
            found["state"][name] = [state_bytes(small, length) for length in lengths]
            if name == "selective" and not settings.without_effect and "example" not in found:
                found["example"] = steps_by_token(small, rows(1, 8_000_000))
    return found


def verdict(found: Measurements) -> Verdict:
    scores = {name: over_seeds(values) for name, values in found["solved"].items()}
    state, lengths = found["state"]["selective"], found["lengths"]
    return Verdict(
        [
            at_least(
                Text(
                    f"Mamba redit sans faute {found['copied']} symboles parmi {found['length']} places dans {{value}} des lignes",
                    f"Mamba says {found['copied']} symbols among {found['length']} places again without a fault in {{value}} of the rows",
                ),
                scores["selective"],
                SOLVES,
                percent,
            ),
            at_most(Text("l’espace d’états fixe, dans {value}", "the fixed state space, in {value}"), scores["fixed"], FAILS, percent),
            at_most(
                Text(
                    f"de {lengths[0]} à {lengths[-1]} jetons lus, l’état de Mamba grandit d’un facteur {{value}}",
                    f"from {lengths[0]} to {lengths[-1]} tokens read, Mamba’s state grows by a factor of {{value}}",
                ),
                state[-1] / state[0],
                1.0,
            ),
        ],
        Text(
            "Paramètres : {mamba} pour Mamba, {fixed} pour S4D ; état : {own} octets contre {other}.",
            "Parameters: {mamba} for Mamba, {fixed} for S4D; state: {own} bytes against {other}.",
        ).with_(
            mamba=count(found["weights"]["selective"]),
            fixed=count(found["weights"]["fixed"]),
            own=count(state[0]),
            other=count(found["state"]["fixed"][0]),
        ),
        controls=[
            at_least(
                Text(
                    "si les places ne changent pas, l’espace d’états fixe y parvient dans {value}",
                    "where the places do not change, the fixed state space succeeds in {value}",
                ),
                scores["control"],
                SOLVES,
                percent,
            ),
        ],
    )


def figures(found: Measurements) -> list[FigureBlock]:
    rows = [
        IntervalEstimate(words, over_seeds(found["solved"][name]), found["solved"][name], name == "selective")
        for name, words in NAMES.items()
    ]
    shares = Axis(Text("lignes sans faute", "rows without a fault"), share=True)
    blocks = [
        FigureBlock(
            Text("Ce que chacun apprend", "What each of them learns"),
            partial(intervals, rows, shares),
            Text("Les traits sont les graines, la barre l’intervalle à 95 %.", "The marks are the seeds, the bar the 95 % interval."),
        )
    ]
    if "example" in found:
        blocks.append(FigureBlock(*_choice(found)))
    return blocks


def _choice(found: Measurements) -> tuple[Text, Any, Text]:
    tokens, sizes = found["example"]["tokens"], found["example"]["sizes"]
    places = list(range(len(tokens)))
    kinds = {
        Text("symboles", "symbols"): lambda token: token not in (NOISE, MARK),
        Text("blancs", "blanks"): lambda token: token == NOISE,
        Text("marques qui demandent", "marks that ask"): lambda token: token == MARK,
    }
    bands = [
        Band(words, places, [size if is_one(token) else float("nan") for token, size in zip(tokens, sizes, strict=True)])
        for words, is_one in kinds.items()
    ]
    axes = Axis(Text("place", "place")), Axis(Text("Δ moyen", "mean Δ"))
    about = Text(
        "Une ligne : le pas Δ que Mamba donne à chaque jeton, moyenné sur les canaux et les couches. Celui de S4D est le même pour tous.",
        "One row: the step Δ that Mamba gives to each token, the mean over channels and layers. That of S4D is the same for all.",
    )
    return Text("Ce que Mamba choisit", "What Mamba chooses"), partial(banded_curves, bands, *axes), about


EXPERIMENT = Experiment(
    number=15,
    title=Text("La sélection de Mamba", "Mamba’s selection"),
    claim=Text(
        "la sélection de Mamba résout la copie sélective, ce que ne peut un espace d’états fixe ; son état garde une taille constante",
        "Mamba’s selection solves selective copying that a fixed state space cannot; its state stays constant in size",
    ),
    says={
        4: "Mamba introduit un mécanisme de sélection qui permet aux paramètres du modèle d'évoluer en fonction des entrées […] "
        "Mémoire : Constante (optimisée)"
    },
    method=Text(
        "Des symboles parmi des blancs, à des places tirées au hasard dans chaque ligne, à redire dans l’ordre : Mamba et S4D de même "
        "profondeur, entraînés autant ; S4D est plus large et a davantage de paramètres. Ce qui décide : les lignes sans faute. "
        "Témoin : le même S4D, les symboles restant à leurs places.",
        "Symbols among blanks, at places drawn anew in each row, to be said in order: Mamba and S4D of the same depth, trained alike. "
        "S4D is wider and has more parameters. What decides: rows without a fault. Control: the same S4D, symbols keeping their places.",
    ),
    sabotage=Text("un espace d’états fixe prend la place de Mamba", "a fixed state space takes Mamba’s place"),
    tiny="+++",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Gu & Dao 2023, section 3.1, tables 1 and 6", "Jing et al. 2019", "Gu et al. 2022 (S4D)"],
    erratum=Text(
        "[4] écrit A(h_{t−1}) et B(h_{t−1}) : chez Mamba, Δ, B et C dépendent de l’entrée x_t, et A est fixe.",
        "[4] writes A(h_{t−1}) and B(h_{t−1}): in Mamba Δ, B and C depend on the input x_t, and A is fixed.",
    ),
    remarks=[
        Text(
            "« Ne peut pas » vaut pour une taille et un temps donnés : dans des lignes aussi courtes, un espace d’états fixe en apprend "
            "une partie. Celles de Gu & Dao ont 4 096 places.",
            "“Cannot” is meant at a given size and time: in rows as short as these a fixed state space learns a part of them. Those of "
            "Gu & Dao have 4,096 places.",
        )
    ],
)
