"""`attentif senses`: one word in several sentences."""

from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attentif.cli.options import Device, Force, Json, RunPath, Threads
from attentif.cli.out import check_out, print_json, print_table, say

if TYPE_CHECKING:
    from attentif.tasks.embeddings.senses import Senses


def senses(
    run: RunPath,
    word: Annotated[str, typer.Argument(metavar="WORD", help="Word.", show_default=False)],
    sentences: Annotated[list[str], typer.Argument(metavar="SENTENCE", help="Sentences with the word.", show_default=False)],
    layers: Annotated[bool, typer.Option("--layers", help="Print the cosines of every layer.")] = False,
    groups: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Number of senses; by default found by silhouette.", show_default=False),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write an HTML page with figures to this file.")] = None,
    force: Force = False,
    json: Json = False,
    device: Device = "auto",
    threads: Threads = 0,
) -> None:
    """Compare contextual vectors of a word in several sentences.

    Prints cosines in context beside those of the embedding table. Four or more uses are clustered into senses. Include two uses of the
    same sense as a control: compare cosines with each other, not with 0. A word of several tokens is represented by their mean.

    For example: attentif senses RUN python "Le python rampe." "J'écris en python." "Un python avale une chèvre."
    """
    check_out(out, force)
    from attentif.api import load

    found = load(run, device=device, threads=threads).senses(word, sentences, groups=groups)
    if json:
        print_json(found.table())
    else:
        _print_pairs(found, layers)
        _print_senses(found)
    if out is not None:
        found.save(out)
        say(f"the uses of {word!r} written to:")
        if not json:
            print(out)


def _print_pairs(found: "Senses", layers: bool) -> None:
    """The cosine of each pair of uses, in the table of words and in the last layer, or in all."""
    tables = found.by_layer()
    chosen = {"table of words": tables[0], "in context": tables[-1]}
    if layers:
        chosen = {"table of words": tables[0], **{f"layer {number}": table for number, table in enumerate(tables[1:], 1)}}
    rows = [
        [f"{a + 1} - {b + 1}", *(f"{table[a, b]:.3f}" for table in chosen.values())] for a, b in combinations(range(len(found.uses)), 2)
    ]
    print_table(["uses", *chosen], rows, title=f"cosines of {found.word!r}")


def _print_senses(found: "Senses") -> None:
    several = len(set(found.groups)) > 1
    uses = enumerate(zip(found.uses, found.groups, strict=True), 1)
    rows = [[f"{number}", *([f"{group + 1}"] if several else []), str(use)] for number, (use, group) in uses]
    clear = "" if found.silhouette is None else f" (silhouette {found.silhouette:.2f}: 1 is clear-cut, 0 none)"
    title = f"{len(set(found.groups))} senses{clear}" if several else ""
    print_table(["use", *(["sense"] if several else []), "sentence"], rows, title=title)
