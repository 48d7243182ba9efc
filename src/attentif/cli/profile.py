"""`attentif profile`: time and memory against length."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attentif.cli.options import Force, Json, Threads
from attentif.cli.out import check_out, print_json, print_table
from attentif.errors import UsageError

if TYPE_CHECKING:
    from attentif.lab.profile import Profile


def profile(
    subjects: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MIXER|PRESET|TABLE",
            help='What to measure: attention, mamba-tiny, {kind="attention", causal=false}; none: the usual ones.',
            show_default=False,
        ),
    ] = None,
    lengths: Annotated[str, typer.Option(metavar="A:B", help="Tokens: 128:16384 doubles from one to the other; or 128,500,2000.")] = (
        "128:16384"
    ),
    width: Annotated[int, typer.Option(metavar="N", min=1, help="Width of every model.")] = 256,
    layers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Blocks of each preset's stacks; by default one of each kind it has.")
    ] = None,
    repeats: Annotated[int, typer.Option(metavar="N", min=2, help="Rounds, of which the median is taken.")] = 5,
    limit: Annotated[
        float, typer.Option(metavar="S", min=0.001, help="Seconds that one pass may take; longer lengths are left out.")
    ] = 2.0,
    both_ways: Annotated[
        bool, typer.Option("--both-ways", help="Mixers that may look both ways do; by default they look back only.")
    ] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report there: .html, or .json.")] = None,
    force: Force = False,
    json: Json = False,
    threads: Threads = 0,
) -> None:
    """Measure time and memory against length.

    Of reading, training and decoding, with the exponents and the lengths from which one overtakes another.

    For example: attentif profile attention mamba lstm --lengths 128:16384 --out profile.html
    """
    if out is not None and out.suffix not in (".html", ".json"):
        raise UsageError(f"--out: the report is .html or .json, not {out.name!r}")
    check_out(out, force)
    from attentif.lab.profile import lengths_of
    from attentif.plugin import load_installed

    load_installed()
    chosen = lengths_of(lengths)
    from attentif.files import finite, write_json
    from attentif.lab.profile import profile as measure
    from attentif.lab.profile.report import USUAL
    from attentif.runtime import set_threads
    from attentif.training.progress import display

    set_threads(threads)
    watch = display(machine=json)
    try:
        found = measure(
            subjects or USUAL, lengths=chosen, width=width, layers=layers, repeats=repeats, limit=limit, causal=not both_ways, watch=watch
        )
    finally:
        watch.close()
    if out is not None:
        write_json(out, found.as_data()) if out.suffix == ".json" else found.save(out)
    if json:
        print_json(finite(found.as_data()) | ({"report": str(out)} if out else {}))
        return
    _show(found)
    if out is not None:
        print(f"report  {out}")


def _show(found: "Profile") -> None:
    from attentif.lab.profile.measure import PHASES
    from attentif.lab.profile.page import NAMES, QUANTITY_NAMES, table
    from attentif.lab.profile.report import QUANTITIES
    from attentif.view.words import say

    for phase in PHASES:
        for quantity in QUANTITIES:
            columns, rows = table(found, phase, quantity)
            if rows:
                shown = [["" if cell is None else say(cell, "en") for cell in row] for row in rows]  # type: ignore[arg-type]
                print_table([say(name, "en") for name in columns], shown, title=f"{NAMES[phase].en}: {QUANTITY_NAMES[quantity].en}")
    for text in [*found.words(), *found.words("bytes")]:
        print(text.en)
    for one in found.left_out:
        print(f"left out: {one.subject}, {one.phase}, from {one.length:,} tokens on: {one.reason.en}")
    if (doubt := found.warning()) is not None:
        print(f"note: {doubt.en}")
    print(f"machine  {found.machine}; width {found.settings.width}")
