"""`attentif maps`: who attends to whom, by layer and head."""

from pathlib import Path
from typing import Annotated

import typer

from attentif.cli.options import Device, Force, Pair, RunPath
from attentif.cli.out import check_out, say
from attentif.errors import UsageError


def maps(
    run: RunPath,
    text: Annotated[str, typer.Argument(metavar="SENTENCE", help="The text to look at.", show_default=False)],
    target: Annotated[str | None, typer.Option(metavar="TEXT", help="Translation: read this instead of the model's own.")] = None,
    pair: Pair = None,
    layers: Annotated[str | None, typer.Option(metavar="N,N", help="Only these layers, the first being 1.")] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page to write.")] = Path("maps.html"),
    force: Force = False,
    device: Device = "auto",
) -> None:
    """Write the attention maps of a sentence as one HTML file.

    It is to be opened in a browser, offline too.

    For example: attentif maps runs/reviews-1 "On ne s'ennuie jamais." --out maps.html
    """
    check_out(out, force)
    chosen = None if layers is None else _numbers(layers)
    from attentif.api import load

    load(run, device=device).maps(text, target=target, pair=pair, layers=chosen).save(out)
    say("attention maps written to:")
    print(out)


def _numbers(words: str) -> list[int]:
    parts = words.replace(",", " ").split()
    if not parts or not all(part.isascii() and part.isdigit() for part in parts):
        raise UsageError(f"--layers: must be numbers such as 1,2, not {words!r}")
    return [int(part) for part in parts]
