"""`attentif vectors`: export word vectors."""

from pathlib import Path
from typing import Annotated

import typer

from attentif.cli.options import Force, RunPath
from attentif.cli.out import check_out, say
from attentif.errors import UsageError


def vectors(
    run: RunPath,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="Output file; gzipped if the name ends in .gz.")],
    format: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="word2vec, word2vec-binary or glove; by default from the file name: .vec, .bin, others."),
    ] = None,
    force: Force = False,
) -> None:
    """Export word vectors to a file.

    From a run, or from a file in another format (word2vec, GloVe). To initialise a model with them: attentif train reviews
    model.frontend.vectors=FILE

    For example: attentif vectors runs/word2vec-1 --to mots.vec.gz
    """
    from attentif.text.vectors import FORMATS, format_of, write_vectors

    if format is not None and format not in FORMATS:
        raise UsageError(f"--format: must be one of {', '.join(FORMATS)}, not {format!r}")
    check_out(to, force)
    from attentif.api import load

    found = load(run).vectors
    chosen = next((known for known in FORMATS if known == format), format_of(to))
    write_vectors(to, found, chosen)
    say(f"{len(found):,} vectors of {found.size} components written in the format of {chosen} to:")
    print(to)
