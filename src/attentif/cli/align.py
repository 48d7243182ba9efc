"""`attentif align`: word alignments by IBM model 1 and by attention."""

from pathlib import Path
from typing import Annotated

import typer

from attentif.cli.options import Force, Json, OwnRun
from attentif.cli.out import check_out, print_json, print_table, say


def align(
    run: OwnRun,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Source sentence.", show_default=False)],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Target sentence.", show_default=False)],
    beside: Annotated[Path | None, typer.Option(metavar="RUN2", help="Translation run whose attention is shown too.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write an HTML page to this file too.")] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Print word alignments of a sentence pair.

    RUN is an IBM model 1 (attentif train ibm1); --beside adds the cross-attention of a translation run.

    For example: attentif align runs/ibm1-1 "deux cent trois" "two hundred three"
    """
    check_out(out, force)
    from attentif.api import load
    from attentif.training.alignments import attention_of, links, write_page

    shown = [load(run).align(source, target)]
    if beside is not None:
        shown.append(attention_of(load(beside), source, target))
    if json:
        print_json([{"system": str(found.title), "links": [list(link) for link in links(found)]} for found in shown])
    else:
        for found in shown:
            rows = [[word, other, f"{weight:.1%}"] for word, other, weight in links(found)]
            print_table(["target", "comes from", "weight"], rows, title=str(found.title))
    if out is not None:
        write_page(out, shown, f"{source} → {target}")
        say("alignments written to:")
        print(out)
