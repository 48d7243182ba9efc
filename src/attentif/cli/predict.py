"""`attentif predict`: what a run answers to new texts."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attentif.cli.out import Device, Json, RunPath, Threads, print_json, print_table, say
from attentif.errors import UsageError

if TYPE_CHECKING:
    from attentif.api import Run
    from attentif.tasks.task import Example, Prediction

SHOWN = 3  # classes of a table


def predict(
    run: RunPath,
    texts: Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...", help="Texts; - reads lines from stdin.", show_default=False)] = None,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="Texts of a file: a line each, or a column of CSV, TSV, JSONL, Parquet.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the answers there, one JSON object a line.")] = None,
    json: Json = False,
    device: Device = "auto",
    threads: Threads = 0,
) -> None:
    """Answer new texts: a label and its probability, a translation, a continuation."""
    if bool(texts) == bool(file):
        raise UsageError("give texts, or --file FILE, or - to read lines from stdin")
    from attentif.api import load

    loaded = load(run, device=device, threads=threads)
    inputs = loaded.read(file) if file else _lines(texts or [])
    predictions = loaded.predict(inputs)
    if out is not None:
        _write(out, predictions)
        say(f"{len(predictions):,} answers written to {out}")
    elif json:
        print_json([asdict(prediction) for prediction in predictions])
    else:
        _print(predictions)


def _lines(texts: list[str]) -> "list[str | Example]":
    """The texts as typed; a lone - stands for the lines of stdin."""
    return [line.rstrip("\r\n") for line in sys.stdin] if texts == ["-"] else list(texts)


def _print(predictions: "list[Prediction]") -> None:
    if not any(prediction.scores for prediction in predictions):  # translations, continuations: lines that can be piped on
        for prediction in predictions:
            print(prediction.output)
        return
    rows = []
    for prediction in predictions:
        scores = ", ".join(f"{label} {share:.1%}" for label, share in list(prediction.scores.items())[:SHOWN])
        rows.append([prediction.output, scores, prediction.input])
    print_table(["label", "probabilities", "text"], rows)
