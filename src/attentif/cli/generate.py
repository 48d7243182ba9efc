"""`attentif generate`: continue a text with a language model."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attentif.cli.options import Device, DrawSeed, Force, Json, Precision, RunPath, TextColumn, Threads
from attentif.cli.out import check_out, print_json, print_table, print_text, show_progress
from attentif.cli.predict import Choices, write_answers
from attentif.errors import UsageError

if TYPE_CHECKING:
    from attentif.api import Run
    from attentif.decode import Generated, Token

ALTERNATIVES = 5  # likeliest tokens of a step


def generate(
    run: RunPath,
    prompt: Annotated[str | None, typer.Argument(metavar="PROMPT", help="Text to continue; may be empty.", show_default=False)] = None,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="Continue the prompts of a file: its lines, or a column.")] = None,
    text: TextColumn = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="With --file: write the texts to this file.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted --file.")] = False,
    force: Force = False,
    max_tokens: Annotated[int | None, typer.Option(metavar="N", help="Maximum number of new tokens (default: 128).")] = None,
    temperature: Annotated[float | None, typer.Option(metavar="T", help="Sampling temperature; 0, the default, is greedy.")] = None,
    top_k: Annotated[int | None, typer.Option(metavar="K", help="Sample from the K most likely tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(metavar="P", help="Nucleus sampling: smallest set of tokens with this total probability.")
    ] = None,
    min_p: Annotated[float | None, typer.Option(metavar="P", help="Sample from tokens at least P times as likely as the best one.")] = None,
    repetition_penalty: Annotated[float | None, typer.Option(metavar="R", help="Above 1: penalise tokens that already occurred.")] = None,
    beams: Annotated[int | None, typer.Option(metavar="N", help="Beam search with N beams instead of sampling.")] = None,
    length_penalty: Annotated[
        float | None, typer.Option(metavar="A", help="Exponent of the beam score log P / length^A (default: 1; 0 favours short texts).")
    ] = None,
    stop: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="Stop before this text (repeatable).")] = None,
    seed: DrawSeed = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Print the most likely tokens of each step.")] = False,
    json: Json = False,
    device: Device = "auto",
    threads: Threads = 0,
    precision: Precision = "float32",
) -> None:
    """Continue a text with a language model.

    Text is streamed as it is generated, except with --beams, --probabilities or --json. A file of prompts is read in constant memory,
    several prompts at a time; --resume continues an interrupted command.

    \b
    For example:
    attentif generate runs/stdlib-1 "def read(self" --max-tokens 60 --temperature 0.8
    attentif generate runs/stdlib-1 --file prompts.txt --out texts.jsonl --max-tokens 60
    """
    if (prompt is None) == (file is None):
        raise UsageError("give a PROMPT, or --file FILE")
    if (file is None) != (out is None):
        raise UsageError("--file FILE and --out FILE go together")
    if file is None and (resume or text is not None):
        raise UsageError("--resume and --text go with --file")
    options = {
        "max_tokens": max_tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
        "beams": beams,
        "length_penalty": length_penalty,
        "stop": tuple(stop) if stop else None,
        "seed": seed,
    }
    given: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    from attentif.api import load

    if out is not None:
        check_out(out, force or resume)
    with show_progress("loading the model", machine=json):
        loaded = load(run, device=device, threads=threads, precision=precision)
    if file is not None and out is not None:
        loaded.require("generate")
        write_answers(loaded, file, out, Choices(text, None, None, 0, resume, force), given, json)
        return
    assert prompt is not None
    if json or probabilities or loaded.require("generate").options(given).beams > 1:  # asked for here, or by the folder
        found = loaded.generate(prompt, alternatives=ALTERNATIVES if probabilities else None, **given)
        if json:
            print_json({"prompt": prompt, "text": found.text, "finish": found.finish, "steps": _steps(loaded, found.steps, probabilities)})
        else:
            print_text(prompt + (found.text or ""))
            _print_steps(loaded, found)
        return
    pieces = loaded.stream(prompt, **given)
    print_text(prompt, end="")
    for token in pieces:
        print_text(token.text, end="")
    print()


def _steps(run: "Run", steps: "list[Token]", wanted: bool) -> list[dict[str, Any]]:
    """Each token with its probability, by the model itself, and the likeliest ones at its place."""
    name = run.token_name
    return [
        {
            "token": name(step.token),
            "probability": math.exp(step.log_prob or 0.0),
            "likeliest": {name(token): math.exp(log_prob) for token, log_prob in step.alternatives},
        }
        for step in steps
        if wanted
    ]


def _print_steps(run: "Run", found: "Generated") -> None:
    rows = []
    for step in _steps(run, found.steps, wanted=bool(found.steps and found.steps[0].alternatives)):
        likeliest = "  ".join(f"{token} {share:.1%}" for token, share in step["likeliest"].items())
        rows.append([step["token"], f"{step['probability']:.1%}", likeliest])
    if rows:
        print_table(["token", "probability", "likeliest"], rows)
