"""`attentif fill`: fill in masked words."""

from dataclasses import asdict
from typing import Annotated

import typer

from attentif.cli.options import Device, Json, Precision, RunPath, Threads
from attentif.cli.out import print_json, print_table


def fill(
    run: RunPath,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Text with [MASK], <mask> or ___.", show_default=False)],
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", min=1, help="Number of candidates per mask.")] = 5,
    json: Json = False,
    device: Device = "auto",
    threads: Threads = 0,
    precision: Precision = "float32",
) -> None:
    """Fill in masked words.

    RUN is a masked model: trained here (attentif train masked), or of a Hugging Face folder (BERT, RoBERTa, CamemBERT ...).
    Several masks are filled independently.

    For example: attentif fill runs/masked-1 "Le [MASK] est bleu."
    """
    from attentif.api import load

    found = load(run, device=device, threads=threads, precision=precision).fill(text, count=count)
    if json:
        print_json(asdict(found))
        return
    for number, guesses in enumerate(found.places, 1):
        title = "" if len(found.places) == 1 else f"hidden word {number}"
        rows = [[guess.word, f"{guess.probability:.1%}", guess.text] for guess in guesses]
        print_table(["word", "probability", "text"], rows, title=title)
