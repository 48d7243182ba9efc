"""`attentif chat`: a conversation, with rules or with a language model."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer

from attentif.cli.options import Device, DrawSeed, Precision, Threads
from attentif.cli.out import print_text, say
from attentif.errors import UsageError

QUIT = "/quit"
TOP_P = 0.95  # default for sampling
TEMPERATURE = 0.8  # default where the model brings none
Answer = Callable[[str], Iterable[str]]


def chat(
    who: Annotated[str, typer.Argument(metavar="RUN", help="Run of a language model, or `eliza`.", show_default=False)],
    lang: Annotated[str, typer.Option(metavar="LANG", help="Language of eliza: fr or en.")] = "fr",
    script: Annotated[Path | None, typer.Option(metavar="FILE", help="Script for eliza, in TOML.")] = None,
    system: Annotated[
        str | None, typer.Option(metavar="TEXT", help="System prompt, for runs with a chat template.", show_default=False)
    ] = None,
    max_tokens: Annotated[int, typer.Option(metavar="N", min=1, help="Maximum number of tokens of an answer.")] = 80,
    temperature: Annotated[
        float | None, typer.Option(metavar="T", help="Sampling temperature; 0 is greedy (default: the model's own, or 0.8).")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(metavar="P", help="Nucleus sampling probability (default: the model's own, or 0.95)."),
    ] = None,
    seed: DrawSeed = None,
    device: Device = "auto",
    threads: Threads = 0,
    precision: Precision = "float32",
) -> None:
    """Talk to a language model, or to ELIZA (1966).

    /quit, Ctrl-C or end of input ends the conversation.

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
    from attentif.training.chat import start_conversation

    loaded = load(who, device=device, threads=threads, precision=precision)
    chosen: dict[str, float] = {}
    if getattr(getattr(loaded.config, "task", None), "decode", None) is None:  # nobody said how it writes
        chosen = {"temperature": TEMPERATURE} if temperature is None else {}
        chosen |= {"top_p": TOP_P} if temperature != 0 else {}
    asked = {"temperature": temperature, "top_p": top_p}
    chosen |= {key: value for key, value in asked.items() if value is not None}
    talk = start_conversation(loaded, system=system, max_tokens=max_tokens, seed=seed, **chosen)
    if loaded.require("chat").options({}).beams > 1:
        say("the beam search that the model comes with is for whole texts: here each token is the likeliest one")
    say(f"{who} {'answers' if isinstance(talk.script, Turns) else 'continues the dialogue'}; {QUIT} leaves")
    _talk(talk.answer, lambda: False)


def _eliza(source: Path | str) -> None:
    from attentif.text.dialogue import Eliza, load_script

    eliza = Eliza(load_script(source))
    print(eliza.hello, flush=True)
    _talk(lambda line: [eliza.answer(line)], lambda: eliza.ended)


def _talk(answer: Answer, ended: Callable[[], bool]) -> None:
    """Read a line, answer it, until the end of the conversation."""
    try:
        while not ended() and (line := _line()) is not None and line.strip() != QUIT:
            if line.strip():
                for piece in answer(line.strip()):
                    print_text(piece, end="")
                print(flush=True)
    except KeyboardInterrupt:
        print(file=sys.stderr)


def _line() -> str | None:
    """What was typed; None at the end of input."""
    if sys.stdin.isatty():
        print("> ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    return line if line else None
