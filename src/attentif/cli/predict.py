"""`attentif predict`: what a run answers to new texts."""

import json as jsonlib
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attentif.cli.options import Device, Force, Json, Pair, RunPath, TextColumn, Threads
from attentif.cli.out import check_out, print_json, print_table, say
from attentif.errors import UsageError

if TYPE_CHECKING:
    from attentif.tasks.task import Example, Prediction

SHOWN = 3  # classes of a table
HEADS = {"image": "picture", "audio": "sound", "signal": "signal", "question": "question"}  # what a run reads, where it is no text

Texts = Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Texts; - reads lines from stdin.", show_default=False)]
File = Annotated[Path | None, typer.Option(metavar="FILE", help="Texts of a file: its lines, or a column of CSV, TSV, JSONL, Parquet.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A change of what it reads: task.fill=linear", show_default=False)
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the answers there, one JSON object a line; as a table where its name ends in .csv."),
]


def predict(
    run: RunPath,
    texts: Texts = None,
    pair: Pair = None,
    file: File = None,
    text: TextColumn = None,
    out: Out = None,
    force: Force = False,
    language: Annotated[
        str | None, typer.Option(metavar="CODE", help="Of speech, where the model is told it (Whisper): fr, en ...")
    ] = None,
    changes: Set = None,
    json: Json = False,
    device: Device = "auto",
    threads: Threads = 0,
) -> None:
    """Answer new texts: labels, translations, continuations.

    Where a run reads pictures or sounds, TEXT is the name of a file; series are given by --file.

    \b
    For example:
    attentif predict runs/reviews-1 "Quel film !"
    attentif predict runs/reviews-1 --file avis.csv --out answers.jsonl
    """
    if bool(texts) == bool(file):
        raise UsageError("give texts, or --file FILE, or - to read lines from stdin")
    if pair is not None and (len(texts or ()) != 1 or texts == ["-"]):
        raise UsageError("--pair goes with one text; many pairs are given in a file, by --file")
    if text is not None and file is None:
        raise UsageError("--text names a column of --file")
    check_out(out, force)
    from attentif.api import reopen
    from attentif.config import override
    from attentif.files import write_text
    from attentif.tasks.feed import counted

    loaded = reopen(run, [override(word) for word in changes or ()], device=device, threads=threads)
    for option, value in (("language", language), ("pair", pair)):
        if value is not None and option not in loaded.task.optional_inputs:
            raise UsageError(f"--{option}: a run of {loaded.kind} takes none")
    options = {} if language is None else {"language": language}
    predictions = loaded.predict(loaded.read(file, text) if file else _typed(texts or [], pair), **options)
    for note in _notes(predictions):
        say(note)
    if loaded.note:
        say(loaded.note)
    if out is not None:
        as_table = out.suffix.lower() == ".csv"
        tables = _rows_of_tables(predictions) if as_table else []
        write_text(out, _csv(tables or _rows(predictions)) if as_table else _json_lines(predictions))
        say(f"{counted(len(tables), 'row') if tables else counted(len(predictions), 'answer')} written to {out}")
    elif json:
        print_json([asdict(prediction) for prediction in predictions])
    else:
        _print(predictions, loaded.task.reads)


def _typed(texts: list[str], pair: str | None) -> "list[str | Example]":
    """The texts as typed, or the one with its pair; a lone - stands for the lines of stdin."""
    if pair is not None:
        return [{"text": texts[0], "pair": pair}]
    return [line.rstrip("\r\n") for line in sys.stdin] if texts == ["-"] else list(texts)


def _notes(predictions: "list[Prediction]") -> list[str]:
    """What was done to read the inputs: rows that were filled in or left out, say."""
    return [*dict.fromkeys(note for prediction in predictions for note in prediction.details.get("notes", ()))]


def _rows_of_tables(predictions: "list[Prediction]") -> list[dict[str, Any]]:
    """The rows of answers that are tables (forecasts), one after the other."""
    return [row for prediction in predictions for row in prediction.details.get("table", ())]


def _rows(predictions: "list[Prediction]") -> list[dict[str, Any]]:
    """A row for each answer, with the probability of every label where all have the same; what JSON says beyond is left out."""
    labels = sorted(predictions[0].scores)
    if any(sorted(one.scores) != labels for one in predictions):  # places of a text, guesses of a word: other ones in each
        labels = []
    return [
        {"input": one.input, "output": one.output, "probability": one.probability} | {f"p({label})": one.scores[label] for label in labels}
        for one in predictions
    ]


def _json_lines(predictions: "list[Prediction]") -> str:
    return "".join(jsonlib.dumps(asdict(prediction), ensure_ascii=False) + "\n" for prediction in predictions)


def _csv(rows: list[dict[str, Any]]) -> str:
    import csv
    import io

    written = io.StringIO(newline="")
    writer = csv.DictWriter(written, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue()


def _print(predictions: "list[Prediction]", reads: str) -> None:
    if table := _rows_of_tables(predictions):
        print_table(list(table[0]), [[f"{value:g}" if isinstance(value, float) else str(value) for value in row.values()] for row in table])
        return
    scored = any(prediction.scores for prediction in predictions)
    if reads == "audio" and not scored:  # nobody knows sounds by their order in a folder
        print_table(["transcript", "sound"], [[prediction.output, prediction.input] for prediction in predictions])
        return
    if not scored:  # translations, continuations: lines that can be piped on
        for prediction in predictions:
            print(prediction.output)
        return
    rows = []
    for prediction in predictions:
        scores = ", ".join(f"{label} {share:.1%}" for label, share in list(prediction.scores.items())[:SHOWN])
        rows.append([prediction.output, scores, prediction.input])
    print_table(["label", "probabilities", HEADS.get(reads, "text")], rows)
