"""A running server with small models, for all tests of this folder."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from running import KEY, Server, start

import attentif
from attentif.training.progress import Silent

TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a language model (`lang`), the same with a chat template (`talk`), and a classifier (`avis`)."""
    folder = tmp_path_factory.mktemp("served")
    words = [("superbe", "oui"), ("drôle", "oui"), ("creux", "non"), ("raté", "non")]
    lines = [(f"{what} numéro {n} est {word}", label) for what in ("le film", "ce roman") for n in range(12) for word, label in words]
    (folder / "texte.txt").write_text("\n".join(text for text, _ in lines) + "\n")
    (folder / "avis.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in lines))
    small = {"model": {"width": 32, "layers": 2}, "train": {"steps": 8, "eval_every": 8, "threads": 1}}
    language = {"task": {"kind": "language", "context": 64}, "tokenizer": {"kind": "char"}} | small
    language |= {"model": {"base": "decoder-tiny"} | small["model"]}
    classify = {"task": {"kind": "classify"}, "tokenizer": {"kind": "word"}} | small | {"model": {"base": "encoder-tiny"} | small["model"]}
    attentif.train(language, folder / "texte.txt", out=folder / "lang", watch=Silent())
    shutil.copytree(folder / "lang", folder / "talk")
    (folder / "talk" / "chat_template.jinja").write_text(TEMPLATE)
    attentif.train(classify, folder / "avis.csv", out=folder / "avis", watch=Silent())
    return folder


@pytest.fixture(scope="session")
def server(models: Path) -> Iterator[Server]:
    found = start(models, "lang", "talk", "avis", key=KEY)
    try:
        found.wait()
        yield found
    finally:
        found.stop()


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers=server.headers, timeout=30) as client:
        yield client
