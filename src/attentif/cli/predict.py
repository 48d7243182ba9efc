"""`attentif predict`: predictions for new inputs."""

import json as jsonlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attentif.cli.options import ClusterAddress, Device, Encoding, Force, Json, Pair, Precision, RunPath, SkipBad, TextColumn, Threads
from attentif.cli.out import announce_loading, check_out, print_json, print_table, print_text, say, show_progress, translate
from attentif.cli.train import is_data
from attentif.errors import UsageError
from attentif.french import localize, pick

if TYPE_CHECKING:
    from attentif.api import Run
    from attentif.bulk import Ahead, BulkResult
    from attentif.tasks.answers import Prediction
    from attentif.tasks.base import Example

SHOWN = 3  # classes of a table
HEADS = {"image": "picture", "audio": "sound", "signal": "signal", "question": "question"}  # what a run reads, where it is no text

Texts = Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Texts; - reads lines from stdin.", show_default=False)]
File = Annotated[Path | None, typer.Option(metavar="FILE", help="Input file: lines of text, or a column of CSV, TSV, JSONL, Parquet.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting of task or data: task.fill=linear", show_default=False),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Output file: JSON Lines, or a table where the name ends in .csv."),
]


def predict(
    run: RunPath,
    texts: Texts = None,
    pair: Pair = None,
    file: File = None,
    text: TextColumn = None,
    encoding: Encoding = None,
    out: Out = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help='Column of --file to copy to the output (repeatable; "": none); by default all.'),
    ] = None,
    skip_bad: SkipBad = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted --file.")] = False,
    force: Force = False,
    language: Annotated[str | None, typer.Option(metavar="CODE", help="Speech: language of the audio (Whisper): fr, en ...")] = None,
    changes: Set = None,
    json: Json = False,
    cluster: ClusterAddress = None,
    device: Device = "auto",
    threads: Threads = 0,
    precision: Precision = "float32",
) -> None:
    """Predict labels, translations or continuations of new inputs.

    For image and audio runs, TEXT is a file name; series are given by --file. Files of millions of rows are streamed: predictions are
    written as they come, with the columns of each row; --resume continues an interrupted command.

    \b
    For example:
    attentif predict runs/reviews-1 "Quel film !"
    attentif predict runs/reviews-1 --file avis.csv --out answers.csv --skip-bad 10
    """
    _check(texts, file, pair, text, encoding, out, keep, resume)
    check_out(out, force or resume)
    with announce_loading():
        from attentif.api import reopen
    from attentif.config import override

    with show_progress("loading the model", machine=json):
        loaded = reopen(run, [override(word) for word in changes or ()], device=device, threads=threads, precision=precision)
    for option, value in (("language", language), ("pair", pair)):
        if value is not None and option not in loaded.task.optional_inputs:
            raise UsageError(f"--{option}: a run of {loaded.kind} takes none")
    options = {} if language is None else {"language": language}
    if file is not None and out is not None:
        with _open_ahead(cluster, run, changes or [], options, device=device, precision=precision) as ahead:
            write_answers(loaded, file, out, Choices(text, encoding, keep, skip_bad, resume, force, ahead), options, json)
        return
    if cluster is not None:
        raise UsageError("--cluster answers a file into another: give --file and --out")
    if file is not None:
        _print_file(loaded, file, Choices(text, encoding, keep, skip_bad), options, json)
        return
    if loaded.tokenizers and texts and is_data(texts[0]):
        raise UsageError(f"is a file: attentif predict {run} --file {texts[0]}", file=texts[0], code="file-as-text")
    predictions = loaded.predict(_read_texts(texts or [], pair), **options)
    _say_notes(loaded, _notes(predictions))
    if out is not None:
        _write(predictions, out)
    elif json:
        print_json([asdict(prediction) for prediction in predictions])
    else:
        print_predictions(predictions, loaded.task.reads)


@dataclass(frozen=True)
class Choices:
    """Options of predicting a file."""

    column: str | None
    encoding: str | None
    keep: list[str] | None
    skip_bad: int
    resume: bool = False
    force: bool = False
    ahead: "Ahead | None" = None  # where a cluster answers


@contextmanager
def _open_ahead(cluster: str | None, run: Path, changes: list[str], options: dict[str, Any], **how: Any) -> "Iterator[Ahead | None]":
    """Open the cluster that answers, if one is asked for."""
    if cluster is None:
        yield None
        return
    from attentif.cluster import open_cluster
    from attentif.remote import RemoteRun, answer_ahead

    with open_cluster(cluster) as workers:
        yield answer_ahead(workers, RemoteRun.of(run, changes, **how, **options))


def _check(
    texts: list[str] | None,
    file: Path | None,
    pair: str | None,
    text: str | None,
    encoding: str | None,
    out: Path | None,
    keep: list[str] | None,
    resume: bool,
) -> None:
    if bool(texts) == bool(file):
        raise UsageError("give texts, or --file FILE, or - to read lines from stdin")
    if pair is not None and (len(texts or ()) != 1 or texts == ["-"]):
        raise UsageError("--pair goes with one text; many pairs are given in a file, by --file")
    for option, value in (("--text", text), ("--encoding", encoding), ("--keep", keep)):
        if value is not None and file is None:
            raise UsageError(f"{option} is about --file")
    if resume and (file is None or out is None):
        raise UsageError("--resume continues `--file FILE --out FILE`")


def write_answers(loaded: "Run", file: Path, out: Path, chosen: Choices, options: dict[str, Any], json: bool) -> None:
    """Predict a file into another; `options` are those of the task's `predict`."""
    from attentif.tasks.batches import format_count

    with show_progress("counting rows", machine=json) as watch:
        done = loaded.predict_file(
            *(file, out),
            column=chosen.column,
            encoding=chosen.encoding,
            keep=chosen.keep,
            skip_bad=chosen.skip_bad,
            resume=chosen.resume,
            force=chosen.force,
            ahead=chosen.ahead,
            say=watch.say,
            progress=lambda done, total: watch.work("predict", done, total),
            **options,
        )
    _say_notes(loaded, [])
    _say_skipped(done, file)
    if json:
        print_json({"out": str(out), "answers": done.answered, "skipped": [asdict(row) for row in done.skipped]})
    else:
        say(f"{format_count(done.answered, 'answer')} written to {out}" if done.answered else f"{out} was complete already")


def _print_file(loaded: "Run", file: Path, chosen: Choices, options: dict[str, Any], json: bool) -> None:
    """Predict a file to stdout, chunk by chunk."""
    from attentif.bulk import BulkResult, answer_rows, render_json
    from attentif.data.input_rows import SkippingTolerance

    with show_progress("counting rows", machine=json) as watch:  # until the first answers, which stand on the same terminal
        asked = loaded.questions(
            file, chosen.column, encoding=chosen.encoding, keep=chosen.keep, tolerance=SkippingTolerance(chosen.skip_bad, [])
        )
        watch.work("predict", 0, asked.total)
        chunks = answer_rows(asked, lambda rows: loaded.predict(rows, **options))
        first = list(islice(chunks, 1))
    notes: list[str] = []
    answered = 0
    for _, found in chain(first, chunks):
        notes += [note for note in _notes([one for _, one in found]) if note not in notes]
        if json:
            for row, one in found:
                print("[" if not answered else ",", jsonlib.dumps(render_json(row, one), ensure_ascii=False, default=str), sep="\n")
                answered += 1
        else:
            print_predictions([one for _, one in found], loaded.task.reads, headed=not answered)
            answered += len(found)
    if json:
        print("]" if answered else "[]")
    _say_notes(loaded, notes)
    _say_skipped(BulkResult(answered, asked.tolerance.skipped), file)


def _say_notes(loaded: "Run", notes: list[str]) -> None:
    for note in [*notes, loaded.note]:
        if note:
            say(note)


def _say_skipped(done: "BulkResult", file: Path) -> None:
    from attentif.tasks.batches import format_count

    if done.skipped:
        say(f"{format_count(len(done.skipped), 'bad row')} skipped:")
        for line in done.describe_skipped(file):
            say(line)


def _write(predictions: "list[Prediction]", out: Path) -> None:
    """Write predictions to a file."""
    from attentif.bulk import write_answers
    from attentif.tasks.batches import format_count

    written = write_answers(predictions, out)
    say(f"{format_count(written, 'row' if written > len(predictions) else 'answer')} written to {out}")


def _read_texts(texts: list[str], pair: str | None) -> "list[str | Example]":
    """The texts as typed, or the one with its pair; a lone - stands for the lines of stdin."""
    if pair is not None:
        return [{"text": texts[0], "pair": pair}]
    return [line.rstrip("\r\n") for line in sys.stdin] if texts == ["-"] else list(texts)


def _notes(predictions: "list[Prediction]") -> list[str]:
    """What was done to read the inputs: rows that were filled in or left out, for example."""
    return [*dict.fromkeys(note for prediction in predictions for note in prediction.notes)]


def _print_tables(rows: "list[dict[str, str | float | None]]") -> None:
    """Numbers with their intervals; of forecasts every step where that is readable, else a line for each series."""
    from attentif.tasks.batches import format_count
    from attentif.view.forecasts import forecast_table
    from attentif.view.words import number

    if "date" not in rows[0]:
        written = [[translate(number(value)) if isinstance(value, float) else str(value) for value in row.values()] for row in rows]
        print_table([*map(localize, rows[0])], written)
        return
    found = forecast_table(rows)
    print_table([*map(translate, found.columns)], [[translate(cell) for cell in row] for row in found.rows])
    if not found.whole:
        say(f"{format_count(found.steps, 'step')} of {format_count(found.numbers, 'column')}; --out FILE.csv writes them all")


def print_predictions(predictions: "list[Prediction]", reads: str, *, headed: bool = True) -> None:
    """Answers on stdout: a table of labels, or lines that can be piped on. `headed`: the first ones of all."""
    if table := [row for prediction in predictions for row in prediction.table]:
        _print_tables(table)
        return
    scored = any(prediction.scores for prediction in predictions)
    if reads == "audio" and not scored:  # nobody knows sounds by their order in a folder
        print_table(
            [pick("transcription", "transcript"), pick("son", "sound")],
            [[prediction.output, prediction.input] for prediction in predictions],
            headed=headed,
        )
        return
    if not scored:  # translations, continuations: lines that can be piped on
        for prediction in predictions:
            print_text(prediction.output)
        return
    rows = []
    for prediction in predictions:
        scores = ", ".join(f"{label} {localize(f'{share:.1%}')}" for label, share in list(prediction.scores.items())[:SHOWN])
        rows.append([prediction.output, scores, prediction.input])
    columns = [pick("étiquette", "label"), pick("probabilités", "probabilities"), localize(HEADS.get(reads, "text"))]
    print_table(columns, rows, headed=headed)
