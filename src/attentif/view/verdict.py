"""A comparison in words: what may be concluded from its numbers (what may not: `doubts`). Every sentence is composed from them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attentif.view.blocks import Score
from attentif.view.caveats import may_not
from attentif.view.figures.scores import format_score
from attentif.view.words import (
    LANGS,
    Metric,
    Number,
    Text,
    big,
    count,
    duration,
    join_names,
    metric,
    number,
    percent,
    plural,
    size,
    split_name,
    with_decimals,
)

Part = Mapping[str, Any]
LEVEL = 0.05  # of the tests

NOTHING = Text("Aucun modèle n’a de score : rien ne peut être conclu.", "No model has a score: nothing can be concluded.")
SPENT = {
    "params": Text("le même nombre de paramètres", "the same number of parameters"),
    "flops": Text("les mêmes opérations", "the same operations"),
    "seconds": Text("le même temps", "the same time"),
    "tokens": Text("le même nombre de jetons", "the same number of tokens"),
    "memory": Text("la même mémoire pour un pas, Python et données à part", "the same memory for a step, Python and data apart"),
}


def score_of(part: Part, name: str) -> Score:
    """A model's mean over the seeds, its interval cut to what such a score can be."""
    found = part["statistics"]["scores"][name]
    score = Score(found["value"], found["low"], found["high"])
    return score.as_share(of_errors=not part["higher_is_better"]) if metric(part["metric"]).share else score


def conclusion(part: Part) -> Text:
    """Everything in one paragraph."""
    return join_texts([describe_setting(part), *may(part), *may_not(part)])


def join_texts(sentences: Sequence[Text]) -> Text:
    return Text(*(" ".join(sentence[lang] for sentence in sentences) for lang in LANGS))


def describe_setting(part: Part) -> Text:
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
        budget=_describe_budget(part),
        rate=_rate(part),
    )


def may(part: Part) -> list[Text]:
    """Who came first, and which differences the seeds establish."""
    scores = part["statistics"]["scores"]
    if not scores:
        return [NOTHING]
    of, order = metric(part["metric"]), rank_models(part)
    best = scores[order[0]]
    ahead = [name for name in order if scores[name]["value"] == best["value"]]
    if len(ahead) == len(order) > 1:
        same = Text("Tous les modèles obtiennent {value} ({metric}).", "All models reach {value} ({metric}).")
        return [same.with_(value=of.write(best["value"]), metric=lower_is_better(of)), *_simple(part, order, of)]
    come = Text("arrivent en tête", "come first") if len(ahead) > 1 else Text("arrive en tête", "comes first")
    alone = Text("{names} obtient {value} ({metric}).", "{names} reaches {value} ({metric}).")
    first = Text("{names} {come} : {value} ({metric}).", "{names} {come}: {value} ({metric}).") if len(order) > 1 else alone
    first = first.with_(names=join_names(ahead), come=come, metric=lower_is_better(of), value=format_score(score_of(part, order[0]), of))
    return [first, *_describe_rank(part, order, of), *_simple(part, order, of)]


def lower_is_better(of: Metric) -> Text:
    """The metric's name, with a note if lower is better."""
    if of.higher_is_better:
        return of.name
    return Text(f"{of.name.fr} ; le plus bas est le meilleur", f"{of.name.en}; lower is better")


def rank_models(part: Part) -> list[str]:
    """The models that have a score, the best first."""
    scores = part["statistics"]["scores"]
    sign = -1 if part["higher_is_better"] else 1
    return sorted(scores, key=lambda name: sign * scores[name]["value"])


def _describe_rank(part: Part, order: Sequence[str], of: Metric) -> list[Text]:
    """Compare the best model with each of the others."""
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
            ).with_(names=join_names(told))
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
        one = Text("cette paire, prise seule, passe le seuil", "this pair passes the level by itself")
        several = Text("ces paires, prises seules, passent le seuil", "these pairs pass the level by themselves")
        found.append(
            Text(
                "Avec {names}, il est vraisemblable sans être établi : {they}, mais non après correction pour {n} paires ; plus de graines "
                "en décideraient.",
                "That from {names} is likely and not established: {they}, but not after correction for {n} pairs; more seeds would decide.",
            ).with_(names=join_names(likely), they=one if len(likely) == 1 else several, n=count(len(pairs)))
        )
    if untold and (told or likely):
        established = Text("Il ne l’est pas avec {names}", "That from {names} is not")  # goes on from the sentence about `told`
        begins = Text("Rien ne le distingue de {names}", "Nothing tells it from {names}") if likely else established
        alike = Text(f"{begins.fr} : ces modèles peuvent se valoir.", f"{begins.en}: these models may be as good as each other.")
        found.append(alike.with_(names=join_names(untold)))
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
    if len(behind) == len(order) > 1:
        said = Text(
            "Un modèle simple fait mieux que tous : {rival}, {value} (mesuré une fois).",
            "A simple system does better than all of them: {rival}, {value} (measured once).",
        )
    elif behind:
        said = Text(
            "{names} {do} moins bien que le meilleur des modèles simples : {rival}, {value} (mesuré une fois).",
            "{names} {do} worse than the best simple system: {rival}, {value} (measured once).",
        )
    elif len(order) == 1:
        said = Text(
            "Le meilleur des modèles simples ne fait pas mieux : {rival}, {value} (mesuré une fois).",
            "The best simple system does no better: {rival}, {value} (measured once).",
        )
    else:
        said = Text(
            "Aucun ne fait moins bien que le meilleur des modèles simples : {rival}, {value} (mesuré une fois).",
            "None does worse than the best simple system: {rival}, {value} (measured once).",
        )
    do = Text("font", "do") if len(behind) > 1 else Text("fait", "does")
    return [said.with_(names=join_names(behind), do=do, rival=Text(**rival["name"]), value=of.write(mark))]


def _by(name: str, pair: Mapping[str, Any] | None, of: Metric) -> Text:
    assert pair is not None
    return Text("{name} ({gap})", "{name} ({gap})").with_(name=name, gap=gap(abs(pair["value"]), of))


def gap(value: float, of: Metric) -> Text:
    """A difference: points of a share, or a plain number."""
    if not of.share:
        return number(value, 3)
    many = "s" if round(abs(100 * value), 1) >= 2 else ""
    return Text(f"{{n}} point{many}", "{n} points").with_(n=with_decimals(100 * value, 1 if abs(value) >= 0.001 else 2))


def _describe_budget(part: Part) -> Text:
    budget = part["budget"]
    if budget is None and len(part["models"]) == 1:
        return Text("à sa taille d’origine", "at its own size")
    if budget is None:
        return Text("chacun à sa taille d’origine (aucun budget commun)", "each at its own size (no common budget)")
    write: Callable[[float], Number] = {"seconds": duration, "memory": size}.get(budget["kind"], big)
    return Text("{same} ({amount})", "{same} ({amount})").with_(same=SPENT[budget["kind"]], amount=write(budget["amount"]))


def _rate(part: Part) -> Text:
    search, given = part["search"], [model["name"] for model in part["models"] if model["lr_from"] == "given"]
    if search is None or len(given) == len(part["models"]):
        return Text("un taux d’apprentissage donné d’avance", "a learning rate given beforehand")
    fr, en = (" et un échauffement choisis", " and a warm-up") if search.get("warmups") else (" choisi", "")
    chosen = Text(
        f"un taux d’apprentissage{fr} pour chacun par de courts essais ({{share}} d’un apprentissage, sur la validation)",
        f"a learning rate{en} chosen for each by short trials ({{share}} of a training run, on validation)",
    ).with_(share=percent(search["share"], 0))
    if not given:
        return chosen
    return Text(f"{chosen.fr}, sauf pour {{names}} (donné)", f"{chosen.en}, but for {{names}} (given)").with_(names=join_names(given))
