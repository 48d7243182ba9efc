"""The `attentif` command: its subcommands, its errors, its exit codes.

    0 done · 1 failed · 2 wrong usage · 130 Ctrl-C · 143 SIGTERM

Results go to stdout; progress, notes and errors to stderr. This file and those of the commands import nothing heavy at the top:
`attentif --help` must not wait for torch.
"""

import io
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_command

import attentif
from attentif.cli.align import align
from attentif.cli.attention import attention
from attentif.cli.chat import chat
from attentif.cli.compare import compare
from attentif.cli.curve import curve
from attentif.cli.embed import embed
from attentif.cli.evaluate import evaluate
from attentif.cli.explain import explain
from attentif.cli.export import export
from attentif.cli.fill import fill
from attentif.cli.french_help import translate_help
from attentif.cli.generate import generate
from attentif.cli.import_ import import_
from attentif.cli.lab import lab
from attentif.cli.list import list_
from attentif.cli.maps import maps
from attentif.cli.merge import merge
from attentif.cli.neighbours import analogy, neighbours
from attentif.cli.paint import paint
from attentif.cli.predict import predict
from attentif.cli.profile import profile
from attentif.cli.prune import prune
from attentif.cli.quantize import quantize
from attentif.cli.senses import senses
from attentif.cli.serve import serve
from attentif.cli.show import show
from attentif.cli.studio import studio
from attentif.cli.tokenizer import app as tokenizer
from attentif.cli.train import full_key, train
from attentif.cli.tune import tune
from attentif.cli.vectors import vectors
from attentif.cli.verify import verify
from attentif.errors import AttentifError
from attentif.files import is_disk_full
from attentif.french import choose_language, localize
from attentif.runtime import limit_openmp_spinning

INTERRUPTED, TERMINATED = 130, 143
# typer brings click under its own name from 0.21 on; the family of its usage errors is found through the one class that both export
ClickError: type[Any] = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")

app = typer.Typer(
    name="attentif",
    help="Train, compare, inspect and serve sequence models described in TOML.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: half the time of panels
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    train,
    tune,
    compare,
    curve,
    evaluate,
    predict,
    explain,
    generate,
    fill,
    embed,
    senses,
    maps,
    attention,
    paint,
    show,
    chat,
    neighbours,
    analogy,
    vectors,
    align,
    merge,
    prune,
    quantize,
    export,
    verify,
    lab,
    profile,
    serve,
    studio,
):
    app.command()(command)
app.command("list")(list_)
app.command("import")(import_)
app.add_typer(tokenizer, name="tokenizer")


def _load_plugins(paths: list[Path]) -> list[Path]:
    if paths:
        from attentif.plugin import load_plugin

        for path in paths:
            load_plugin(path)
    return paths


Plugin = Annotated[
    list[Path],
    typer.Option(
        "--plugin",
        metavar="FILE.py",
        help="Python file that registers your mixers, tasks or data sets (repeatable).",
        callback=_load_plugins,
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"attentif {attentif.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)] = False,
) -> None:
    pass


def _common(plugin: Plugin = [], debug: Debug = False) -> None:  # noqa: B006
    """Options of every command, before or after its name."""


def command_line() -> Any:
    """The tree of commands, with the common options on each."""
    holder = typer.Typer(add_completion=False)
    holder.command()(_common)
    common = get_command(holder).params
    for option in common:
        option.expose_value = False
    tree, french = get_command(app), choose_language() == "fr"
    branches = [tree]
    while branches:
        branch = branches.pop()
        branch.params += common
        if french:
            translate_help(branch)
        for parameter in branch.params:
            if parameter.param_type_name == "argument":
                setattr(parameter, "display_type_rich", lambda **_: "")  # noqa: B010  newer typers would add <list[str]> to the name
        branches += getattr(branch, "commands", {}).values()
    return tree


def main(words: Sequence[str] | None = None) -> None:
    """Run the command that `words` ask for (by default those of the shell) and exit."""
    words = list(sys.argv[1:] if words is None else words)
    limit_openmp_spinning()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without é prints a question mark rather than fail
            stream.reconfigure(errors="replace")
    logging.basicConfig(format="%(message)s")
    logging.getLogger("attentif").setLevel(logging.INFO)  # kernel compilation is logged
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(run(words))


def run(words: list[str]) -> int:
    """Run a command; return its exit code and print errors in one line."""
    try:
        code = command_line().main(words, prog_name="attentif", standalone_mode=False)
        sys.stdout.flush()  # a closed pipe is noticed here, not while Python shuts down
        if code == INTERRUPTED:  # newer typers turn Ctrl-C into this, older ones into Abort
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except AttentifError as error:
        if error.exit_code in (INTERRUPTED, TERMINATED):  # a run that was stopped and saved, and says how to resume: no error
            print(localize(str(error)), file=sys.stderr)
            return error.exit_code
        if error.quiet:
            return error.exit_code
        return _fail(error.message, error, words, error.exit_code, error.place)
    except ClickError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
            return 2
        return _fail(_usage(error), error, words, 2)
    except (KeyboardInterrupt, typer.Abort):
        print(localize("interrupted"), file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `attentif list | head`: nobody reads on, which is no fault
        _discard_output()
        return 1
    except MemoryError as error:
        return _fail("there is not enough memory; try a smaller train.batch_tokens or a smaller model", error, words, 1)
    except OSError as error:
        if is_disk_full(error):
            if isinstance(sys.stdout, io.TextIOWrapper) and error.filename is None:
                _discard_output()  # what is buffered would fail again while Python shuts down
            return _fail(f"{error.filename or 'output'}: no space left on the disk; free some and try again", error, words, 1)
        if error.filename is None:
            return _report_bug(error, words)
        return _fail(f"{error.filename}: {(error.strerror or str(error)).lower()}", error, words, 1)
    except Exception as error:
        return _report_bug(error, words)


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_bug(error: Exception, words: list[str]) -> int:
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return _fail(f"unexpected {what} (a bug in Attentif: please report it with the output of --debug)", error, words, 1)


def _fail(message: str, error: BaseException, words: list[str], code: int, place: str = "") -> int:
    if "--debug" in words:
        import traceback

        traceback.print_exception(error)
    french = getattr(error, "code", "") != "language" and choose_language() == "fr"  # a language that is none is said in English
    message = " ".join(message.split())
    print(f"{'erreur :' if french else 'error:'} {place}{localize(message) if french else message}", file=sys.stderr)
    return code


def _usage(error: Any) -> str:
    """click's message, with the command to ask for help."""
    message = str(error.format_message()).strip().rstrip(".").replace("Value error, ", "")
    path = error.ctx.command_path if getattr(error, "ctx", None) else "attentif"
    if (option := getattr(error, "option_name", None)) and path.endswith("train") and (key := full_key(option.lstrip("-"))):
        return f"there is no option {option}: write {key}=VALUE; see `{path} --help`"
    return f"{localize(message[:1].lower() + message[1:])}; {localize('see')} `{path} --help`"


def _terminate(*_: object) -> None:
    """SIGTERM unwinds the stack, so that temporary files are removed."""
    raise SystemExit(TERMINATED)
