"""Arguments and options that several commands take, always in the same words."""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
RunPath = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run's folder, or that (or the name) of a Hugging Face model.", show_default=False)
]
OwnRun = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.", show_default=False)]
Changes = Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Changes: model.layers=6 train.lr=3e-4", show_default=False)]
Target = Annotated[str | None, typer.Option(metavar="FILE", help="Translation: the file whose lines answer those of --data.")]
Valid = Annotated[list[str] | None, typer.Option(metavar="FILE", help="Examples to choose by; by default cut from --data.")]
Test = Annotated[list[str] | None, typer.Option(metavar="FILE", help="Examples to score at the end; by default cut from --data.")]
TextColumn = Annotated[str | None, typer.Option(metavar="NAME", help="Column of the texts, where it is not to be detected.")]
LabelColumn = Annotated[str | None, typer.Option(metavar="NAME", help="Column of the labels.")]
GroupColumn = Annotated[str | None, typer.Option(metavar="NAME", help='Column whose rows stay together when splits are cut; "": none.')]
Pair = Annotated[str | None, typer.Option(metavar="TEXT", help="The second text, where the model reads pairs.")]
DrawSeed = Annotated[int | None, typer.Option(metavar="N", help="Of the draws; by default different each time.")]
NewRun = Annotated[Path, typer.Argument(metavar="OUT", help="Where the new run goes.", show_default=False)]
Replace = Annotated[bool, typer.Option("--force", help="Replace the run that is there.")]
Force = Annotated[bool, typer.Option("--force", help="Write over an existing file.")]
Device = Annotated[str, typer.Option(metavar="D", help="auto, cpu, cuda, cuda:1, mps.")]
Threads = Annotated[int, typer.Option(metavar="N", min=0, help="Threads; 0: as many as torch finds.")]
