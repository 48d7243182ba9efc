"""`attentif embed`: texts as vectors."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attentif.cli.options import Device, Force, Json, RunPath, TextColumn, Threads
from attentif.cli.out import check_out, print_json, print_table, say
from attentif.errors import UsageError

if TYPE_CHECKING:
    from attentif.data.sentences import Sentences
    from attentif.tasks.vectors.sentences import Vectors


def embed(
    run: RunPath,
    texts: Annotated[list[str], typer.Argument(metavar="FILE|TEXT", help="A file of texts; or texts.", show_default=False)],
    text: TextColumn = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the vectors there: .npz, .safetensors or .csv.")] = None,
    force: Force = False,
    near: Annotated[str | None, typer.Option(metavar="TEXT", help="Show the texts nearest to this one.")] = None,
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", min=1, help="How many of them.")] = 5,
    pooling: Annotated[
        str | None,
        typer.Option(metavar="HOW", help="mean, first (or cls), last, max; by default the checkpoint's own, or mean.", show_default=False),
    ] = None,
    normalise: Annotated[bool, typer.Option(help="Vectors of length 1, so that a product is a cosine.")] = True,
    json: Json = False,
    device: Device = "auto",
    threads: Threads = 0,
) -> None:
    """Turn texts into vectors, to be kept, searched or compared.

    RUN is any model that reads texts; sentence encoders of Hugging Face (all-MiniLM-L6-v2, say) are made for it.

    \b
    For example:
    attentif embed RUN avis.csv --text avis --out vectors.npz
    attentif embed RUN avis.csv --near "trop long" --count 5
    attentif embed RUN "Le chat dort." "A cat is sleeping." "La bourse chute."
    """
    check_out(out, force)
    found = _sentences(texts, text, out, near)
    from attentif.api import load
    from attentif.data.sentences import write_vectors
    from attentif.tasks.feed import counted
    from attentif.training.progress import display

    if found.blank:
        say(f"{counted(found.blank, 'blank line')} passed over")
    loaded, watch = load(run, device=device, threads=threads), display(machine=json)
    try:
        vectors = loaded.embed(
            found.texts,
            pooling=pooling,
            normalise=normalise,
            say=watch.say,
            progress=lambda done, total: watch.work("embed", done, total),
        )
        asked = None if near is None else loaded.embed([near], pooling=pooling)[0]
    finally:
        watch.close()
    if out is not None:
        about = {"run": str(run), "pooling": pooling or "its own", "normalised": str(normalise).lower()}
        write_vectors(out, vectors, found, about)
        say(f"{counted(len(vectors), 'vector')} of {vectors.shape[1]} components written to:")
        print(out)
    if asked is not None:
        _print_nearest(found, asked, vectors, count, json)
    elif out is None:
        _print_cosines(found.texts, vectors, json)


def _sentences(texts: list[str], column: str | None, out: Path | None, near: str | None) -> "Sentences":
    """The texts of a file, or those that were typed; refused where nothing is asked of them."""
    from attentif.data.sentences import SUFFIXES, Sentences, check_vectors_path, read_sentences

    if out is not None:
        check_vectors_path(out)
    if column is not None and len(texts) > 1:
        raise UsageError("--text names a column of a file: give one FILE, or texts")
    file = Path(texts[0]) if len(texts) == 1 and (column is not None or _is_file(texts[0])) else None
    if out is None and near is None and (file is not None or len(texts) < 2):
        raise UsageError(
            f"say where the vectors go (--out FILE{SUFFIXES[0]}) or what to look for (--near TEXT)"
            if file is not None
            else f"{texts[0]!r} is no file: give one, or two texts at least"
        )
    return Sentences(list(texts), list(range(1, len(texts) + 1))) if file is None else read_sentences(file, column)


def _is_file(word: str) -> bool:
    """Whether a word is, or looks like, the name of a file."""
    return Path(word).is_file() or re.fullmatch(r"\S+\.[A-Za-z]\w*", word) is not None


def _print_nearest(found: "Sentences", asked: "Vectors", vectors: "Vectors", count: int, json: bool) -> None:
    from attentif.tasks.vectors.sentences import nearest

    rows = [(cosine, found.lines[row], found.texts[row]) for row, cosine in nearest(asked, vectors, count)]
    if json:
        print_json([dict(zip(("cosine", "line", "text"), row, strict=True)) for row in rows])
    else:
        print_table(["cosine", "line", "text"], [[f"{cosine:.3f}", f"{line}", text] for cosine, line, text in rows])


def _print_cosines(texts: list[str], vectors: "Vectors", json: bool) -> None:
    from attentif.tasks.vectors.sentences import cosines

    table = cosines(vectors)
    if json:
        print_json({"texts": texts, "cosines": table.round(6).tolist()})
        return
    rows = [[f"{number}", *(f"{value:.3f}" for value in row), text] for number, (row, text) in enumerate(zip(table, texts, strict=True), 1)]
    print_table(["", *map(str, range(1, len(texts) + 1)), "text"], rows, title="cosines")
