"""`attentif paint`: images from text."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attentif.cli.options import Device, DrawSeed, Force, Json, RunPath, Threads
from attentif.cli.out import check_out, print_json, say
from attentif.errors import UsageError


def paint(
    run: RunPath,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Prompt: 'un sept', 'a bold seven'.", show_default=False)],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Output PNG file.")] = Path("drawings.png"),
    count: Annotated[int, typer.Option(metavar="N", min=1, max=4096, help="Number of images in the grid.")] = 16,
    temperature: Annotated[float | None, typer.Option(metavar="T", help="Sampling temperature; 0 is greedy.")] = None,
    top_k: Annotated[int | None, typer.Option(metavar="K", help="Sample from the K most likely patches.")] = None,
    top_p: Annotated[
        float | None, typer.Option(metavar="P", help="Nucleus sampling: smallest set of patches with this total probability.")
    ] = None,
    seed: DrawSeed = None,
    force: Force = False,
    json: Json = False,
    device: Device = "auto",
    threads: Threads = 0,
) -> None:
    """Generate images from a text, as a grid in one PNG file.

    For example: attentif paint runs/paint-1 "un sept" --count 16 --out sept.png
    """
    if out.suffix.lower() != ".png":
        raise UsageError("drawings are written as PNG: give a name that ends in .png", file=out)
    check_out(out, force)
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    given: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    from attentif.api import load
    from attentif.tasks.vision.paint_report import write_sheet

    write_sheet(out, list(load(run, device=device, threads=threads).paint(text, count=count, **given)))
    if json:
        print_json({"text": text, "count": count, "file": str(out)})
    else:
        say(f"{count} drawing{'s' if count > 1 else ''} of {text!r} written to:")
        print(out)
