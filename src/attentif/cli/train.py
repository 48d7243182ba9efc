"""`attentif train`: from a recipe, or a TOML file, and data to a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attentif.cli.out import Json, print_json, print_table, say
from attentif.errors import UsageError

if TYPE_CHECKING:
    from attentif.api import Run
    from attentif.config import Layer
    from attentif.train.estimate import Estimate

DATA, PLACE, MACHINE = "Data", "Run", "Machine"


def train(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A recipe (`attentif list recipes`) or a TOML file.", show_default=False)
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Changes: model.layers=6 train.lr=3e-4", show_default=False)
    ] = None,
    data: Annotated[list[str] | None, typer.Option(metavar="FILE", help="Train on your own file: CSV, TSV, JSONL, Parquet, text.")] = None,
    target: Annotated[str | None, typer.Option(metavar="FILE", help="Translation: the file whose lines answer those of --data.")] = None,
    valid: Annotated[str | None, typer.Option(metavar="FILE", help="Examples to choose by; by default cut from --data.")] = None,
    test: Annotated[str | None, typer.Option(metavar="FILE", help="Examples to score at the end; by default cut from --data.")] = None,
    text: Annotated[str | None, typer.Option(metavar="NAME", help="Column of the texts, where it is not to be detected.")] = None,
    label: Annotated[str | None, typer.Option(metavar="NAME", help="Column of the labels.")] = None,
    group: Annotated[str | None, typer.Option(metavar="NAME", help="Column whose rows stay together when splits are cut.")] = None,
    skip_bad: Annotated[int | None, typer.Option(metavar="N", min=0, help="Leave out up to N rows that cannot be used.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the run goes; by default runs/<recipe>-<n>.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the run that is there.")] = False,
    resume: Annotated[Path | None, typer.Option(metavar="RUN", help="Go on with a run that was stopped.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would take: sizes, memory, time. Writes nothing.")] = False,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="Of the weights, the order of the data, dropout.")] = None,
    device: Annotated[str | None, typer.Option(metavar="D", help="auto, cpu, cuda, cuda:1, mps.")] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", min=0, help="Threads; 0: as many as torch finds.")] = None,
    json: Json = False,
) -> None:
    """Train a model, compare it with simple baselines, and write a run: weights, results, report.

    For example: attentif train reviews --data avis.csv model.layers=4
    """
    options = {
        "data.train": (data if data and len(data) > 1 else data[0]) if data else None,
        "data.target": target,
        "data.valid": valid,
        "data.test": test,
        "data.text": text,
        "data.label": label,
        "data.group": group,
        "data.skip_bad": skip_bad,
        "train.seed": seed,
        "train.device": device,
        "train.threads": threads,
    }
    given = {key: value for key, value in options.items() if value is not None}
    if resume is not None:
        _refuse_with_resume(recipe, bool(overrides or given or out or force or dry_run))
        ...


def _refuse_with_resume(recipe: str | None, more: bool) -> None:
    if recipe or more:
        raise UsageError("--resume goes on with a run as it was configured: give no recipe, change or other option with it")
