"""L29: attention without the MLP has limited expressivity.

    attention   y_t = Σ_s a_ts W x_s:   a mean of rows; only its weights are not linear in x
    block       x + MLP(x + attention(x))

Asked for is the answer that a table drawn at random has for two tokens: what is right for (a, b) says nothing of (a, c). Attention alone
gets as many parameters as attention with its MLP, in more layers. (Dong et al. 2021 show what else becomes of it: its rank collapses.)
"""

from typing import Any

from attentif.lab.experiment import Experiment, Measurements, Settings, Verdict, at_least, over_seeds
from attentif.lab.rows import facts
from attentif.lab.seeds import lead, right_answers
from attentif.lab.small import accuracy, compare_models, fresh, reading_forwards
from attentif.tasks.base import Progress
from attentif.view.blocks import FigureBlock
from attentif.view.words import Text, count, percent

KNOWN = 0.9  # right answers of attention with its MLP
AHEAD = 0.2  # right answers more than attention alone, of the same size
AS_LARGE = 3  # layers of attention (4D² each) that have the parameters of one with its MLP (4D² + 8D²)
ANSWERS = 16
NAMES = {
    "block": Text("attention et MLP, 1 couche", "attention and MLP, 1 layer"),
    "alone": Text(f"attention seule, {AS_LARGE} couches", f"attention alone, {AS_LARGE} layers"),
    "one": Text("attention seule, 1 couche", "attention alone, 1 layer"),
}


def model(mlp: bool, layers: int, width: int, names: int) -> dict[str, Any]:
    mixers: dict[str, dict[str, Any]] = {"attn": {"kind": "attention", "heads": 2, "causal": True}}
    if mlp:
        mixers["ffn"] = {"kind": "feed-forward", "hidden": 4 * width, "activation": "relu"}
    return reading_forwards(mixers, vocab=names, width=width, layers=layers, position={"kind": "learned", "max_len": 2})


def measure(settings: Settings, progress: Progress) -> Measurements:
    names, width = settings.pick(tiny=16, normal=24, full=48), settings.pick(tiny=16, normal=24, full=32)
    steps, seeds = settings.pick(tiny=200, normal=600, full=5000), settings.seeds(tiny=1, normal=5, full=10)
    rows = facts(names, ANSWERS, settings.seed)
    alone = model(False, AS_LARGE, width, names)
    models = {
        "block": alone if settings.without_effect else model(True, 1, width, names),
        "alone": alone,
        "one": model(False, 1, width, names),
    }
    score = lambda model, seed: accuracy(model, rows(2000, 7_000_000 + seed))
    answers = compare_models(models, rows, score, seeds=seeds, steps=steps, progress=progress, batch=128, lr=1e-2)
    parameters = {name: sum(weight.numel() for weight in fresh(config).parameters()) for name, config in models.items()}
    return {"facts": names**2, "steps": steps, "seeds": len(seeds), "parameters": parameters, "answers": answers}


def verdict(found: Measurements) -> Verdict:
    answers = found["answers"]
    sizes = {name: count(found["parameters"][name]) for name in ("block", "alone")}
    return Verdict(
        [
            at_least(
                Text(
                    "l’attention et son MLP savent {value} de la table de plus que l’attention seule, à taille égale",
                    "attention and its MLP know {value} more of the table than attention alone of the same size",
                ),
                over_seeds(lead(answers["block"], answers["alone"])),
                AHEAD,
                percent,
            ),
        ],
        Text("Paramètres : {block} avec le MLP, {alone} sans.", "Parameters: {block} with the MLP, {alone} without.").with_(**sizes),
        controls=[
            at_least(
                Text("l’attention et son MLP savent {value} de la table", "attention and its MLP know {value} of the table"),
                over_seeds(answers["block"]),
                KNOWN,
                percent,
            ),
        ],
    )


def figures(found: Measurements) -> list[FigureBlock]:
    about = Text(f"{found['facts']} faits, {found['steps']} pas.", f"{found['facts']} facts, {found['steps']} steps.")
    return [right_answers(Text("Une table de réponses quelconques", "A table of any answers"), NAMES, found["answers"], 1 / ANSWERS, about)]


EXPERIMENT = Experiment(
    number=29,
    title=Text("L’attention sans MLP", "Attention without the MLP"),
    claim=Text("l’attention sans MLP a une expressivité limitée", "attention without the MLP has limited expressivity"),
    says={
        2: "An attention head… Compute linear combinations of X rows → Limited expressivity! → Post processing of outputs using a MLP",
        3: "Introduction de non-linéarités grâce à un feedforward",
    },
    method=Text(
        "Deux jetons, et la réponse que leur donne une table tirée au hasard. Une couche d’attention avec son MLP, contre l’attention "
        f"seule en {AS_LARGE} couches (autant de paramètres) et en une : mêmes pas, mêmes graines.",
        "Two tokens, and the answer that a table drawn at random has for them. One layer of attention with its MLP, against attention "
        f"alone in {AS_LARGE} layers (as many parameters) and in one: the same steps and seeds.",
    ),
    sabotage=Text("l’attention seule partout", "attention alone everywhere"),
    tiny="-",
    measure=measure,
    verdict=verdict,
    figures=figures,
    papers=["Vaswani et al. 2017, section 3.3", "Dong et al. 2021"],
    choices=[
        Text(
            "La séparation entre l’affirmation et les contrôles date d’après les résultats : "
            "avant elle, les contrôles comptaient aussi, et l’affirmation était dite vérifiée en partie.",
            "Claim and controls were separated after the results had been seen: "
            "before, the controls counted too, and the claim was said to hold in part.",
        ),
    ],
)
