"""`attentif verify`: verify the checksums of runs."""

from pathlib import Path
from typing import Annotated

import typer

from attentif.cli.options import Json
from attentif.cli.out import print_json, say
from attentif.french import localize


def verify(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    accept: Annotated[bool, typer.Option("--accept", help="Update the checksums after a deliberate change.")] = False,
    json: Json = False,
) -> None:
    """Verify the checksums of a run.

    Every command verifies the files it needs; this one checks all of them, reports and metrics included, and lists the differences.

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
                print(localize(f"{run}/{name}: {'recorded as it is' if accept else what}"))
            say(f"{run}: {'nothing to record' if accept else 'every file is as it was written'}" if not damage else "")
    if not accept and any(found.values()):
        raise typer.Exit(1)
