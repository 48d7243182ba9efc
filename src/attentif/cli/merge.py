"""`attentif merge`: adapters and their base as one plain run."""

from pathlib import Path
from typing import Annotated

import typer

from attentif.cli.out import RunPath, say

Out = Annotated[Path, typer.Argument(metavar="OUT", help="Where the new run goes.", show_default=False)]
Force = Annotated[bool, typer.Option("--force", help="Replace the run that is there.")]


def merge(run: RunPath, out: Out, force: Force = False) -> None:
    """Write a run of adapters (LoRA) as a plain run, which needs the run it began with no longer.

    For example: attentif merge runs/reviews-2 runs/reviews-merged
    """
    from attentif.plugin import load_installed
    from attentif.train.rewrite import merge_run

    load_installed()
    folder = merge_run(run, out, force=force)
    say("adapters and base merged in:")
    print(folder.path)
