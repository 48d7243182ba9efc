"""The command's frame: exit codes, one-line errors, what start-up imports."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from attentif.cli import main as cli
from attentif.cli.train import data_options
from attentif.errors import ConfigError, DataError


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make `attentif list` raise what is given."""

    def fails_with(error: BaseException) -> None:
        def command() -> None:
            raise error

        app = typer.Typer()
        app.command("list")(command)
        app.callback()(lambda: None)
        monkeypatch.setattr(cli, "app", app)

    return fails_with


def test_a_users_error_is_one_line_on_stderr_with_its_own_exit_code(failing: Any, capsys: pytest.CaptureFixture[str]) -> None:
    failing(DataError("the label is empty", file="avis.csv", line=7))
    assert cli.run(["list"]) == 1
    assert capsys.readouterr() == ("", "error: avis.csv:7: the label is empty\n")
    failing(ConfigError("train.lr: must be a number"))
    assert cli.run(["list"]) == 2
    assert capsys.readouterr().err == "error: train.lr: must be a number\n"


def test_debug_shows_the_traceback_before_the_line(failing: Any, capsys: pytest.CaptureFixture[str]) -> None:
    failing(DataError("the label is empty"))
    assert cli.run(["list", "--debug"]) == 1
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert shown.endswith("error: the label is empty\n")


def test_an_unexpected_error_is_one_honest_line(failing: Any, capsys: pytest.CaptureFixture[str]) -> None:
    failing(ZeroDivisionError("division\nby zero"))
    assert cli.run(["list"]) == 1
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert "ZeroDivisionError: division by zero" in shown
    assert "--debug" in shown


def test_a_file_that_cannot_be_opened_is_named(failing: Any, capsys: pytest.CaptureFixture[str]) -> None:
    failing(PermissionError(13, "Permission denied", "secret.csv"))
    assert cli.run(["list"]) == 1
    assert capsys.readouterr().err == "error: secret.csv: permission denied\n"


def test_interruption_is_130(failing: Any) -> None:
    failing(KeyboardInterrupt())
    assert cli.run(["list"]) == 130


@pytest.mark.parametrize("words", [["--bogus"], ["lst"], ["list", "nothing"], ["train", "--threads", "two"], ["show"]])
def test_wrong_usage_is_2_in_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["maps", "run", "Quel film !", "--out", "nowhere/maps.html"],
        ["paint", "run", "un sept", "--out", "nowhere/sept.png"],
        ["align", "run", "un", "one", "--out", "nowhere/links.html"],
        ["predict", "run", "Quel film !", "--out", "nowhere/answers.jsonl"],
        ["vectors", "run", "--to", "nowhere/mots.vec"],
    ],
)
def test_a_place_that_cannot_be_written_to_is_told_before_the_run_is_opened(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(words) == 2
    assert capsys.readouterr().err == f"error: {words[-1]}: there is no folder nowhere\n"


def test_no_words_at_all_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([]) == 2
    assert "train" in "".join(capsys.readouterr())


def test_every_command_has_help_and_the_common_options(capsys: pytest.CaptureFixture[str]) -> None:
    for name in cli.command_line().commands:
        assert cli.run([name, "--help"]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith(f"Usage: attentif {name}")
        assert "--debug" in shown
        assert "--plugin" in shown
        assert "<str>" not in shown  # the words of Python's types are not the user's
        assert "list[" not in shown


def test_the_list_of_commands_says_a_whole_sentence_on_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--help"]) == 0
    lines = capsys.readouterr().out.partition("Commands:\n")[2].splitlines()
    assert len(lines) == len(cli.command_line().commands)
    assert [line for line in lines if not line.endswith(".") or line.endswith("...")] == []


def leaves(tree: Any, *path: str) -> Iterator[tuple[str, ...]]:
    """The commands that do something, those of `tokenizer` among them."""
    for name, command in tree.commands.items():
        yield from leaves(command, *path, name) if hasattr(command, "commands") else [(*path, name)]


def test_every_command_shows_an_example_of_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for path in leaves(cli.command_line()):
        assert cli.run([*path, "--help"]) == 0
        usage, _, rest = capsys.readouterr().out.partition("\n")
        assert usage.startswith(f"Usage: attentif {' '.join(path)} ")
        assert f"attentif {' '.join(path)} " in " ".join(rest.split())


def test_an_option_says_the_same_in_every_command() -> None:
    """Where commands share a name that means the same to all of them."""
    shared = {"target", "valid", "test", "text", "label", "group", "pair", "json", "device", "plugin", "debug"}
    said: dict[str, set[tuple[str, str]]] = {}
    branches = [cli.command_line()]
    while branches:
        branch = branches.pop()
        branches += getattr(branch, "commands", {}).values()
        for option in branch.params:
            if f"--{option.name}" in option.opts and option.name in shared:
                said.setdefault(option.name, set()).add((option.metavar, option.help))
    said["target"] = {(metavar, text) for metavar, text in said["target"] if metavar != "TEXT"}  # of `maps`
    said["pair"] = {(metavar, text) for metavar, text in said["pair"] if text != "Second text of a pair."}  # of `tokenizer encode`
    assert {name: words for name, words in said.items() if len(words) > 1} == {}


def test_every_file_that_is_given_counts() -> None:
    given = data_options(["films.csv", "series.csv"], valid=["v.csv"], test=["a.csv", "b.csv"], text="avis", target=None)
    assert given == {"data.train": ["films.csv", "series.csv"], "data.valid": "v.csv", "data.test": ["a.csv", "b.csv"], "data.text": "avis"}


def test_start_up_imports_nothing_heavy() -> None:
    code = """
import sys
from attentif.cli.main import run
assert run(["--help"]) == 0
heavy = {"torch", "numpy", "pydantic", "sklearn", "plotly", "pyarrow", "tokenizers", "rich"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    code = "from attentif.cli.main import main; main(['--help'])"
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        done = subprocess.run([sys.executable, "-c", code], stdout=closed, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == ""


def test_sigterm_exits_with_143_and_unwinds() -> None:
    code = """
import os, signal
from attentif.cli import main as cli
def command(words):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    finally:
        print("unwound", flush=True)
cli.run = command
cli.main([])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (143, "unwound\n")
