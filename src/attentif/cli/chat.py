"""`attentif chat`: a conversation, with rules or with a language model."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer

from attentif.cli.options import Device, DrawSeed, Threads
from attentif.cli.out import say
from attentif.errors import UsageError

QUIT = "/quit"
TOP_P = 0.95  # of draws, where nothing else is asked for
Answer = Callable[[str], Iterable[str]]


def chat(
    who: Annotated[str, typer.Argument(metavar="RUN", help="A language model's run, or `eliza`.", show_default=False)],
    lang: Annotated[str, typer.Option(metavar="LANG", help="Of eliza: fr or en.")] = "fr",
    script: Annotated[Path | None, typer.Option(metavar="FILE", help="Of eliza: a script of your own, in TOML.")] = None,
    system: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Of a run with a chat template: who the model is to be.", show_default=False)
    ] = None,
    max_tokens: Annotated[int, typer.Option(metavar="N", min=1, help="Most tokens of an answer.")] = 80,
    temperature: Annotated[float, typer.Option(metavar="T", help="How freely to draw; 0 draws nothing.")] = 0.8,
    top_p: Annotated[
        float | None, typer.Option(metavar="P", help="Draw among the likeliest tokens that make up this probability (default: 0.95).")
    ] = None,
    seed: DrawSeed = None,
    device: Device = "auto",
    threads: Threads = 0,
) -> None:
    """Talk to a language model, or to ELIZA (1966).

    /quit, Ctrl-C or the end of input leave.

    For example: attentif chat eliza --lang fr
    """
    if who == "eliza":
        if system is not None:
            raise UsageError("--system is for a language model; eliza has a --script")
        _eliza(script or lang)
        return
    if script is not None:
        raise UsageError("--script is for eliza")
    from attentif.api import load
    from attentif.decode.turns import Turns
    from attentif.training.talk import conversation

    loaded = load(who, device=device, threads=threads)
    narrow = top_p if top_p is not None or not temperature else TOP_P
    talk = conversation(loaded, system=system, max_tokens=max_tokens, temperature=temperature, top_p=narrow, seed=seed)
    say(f"{who} {'answers' if isinstance(talk.script, Turns) else 'goes on with the dialogue'}; {QUIT} leaves")
    _talk(talk.answer, lambda: False)


def _eliza(source: Path | str) -> None:
    from attentif.text.dialogue import Eliza, load_script

    eliza = Eliza(load_script(source))
    print(eliza.hello, flush=True)
    _talk(lambda line: [eliza.answer(line)], lambda: eliza.ended)


def _talk(answer: Answer, ended: Callable[[], bool]) -> None:
    """Lines in turn, until somebody leaves."""
    try:
        while not ended() and (line := _line()) is not None and line.strip() != QUIT:
            if line.strip():
                for piece in answer(line.strip()):
                    print(piece, end="", flush=True)
                print(flush=True)
    except KeyboardInterrupt:
        print(file=sys.stderr)


def _line() -> str | None:
    """What was typed; None at the end of input."""
    if sys.stdin.isatty():
        print("> ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    return line if line else None
