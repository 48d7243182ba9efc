"""The pages hold together: links lead somewhere, nothing is left aside, commands are taken, both languages say the same."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attentif.cli.main import command_line
from attentif.plugin import load_plugin
from attentif.training.load import load_config

ROOT = Path(__file__).parents[3]
FOLDERS = (ROOT, ROOT / "docs", *(folder for folder in (ROOT / "docs").iterdir() if folder.is_dir()), ROOT / "benchmarks")
PAGES = {str(page.relative_to(ROOT)): page for folder in FOLDERS for page in sorted(folder.glob("*.md"))}
ENGLISH, FRENCH = (PAGES[name].read_text(encoding="utf-8") for name in ("README.md", "README.fr.md"))
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """The files that a page leads to, with the heading where one is named; other sites are left out."""
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if not re.match(r"\w+:", link):
            file, _, heading = link.partition("#")
            yield (page.parent / file).resolve() if file else page, heading


def headings(page: Path) -> set[str]:
    """As GitHub names them in links, and those that a page names itself."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    named = re.findall(r'<a id="([^"]+)">', prose(page))
    return {*named, *(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles)}


def commands(text: str) -> Iterator[list[str]]:
    """The words behind `attentif` in the blocks that show what is typed, what stands behind `#` left out."""
    for block in (block for kind, block in FENCED.findall(text) if not kind):
        for line in block.splitlines():
            for part in re.split(r"\s&&\s", line) if line.startswith("attentif ") else []:
                yield shlex.split(part, comments=True)[1:]


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_files_and_headings_that_are_there(name: str) -> None:
    for file, heading in links(PAGES[name]):
        assert file.exists(), f"{name}: {file.name} is not there"
        assert not heading or heading in headings(file), f"{name}: {file.name} has no heading #{heading}"


def test_every_page_and_every_picture_is_shown_by_another_page() -> None:
    shown = {file for page in PAGES.values() for file, _ in links(page) if file != page}
    kept = {*PAGES.values(), *(ROOT / "docs" / "images").rglob("*.png")}
    assert {str(file.relative_to(ROOT)) for file in kept - shown} == set()


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if any(commands(page.read_text(encoding="utf-8")))])
def test_commands_are_taken(name: str) -> None:
    """As far as their arguments; those of docs/tasks are looked at more closely by themselves."""
    tree: Any = command_line()
    for words in commands(PAGES[name].read_text(encoding="utf-8")):
        words = words[2:] if words[0] == "--plugin" else words  # a file of the reader's own
        branch, path = tree, []
        while hasattr(branch, "commands") and words:
            path, words = [*path, words[0]], words[1:]
            assert path[-1] in branch.commands, f"{name}: attentif {shlex.join(path)}"
            branch = branch.commands[path[-1]]
        branch.make_context(path[-1], words)


def test_the_french_page_shows_the_same_commands_and_leads_to_the_same_pages() -> None:
    assert list(commands(FRENCH)) == list(commands(ENGLISH))
    ours, theirs = (Counter(links(PAGES[name])) for name in ("README.fr.md", "README.md"))
    ours[PAGES["README.md"], ""] -= 1  # each leads to the other
    theirs[PAGES["README.fr.md"], ""] -= 1
    assert +ours == +theirs


def rows(text: str) -> list[list[str]]:
    return [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")]


def numbers(cell: str, *, thousands: str, comma: str) -> Counter[str]:
    plain = re.sub(rf"(?<=\d){thousands}(?=\d{{3}}\b)", "", cell)
    return Counter(re.findall(r"\d+(?:\.\d+)?", plain.replace(comma, ".") if comma != "." else plain))


def test_the_french_tables_have_the_same_rows_and_numbers() -> None:
    ours, theirs = rows(FRENCH), rows(ENGLISH)
    assert len(ours) == len(theirs)
    for french, english in zip(ours, theirs, strict=True):
        assert re.findall(r"`[^`]+`", "|".join(french)) == re.findall(r"`[^`]+`", "|".join(english))
        assert numbers(french[-1], thousands="[ \u00a0\u202f]", comma=",") == numbers(english[-1], thousands=",", comma="."), english


def test_contributors_are_sent_to_places_that_are_there() -> None:
    page = PAGES["CONTRIBUTING.md"].read_text(encoding="utf-8")
    places = re.findall(r"`((?:src|docs|tests|benchmarks|kernels|nn|view)/[\w/.*-]+)`", page)
    assert len(places) > 30
    assert [place for place in places if not any(any(root.glob(place)) for root in (ROOT, ROOT / "src" / "attentif"))] == []


def test_the_example_of_a_plug_in_can_be_trained_as_it_stands() -> None:
    load_plugin(ROOT / "docs" / "examples" / "shift.py")
    config = load_config(str(ROOT / "docs" / "examples" / "shift.toml"), [])
    assert config.model.encoder.block["attn"].mixer.kind == "shift"
