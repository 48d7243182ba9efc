"""Arguments and options that several commands share."""

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

import typer

from attentif.errors import UsageError


def complete_runs(incomplete: str) -> list[str]:
    """Complete the name of a run, for the shell."""
    return [name for path in sorted(Path("runs").glob("*/config.toml")) if (name := str(path.parent)).startswith(incomplete)]


def complete_recipes(incomplete: str) -> list[str]:
    from attentif.recipes import recipe_names

    return [name for name in recipe_names() if name.startswith(incomplete)]


def complete_names(incomplete: str) -> list[str]:
    """Recipes, presets and runs."""
    from attentif.models.presets import preset_names

    return [*complete_recipes(incomplete), *(name for name in preset_names() if name.startswith(incomplete)), *complete_runs(incomplete)]


def check_run(run: Path) -> Path:
    """Suggest a run where one is named without its folder."""
    if not run.exists() and len(run.parts) == 1:
        if (Path("runs") / run / "config.toml").is_file():
            raise UsageError(f"no such run; did you mean runs/{run}?", file=run, code="no-run")
        if close := get_close_matches(run.name, [path.parent.name for path in Path("runs").glob("*/config.toml")], 1):
            raise UsageError(f"no such run; did you mean runs/{close[0]}? (`attentif list runs` shows them)", file=run, code="no-run")
    return run


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RunPath = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="Run folder; or the folder or name of a Hugging Face model.",
        show_default=False,
        callback=check_run,
        autocompletion=complete_runs,
    ),
]
OwnRun = Annotated[
    Path, typer.Argument(metavar="RUN", help="Run folder.", show_default=False, callback=check_run, autocompletion=complete_runs)
]
Changes = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Configuration changes: model.layers=6 train.lr=3e-4", show_default=False)
]
Target = Annotated[str | None, typer.Option(metavar="FILE", help="Translation: file of target lines, aligned with --data.")]
Valid = Annotated[list[str] | None, typer.Option(metavar="FILE", help="Validation data; by default split off --data.")]
Test = Annotated[list[str] | None, typer.Option(metavar="FILE", help="Test data; by default split off --data.")]
TextColumn = Annotated[str | None, typer.Option(metavar="NAME", help="Column with the texts; detected by default.")]
LabelColumn = Annotated[str | None, typer.Option(metavar="NAME", help="Column with the labels; detected by default.")]
GroupColumn = Annotated[str | None, typer.Option(metavar="NAME", help='Column whose groups stay in one split; "": no groups.')]
Pair = Annotated[str | None, typer.Option(metavar="TEXT", help="Second text, for models of text pairs.")]
DrawSeed = Annotated[int | None, typer.Option(metavar="N", help="Random seed for sampling; by default random.")]
NewRun = Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the new run.", show_default=False)]
Replace = Annotated[bool, typer.Option("--force", help="Overwrite an existing run.")]
SkipBad = Annotated[int, typer.Option(metavar="N", min=0, help="Skip up to N invalid rows, and list them.")]
Encoding = Annotated[
    str | None, typer.Option(metavar="NAME", help="Encoding of the files, if not UTF-8: cp1252, latin-1, utf-16.", show_default=False)
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
ClusterAddress = Annotated[
    str | None,
    typer.Option("--cluster", metavar="WHERE", help="Run on local processes (local), slurm, or a dask scheduler (tcp://HOST:PORT)."),
]
Device = Annotated[str, typer.Option(metavar="D", help="Device: auto, cpu, cuda, cuda:1, mps.")]
Precision = Annotated[
    Literal["float32", "bf16", "int8", "auto"],
    typer.Option(metavar="P", help="Type of the weights: float32, bf16, int8, or auto (bf16 where it is faster)."),
]
Threads = Annotated[int, typer.Option(metavar="N", min=0, help="Number of threads; 0: chosen by torch.")]
