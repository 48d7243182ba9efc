"""`attentif compare`: architectures side by side, on the same data, at the same budget."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attentif.cli.options import ClusterAddress, Encoding, GroupColumn, Json, LabelColumn, Target, Test, TextColumn, Valid
from attentif.cli.out import print_json, print_table, say, translate
from attentif.cli.train import data_options, layers_of, prefix_keys
from attentif.errors import UsageError
from attentif.french import pick

if TYPE_CHECKING:
    from attentif.config import Layer
    from attentif.lab.compare.plan import Planned


def compare(
    suite: Annotated[
        str,
        typer.Argument(metavar="SUITE", help="A suite (a TOML file, or one of `attentif list suites`), or a recipe.", show_default=False),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE", help="Configuration changes for all models: train.epochs=3 model.dropout=0", show_default=False
        ),
    ] = None,
    models: Annotated[str | None, typer.Option(metavar="A,B,C", help="Model presets to compare (`attentif list models`).")] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="KIND=N", help="Budget of each model: params=1M, flops=2T, seconds=5min, tokens=3M, memory=500MB."),
    ] = None,
    seeds: Annotated[str | None, typer.Option(metavar="N or A,B,C", help="Number of seeds per model (default: 3), or the seeds.")] = None,
    lr: Annotated[str | None, typer.Option(metavar="R or R,R,R", help="Learning rate for all models, or several to try for each.")] = None,
    lr_share: Annotated[
        float | None, typer.Option(metavar="S", help="Length of a learning-rate trial, as a fraction of a run (default: 0.25).")
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Your own data file (repeatable) in place of the recipe's.")
    ] = None,
    target: Target = None,
    valid: Valid = None,
    test: Test = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    encoding: Encoding = None,
    group: GroupColumn = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Output folder; by default runs/<suite>-compare.")] = None,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Parallel runs; by default as many as cores and threads allow.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Threads per run (default: 1; all cores for a budget of seconds).")
    ] = None,
    device: Annotated[str | None, typer.Option(metavar="D", help="Device: auto, cpu, cuda, cuda:1, mps.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the model sizes without training.")] = False,
    cluster: ClusterAddress = None,
    json: Json = False,
) -> None:
    """Compare models on the same data at the same budget.

    Every model is trained with several seeds. Writes one JSON file, one table and one report.

    Sizes that meet the budget are printed first. Each run is an ordinary run folder; the same command resumes an interrupted comparison.
    Exit code 1: some runs failed (the others are still compared).

    \b
    For example:
    attentif compare reviews --models lstm-tiny,mamba-tiny --budget params=200k
    """
    if "=" in suite:
        raise UsageError(f"{suite!r} is a setting: give the suite or the recipe first")
    options = _options(models, budget, seeds, lr, lr_share)
    files = data_options(data, target=target, valid=valid, test=test, text=text, label=label, group=group, encoding=encoding)
    changes = layers_of(files | prefix_keys("train", device=device), overrides)
    from attentif.lab.compare.board import board
    from attentif.lab.compare.comparison import REPORT, resolve_suite, run_suite
    from attentif.lab.compare.comparison import dry_run as only_sizes

    wanted = resolve_suite(suite, options, changes)
    if dry_run:
        planned = only_sizes(wanted, out=out, threads=threads, say=(lambda _: None) if json else say)
        if json:
            print_json([_size_data(one) for one in planned])
        else:
            _show_sizes(planned)
        return
    done = run_suite(
        wanted, out=out, jobs=jobs, threads=threads, board=board(machine=json), show=None if json else _show_sizes, cluster=cluster
    )
    if json:
        print_json({"comparison": str(done.path), "report": str(done.path / REPORT), **done.data})
    else:
        _show(done.data)
        for name, place in ((pick("comparaison", "comparison"), done.path), (pick("rapport", "report"), done.path / REPORT)):
            print(f"{name:11} {place}")
    if done.failed:
        for line in [] if json else done.failed:
            say(f"failed: {line}")
        raise typer.Exit(1)


def _options(models: str | None, budget: str | None, seeds: str | None, lr: str | None, share: float | None) -> "list[Layer]":
    """Options about the suite itself, each as a layer that an error can name."""
    from attentif.config import Layer

    found: dict[str, Any] = {}
    if models is not None:
        found["models"] = [name.strip() for name in models.split(",") if name.strip()]
    if budget is not None:
        found["budget"] = budget
    if seeds is not None:
        found["seeds"] = _seeds(seeds)
    if lr is not None:
        rates = _rates(lr)
        found["lr"] = rates[0] if len(rates) == 1 else {"rates": rates} | ({} if share is None else {"share": share})
    if share is not None and not isinstance(found.get("lr"), dict):
        raise UsageError("--lr-share: goes with several rates to be tried: --lr 1e-3,3e-3,1e-2")
    return [Layer({key: value}, f"option --{key}") for key, value in found.items()]


def _seeds(words: str) -> int | list[int]:
    try:
        numbers = [int(word) for word in words.split(",") if word.strip()]
    except ValueError:
        numbers = []
    if not numbers:
        raise UsageError(f"--seeds: must be how many, or which ones such as 0,1,2, not {words!r}")
    if "," in words:
        return numbers
    if numbers[0] < 1:
        raise UsageError("--seeds: one at least is needed, and three to say how far results vary")
    return numbers[0]


def _rates(words: str) -> list[float]:
    try:
        rates = [float(word) for word in words.split(",") if word.strip()]
    except ValueError:
        rates = []
    if not rates or not all(0 < rate < float("inf") for rate in rates):
        raise UsageError(f"--lr: must be a learning rate, or several such as 1e-3,3e-3,1e-2, not {words!r}")
    return rates


def _size_data(one: "Planned") -> dict[str, Any]:
    from attentif.lab.compare.gather import sizes_data

    return sizes_data(one)


def _show_sizes(planned: "Sequence[Planned]") -> None:
    from attentif.lab.compare.gather import sizes_data
    from attentif.view.caveats import resized_models
    from attentif.view.comparison_tables import sizes_table

    for one in planned:
        data = sizes_data(one)
        table = sizes_table(data)
        sizes = pick("tailles", "sizes") + (f" ({one.part.budget})" if one.part.budget else "")
        _print(table.columns, table.rows, f"{one.part.name}{pick(' :', ':')} {sizes}")
        for doubt in resized_models(data):
            say(translate(doubt))


def _show(data: dict[str, Any]) -> None:
    from attentif.view.comparison_tables import cost_table
    from attentif.view.verdict import conclusion

    for part in data["comparisons"]:
        table = cost_table(part)
        _print(table.columns, table.rows, part["name"], strong=0)
        print(f"{translate(conclusion(part))}\n")


def _print(columns: Sequence[Any], rows: Sequence[Sequence[Any]], title: str, strong: int | None = None) -> None:
    cells = [["" if cell is None else translate(cell) for cell in row] for row in rows]
    print_table([*map(translate, columns)], cells, title=title, strong=strong)
