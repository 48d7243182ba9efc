"""`attentif generate`: a language model goes on with a text."""

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attentif.cli.options import Device, DrawSeed, Json, RunPath, Threads
from attentif.cli.out import print_json, print_table

if TYPE_CHECKING:
    from attentif.api import Run
    from attentif.decode import Generated, Token

ALTERNATIVES = 5  # likeliest tokens of a step


def generate(
    run: RunPath,
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="The text to go on with; may be empty.", show_default=False)],
    max_tokens: Annotated[int | None, typer.Option(metavar="N", help="Most tokens to write (default: 128).")] = None,
    temperature: Annotated[float | None, typer.Option(metavar="T", help="How freely to draw; 0, the default, draws nothing.")] = None,
    top_k: Annotated[int | None, typer.Option(metavar="K", help="Draw among the K likeliest tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(metavar="P", help="Draw among the likeliest tokens that make up this probability.")] = None,
    min_p: Annotated[float | None, typer.Option(metavar="P", help="Draw among tokens at least P times as likely as the likeliest.")] = None,
    repetition_penalty: Annotated[float | None, typer.Option(metavar="R", help="Above 1: what is written becomes less likely.")] = None,
    beams: Annotated[int | None, typer.Option(metavar="N", help="Search with N beams instead of drawing.")] = None,
    length_penalty: Annotated[
        float | None, typer.Option(metavar="A", help="Of the beams' score log P / length^A (default: 1; 0 favours short texts).")
    ] = None,
    stop: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="Stop before this text; may be repeated.")] = None,
    seed: DrawSeed = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Show the likeliest tokens of each step.")] = False,
    json: Json = False,
    device: Device = "auto",
    threads: Threads = 0,
) -> None:
    """Go on with a text, as a language model was trained to.

    The text is shown while it is written, unless beams or machines wait for the whole of it.

    For example: attentif generate runs/stdlib-1 "def read(self" --max-tokens 60 --temperature 0.8
    """
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

    loaded = load(run, device=device, threads=threads)
    if json or probabilities or (beams or 1) > 1:
        found = loaded.generate(prompt, alternatives=ALTERNATIVES if probabilities else None, **given)
        if json:
            print_json({"prompt": prompt, "text": found.text, "finish": found.finish, "steps": _steps(loaded, found.steps, probabilities)})
        else:
            print(prompt + (found.text or ""))
            _print_steps(loaded, found)
        return
    pieces = loaded.stream(prompt, **given)
    print(prompt, end="", flush=True)
    for token in pieces:
        print(token.text, end="", flush=True)
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
