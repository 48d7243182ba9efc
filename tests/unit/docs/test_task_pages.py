"""The pages of docs/tasks: the lines they show are the recipes', and every command on them is one that this program takes."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import attentif.api
import attentif.cli.train
from attentif.cli.main import command_line
from attentif.cli.main import run as attentif_
from attentif.recipes import FOLDER, recipe_names
from attentif.training.load import load_config

DOCS = Path(__file__).parents[3] / "docs"
PAGES = {page.stem: page.read_text(encoding="utf-8") for page in sorted((DOCS / "tasks").glob("*.md"))}
INDEX = PAGES.pop("README")
LONGEST = 15  # lines of a recipe


def fenced(page: str, kind: str) -> list[str]:
    """The blocks of a page that are marked so; those of commands have no mark."""
    return [block for mark, block in re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE) if mark == kind]


def commands(page: str) -> Iterator[list[str]]:
    """The commands of a page in words, what stands behind `#` left out."""
    for block in fenced(page, ""):
        for line in block.splitlines():
            words = shlex.split(line, comments=True) if line.startswith("attentif ") else []
            while words:
                end = words.index("&&") if "&&" in words else len(words)
                yield words[1:end]
                words = words[end + 1 :]


@pytest.mark.parametrize("name", [name for name in PAGES if name != "chat"])  # a conversation has no recipe
def test_a_page_begins_with_the_lines_of_a_recipe(name: str) -> None:
    shown = fenced(PAGES[name], "toml")[0]
    recipes = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.toml")}
    assert shown in recipes.values(), f"docs/tasks/{name}.md shows lines that are no recipe's"
    assert len(shown.splitlines()) <= LONGEST


def test_every_recipe_is_in_the_index_of_the_tasks() -> None:
    named = set(re.findall(r"`([\w-]+)`", INDEX))
    assert set(recipe_names()) <= named
    assert {Path(link).stem for link in re.findall(r"\]\(([\w-]+\.md)\)", INDEX)} == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_names_what_it_follows_and_its_pictures_are_there(name: str) -> None:
    assert re.search(r"^(## )?References?\b", PAGES[name], re.MULTILINE)
    for picture in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", PAGES[name]):
        assert (DOCS / "tasks" / picture).is_file()


@pytest.mark.parametrize("name", PAGES)
def test_the_commands_of_a_page_are_taken(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of training as far as their whole configuration, the others as far as their arguments: nothing is read or trained."""
    monkeypatch.setattr(attentif.api, "start", lambda source, layers, **_: load_config(source, layers))
    monkeypatch.setattr(attentif.cli.train, "_conclude", lambda *_: None)
    tree: Any = command_line()
    found = list(commands(PAGES[name]))
    assert found
    for words in found:
        elsewhere = any(word.startswith("model.from=") or word == "my.toml" for word in words)  # runs and files of the reader's own
        if words[0] == "train" and not elsewhere:
            assert attentif_(words) == 0, f"attentif {shlex.join(words)}: {capsys.readouterr().err}"
        else:
            tree.commands[words[0]].make_context(words[0], words[1:])
