"""A folder of small runs of every kind, a studio on it, and a browser."""

import csv
import json
import os
import random
import shutil
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from browsing import until

import attentif
from attentif.api import export_model
from attentif.cli.studio import _bind
from attentif.serve.settings import ServerSettings
from attentif.serve.studio.server import create_studio
from attentif.training.manifest import accept_files
from attentif.training.progress import Silent

HOSTILE = "<img src=x onerror=window.hacked=1>"
POISON = "<svg/onload=window.hacked=1>"  # a token
TRAIN = {"steps": 6, "eval_every": 3, "checkpoint_every": 2, "keep": 9, "follow": True, "baselines": False, "threads": 1, "log_every": 1}
SMALL = {"width": 32, "layers": 2}


def write_data(folder: Path) -> None:
    chance = random.Random(0)
    good, bad = ("superbe", "touchant", "drôle"), ("ennuyeux", "raté", "creux")
    rows = [
        (f"{what} numéro {number} est {word}", "positif" if word in good else HOSTILE)
        for what in ("le film", "ce roman")
        for number in range(15)
        for word in (*good, *bad)
    ]
    chance.shuffle(rows)
    with (folder / "avis.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("review", "polarity"), *rows])
    (folder / "texte.txt").write_text("\n".join(text for text, _ in rows) + "\n", encoding="utf-8")
    digits = [(a, b, c) for a in range(6) for b in range(6) for c in range(3)]
    french, english = ["zéro", "un", "deux", "trois", "quatre", "cinq"], ["zero", "one", "two", "three", "four", "five"]
    for name, words in (("mots.fr", french), ("mots.en", english)):
        (folder / name).write_text("".join(f"{words[a]} {words[b]} {words[c]}\n" for a, b, c in digits), encoding="utf-8")


def poison_tokenizer(run: Path, word: str) -> None:
    """Make a word of the vocabulary a token of markup."""
    file = run / "tokenizer.json"
    tokenizer = json.loads(file.read_text(encoding="utf-8"))
    id = tokenizer["model"]["vocab"].pop(word)
    tokenizer["model"]["vocab"][POISON] = id
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    tokenizer["added_tokens"].append({"id": id, "content": POISON, **flags})
    file.write_text(json.dumps(tokenizer), encoding="utf-8")
    accept_files(run)


def train_all(data: Path, runs: Path) -> None:
    """A run of each kind, each after six steps."""
    text = {"train": str(data / "texte.txt")}
    language = {"data": text, "task": {"kind": "language", "context": 32}, "tokenizer": {"kind": "char"}, "train": TRAIN}
    reviews = {"data": {"train": str(data / "avis.csv")}, "task": {"kind": "classify"}, "tokenizer": {"kind": "word"}, "train": TRAIN}
    numbers = {"train": str(data / "mots.fr"), "target": str(data / "mots.en")}
    sources: dict[str, dict[str, Any]] = {
        "classify": reviews | {"model": {"base": "encoder-tiny", **SMALL}},
        "lstm": reviews | {"model": {"base": "lstm-tiny", **SMALL}},
        "language": language | {"model": {"base": "decoder-tiny", **SMALL}},
        "mamba": language | {"model": {"base": "mamba-tiny", **SMALL}},
        "mamba2": language | {"model": {"base": "mamba2-tiny", **SMALL}},
        "linear": language | {"model": {"base": "linear-transformer-tiny", **SMALL}},
        "experts": language | {"model": {"base": "mixtral-tiny", **SMALL}},
        "translate": {
            "data": numbers,
            "task": {"kind": "translate", "beams": 1},
            "tokenizer": {"kind": "word"},
            "model": {"base": "transformer-tiny", **SMALL},
            "train": TRAIN,
        },
        "digits": {"data": {"name": "digits"}, "task": {"kind": "image"}, "model": {"base": "vit-tiny", **SMALL}, "train": TRAIN},
        "forecast": {
            "data": {"name": "seasons"},
            "task": {"kind": "forecast", "look_back": 48, "horizon": 12, "quantiles": [0.1, 0.5, 0.9]},
            "model": {"base": "series-patches-tiny", **SMALL},
            "train": TRAIN | {"steps": 2, "eval_every": 2},
        },
        "tones": {
            "data": {"name": "tones"},
            "task": {"kind": "speech"},
            "tokenizer": {"kind": "char", "min_count": 1},
            "model": {"base": "conformer-tiny", **SMALL},
            "train": TRAIN | {"steps": 2, "eval_every": 2},
        },
        "esm": reviews | {"model": {"base": "esm-tiny", **SMALL}},
        "ngram": {"data": text, "fit": {"kind": "ngram", "order": 3}, "tokenizer": {"kind": "char"}},
    }
    for name, source in sources.items():
        attentif.train(source, out=runs / name, watch=Silent())
    export_model(runs / "esm", runs / "folder")  # a Hugging Face folder, which answers as it lies
    shutil.rmtree(runs / "esm")
    shutil.copytree(runs / "classify", runs / HOSTILE)
    poison_tokenizer(runs / HOSTILE, "superbe")
    (runs / HOSTILE / "report.html").write_text(
        "<!DOCTYPE html><h1>hostile</h1>"
        "<script>top.hacked = window.hacked = 1; fetch('/studio/api/runs').then(() => { top.leaked = 1 })</script>"
        "<img src=x onerror='top.hacked = 1'>",
        encoding="utf-8",
    )
    (runs / "damaged").mkdir()
    (runs / "damaged" / "config.toml").write_text("<script>window.hacked=1</script> = [", encoding="utf-8")


@dataclass(frozen=True)
class Studio:
    url: str
    token: str
    runs: Path
    data: Path

    @property
    def entrance(self) -> str:
        return f"{self.url}/studio/?token={self.token}"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studio")
    (folder / "data").mkdir()
    write_data(folder / "data")
    train_all(folder / "data", folder / "runs")
    return folder


@pytest.fixture(scope="session")
def studio(folder: Path) -> Iterator[Studio]:
    listening = _bind(0)
    settings = ServerSettings(port=listening.getsockname()[1])
    app = create_studio(settings, [folder / "runs"], folder / "data")
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.05)
    yield Studio(f"http://127.0.0.1:{settings.port}", settings.token, folder / "runs", folder / "data")
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or os.environ.get("CHROMIUM")
    if program is None:
        pytest.skip("chromium is not installed: make browser")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
        )
        yield opened
        opened.close()


@pytest.fixture
def visit(studio, browser) -> Iterator[Callable[..., Any]]:
    """Open a state of the studio in a fresh browser profile."""
    contexts, troubles = [], []

    def open_page(state: str = "", *, width: int = 1280, dark: bool = False, locale: str = "en-GB") -> Any:
        context = browser.new_context(viewport={"width": width, "height": 860}, color_scheme="dark" if dark else "light", locale=locale)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("console", lambda said: troubles.append(said.text) if said.type == "error" and not page.__dict__.get("quiet") else None)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda asked: troubles.append(asked.url) if not asked.url.startswith((studio.url, "data:", "blob:")) else None)
        page.goto(studio.entrance)
        if state:
            page.goto(f"{studio.url}/studio/{state}")
        wanted = urllib.parse.unquote(state.removeprefix("#/").partition("?")[0])
        until(page, f"document.querySelector('main')?.dataset.state === {json.dumps(wanted)}")
        return page

    yield open_page
    for context in contexts:
        for page in context.pages:
            assert page.evaluate("window.hacked") is None
        context.close()
    assert not troubles
