"""The report of a run: what came out, against what, why, and at what cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from attentif.french import to_french
from attentif.view.blocks import (
    AttentionMaps,
    Block,
    Cell,
    CodeBlock,
    Contender,
    Drawing,
    FigureBlock,
    Paragraph,
    Score,
    Section,
    TableBlock,
)
from attentif.view.figures import Points, contenders, cost_bars, learning_rate, loss_curves, metric_curves
from attentif.view.figures.scores import format_score, sort_best_first
from attentif.view.maps import HOW_TO_READ, MAPS
from attentif.view.page import Page, write
from attentif.view.words import (
    EXAMPLES,
    LOWER,
    METRICS,
    Metric,
    Number,
    Text,
    Words,
    count,
    duration,
    metric,
    number,
    part_name,
    percent,
    size,
    split_name,
    with_decimals,
)


@dataclass(frozen=True, slots=True)
class SplitScores:
    """The scores of the run and of its baselines on one split; `metric` is the score that counts."""

    metric: str
    scores: Mapping[str, Score]
    baselines: Sequence[Contender] = ()
    split: str = "test"
    examples: int | None = None
    unit: Text = EXAMPLES

    @property
    def contenders(self) -> list[Contender]:
        return [Contender(Text("ce modèle", "this model"), self.scores, ours=True), *self.baselines]

    @property
    def rivals(self) -> list[Contender]:
        """The baselines that were measured by the metric that counts."""
        return [rival for rival in self.baselines if self.metric in rival.scores]


@dataclass(frozen=True, slots=True)
class Cost:
    """What training took."""

    seconds: float
    tokens: int  # seen in training, padding apart
    peak_memory: int | None  # bytes
    parameters: Mapping[str, int]  # by part of the model
    learning: int | None = None  # of them; by default all
    device: str = "cpu"
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Everything needed to reproduce a run."""

    recipe: str
    config: str  # the resolved TOML
    versions: Mapping[str, str]
    notes: Sequence[str] = ()  # in English: what was detected in the data, duplicates, rows left out


@dataclass(frozen=True, slots=True)
class RunReport:
    title: Words
    done: Sequence[Words]  # what was done, in words
    outcome: SplitScores
    history: Sequence[Mapping[str, Any]]  # the rows of metrics.jsonl
    cost: Cost
    origin: Origin
    sections: Sequence[Section] = ()  # the task's own
    maps: Sequence[AttentionMaps] = ()
    architecture: Drawing | None = None


def write_report(path: Path, report: RunReport) -> None:
    """Write `report.html`, whole or not at all."""
    write(path, page(report))


def page(report: RunReport) -> Page:
    """The page: results first, then the task's sections, then how they were obtained."""
    lead, curves = result(report.outcome), training_blocks(report.history, report.outcome)
    if not report.outcome.rivals and curves:  # with nothing to compare, the first screen shows how the loss fell
        lead.insert(1, curves.pop(0))
    sections = [
        Section(Text("Ce qui a été fait", "What was done"), [Paragraph(words) for words in report.done]),
        *report.sections,
        Section(MAPS, [Paragraph(HOW_TO_READ), *report.maps] if report.maps else []),
        Section(Text("Architecture", "Architecture"), [report.architecture] if report.architecture else [], folded=True),
        Section(Text("Apprentissage", "Training"), curves),
        Section(Text("Coût", "Cost"), cost(report.cost, report.history)),
        Section(Text("Données", "Data"), [Paragraph(Text(to_french(note), note)) for note in report.origin.notes]),
        Section(Text("Configuration", "Configuration"), configuration(report.origin), folded=True),
    ]
    return Page(report.title, [part for part in sections if part.body], lead)


def result(outcome: SplitScores) -> list[Block]:
    """The first screen: the score against the baselines, in a sentence, a figure and a table."""
    of = metric(outcome.metric)
    blocks: list[Block] = [Paragraph(headline(outcome), "lead")]
    if outcome.rivals:
        about = Text(
            "Les traits donnent l’intervalle de confiance (rééchantillonnage).", "Whiskers give the confidence interval (bootstrap)."
        )
        has_interval = any(system.scores[of.key].low is not None for system in outcome.contenders if of.key in system.scores)
        title = Text("Le modèle et ses références", "The model and its baselines")
        blocks.append(FigureBlock(title, partial(contenders, of.key, outcome.contenders), about if has_interval else ""))
    if outcome.scores:
        blocks.append(scores_table(outcome))
    return blocks


def headline(outcome: SplitScores) -> Text:
    """The result in a sentence, with no more certainty than the intervals allow."""
    of, ours = metric(outcome.metric), outcome.scores.get(outcome.metric)
    if ours is None:
        return Text("Aucun score n’a été mesuré.", "No score was measured.")
    first_capital = lambda name: name[:1].upper() + name[1:]
    sentence = Text("{metric} : {score} sur le jeu de {split}{size}", "{metric}: {score} on the {split} set{size}").with_(
        metric=Text(first_capital(of.title.fr), first_capital(of.title.en)),
        score=format_score(ours, of),
        split=split_name(outcome.split),
        size="" if outcome.examples is None else Text(" ({n} {unit})", " ({n} {unit})").with_(n=count(outcome.examples), unit=outcome.unit),
    )
    if not outcome.rivals:
        return Text("{sentence}.", "{sentence}.").with_(sentence=sentence)
    best = (max if of.higher_is_better else min)(outcome.rivals, key=lambda rival: rival.scores[of.key].value)
    return Text("{sentence}, {comparison}.", "{sentence}, {comparison}.").with_(
        sentence=sentence, comparison=comparison(of, ours, best.name, best.scores[of.key])
    )


def comparison(of: Metric, ours: Score, name: Words, theirs: Score) -> Text:
    """How far from the best baseline, and whether the intervals tell them apart."""
    difference = ours.value - theirs.value
    plural = "s" if abs(100 * difference) >= 2 else ""
    amount = (
        Text(f"{{n}} point{plural}", "{n} points").with_(n=with_decimals(abs(100 * difference))) if of.share else number(abs(difference), 3)
    )
    where = (
        Text(f"{amount.fr} de plus que", f"{amount.en} above")
        if difference > 0
        else Text(f"{amount.fr} de moins que", f"{amount.en} below")
    )
    level = of.write(ours.value) == of.write(theirs.value)
    if level:
        where = Text("au même niveau que", "level with")
    sentence = Text("{where} la meilleure référence, {name} ({score})", "{where} the best baseline, {name} ({score})").with_(
        where=where, name=name, score=of.write(theirs.value)
    )
    if not level and overlap(ours, theirs):
        doubt = Text(
            " ; les intervalles se recouvrent et n’établissent pas l’écart", "; the intervals overlap and do not establish the difference"
        )
        return Text(sentence.fr + doubt.fr, sentence.en + doubt.en)
    return sentence


def overlap(one: Score, other: Score) -> bool:
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return False
    return one.low <= other.high and other.low <= one.high


def scores_table(outcome: SplitScores) -> TableBlock:
    """Every score of the run beside those of its baselines, the best system first."""
    systems = sort_best_first(outcome.contenders, metric(outcome.metric))
    metrics = [metric(key) for key in sorted(outcome.scores, key=lambda key: key != outcome.metric)]  # a phone shows the first ones
    rows = [
        [system.name, *(format_score(system.scores[of.key], of, "\n") if of.key in system.scores else None for of in metrics)]
        for system in systems
    ]
    caption = None if all(of.higher_is_better for of in metrics) else LOWER
    return TableBlock(
        [Text("système", "system"), *(of.head for of in metrics)],
        rows,
        caption,
        strong={place for place, system in enumerate(systems) if system.ours},
    )


def points(history: Sequence[Mapping[str, Any]], key: str, split: str | None = None) -> Points:
    """(step, value) of the rows of one split that hold this key; rows of training name no split, or "train"."""
    wanted = {None, "train"} if split is None else {split}
    return [
        (row["step"], row[key]) for row in history if row.get("split") in wanted and isinstance(row.get(key), int | float) and "step" in row
    ]


def training_blocks(history: Sequence[Mapping[str, Any]], outcome: SplitScores) -> list[Block]:
    """Curves of the loss, of each metric of validation, of the experts' balance and of the learning rate; a single point is no curve."""
    blocks: list[Block] = []
    train, valid = points(history, "loss"), points(history, "loss", "valid")
    if len(train) > 1 or len(valid) > 1:
        blocks.append(FigureBlock(Text("Perte", "Loss"), partial(loss_curves, train, valid)))
    keys = dict.fromkeys(key for row in history if row.get("split") == "valid" for key in row)
    measured = {key: points(history, key, "valid") for key in keys if key != "loss" and (key in METRICS or key in outcome.scores)}
    shares = {key: curve for key, curve in measured.items() if len(curve) > 1 and metric(key).share}
    if shares:
        blocks.append(FigureBlock(Text("Scores de validation", "Validation scores"), partial(metric_curves, shares)))
    for key, curve in measured.items():
        if len(curve) > 1 and not metric(key).share:
            title = Text("Validation : {name}", "Validation: {name}").with_(name=metric(key).name)
            blocks.append(FigureBlock(title, partial(metric_curves, {key: curve})))
    if len(entropy := points(history, "expert_entropy")) > 1:
        title = Text("Équilibre des experts", "Balance of the experts")
        about = Text(
            "Entropie des parts rapportée à celle de parts égales (moyenne sur les mélanges) : 100 % si tous les experts servent autant.",
            "Entropy of the shares over that of equal ones, mean over the mixtures: 100 % where all experts are used as much.",
        )
        blocks.append(FigureBlock(title, partial(metric_curves, {"expert_entropy": entropy}), about))
    if len(rates := points(history, "lr")) > 1:
        blocks.append(FigureBlock(Text("Taux d’apprentissage", "Learning rate"), partial(learning_rate, rates)))
    return blocks


def cost(spent: Cost, history: Sequence[Mapping[str, Any]]) -> list[Block]:
    padding = [value for _, value in points(history, "padding")]
    threads = "" if spent.threads is None else f" × {spent.threads}"
    total, some = sum(spent.parameters.values()), spent.learning
    learned = None
    if some is not None and some < total:
        learned = Text("{total}, dont {some} appris", "{total}, of which {some} learn").with_(total=count(total), some=count(some))
    rows: list[list[Cell]] = [
        [Text("durée de l’apprentissage", "training time"), duration(spent.seconds)],
        [Text("jetons lus", "tokens read"), count(spent.tokens)],
        [Text("jetons par seconde", "tokens per second"), count(round(spent.tokens / spent.seconds)) if spent.seconds else None],
        [Text("part de remplissage", "share of padding"), percent(fmean(padding)) if padding else None],
        [Text("mémoire au plus haut", "peak memory"), None if spent.peak_memory is None else size(spent.peak_memory)],
        [Text("paramètres", "parameters"), count(total) if learned is None else learned],
        [Text("appareil", "device"), Number(*(f"{spent.device}{threads}",) * 2)],
    ]
    table = TableBlock([Text("quoi", "what"), Text("combien", "how much")], rows)
    if not spent.parameters:
        return [table]
    return [
        table,
        FigureBlock(
            Text("Où sont les paramètres", "Where the parameters are"),
            partial(cost_bars, {part_name(part): n for part, n in spent.parameters.items()}, "parameters"),
        ),
    ]


def configuration(origin: Origin) -> list[Block]:
    again = Text(
        "Recette : {recipe}. Ce fichier, donné à `attentif train`, refait le même apprentissage.",
        "Recipe: {recipe}. This file, given to `attentif train`, trains the same model again.",
    )
    versions = TableBlock(
        [Text("logiciel", "software"), Text("version", "version")], [[name, version] for name, version in origin.versions.items()]
    )
    return [Paragraph(again.with_(recipe=origin.recipe)), CodeBlock(origin.config, "toml"), *([versions] if origin.versions else [])]
