"""`attentif vectors`: word vectors to a file that other tools read."""

from pathlib import Path
from typing import Annotated

import typer

from attentif.cli.out import RunPath, say
from attentif.errors import UsageError


def vectors(
    run: RunPath,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The file to write; gzipped where its name ends in .gz.")],
    format: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="word2vec, word2vec-binary or glove; by default by the name: .vec, .bin, others."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over an existing file.")] = False,
) -> None:
    """Write the word vectors of a run, or of a file in another format, to a file: word2vec's or GloVe's.

    A model of your own begins with them: attentif train reviews model.frontend.vectors=FILE
    """
    from attentif.text.vectors import FORMATS, format_of, write_vectors

    if format is not None and format not in FORMATS:
        raise UsageError(f"--format: must be one of {', '.join(FORMATS)}, not {format!r}")
    if to.exists() and not force:
        raise UsageError("exists already; --force writes over it", file=to)
    from attentif.api import load

    found = load(run).vectors
    chosen = next((known for known in FORMATS if known == format), format_of(to))
    write_vectors(to, found, chosen)
    say(f"{len(found):,} vectors of {found.size} components written in the format of {chosen} to:")
    print(to)
