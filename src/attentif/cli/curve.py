"""`attentif curve`: learning curves over labelled examples, with and without pre-training."""

from pathlib import Path
from typing import Annotated

import typer

from attentif.cli.options import Changes, GroupColumn, Json, LabelColumn, Target, Test, TextColumn, Valid
from attentif.cli.out import print_json, print_table
from attentif.cli.train import data_options, layers_of
from attentif.errors import UsageError


def curve(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe (`attentif list recipes`) or a TOML file.", show_default=False)],
    overrides: Changes = None,
    labels: Annotated[str, typer.Option(metavar="N,N,all", help="Numbers of labelled training examples.")] = "100,500,2000,all",
    from_: Annotated[list[Path] | None, typer.Option("--from", metavar="RUN", help="Run to start from (repeatable).")] = None,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Runs per point, with different seeds.")] = 3,
    data: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Your own data file (repeatable): CSV, TSV, JSONL, Parquet.")
    ] = None,
    target: Target = None,
    valid: Valid = None,
    test: Test = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    group: GroupColumn = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Output folder; by default runs/<recipe>-curve.")] = None,
    json: Json = False,
) -> None:
    """Plot the score against the number of labelled examples.

    With and without pre-training, over several seeds. The same command resumes an interrupted measurement.

    For example: attentif curve reviews task.linear=none --labels 100,500,all --from runs/masked-1
    """
    numbers = _numbers(labels)
    from attentif.plugin import load_installed
    from attentif.training.curve import CurvePlan, measure
    from attentif.training.progress import display
    from attentif.view.curve import curve_page, curve_table
    from attentif.view.words import say

    load_installed()
    files = data_options(data, target=target, valid=valid, test=test, text=text, label=label, group=group)
    plan = CurvePlan(recipe, layers_of(files, overrides), from_ or [], numbers, range(seeds), out)
    found = measure(plan, display(machine=json))
    page = plan.folder / "curve.html"
    curve_page(page, found)
    if json:
        print_json({"curve": str(plan.folder), "report": str(page), **found})
        return
    columns, rows = curve_table(found)
    print_table([say(name, "en") for name in columns], [[say(cell, "en") for cell in row] for row in rows])
    print(f"curve   {plan.folder}")
    print(f"report  {page}")


def _numbers(words: str) -> list[int]:
    """ "100,500,all" as [100, 500, 0]."""
    parts = [part.strip() for part in words.split(",") if part.strip()]
    wrong = [part for part in parts if part != "all" and not (part.isascii() and part.isdigit() and int(part))]
    if wrong or not parts:
        raise UsageError(f"--labels: must be numbers such as 100,500,all, not {words!r}")
    return sorted({0 if part == "all" else int(part) for part in parts}, key=lambda number: number or float("inf"))
