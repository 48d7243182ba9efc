"""The report's part on forecasts, drawn from an evaluation's details, beside the linear baseline where that was measured."""

from collections.abc import Sequence
from functools import partial
from typing import Literal, NotRequired, TypedDict

from attentif.tasks.answers import Evaluation
from attentif.tasks.details import details_of
from attentif.view.blocks import Block, Cell, FigureBlock, Paragraph, Section, TableBlock
from attentif.view.words import Text, Words, count, metric, number

RANKS = {
    "good": Text("Une bonne prévision", "A good forecast"),
    "ordinary": Text("Une prévision ordinaire", "An ordinary forecast"),
    "bad": Text("Une mauvaise prévision", "A bad forecast"),
}
SYSTEMS = {
    "model": Text("ce modèle", "this model"),
    "last": Text("dernière valeur", "last value"),
    "season": Text("saison précédente", "last season"),
    "linear": Text("linéaire", "linear"),
}


class ChannelError(TypedDict):
    channel: str
    mse: float
    mae: float
    mase: float


class ModesCompared(TypedDict):
    """Squared error by step on some windows: all steps at once, and on the model's own answers, `block` steps at a time."""

    block: int
    windows: int
    direct: list[float]
    rolled: list[float]


class ShownChannel(TypedDict):
    name: str
    values: list[float]
    given: list[list[float]]  # by quantile


class ShownForecast(TypedDict):
    rank: str
    mse: float
    place: str
    series: str
    dates: list[str]
    channels: list[ShownChannel]


class ForecastDetails(TypedDict):
    by_step: dict[str, list[float]]
    by_channel: list[ChannelError]
    rolled: ModesCompared
    forecasts: list[ShownForecast]
    every: NotRequired[list[ShownForecast]]  # the last forecast of each series, where `forecasts` leave some out
    quantiles: list[float]
    mode: str


def forecast_sections(evaluation: Evaluation) -> list[Section]:
    linear = next((own.by_step for own in evaluation.baselines if own.by_step), ())
    if (details := details_of(evaluation, ForecastDetails)) is None:
        return []
    sections = [
        Section(Text("Prévisions", "Forecasts"), _forecasts(details)),
        Section(Text("L'erreur, pas après pas", "The error, step after step"), _errors(details, linear)),
    ]
    if len(details["by_channel"]) > 1:
        sections.append(Section(Text("Série par série", "Channel by channel"), _channels(details)))
    return sections


def _forecasts(details: ForecastDetails) -> list[Block]:
    from attentif.view.figures.forecast import Panel, forecasts

    about = Text(
        "Trois fenêtres du test, choisies par leur rang : une sur dix est prévue mieux que la bonne, une sur deux mieux que l'ordinaire, "
        "neuf sur dix mieux que la mauvaise. Les nombres sont ceux du fichier.",
        "Three windows of the test, chosen by their rank: one in ten is forecast better than the good one, one in two better than the "
        "ordinary one, nine in ten better than the bad one. Numbers are those of the file.",
    )
    blocks: list[Block] = [Paragraph(about)]
    for shown in details["forecasts"]:
        panels = [Panel(channel["name"], channel["values"], channel["given"]) for channel in shown["channels"]]
        title = Text("{rank} : {of}à partir de {place}", "{rank}: {of}from {place} on").with_(
            rank=RANKS[shown["rank"]], of=f"{shown['series']}, " if shown["series"] else "", place=shown["place"]
        )
        error = Text("MSE {mse} (échelle réduite).", "MSE {mse} (standardised scale).").with_(mse=number(shown["mse"], 3))
        blocks.append(FigureBlock(title, partial(forecasts, shown["dates"], panels, details["quantiles"]), error))
    return blocks + _every_series(details)


def _every_series(details: ForecastDetails) -> list[Block]:
    from attentif.view.figures.forecast import Panel, SeriesChoice, choose_series

    choices = [
        SeriesChoice(Panel(", ".join(filter(None, (shown["series"], own["name"]))), own["values"], own["given"]), shown["dates"])
        for shown in details.get("every", ())
        for own in shown["channels"]
    ]
    if not choices:
        return []
    about = Text("La dernière prévision du test, pour la série choisie.", "The last forecast of the test, of the series chosen.")
    return [FigureBlock(Text("Chaque série", "Every series"), partial(choose_series, choices, details["quantiles"]), about)]


def _errors(details: ForecastDetails, linear_by_step: Sequence[float]) -> list[Block]:
    from attentif.view.figures.forecast import error_by_step

    by_step = details["by_step"] | ({"linear": linear_by_step} if linear_by_step else {})
    curves = {SYSTEMS[key]: values for key, values in by_step.items()}
    about = Text(
        "Plus loin, moins sûr : l'erreur de chaque pas, sur toutes les fenêtres du test.",
        "The further, the less sure: the error of each step, over all windows of the test.",
    )
    blocks: list[Block] = [FigureBlock(Text("Erreur et horizon", "Error against horizon"), partial(error_by_step, curves), about)]
    both = details["rolled"]
    if details["mode"] == "rollout":
        names = (
            Text("déroulé sur ses propres réponses", "rolled out on its own answers"),
            Text("la vérité lue à chaque pas", "told the truth at each step"),
        )
        compared = dict(zip(names, (both["rolled"], both["direct"]), strict=True))
        about = Text(
            "L'écart entre les deux courbes est ce que coûtent les erreurs qui s'ajoutent (sur {n} fenêtres).",
            "The distance between both is what errors that add up cost (on {n} windows).",
        )
    else:
        rolled = Text("déroulé par tranches de {k} pas", "rolled out, {k} steps at a time").with_(k=count(both["block"]))
        compared = {Text("direct", "direct"): both["direct"], rolled: both["rolled"]}
        about = Text(
            "Le même modèle, qui prévoit tout l'horizon d'un coup, ou relit ses propres prévisions comme si elles étaient arrivées "
            "(sur {n} fenêtres).",
            "The same model, which forecasts the whole horizon at once, or reads its own forecasts as if they had come (on {n} windows).",
        )
    title = Text("Direct et déroulé", "Direct and rolled out")
    return [*blocks, FigureBlock(title, partial(error_by_step, compared), about.with_(n=count(both["windows"])))]


def _channels(details: ForecastDetails) -> list[Block]:
    keys: tuple[Literal["mse", "mae", "mase"], ...] = ("mse", "mae", "mase")
    heads: list[Words] = [Text("série", "channel"), *(metric(key).name for key in keys)]
    rows: list[list[Cell]] = [[entry["channel"], *(number(entry[key], 3) for key in keys)] for entry in details["by_channel"]]
    return [
        TableBlock(
            heads,
            rows,
            Text("Échelle réduite par l'apprentissage ; le plus bas est le meilleur.", "Scale standardised by training; lower is better."),
        )
    ]
