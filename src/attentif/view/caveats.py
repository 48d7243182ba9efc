"""What may not be concluded from a comparison: each reason that its own numbers give for doubt."""

from collections.abc import Mapping
from typing import Any

from attentif.view.words import Text, count, duration, join_names, metric, percent, plural, than, with_decimals

Part = Mapping[str, Any]
ENOUGH_SEEDS = 5  # from here on, an interval over seeds is more than a hint
RESHAPED = 4.0  # times narrower or wider than a preset, from which it has another shape
UNEVEN = 1.25  # ratio of costs from which equal parameters are not equal work
STILL_MOVING = 0.02  # of the whole way of a curve, made in its last step: more, and training was not over
FLOOR = 0.005  # of a share: up to here, nothing was learned
CEILING = 0.995  # of a share: from here on, models have nothing left to differ in
TOLERANCE = {"params": 0.02, "flops": 0.02, "tokens": 0.02, "seconds": 0.10, "memory": 0.10}


def may_not(part: Part) -> list[Text]:
    """Why not more: each reason that these numbers give."""
    if not part["statistics"]["scores"]:
        return _failures(part)
    found = [
        *_failures(part),
        *_few_seeds(part),
        *_rates(part),
        *_budget(part),
        *resized_models(part),
        *_rising_curves(part),
        *_ceiling(part),
    ]
    found += [*_floor(part), *_lengths(part), *_early_stops(part), *_off_time(part)]
    only = Text(
        "Ce résultat vaut pour ces données, cette durée d’apprentissage et ces tailles ; d’autres données, ou des modèles cent fois plus "
        "grands, peuvent en décider autrement.",
        "This result holds for these data, this length of training and these sizes; other data, or models a hundred times larger, may "
        "decide otherwise.",
    )
    return [*found, only]


def _failures(part: Part) -> list[Text]:
    failed = [run for run in part["runs"] if run["failed"]]
    if not failed:
        return []
    names = list(dict.fromkeys(run["model"] for run in failed))
    failing = Text("a échoué", "failed") if len(failed) == 1 else Text("ont échoué", "failed")
    one = Text("ce modèle n’est pas comparé", "it is not compared")
    return [
        Text(
            "{n} de {names} {failing} : {they} sur toutes les graines.",
            "{n} of {names} {failing}: {they} over all seeds.",
        ).with_(
            n=plural(len(failed), Text("apprentissage", "run")),
            names=join_names(names),
            failing=failing,
            they=one if len(names) == 1 else Text("ces modèles ne sont pas comparés", "they are not compared"),
        )
    ]


def _few_seeds(part: Part) -> list[Text]:
    seeds = len(part["seeds"])
    if seeds == 1:
        return [
            Text(
                "Une seule graine : on ne sait pas de combien le hasard fait varier ces nombres, et aucun écart ne peut être établi.",
                "A single seed: how far chance moves these numbers is not known, and no difference can be established.",
            )
        ]
    if seeds < ENOUGH_SEEDS:
        return [
            Text(
                "{seeds} graines, c’est peu : les intervalles sont larges, et un petit écart réel peut rester invisible.",
                "{seeds} seeds are few: intervals are wide, and a small real difference may stay unseen.",
            ).with_(seeds=count(seeds))
        ]
    return []


def _rates(part: Part) -> list[Text]:
    search = part["search"]
    if search is None and len(part["models"]) == 1:
        return []
    if search is None:
        return [
            Text(
                "Le taux d’apprentissage n’a pas été choisi pour chaque modèle : un taux donné d’avance peut favoriser l’un d’eux.",
                "The learning rate was not tuned for each model: one given beforehand may favour one of them.",
            )
        ]
    tried = {name: [trial["lr"] for trial in search["trials"] if trial["model"] == name] for name in search["chosen"]}
    at_edge = [name for name, rate in search["chosen"].items() if rate is not None and rate in (min(tried[name]), max(tried[name]))]
    if not at_edge:
        return []
    return [
        Text(
            "Le taux choisi pour {names} est au bord de ce qui a été essayé : un meilleur se trouve peut-être au-delà.",
            "The rate chosen for {names} is at the edge of those tried: a better one may lie beyond.",
        ).with_(names=join_names(at_edge))
    ]


def _budget(part: Part) -> list[Text]:
    found, uneven, kind = [], [], part["budget"] and part["budget"]["kind"]
    costs = {model["name"]: model["flops_per_token"] * model["tokens"] for model in part["models"]}
    sizes = {model["name"]: model["parameters"] for model in part["models"]}
    if kind != "flops" and (ratio := _ratio(costs)) >= UNEVEN:
        uneven.append(_uneven(costs, ratio, Text("d’opérations d’apprentissage", "training operations")))
    if kind != "params" and (ratio := _ratio(sizes)) >= UNEVEN:
        uneven.append(_uneven(sizes, ratio, Text("de paramètres", "parameters")))
    if uneven:
        both = Text(" ; ".join(one.fr for one in uneven), "; ".join(one.en for one in uneven))
        found.append(Text(f"Tout n’est pas égal : {both.fr}.", f"Not all is equal: {both.en}."))
    tolerance = TOLERANCE.get(str(kind), float("inf"))
    off = [model["name"] for model in part["models"] if model["error"] is not None and abs(model["error"]) > tolerance]
    if off:
        found.append(
            Text("{names} : le budget n’est pas tenu à {tolerance} près.", "{names}: the budget is not met within {tolerance}.").with_(
                names=join_names(off), tolerance=percent(tolerance, 0)
            )
        )
    return found


def resized_models(part: Part) -> list[Text]:
    """Models that a budget made far narrower or wider than designed."""
    found = []
    for model in part["models"]:
        own, width = model["own_width"], model["changed"].get("model.width", model["own_width"])
        if max(own / width, width / own) >= RESHAPED:
            found.append(
                Text("{name} ({own} → {width})", "{name} ({own} → {width})").with_(name=model["name"], own=count(own), width=count(width))
            )
    if not found:
        return []
    return [
        Text(
            "Le budget change beaucoup la largeur de {names} : un préréglage plus proche du budget serait plus juste.",
            "The budget changes the width of {names} a lot: a preset nearer to this budget would be fairer.",
        ).with_(names=join_names(found))
    ]


def _early_stops(part: Part) -> list[Text]:
    """Whose runs ended before their time, because the suite asked for `patience`."""
    early = {run["model"] for run in part["runs"] if run.get("ended") == "patience"}
    if not early:
        return []
    return [
        Text(
            "{names} : l’apprentissage s’est arrêté avant la fin, la validation ne progressant plus ; tout le budget n’est pas dépensé.",
            "{names}: training was stopped before its end, as validation no longer improved; not all of the budget was spent.",
        ).with_(names=join_names([model["name"] for model in part["models"] if model["name"] in early]))
    ]


def _off_time(part: Part) -> list[Text]:
    """Whose runs took another time than the few steps foretold that the size was chosen by."""
    if not part["budget"] or part["budget"]["kind"] != "seconds":
        return []
    taken = {model["name"]: model["timing"]["seconds"] for model in part["models"] if "timing" in model}
    wanted, tolerance = part["budget"]["amount"], TOLERANCE["seconds"]
    off = [(name, seconds) for name, seconds in taken.items() if abs(seconds / wanted - 1) > tolerance]
    if not off:
        return []
    named = [Text("{name} ({time})", "{name} ({time})").with_(name=name, time=duration(seconds)) for name, seconds in off]
    return [
        Text(
            "Le temps réellement pris par {names} s’écarte du budget de plus de {tolerance} : la machine faisait autre chose, pendant la "
            "mesure ou après.",
            "The time really taken by {names} is more than {tolerance} off the budget: the machine did something else, while it was "
            "measured or since.",
        ).with_(names=join_names(named), tolerance=percent(tolerance, 0))
    ]


def _ratio(values: Mapping[str, float]) -> float:
    return max(values.values()) / min(values.values()) if values and min(values.values()) > 0 else 1.0


def _uneven(values: Mapping[str, float], ratio: float, what: Text) -> Text:
    most, least = (choose(values, key=lambda name: values[name]) for choose in (max, min))
    return Text(
        "{most} demande {ratio} fois plus {what} {than}",
        "{most} takes {ratio} times as many {what} as {least}",
    ).with_(most=most, least=least, than=than(least), ratio=with_decimals(ratio, 1), what=what)


def _rising_curves(part: Part) -> list[Text]:
    """Whose curves were still on their way up when training ended."""
    moving = []
    for model in part["models"]:
        curves = [run["curve"]["score"] for run in part["runs"] if run["model"] == model["name"] and run["scores"]]
        shares = [abs(c[-1] - c[-2]) / (max(c) - min(c)) for c in curves if len(c) > 3 and max(c) > min(c)]
        better = [(c[-1] > c[-2]) == part["higher_is_better"] for c in curves if len(c) > 3]
        if shares and all(better) and sum(shares) / len(shares) > STILL_MOVING:
            moving.append(model["name"])
    if not moving:
        return []
    return [
        Text(
            "La validation progressait encore à la fin pour {names} : un apprentissage plus long peut changer l’ordre.",
            "Validation was still improving at the end for {names}: longer training may change the order.",
        ).with_(names=join_names(moving))
    ]


def _ceiling(part: Part) -> list[Text]:
    of = metric(part["metric"])
    high = [name for name, score in part["statistics"]["scores"].items() if of.share and of.higher_is_better and score["value"] >= CEILING]
    if len(high) < 2:
        return []
    return [
        Text(
            "{names} sont au plafond de cette tâche : elle est trop facile pour les départager.",
            "{names} are at the ceiling of this task: it is too easy to tell them apart.",
        ).with_(names=join_names(high))
    ]


def _floor(part: Part) -> list[Text]:
    of, values = metric(part["metric"]), [score["value"] for score in part["statistics"]["scores"].values()]
    if not (of.share and of.higher_is_better) or max(values) > FLOOR:
        return []
    return [
        Text(
            "Aucun modèle n’a appris la tâche : il faut un apprentissage plus long, ou d’autres taux, avant de les comparer.",
            "No model has learned the task: it takes longer training, or other rates, before they can be compared.",
        )
    ]


def _lengths(part: Part) -> list[Text]:
    contexts = {model["context"] for model in part["models"]}
    if len(contexts) < 2:
        return []
    return [
        Text(
            "Les modèles ne lisent pas des textes de même longueur (de {low} à {high} jetons) : leur limite en décide.",
            "The models do not read texts of the same length ({low} to {high} tokens): their limits decide it.",
        ).with_(low=count(min(contexts)), high=count(max(contexts)))
    ]
