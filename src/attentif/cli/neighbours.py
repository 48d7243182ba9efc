"""`attentif neighbours` and `attentif analogy`: queries on word vectors."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from attentif.cli.options import Json, RunPath
from attentif.cli.out import print_json, print_table

if TYPE_CHECKING:
    from attentif.text.vectors import WordNeighbour

Count = Annotated[int, typer.Option("--count", "-n", metavar="N", min=1, help="Number of words.")]


def neighbours(
    run: RunPath,
    word: Annotated[str, typer.Argument(metavar="WORD", help="Word.", show_default=False)],
    others: Annotated[
        list[str] | None, typer.Argument(metavar="OTHER", help="Compare with these words instead.", show_default=False)
    ] = None,
    count: Count = 10,
    json: Json = False,
) -> None:
    """Print the nearest neighbours of a word.

    With cosine, angle and distance; with OTHER, those of the given words.

    RUN is a run of word vectors (word2vec, glove), a file of them (attentif vectors), or any trained run whose tokens are words.

    For example: attentif neighbours runs/word2vec-1 plage
    """
    from attentif.api import load

    vectors = load(run).vectors
    found = [vectors.compare(word, other) for other in others] if others else vectors.neighbours(word, count)
    _show(f"nearest to {word}" if not others else f"beside {word}", found, json)


def analogy(
    run: RunPath,
    a: Annotated[str, typer.Argument(metavar="A", help="First word: roi.", show_default=False)],
    b: Annotated[str, typer.Argument(metavar="B", help="Second word: homme.", show_default=False)],
    c: Annotated[str, typer.Argument(metavar="C", help="Third word: femme.", show_default=False)],
    count: Count = 5,
    json: Json = False,
) -> None:
    """Solve an analogy: words nearest to a − b + c.

    For example: attentif analogy runs/word2vec-1 roi homme femme
    """
    from attentif.api import load

    _show(f"{a} − {b} + {c}", load(run).vectors.analogy(a, b, c, count), json)


def _show(title: str, found: "Sequence[WordNeighbour]", json: bool) -> None:
    if json:
        print_json([asdict(near) for near in found])
        return
    rows = [[near.word, f"{near.cosine:.3f}", f"{near.angle:.1f}°", f"{near.distance:.2f}"] for near in found]
    print_table(["word", "cosine", "angle", "distance"], rows, title=title)
