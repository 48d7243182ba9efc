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
            help='Mixers or presets: attention, mamba-tiny, {kind="attention", causal=false}; by default a selection.',
            show_default=False,
        ),
    ] = None,
    lengths: Annotated[str, typer.Option(metavar="A:B", help="Sequence lengths: 128:16384 doubles each time; or 128,500,2000.")] = (
        "128:16384"
    ),
    width: Annotated[int, typer.Option(metavar="N", min=1, help="Model width.")] = 256,
    layers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Blocks per stack of a preset; by default one of each kind.")
    ] = None,
    repeats: Annotated[int, typer.Option(metavar="N", min=2, help="Repetitions; the median is reported.")] = 5,
    limit: Annotated[float, typer.Option(metavar="S", min=0.001, help="Longest pass in seconds; longer lengths are skipped.")] = 2.0,
    both_ways: Annotated[bool, typer.Option("--both-ways", help="Bidirectional where possible; by default causal.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Output file: .html or .json.")] = None,
    force: Force = False,
    json: Json = False,
    threads: Threads = 0,
) -> None:
    """Measure time and memory against sequence length.

    Forward pass, training and decoding, with fitted exponents and the lengths at which one overtakes another.

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
