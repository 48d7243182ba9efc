"""`attentif maps`: attention weights by layer and head."""

from pathlib import Path
from typing import Annotated

import typer

from attentif.cli.options import Device, Force, Pair, RunPath
from attentif.cli.out import check_out, say
from attentif.errors import UsageError


def maps(
    run: RunPath,
    text: Annotated[str, typer.Argument(metavar="SENTENCE", help="Input text.", show_default=False)],
    target: Annotated[str | None, typer.Option(metavar="TEXT", help="Translation: target text; by default the model's own output.")] = None,
    pair: Pair = None,
    layers: Annotated[str | None, typer.Option(metavar="N,N", help="Only these layers, counted from 1.")] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Output file.")] = Path("maps.html"),
    force: Force = False,
    device: Device = "auto",
) -> None:
    """Write the attention maps of a text to an HTML file.

    The page works offline.

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
