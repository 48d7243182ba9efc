"""`attentif quantize`: a run in int8."""

from dataclasses import asdict
from typing import Annotated

import typer

from attentif.cli.options import Json, NewRun, OwnRun, Replace
from attentif.cli.out import print_json, print_table


def quantize(
    run: OwnRun,
    out: NewRun,
    data: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Data to score on; by default the run's validation rows.", show_default=False),
    ] = None,
    force: Replace = False,
    json: Json = False,
) -> None:
    """Quantize a run to int8, a quarter of the size.

    One scale per block of 32 weights, as in GGUF's Q8_0. Scores are printed before and after; the new run works with every command
    except further training.

    \b
    For example:
    attentif quantize runs/reviews-1 runs/reviews-int8
    attentif quantize runs/smollm2 runs/smollm2-int8 --data article.txt
    """
    from attentif.plugin import load_installed
    from attentif.training.progress import display
    from attentif.training.quantize import quantize_run
    from attentif.view.words import metric

    load_installed()
    watch = display(machine=json)
    try:
        found = quantize_run(run, out, data=data, force=force, display=watch)
    finally:
        watch.close()
    if json:
        print_json({**asdict(found), "folder": str(found.folder.path)})
        return
    rows = []
    if found.before:
        of = metric(found.metric)
        rows.append([f"{of.title.en}, {found.scored_on}", of.write(found.before[found.metric]).en, of.write(found.after[found.metric]).en])
    rows.append(["weights on disk", *(f"{size / 1e6:.1f} MB" for size in found.bytes)])
    print_table(["", "before", "after"], rows)
    print(f"run     {found.folder.path}")
