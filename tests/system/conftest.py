"""A user's folder: small files of three tasks, and a run of each."""

import csv
import itertools
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import terminal
from terminal import Done

CLASSIFY = """\
# Is it good?
[data]
train = "avis.csv"
[task]
kind = "classify"
[tokenizer]
kind = "word"
[model]
base = "encoder-tiny"
width = 32
layers = 1
encoder.block.attn.mixer.heads = 2
[train]
steps = 24
eval_every = 8
lr = 5e-3
threads = 1
"""
TRANSLATE = """\
[data]
train = "mots.fr"
target = "mots.en"
[task]
kind = "translate"
beams = 1
[tokenizer]
kind = "word"
[model]
base = "transformer-tiny"
width = 32
layers = 1
[train]
steps = 12
eval_every = 12
threads = 1
"""
LANGUAGE = """\
[data]
train = "texte.txt"
[task]
kind = "language"
context = 32
[tokenizer]
kind = "char"
[model]
base = "decoder-tiny"
width = 32
layers = 2
[train]
steps = 12
eval_every = 12
threads = 1
"""
FRENCH, ENGLISH = ["un", "deux", "trois", "quatre", "cinq", "six"], ["one", "two", "three", "four", "five", "six"]


def write_files(folder: Path) -> None:
    chance = random.Random(0)
    good, bad = ("superbe", "touchant", "drôle"), ("ennuyeux", "raté", "creux")
    rows = [
        (f"{what} numéro {number} est {word}", "positif" if word in good else "négatif")
        for what in ("le film", "ce roman", "le scénario")
        for number in range(15)
        for word in (*good, *bad)
    ]
    chance.shuffle(rows)
    with (folder / "avis.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("review", "polarity"), *rows])
    (folder / "texte.txt").write_text("\n".join(text for text, _ in rows) + "\n")
    pairs = list(itertools.product(range(6), repeat=3))
    for name, words in (("mots.fr", FRENCH), ("mots.en", ENGLISH)):
        (folder / name).write_text("".join(" ".join(words[digit] for digit in digits) + "\n" for digits in pairs))
    for name, text in (("classify.toml", CLASSIFY), ("translate.toml", TRANSLATE), ("language.toml", LANGUAGE)):
        (folder / name).write_text(text)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Done]]:
    """One run of each task in a folder of its own, which stays the current one."""
    folder = tmp_path_factory.mktemp("user")
    write_files(folder)
    before = Path.cwd()
    os.chdir(folder)
    os.environ["ATTENTIF_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    done = {}
    for task, words in (("classify", []), ("translate", ["--json"]), ("language", [])):
        done[task] = terminal.typed("train", f"{task}.toml", "--out", f"runs/{task}", *words)
    yield done
    del os.environ["ATTENTIF_CACHE"]
    os.chdir(before)


@pytest.fixture
def typed(trained: dict[str, Done]) -> Callable[..., Done]:
    """In the folder of these runs."""
    return terminal.typed
