"""Small tables for notebooks: scores with their intervals, answers, forecasts."""

from collections.abc import Mapping, Sequence
from typing import Any

from attentif.view.blocks import Cell, Paragraph, Section, TableBlock
from attentif.view.page import Fragment
from attentif.view.words import Text, Words, count, metric, number, percent

MOST = 20  # rows shown


def score_cells(scores: Mapping[str, float | None], intervals: Mapping[str, Sequence[float]], keys: Sequence[str]) -> list[Cell]:
    """Scores, each with its 95 % interval where it has one."""
    cells: list[Cell] = []
    for key in keys:
        write, value = metric(key).write, scores.get(key)
        if value is None:
            cells.append("-")
            continue
        low, high = intervals.get(key) or (None, None)
        text: Text = write(value)
        if low is not None and high is not None:
            text = Text(f"{text.fr} [{write(low).fr} ; {write(high).fr}]", f"{text.en} [{write(low).en}, {write(high).en}]")
        cells.append(text)
    return cells


def compare_with_baselines(results: Mapping[str, Any]) -> TableBlock:
    """A finished run beside its baselines: a line each, scores with their intervals."""
    rivals = [(Text(**rival["name"]), rival["scores"], rival["intervals"]) for rival in results.get("baselines", [])]
    keys = [key for key in results["scores"] if not rivals or any(key in scores for _, scores, _ in rivals)]
    systems = [*rivals, (Text("ce modèle", "this run"), results["scores"], results.get("intervals", {}))]
    table: list[list[Cell]] = [[name, *score_cells(scores, intervals, keys)] for name, scores, intervals in systems]
    return TableBlock(["", *(metric(key).title for key in keys)], table, strong=[len(table) - 1])


def show_scores(scores: Mapping[str, float], intervals: Mapping[str, Sequence[float]], title: Words) -> str:
    """A line for each score."""
    rows: list[list[Cell]] = [[metric(key).name, *score_cells(scores, intervals, [key])] for key in scores]
    columns = [Text("mesure", "score"), Text("valeur [intervalle à 95 %]", "value [95 % interval]")]
    return Fragment([Section(title, [TableBlock(columns, rows)])])._repr_html_()


def show_answers(answers: Sequence[tuple[str, float | None, str, Sequence[Mapping[str, Any]]]]) -> str:
    """A line for each answer, or the first lines of each forecast."""
    tables = [row for _, _, _, table in answers for row in table]
    columns: list[Words] = [Text("réponse", "answer"), Text("probabilité", "probability"), Text("entrée", "input")]
    rows: list[list[Cell]] = [[output, "-" if p is None else percent(p), asked] for output, p, asked, _ in answers[:MOST]]
    if tables:
        columns = list(tables[0])
        rows = [[number(value) if isinstance(value, float) else str(value) for value in row.values()] for row in tables[:MOST]]
    total = len(tables) or len(answers)
    title = Text("{n} lignes", "{n} rows").with_(n=count(total))
    more = [Paragraph(Text("… et {n} de plus", "... and {n} more").with_(n=count(total - MOST)), "note")] if total > MOST else []
    return Fragment([Section(title, [TableBlock(columns, rows), *more])])._repr_html_()
