"""`attentif train`: from a recipe, or a TOML file, and data to a run."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attentif.cli.options import Changes, GroupColumn, Json, LabelColumn, Replace, Target, Test, TextColumn, Valid
from attentif.cli.out import print_json, print_table, say
from attentif.cli.scores import print_results
from attentif.errors import UsageError

if TYPE_CHECKING:
    from attentif.config import Layer
    from attentif.training.estimate import Estimate


def train(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A recipe (`attentif list recipes`) or a TOML file.", show_default=False)
    ] = None,
    overrides: Changes = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE", help="Your own file or folder (again for each further one): tables, texts, pictures, sounds, CoNLL, SQuAD."
        ),
    ] = None,
    target: Target = None,
    valid: Valid = None,
    test: Test = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    group: GroupColumn = None,
    skip_bad: Annotated[int | None, typer.Option(metavar="N", min=0, help="Leave out up to N rows that cannot be used.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the run goes; by default runs/<recipe>-<n>.")] = None,
    force: Replace = False,
    resume: Annotated[Path | None, typer.Option(metavar="RUN", help="Go on with a run that was stopped.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would take: sizes, memory, time.")] = False,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="Of the weights, the order of the data, dropout.")] = None,
    device: Annotated[str | None, typer.Option(metavar="D", help="auto, cpu, cuda, cuda:1, mps.")] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", min=0, help="Threads; 0: as many as torch finds.")] = None,
    json: Json = False,
) -> None:
    """Train a model beside simple baselines, and write a run.

    A run is a folder: configuration, weights, scores of the model and of the baselines, report.

    For example: attentif train reviews --data avis.csv model.layers=4
    """
    files = {"target": target, "valid": valid, "test": test, "text": text, "label": label, "group": group, "skip_bad": skip_bad}
    given = given_data(data, **files) | given_keys("train", seed=seed, device=device, threads=threads)
    if resume is not None:
        if recipe or overrides or given or out or force or dry_run:
            raise UsageError("--resume goes on with a run as it was configured: it takes no recipe, change or other option beside it")
        _resume(resume, json)
    elif recipe is None:
        raise UsageError("give a recipe or a TOML file (`attentif list recipes`), or --resume RUN")
    elif "=" in recipe:
        raise UsageError(f"{recipe!r} is a change: give the recipe or the TOML file first")
    elif dry_run:
        _estimate(recipe, layers_of(given, overrides), json)
    else:
        _train(recipe, layers_of(given, overrides), out, force, json)


def given_data(files: list[str] | None, **named: Any) -> dict[str, Any]:
    """The options about data that were typed, by their keys."""
    return given_keys("data", **{name: one_or_all(value) for name, value in {"train": files, **named}.items()})


def one_or_all(value: Any) -> Any:
    """A single file stands for itself."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def given_keys(table: str, **options: Any) -> dict[str, Any]:
    return {f"{table}.{name}": value for name, value in options.items() if value is not None}


def layers_of(given: dict[str, Any], overrides: list[str] | None) -> "list[Layer]":
    """Options, then `key=value` words, each of which can be named in an error."""
    from attentif.config import Layer, override

    layers = []
    for key, value in given.items():
        table, name = key.split(".")
        option = "data" if key == "data.train" else name.replace("_", "-")
        layers.append(Layer({table: {name: value}}, f"option --{option}"))
    for word in overrides or ():
        if "=" not in word and Path(word).exists():
            raise UsageError(
                f"{word!r} is a file, where a change (key=value) is wanted; several files are given one by one: --data A --data B"
            )
    return layers + [override(word) for word in overrides or ()]


def _train(recipe: str, layers: "list[Layer]", out: Path | None, force: bool, json: bool) -> None:
    from attentif.api import start
    from attentif.training.progress import display

    _conclude(start(recipe, layers, out=out, force=force, watch=display(machine=json)), json)


def _resume(run: Path, json: bool) -> None:
    from attentif.api import resume
    from attentif.training.progress import display

    _conclude(resume(run, watch=display(machine=json)), json)


def _conclude(path: Path, json: bool) -> None:
    """The table and where the report is; under torchrun the first process says it."""
    from attentif.training.distributed import is_main_process
    from attentif.training.rundir import RunFolder, read_results

    if not is_main_process():
        return
    folder = RunFolder(path)
    results = read_results(folder)
    if json:
        print_json({"run": str(path), "report": str(folder.report), **results})
        return
    print_results(results)
    print(f"run     {path}")
    print(f"report  {folder.report}")


def _estimate(recipe: str, layers: "list[Layer]", json: bool) -> None:
    from attentif.plugin import load_installed
    from attentif.training.config import RunConfig
    from attentif.training.estimate import estimate
    from attentif.training.fitted import load_config
    from attentif.training.load import check_brought

    load_installed()
    config = load_config(recipe, layers)
    check_brought(recipe, config.data)
    if not isinstance(config, RunConfig):
        raise UsageError("--dry-run measures steps of training, and what is fitted has none: it takes seconds to minutes")
    found = estimate(config, (lambda _: None) if json else say)
    if json:
        print_json(asdict(found))
    else:
        _print_estimate(found)


def _print_estimate(found: "Estimate", title: str = "what it would take") -> None:
    from attentif.view.words import count, duration, size

    if found.pretrain is not None:
        _print_estimate(found.pretrain, "what its first stage would take")
    examples = ", ".join(f"{count(number).en} {split}" for split, number in found.examples.items())
    parameters = " + ".join(f"{count(number).en} {part}" for part, number in found.parameters.items())
    total = sum(found.parameters.values())
    memory = " + ".join(f"{size(number).en} {use}" for use, number in found.memory.items())
    rows = [
        ["examples", examples],
        ["parameters", f"{count(total).en} = {parameters}"],
        ["learning", "all of them" if found.learning == total else f"{count(found.learning).en} of them, {found.learning / total:.1%}"],
        ["memory", f"about {size(sum(found.memory.values())).en} = {memory}, beside Python and the data"],
        ["steps", f"{count(found.steps).en}, {found.epochs:.3g} passes over the data"],
        ["tokens", f"{count(found.tokens).en}, {found.padding:.1%} padding"],
        ["time", f"about {duration(found.seconds).en} of training (measured on a few steps), evaluation and baselines not counted"],
    ]
    print_table(["", title], rows)
