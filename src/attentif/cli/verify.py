"""`attentif verify`: are the files of a run those that were written?"""

from pathlib import Path
from typing import Annotated

import typer

from attentif.cli.options import Json
from attentif.cli.out import print_json, say


def verify(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    accept: Annotated[bool, typer.Option("--accept", help="Record the files as they are now, after a change of your own.")] = False,
    json: Json = False,
) -> None:
    """Compare every file of a run with its checksum.

    Commands that use a run verify it first; this one also checks the report, the scores and the metrics, and lists all that differs.

    For example: attentif verify runs/reviews-1
    """
    from attentif.training.manifest import accept_files, find_damage
    from attentif.training.rundir import RunFolder

    found = {}
    for path in runs:
        folder = RunFolder.open(path)
        folder.require_manifest()
        found[str(path)] = accept_files(path) if accept else find_damage(path)
    if json:
        print_json(found)
    else:
        for run, damage in found.items():
            for name, what in damage.items():
                print(f"{run}/{name}: {'recorded as it is' if accept else what}")
            say(f"{run}: {'nothing to record' if accept else 'every file is as it was written'}" if not damage else "")
    if not accept and any(found.values()):
        raise typer.Exit(1)
