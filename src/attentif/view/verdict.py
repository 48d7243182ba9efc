"""A comparison in words: what may be concluded from its numbers, and what may not. Every sentence is composed from them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attentif.view.blocks import Score
from attentif.view.figures.scores import written
from attentif.view.words import LANGS, Metric, Number, Text, Words, count, duration, fixed, metric, number, percent, say, size, split_name

Part = Mapping[str, Any]
LEVEL = 0.05  # of the tests
ENOUGH_SEEDS = 5  # from here on, an interval over seeds is more than a hint
UNEVEN = 1.25  # ratio of costs from which equal parameters are not equal work
STILL_MOVING = 0.02  # of the whole way of a curve, made in its last step: more, and training was not over
FLOOR = 0.005  # of a share: up to here, nothing was learned
CEILING = 0.995  # of a share: from here on, models have nothing left to differ in
TOLERANCE = {"params": 0.02, "flops": 0.02, "tokens": 0.02, "seconds": 0.10, "memory": 0.10}

NOTHING = Text("Aucun modèle n’a de score : rien ne peut être conclu.", "No model has a score: nothing can be concluded.")
SPENT = {
    "params": Text("le même nombre de paramètres", "the same number of parameters"),
    "flops": Text("les mêmes opérations", "the same operations"),
    "seconds": Text("le même temps", "the same time"),
    "tokens": Text("le même nombre de jetons", "the same number of tokens"),
    "memory": Text("la même mémoire", "the same memory"),
}


def score_of(part: Part, name: str) -> Score:
    """A model's mean over the seeds, its interval cut to what such a score can be."""
    found = part["statistics"]["scores"][name]
    score = Score(found["value"], found["low"], found["high"])
    return score.as_share(of_errors=not part["higher_is_better"]) if metric(part["metric"]).share else score


def conclusion(part: Part) -> Text:
    """Everything in one paragraph."""
    return joined([setting(part), *may(part), *may_not(part)])


def joined(sentences: Sequence[Text], between: str = " ") -> Text:
    return Text(*(between.join(sentence[lang] for sentence in sentences) for lang in LANGS))


# ------------------------------------------------------------------------------------------------------------------ may


def setting(part: Part) -> Text:
    """What was compared, and how."""
    return Text(
        "Sur {recipe} ({test} exemples de {split}) : {models}, {seeds}, {budget}, {rate}.",
        "On {recipe} ({test} {split} examples): {models}, {seeds}, {budget}, {rate}.",
    ).with_(
        recipe=part["recipe"],
        test=count(part["data"]["examples"]["test"]),
        split=split_name("test"),
        models=plural(len(part["models"]), Text("modèle", "model")),
        seeds=plural(len(part["seeds"]), Text("graine", "seed")),
        budget=_spent(part),
        rate=_rate(part),
    )


def may(part: Part) -> list[Text]:
    """Who came first, and which differences the seeds establish."""
    scores = part["statistics"]["scores"]
    if not scores:
        return [NOTHING]
    of, order = metric(part["metric"]), ranking(part)
    best = scores[order[0]]
    ahead = [name for name in order if scores[name]["value"] == best["value"]]
    if len(ahead) == len(order) > 1:
        same = Text("Tous les modèles obtiennent {value} ({metric}).", "All models reach {value} ({metric}).")
        return [same.with_(value=of.write(best["value"]), metric=lower_is_better(of)), *_simple(part, order, of)]
    come = Text("arrivent en tête", "come first") if len(ahead) > 1 else Text("arrive en tête", "comes first")
    first = Text("{names} {come} : {value} ({metric}).", "{names} {come}: {value} ({metric}).").with_(
        names=listed(ahead), come=come, metric=lower_is_better(of), value=written(score_of(part, order[0]), of)
    )
    return [first, *_established(part, order, of), *_simple(part, order, of)]


def lower_is_better(of: Metric) -> Text:
    """The metric's name, with a word where the reader would take a high score for a good one."""
    if of.higher_is_better:
        return of.name
    return Text(f"{of.name.fr} ; le plus bas est le meilleur", f"{of.name.en}; lower is better")


def ranking(part: Part) -> list[str]:
    """The models that have a score, the best first."""
    scores = part["statistics"]["scores"]
    sign = -1 if part["higher_is_better"] else 1
    return sorted(scores, key=lambda name: sign * scores[name]["value"])


def _established(part: Part, order: Sequence[str], of: Metric) -> list[Text]:
    """Where the best one stands to each of the others."""
    if len(order) < 2:
        return []
    best, pairs = order[0], part["statistics"]["differences"]
    told, likely, untold = [], [], []
    for other in order[1:]:
        pair = next((d for d in pairs if {d["first"], d["second"]} == {best, other}), None)
        if pair is not None and pair["different"]:
            told.append(_by(other, pair, of))
        elif pair is not None and pair["p"] is not None and pair["p"] < LEVEL:
            likely.append(_by(other, pair, of))
        else:
            untold.append(other)
    found = []
    if told:
        found.append(
            Text(
                "L’écart est établi, au seuil de 5 % (tests appariés, correction de Holm), avec {names}.",
                "The difference from {names} is established at the 5% level (paired tests, Holm's correction).",
            ).with_(names=listed(told))
        )
    else:
        nothing = Text(
            "Aucun écart avec les autres n’est établi au seuil de 5 % (tests appariés, correction de Holm)",
            "No difference from the others is established at the 5% level (paired tests, Holm's correction)",
        )
        chance = Text(" : l’ordre observé peut être dû au hasard des graines.", ": the order observed may be the chance of the seeds.")
        end = Text(".", ".") if likely else chance
        found.append(Text(nothing.fr + end.fr, nothing.en + end.en))
    if likely:
        found.append(
            Text(
                "Avec {names}, il est vraisemblable sans être établi : ces paires, prises seules, passent le seuil, mais non après "
                "correction pour {n} paires ; plus de graines en décideraient.",
                "That from {names} is likely and not established: these pairs pass the level by themselves, but not after correction for "
                "{n} pairs; more seeds would decide.",
            ).with_(names=listed(likely), n=count(len(pairs)))
        )
    if untold and (told or likely):
        established = Text("Il ne l’est pas avec {names}", "That from {names} is not")  # goes on from the sentence about `told`
        begins = Text("Rien ne le distingue de {names}", "Nothing tells it from {names}") if likely else established
        alike = Text(f"{begins.fr} : ces modèles peuvent se valoir.", f"{begins.en}: these models may be as good as each other.")
        found.append(alike.with_(names=listed(untold)))
    return found


def _simple(part: Part, order: Sequence[str], of: Metric) -> list[Text]:
    """Where the models stand to the best of the simple systems: a network that such a system beats is not worth its cost."""
    known = [rival for rival in part["baselines"] if rival["scores"].get(of.key) is not None]
    if not known:
        return []
    sign = 1 if part["higher_is_better"] else -1
    rival = max(known, key=lambda one: sign * one["scores"][of.key])
    mark, scores = rival["scores"][of.key], part["statistics"]["scores"]
    behind = [name for name in order if sign * scores[name]["value"] < sign * mark]
    if len(behind) == len(order):
        said = Text(
            "Un modèle simple fait mieux que tous : {rival}, {value} (mesuré une fois).",
            "A simple system does better than all of them: {rival}, {value} (measured once).",
        )
    elif behind:
        said = Text(
            "{names} {do} moins bien que le meilleur des modèles simples : {rival}, {value} (mesuré une fois).",
            "{names} {do} worse than the best simple system: {rival}, {value} (measured once).",
        )
    else:
        said = Text(
            "Aucun ne fait moins bien que le meilleur des modèles simples : {rival}, {value} (mesuré une fois).",
            "None does worse than the best simple system: {rival}, {value} (measured once).",
        )
    do = Text("font", "do") if len(behind) > 1 else Text("fait", "does")
    return [said.with_(names=listed(behind), do=do, rival=Text(**rival["name"]), value=of.write(mark))]


def _by(name: str, pair: Mapping[str, Any] | None, of: Metric) -> Text:
    assert pair is not None
    return Text("{name} ({gap})", "{name} ({gap})").with_(name=name, gap=gap(abs(pair["value"]), of))


def gap(value: float, of: Metric) -> Text:
    """A difference: points of a share, or a plain number."""
    if not of.share:
        return number(value, 3)
    many = "s" if round(abs(100 * value), 1) >= 2 else ""
    return Text(f"{{n}} point{many}", "{n} points").with_(n=fixed(100 * value, 1 if abs(value) >= 0.001 else 2))


def _spent(part: Part) -> Text:
    budget = part["budget"]
    if budget is None:
        return Text("chacun à sa taille d’origine (aucun budget commun)", "each at its own size (no common budget)")
    write: Callable[[float], Number] = {"seconds": duration, "memory": size}.get(budget["kind"], big)
    return Text("{same} ({amount})", "{same} ({amount})").with_(same=SPENT[budget["kind"]], amount=write(budget["amount"]))


def _rate(part: Part) -> Text:
    search = part["search"]
    if search is not None:
        return Text(
            "un taux d’apprentissage choisi pour chacun parmi {n} par de courts essais ({share} d’un apprentissage, sur la validation)",
            "a learning rate chosen for each among {n} by short trials ({share} of a training run, on validation)",
        ).with_(n=count(len(search["rates"])), share=percent(search["share"], 0))
    return Text("un taux d’apprentissage donné d’avance", "a learning rate given beforehand")


# -------------------------------------------------------------------------------------------------------------- may not


def may_not(part: Part) -> list[Text]:
    """Why not more: each reason that these numbers give."""
    if not part["statistics"]["scores"]:
        return _failures(part)
    found = [*_failures(part), *_few_seeds(part), *_rates(part), *_budget(part), *_unfinished(part), *_ceiling(part)]
    found += [*_floor(part), *_lengths(part)]
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
    names = listed(list(dict.fromkeys(run["model"] for run in failed)))
    said = Text(
        "{n} de {names} a échoué : ce modèle n’est pas comparé sur toutes les graines.",
        "{n} of {names} failed: it is not compared over all seeds.",
    )
    many = Text(
        "{n} de {names} ont échoué : ces modèles ne sont pas comparés sur toutes les graines.",
        "{n} of {names} failed: they are not compared over all seeds.",
    )
    return [(said if len(failed) == 1 else many).with_(n=plural(len(failed), Text("apprentissage", "run")), names=names)]


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
                "{seeds} graines sont peu : les intervalles sont larges, et un petit écart réel peut rester invisible.",
                "{seeds} seeds are few: intervals are wide, and a small real difference may stay unseen.",
            ).with_(seeds=count(seeds))
        ]
    return []


def _rates(part: Part) -> list[Text]:
    search = part["search"]
    if search is None:
        return [
            Text(
                "Le taux d’apprentissage n’a pas été choisi pour chaque modèle : celui-ci peut favoriser l’un d’eux.",
                "The learning rate was not tuned for each model: this one may favour one of them.",
            )
        ]
    edges = {search["rates"][0], search["rates"][-1]}
    at_edge = [name for name, rate in search["chosen"].items() if rate in edges]
    if not at_edge:
        return []
    return [
        Text(
            "Le taux choisi pour {names} est au bord de la grille : un meilleur se trouve peut-être au-delà.",
            "The rate chosen for {names} is at the edge of the grid: a better one may lie beyond.",
        ).with_(names=listed(at_edge))
    ]


def _budget(part: Part) -> list[Text]:
    found, kind = [], part["budget"] and part["budget"]["kind"]
    costs = {model["name"]: model["flops_per_token"] * model["tokens"] for model in part["models"]}
    sizes = {model["name"]: model["parameters"] for model in part["models"]}
    if kind != "flops" and (ratio := _ratio(costs)) >= UNEVEN:
        found.append(_uneven(costs, ratio, Text("d’opérations d’apprentissage", "training operations")))
    if kind != "params" and (ratio := _ratio(sizes)) >= UNEVEN:
        found.append(_uneven(sizes, ratio, Text("de paramètres", "parameters")))
    tolerance = TOLERANCE.get(str(kind), float("inf"))
    off = [model["name"] for model in part["models"] if model["error"] is not None and abs(model["error"]) > tolerance]
    if off:
        found.append(
            Text("{names} : le budget n’est pas tenu à {tolerance} près.", "{names}: the budget is not met within {tolerance}.").with_(
                names=listed(off), tolerance=percent(tolerance, 0)
            )
        )
    return found


def _ratio(values: Mapping[str, float]) -> float:
    return max(values.values()) / min(values.values()) if values and min(values.values()) > 0 else 1.0


def _uneven(values: Mapping[str, float], ratio: float, what: Text) -> Text:
    most, least = (choose(values, key=lambda name: values[name]) for choose in (max, min))
    return Text(
        "Tout n’est pas égal : {most} demande {ratio} fois plus {what} que {least}.",
        "Not all is equal: {most} takes {ratio} times as many {what} as {least}.",
    ).with_(most=most, least=least, ratio=fixed(ratio, 1), what=what)


def _unfinished(part: Part) -> list[Text]:
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
        ).with_(names=listed(moving))
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
        ).with_(names=listed(high))
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


# ---------------------------------------------------------------------------------------------------------------- words


def listed(names: Sequence[Words]) -> Text:
    """ "a, b and c" """
    parts = []
    for lang, last in (("fr", " et "), ("en", " and ")):
        said = [say(name, lang) for name in names]  # type: ignore[arg-type]
        parts.append(last.join([", ".join(said[:-1]), said[-1]]) if len(said) > 1 else "".join(said))
    return Text(*parts)


def big(value: float) -> Number:
    """12.3 M"""
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            found = number(value / factor, 3)
            return Number(f"{found.fr} {prefix}", f"{found.en} {prefix}")
    return number(value, 3)


def plural(number_of: int, noun: Text) -> Text:
    many = "s" if number_of > 1 else ""
    amount: Number = count(number_of)
    return Text(f"{amount.fr} {noun.fr}{many}", f"{amount.en} {noun.en}{many}")
