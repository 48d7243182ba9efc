"""Small tables for notebooks: scores with their intervals, answers, forecasts."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from attentif.text.vectors import WordNeighbour
from attentif.view.blocks import Block, Cell, Drawing, Paragraph, Section, TableBlock
from attentif.view.forecasts import first_forecast, forecast_table
from attentif.view.page import Fragment
from attentif.view.report import points
from attentif.view.small_figure import SmallCurve, draw_lines
from attentif.view.words import Text, Words, count, metric, number, percent

MOST = 20  # rows shown


def score_cells(scores: Mapping[str, float | None], intervals: Mapping[str, Sequence[float]], keys: Sequence[str]) -> list[Cell]:
    """Scores, each with its 95 % interval where it has one."""
    cells: list[Cell] = []
    for key in keys:
        of, value = metric(key), scores.get(key)
        if value is None:
            cells.append("-")
            continue
        low, high = intervals.get(key) or (None, None)
        if low is None or high is None:
            cells.append(of.write(value))
            continue
        text, least, most = of.write_alike([value, low, high])
        cells.append(Text(f"{text.fr} [{least.fr} ; {most.fr}]", f"{text.en} [{least.en}, {most.en}]"))
    return cells


def compare_with_baselines(results: Mapping[str, Any]) -> TableBlock:
    """A finished run beside its baselines: a line each, scores with their intervals."""
    rivals = [(Text(**rival["name"]), rival["scores"], rival["intervals"]) for rival in results.get("baselines", [])]
    keys = [key for key in results["scores"] if not rivals or any(key in scores for _, scores, _ in rivals)]
    systems = [*rivals, (Text("ce modèle", "this run"), results["scores"], results.get("intervals", {}))]
    table: list[list[Cell]] = [[name, *score_cells(scores, intervals, keys)] for name, scores, intervals in systems]
    return TableBlock(["", *(metric(key).head for key in keys)], table, strong=[len(table) - 1])


def show_scores(scores: Mapping[str, float], intervals: Mapping[str, Sequence[float]], title: Words) -> str:
    """A line for each score."""
    rows: list[list[Cell]] = [[metric(key).head, *score_cells(scores, intervals, [key])] for key in scores]
    columns = [Text("mesure", "score"), Text("valeur [intervalle à 95 %]", "value [95 % interval]")]
    return Fragment([Section(title, [TableBlock(columns, rows)])])._repr_html_()


def show_run(
    path: Path, about: Sequence[Sequence[Cell]], results: Mapping[str, Any], history: Sequence[Mapping[str, Any]], report: Path
) -> str:
    """What a run is, its scores beside its baselines', how its loss fell, and a link to its report."""
    body: list[Block] = [TableBlock(["", ""], about)]
    if results:
        body.append(compare_with_baselines(results))
    if curves := _loss_figure(history):
        body.append(curves)
    if report.is_file():
        link = quote(os.path.relpath(report).replace(os.sep, "/"))  # a notebook follows links from its own folder
        body.append(Paragraph(Text("Ouvrir le rapport", "Open the report"), link=link))
    return Fragment([Section(str(path), body)])._repr_html_()


def _loss_figure(history: Sequence[Mapping[str, Any]]) -> Drawing | None:
    train, valid = points(history, "loss"), points(history, "loss", "valid")
    lines = [
        SmallCurve(Text("perte d'apprentissage", "training loss"), train, "muted"),
        SmallCurve(Text("validation", "validation"), valid),
    ]
    if not (shown := [line for line in lines if len(line.points) > 1]):
        return None
    steps = [step for line in shown for step, _ in line.points]
    ends = [Text("pas {n}", "step {n}").with_(n=count(int(step))) for step in (min(steps), max(steps))]
    return draw_lines(Text("Perte au fil des pas", "Loss by step"), shown, *ends)


def show_answers(answers: Sequence[tuple[str, float | None, str, Sequence[Mapping[str, Any]]]]) -> str:
    """A line for each answer, or the first lines of each forecast."""
    tables = [row for _, _, _, table in answers for row in table]
    columns: list[Words] = [Text("réponse", "answer"), Text("probabilité", "probability"), Text("entrée", "input")]
    rows: list[list[Cell]] = [[output, "-" if p is None else percent(p), asked] for output, p, asked, _ in answers[:MOST]]
    total = len(tables) or len(answers)
    title = Text("{n} lignes", "{n} rows").with_(n=count(total))
    figures: list[Block] = []
    if tables and "date" in tables[0]:
        forecasts = forecast_table(tables)
        title = Text("prévisions : {n} pas", "forecasts: {n} steps").with_(n=count(total))
        columns, total, rows = forecasts.columns, len(forecasts.rows), [list(row) for row in forecasts.rows[:MOST]]
        figures = [_forecast_figure(tables)]
    elif tables:
        columns = list(tables[0])
        rows = [[number(value) if isinstance(value, float) else str(value) for value in row.values()] for row in tables[:MOST]]
    more = [Paragraph(Text("… et {n} de plus", "... and {n} more").with_(n=count(total - MOST)), "note")] if total > MOST else []
    return Fragment([Section(title, [*figures, TableBlock(columns, rows), *more])])._repr_html_()


def show_guesses(text: str, places: Sequence[Sequence[tuple[str, float, str]]]) -> str:
    """The likeliest words of each hidden place, with the text that each makes."""
    heads = [Text("mot", "word"), Text("probabilité", "probability"), Text("texte", "text")]
    tables = [TableBlock(heads, [[word, percent(p), whole] for word, p, whole in guesses]) for guesses in places]
    return Fragment([Section(text, tables)])._repr_html_()


class WordNeighbours(list[WordNeighbour]):
    """Words by cosine; a notebook shows them as a table."""

    def _repr_html_(self) -> str:
        rows: list[list[Cell]] = [[one.word, number(one.cosine)] for one in self]
        table = TableBlock([Text("mot", "word"), Text("cosinus", "cosine")], rows)
        return Fragment([Section(Text("Mots voisins", "Nearest words"), [table])])._repr_html_()


def _forecast_figure(rows: Sequence[Mapping[str, Any]]) -> Drawing:
    """The first numbers that are forecast, in their band."""
    own = [row for row in rows if row.get("series") == rows[0].get("series")]
    name, band = first_forecast(own[0])
    values = [(float(place), float(row[name])) for place, row in enumerate(own)]
    low, high = ([pick(float(row[other]) for other in band) for row in own] if band else [] for pick in (min, max))
    called = f"{own[0]['series']}: {name}" if own[0].get("series") else name
    return draw_lines(called, [SmallCurve(called, values, low=low, high=high)], str(own[0]["date"]), str(own[-1]["date"]))
