"""`attentif train`: from a recipe, or a TOML file, and data to a run."""

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attentif.cli.options import (
    Changes,
    Encoding,
    GroupColumn,
    Json,
    LabelColumn,
    Replace,
    Target,
    Test,
    TextColumn,
    Valid,
    complete_recipes,
)
from attentif.cli.out import announce_loading, print_json, print_table, show_progress, translate
from attentif.cli.scores import print_results
from attentif.errors import UsageError
from attentif.files import unpacked_name
from attentif.french import localize, pick

DATA = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".json", ".parquet", ".txt", ".conll", ".npz", ".xlsx")
LENGTHS = ("epochs", "steps", "minutes", "lr", "batch_tokens", "seed", "patience", "threads", "device", "layers", "width", "dropout")

if TYPE_CHECKING:
    from attentif.config import Layer
    from attentif.training.estimate import Estimate
    from attentif.view.words import Words


class UseOption(StrEnum):
    network = "network"
    best = "best"


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE", help="A recipe (`attentif list recipes`) or a TOML file.", show_default=False, autocompletion=complete_recipes
        ),
    ] = None,
    overrides: Changes = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Your own data, a file or folder (repeatable): tables, texts, images, audio, CoNLL, SQuAD."),
    ] = None,
    target: Target = None,
    valid: Valid = None,
    test: Test = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    group: GroupColumn = None,
    encoding: Encoding = None,
    skip_bad: Annotated[int | None, typer.Option(metavar="N", min=0, help="Skip up to N invalid rows.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Run folder; by default runs/<recipe>-<n>.")] = None,
    force: Replace = False,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Resume an interrupted run; with train.epochs=N, train longer.")
    ] = None,
    use: Annotated[
        UseOption | None,
        typer.Option(help="What answers: the network, or a baseline where it is better on validation.", show_default=False),
    ] = None,
    folds: Annotated[int, typer.Option(metavar="K", min=0, help="Cross-validation with K folds of --data.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print sizes, memory and time without training.")] = False,
    processes: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="With --dry-run: memory, traffic and time of N processes.")
    ] = None,
    nodes: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="With --dry-run: the torchrun and Slurm commands for N machines.")
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="Random seed.")] = None,
    device: Annotated[str | None, typer.Option(metavar="D", help="Device: auto, cpu, cuda, cuda:1, mps.")] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", min=0, help="Number of threads; 0: chosen by torch.")] = None,
    json: Json = False,
) -> None:
    """Train a model and score it against simple baselines.

    Writes a run: a folder with configuration, weights, scores of model and baselines, and a report.

    For example: attentif train reviews --data avis.csv model.layers=4
    """
    files = {"target": target, "valid": valid, "test": test, "text": text, "label": label, "group": group, "skip_bad": skip_bad}
    files |= {"encoding": encoding}
    given = data_options(data, **files) | prefix_keys("train", seed=seed, device=device, threads=threads)
    given |= prefix_keys("task", use=use and use.value)
    if (processes or nodes) and not dry_run:
        raise UsageError("--processes and --nodes go with --dry-run; torchrun starts several processes")
    if resume is not None:
        changes = [*([recipe] if recipe else []), *(overrides or [])]
        if any("=" not in word for word in changes) or given or out or force or dry_run:
            raise UsageError("--resume continues a run as configured; only its length can change, for example train.epochs=N")
        _resume(resume, layers_of({}, changes), json)
    elif recipe is None:
        raise UsageError("give a recipe or a TOML file (`attentif list recipes`), or --resume RUN")
    elif "=" in recipe:
        raise UsageError(f"{recipe!r} is a setting: give the recipe or the TOML file first")
    elif is_data(recipe):
        raise UsageError(f"is a data file, not a recipe: attentif train classify --data {recipe}", file=recipe, code="no-recipe")
    elif folds:
        if folds < 2 or valid or test or dry_run:
            raise UsageError("--folds takes 2 or more, and cuts --data itself: leave --valid, --test and --dry-run out", code="folds")
        _cross_validate(recipe, layers_of(given, overrides), folds, out, json)
    elif dry_run:
        words = [recipe, *(f"--data {file}" for file in data or ()), *(overrides or ())]
        _estimate(recipe, layers_of(given, overrides), json, processes or nodes or 1, nodes, words)
    else:
        _train(recipe, layers_of(given, overrides), out, force, json)


def is_data(word: str) -> bool:
    """Whether a word names an existing file of data."""
    path = Path(word)
    return path.is_file() and unpacked_name(path).suffix in DATA


def data_options(files: list[str] | None, **named: Any) -> dict[str, Any]:
    """Options about data, by their configuration keys."""
    return prefix_keys("data", **{name: one_or_all(value) for name, value in {"train": files, **named}.items()})


def one_or_all(value: Any) -> Any:
    """The item of a list of one; anything else as it is."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def prefix_keys(table: str, **options: Any) -> dict[str, Any]:
    return {f"{table}.{name}": value for name, value in options.items() if value is not None}


def layers_of(given: dict[str, Any], overrides: list[str] | None) -> "list[Layer]":
    """Options, then `key=value` arguments, as layers that errors can name."""
    from attentif.config import Layer, override

    layers = []
    for key, value in given.items():
        table, name = key.split(".")
        option = "data" if key == "data.train" else name.replace("_", "-")
        layers.append(Layer({table: {name: value}}, f"option --{option}"))
    for word in overrides or ():
        if "=" not in word and Path(word).exists():
            raise UsageError(f"{word!r} is a file, not a setting (key=value); several files are given one by one: --data A --data B")
        _refuse_bare_key(word)
    return layers + [override(word) for word in overrides or ()]


def _refuse_bare_key(word: str) -> None:
    """Refuse `epochs=3`, which lacks its table."""
    key, _, value = word.partition("=")
    if "." not in key and (full := full_key(key)):
        raise UsageError(f"{word!r}: write {full}={value}", code="bare-key")


def full_key(name: str) -> str | None:
    """The full key of a bare name: "train.epochs"."""
    if name not in LENGTHS:
        return None
    return f"model.{name}" if name in ("layers", "width", "dropout") else f"train.{name}"


def _train(recipe: str, layers: "list[Layer]", out: Path | None, force: bool, json: bool) -> None:
    with announce_loading():
        from attentif.api import start
        from attentif.training.progress import display

    _conclude(start(recipe, layers, out=out, force=force, watch=display(machine=json)), json)


def _resume(run: Path, changes: "list[Layer]", json: bool) -> None:
    with announce_loading():
        from attentif.api import resume
        from attentif.training.progress import display

    _conclude(resume(run, changes, watch=display(machine=json)), json)


def _cross_validate(recipe: str, layers: "list[Layer]", folds: int, out: Path | None, json: bool) -> None:
    from attentif.lab.folds import cross_validate
    from attentif.training.progress import display
    from attentif.view.words import metric

    found = cross_validate(recipe, layers, folds, out=out, watch=display(machine=json))
    if json:
        print_json(asdict(found) | {"mean": found.mean, "spread": found.spread})
        return
    write = lambda value: translate(metric(found.metric).write(value))
    rows = [[name, *map(write, scores), write(sum(scores) / len(scores)), ""] for name, scores in found.baselines.items()]
    rows.append([pick("ce modèle", "this run"), *map(write, found.scores), write(found.mean), write(found.spread)])
    columns = ["", *(str(fold) for fold in range(1, folds + 1)), pick("moyenne", "mean"), pick("écart-type", "std. dev.")]
    print_table(columns, rows, title=translate(metric(found.metric).title), strong=len(rows) - 1)


def _conclude(path: Path, json: bool) -> None:
    """Print the scores and the paths; under torchrun on rank 0 only."""
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
    for name, place in ((pick("modèle", "run"), path), (pick("rapport", "report"), folder.report)):
        print(f"{name:7} {place}")


def _estimate(recipe: str, layers: "list[Layer]", json: bool, processes: int, nodes: int | None, words: list[str]) -> None:
    with announce_loading():
        from attentif.plugin import load_installed
        from attentif.training.config import RunConfig
        from attentif.training.estimate import estimate, launch_commands
        from attentif.training.load import load_config, require_own_data

    load_installed()
    config = load_config(recipe, layers)
    require_own_data(recipe, config.data)
    if not isinstance(config, RunConfig):
        raise UsageError("--dry-run times training steps, and fitted models have none: they take seconds to minutes")
    if nodes and processes % nodes:
        raise UsageError(f"--processes: {processes} cannot be shared out among {nodes} machines")
    with show_progress("reading the data", machine=json) as watch:
        found = estimate(config, watch.say, processes)
    commands = launch_commands(words, processes, nodes) if nodes else []
    if json:
        print_json(asdict(found) | ({"commands": commands} if commands else {}))
        return
    _print_estimate(found)
    for command in commands:
        print(f"\n{command}")


def _print_estimate(found: "Estimate", title: str = "estimate") -> None:
    from attentif.view.words import Text, count, duration, number, percent, size, split_name

    if found.pretrain is not None:
        _print_estimate(found.pretrain, "estimate of the first stage")
    sum_of = lambda parts: " + ".join(f"{translate(size(value))} {localize(use)}" for use, value in parts.items())
    examples = ", ".join(f"{translate(count(value))} {translate(split_name(split))}" for split, value in found.examples.items())
    total, learning = sum(found.parameters.values()), found.learning
    parameters = " + ".join(f"{translate(count(value))} {part}" for part, value in found.parameters.items())
    some = Text("{n}, soit {share}", "{n} of them, {share}").with_(n=count(learning), share=percent(learning / total))
    memory = Text("environ {all} = {parts}, outre Python et les données", "about {all} = {parts}, beside Python and the data")
    peak = Text("{now} avec Python et les données déjà lues", "{now} with Python and the data as they are read").with_(now=size(found.peak))
    if found.encoded < found.examples["train"]:
        more = Text("{peak} ; {n} lignes sont encodées, toutes en prendraient plus", "{peak}; {n} rows were encoded, all of them take more")
        peak = more.with_(peak=peak, n=count(found.encoded))
    time = Text(
        "environ {time} d’entraînement (mesuré sur quelques pas), sans l’évaluation ni les références",
        "about {time} of training (measured on a few steps), evaluation and baselines not counted",
    )
    rows: list[list[Words]] = [
        [Text("exemples", "examples"), examples],
        [Text("paramètres", "parameters"), f"{translate(count(total))} = {parameters}"],
        [Text("appris", "learning"), Text("tous", "all of them") if learning == total else some],
        [Text("mémoire", "memory"), memory.with_(all=size(sum(found.memory.values())), parts=sum_of(found.memory))],
        [Text("maximum jusqu’ici", "peak so far"), peak],
        [
            Text("pas", "steps"),
            Text("{n}, {passes} passages sur les données", "{n}, {passes} passes over the data").with_(
                n=count(found.steps), passes=number(found.epochs, 3)
            ),
        ],
        [
            Text("jetons", "tokens"),
            Text("{n}, remplissage {share}", "{n}, {share} padding").with_(n=count(found.tokens), share=percent(found.padding)),
        ],
        [Text("durée", "time"), time.with_(time=duration(found.seconds))],
    ]
    for layout in found.layouts:
        each = Text("train.shard={shard} : {all} chacun = {parts}", "train.shard={shard}: {all} each = {parts}")
        sent = Text(
            "environ {time} ; chaque processus envoie {bytes} par pas, à {rate} Gbit/s",
            "about {time}: {bytes} sent by each process in a step, {rate} Gbit/s",
        )
        name = Text("{n} processus", "{n} processes").with_(n=count(layout.processes))
        rows.append([name, each.with_(shard=str(layout.shard), all=size(sum(layout.memory.values())), parts=sum_of(layout.memory))])
        rows.append(["", sent.with_(time=duration(layout.seconds), bytes=size(layout.traffic), rate=number(layout.network, 3))])
    print_table(["", localize(title)], [[translate(cell) for cell in row] for row in rows])
