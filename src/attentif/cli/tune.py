"""`attentif tune`: a search for settings within a budget."""

import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from attentif.cli.options import (
    Changes,
    ClusterAddress,
    Encoding,
    GroupColumn,
    Json,
    LabelColumn,
    Test,
    TextColumn,
    Valid,
    complete_recipes,
)
from attentif.cli.out import print_json, print_table, say, translate
from attentif.cli.train import data_options, layers_of
from attentif.errors import UsageError
from attentif.french import pick


def tune(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE", help="A recipe (`attentif list recipes`) or a TOML file.", show_default=False, autocompletion=complete_recipes
        ),
    ],
    overrides: Changes = None,
    data: Annotated[list[str] | None, typer.Option(metavar="FILE", help="Your own data file (repeatable).")] = None,
    valid: Valid = None,
    test: Test = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    encoding: Encoding = None,
    group: GroupColumn = None,
    choices: Annotated[
        list[str] | None,
        typer.Option("--try", metavar="KEY=A,B,C", help="Values of a key to try (repeatable).", show_default=False),
    ] = None,
    trials: Annotated[int, typer.Option(metavar="N", min=2, help="Maximum number of trials.")] = 12,
    minutes: Annotated[
        float, typer.Option(metavar="M", min=0, help="Time budget in minutes; no trial starts that would exceed it.")
    ] = 30.0,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Random seed of the search.")] = 0,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Output folder; by default runs/<recipe>-tune.")] = None,
    cluster: ClusterAddress = None,
    json: Json = False,
) -> None:
    """Search hyperparameters within a budget of trials and minutes.

    Learning rate, size and regularisation are judged on validation alone.

    The first trial is the recipe as it is, the others are drawn at random around it. The best one is scored on the test, once.
    Interrupted, the same command continues.

    \b
    For example:
    attentif tune classify --data avis.csv --minutes 20
    attentif tune reviews --data avis.csv --try train.lr=3e-4,1e-3,3e-3 --try model.layers=2,4
    """
    if "=" in recipe:
        raise UsageError(f"{recipe!r} is a setting: give the recipe or the TOML file first")
    layers = layers_of(data_options(data, valid=valid, test=test, text=text, label=label, group=group, encoding=encoding), overrides)
    from attentif.lab.tune import search
    from attentif.training.progress import display

    asked = dict(_parse_choice(word) for word in choices or ()) or None
    watch = display(machine=json)
    found = search(recipe, layers, trials=trials, minutes=minutes, choices=asked, seed=seed, out=out, cluster=cluster, watch=watch)
    if json:
        print_json(asdict(found) | {"settings": found.settings, "run": str(found.run)})
        return
    table = found.table()
    from attentif.view.words import Text

    write = lambda cell: translate(cell) if isinstance(cell, Text) else str(cell)
    print_table([write(head) for head in table.columns], [[write(cell) for cell in row] for row in table.rows], strong=0)
    for line in found.summary():
        say(translate(line))
    print(f"{pick('modèle', 'run'):7} {found.run}")


def _parse_choice(word: str) -> tuple[str, list[Any]]:
    """A key and its values, read as TOML where they are."""
    key, equals, values = word.partition("=")
    if not equals or "." not in key or not values:
        raise UsageError(f"--try {word}: write KEY=A,B,C, such as train.lr=1e-3,3e-3", code="tune")
    return key, [_read_value(value) for value in values.split(",")]


def _read_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
