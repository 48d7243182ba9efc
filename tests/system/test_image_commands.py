"""The commands as a user types them, on a small folder of pictures."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from attentif.cli.main import run as attentif

pytestmark = pytest.mark.system
SMALL = ["model.width=16", "model.layers=1", "train.steps=20", "train.lr=1e-2", "train.threads=1", "--json"]


def paint(folder: Path, count: int, seed: int) -> None:
    """Noise with a bright bar: lying, or standing."""
    random = np.random.default_rng(seed)
    for number in range(count):
        pixels = random.integers(0, 60, (8, 8), dtype=np.uint8)
        label, place = ("lying", "standing")[number % 2], random.integers(1, 7)
        pixels[place if label == "lying" else slice(None), slice(None) if label == "lying" else place] = 255
        (folder / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / label / f"{number}.png")


def said(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert attentif(list(words)) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of bars, by the recipe of digits."""
    folder = tmp_path_factory.mktemp("bars")
    paint(folder / "bars", 60, 0)
    paint(folder / "others", 10, 1)
    assert attentif(["train", "digits", "--data", str(folder / "bars"), *SMALL, "--out", str(folder / "run")]) == 0
    return folder / "run"


def test_a_folder_of_pictures_is_trained_on_and_compared(run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    assert results["task"] == "image"
    assert [rival["name"]["en"] for rival in results["baselines"]][-1] == "small convolutional network"
    report = (run / "report.html").read_text()
    assert "Matrice de confusion" in report
    assert "L’attention sur l’image" in report
    assert "<title>digits · bars · accuracy " in re.sub(r"<title [^>]*>", "<title>", report)


def test_pictures_and_folders_are_answered(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pictures = sorted(str(path) for path in (run.parent / "others").rglob("*.png"))
    typed = said(capsys, "predict", str(run), *pictures[:2], "--json")
    assert [answer["input"] for answer in typed] == pictures[:2]
    assert {answer["output"] for answer in typed} <= {"lying", "standing"}
    assert attentif(["predict", str(run), pictures[0]]) == 0
    assert capsys.readouterr().out.split()[:3] == ["label", "probabilities", "picture"]
    found = said(capsys, "predict", str(run), "--file", str(run.parent / "others"), "--json")
    assert [answer["input"] for answer in found] == pictures
    assert found[:2] == typed


def test_another_folder_is_scored(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scored = said(capsys, "evaluate", str(run), "--data", str(run.parent / "others"), "--json")
    assert scored["examples"] == 10
    own = said(capsys, "evaluate", str(run), "--json")
    results = json.loads((run / "results.json").read_text())
    assert own["scores"]["accuracy"] == results["scores"]["accuracy"]


def test_attention_is_shown_over_the_picture(run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = next((run.parent / "others").rglob("*.png"))
    assert attentif(["maps", str(run), str(picture), "--out", str(tmp_path / "maps.html")]) == 0
    page = (tmp_path / "maps.html").read_text()
    assert "Attention over the picture" in page
    assert "data:image/png;base64," in page
    assert "Plotly" in page


def test_what_is_no_picture_is_said_in_a_line(run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("no picture")
    assert attentif(["predict", str(run), str(tmp_path / "a.png")]) == 1
    assert capsys.readouterr().err == f"error: {tmp_path / 'a.png'}: is not a readable picture, or its beginning is damaged\n"
    assert attentif(["train", "digits", "--data", str(tmp_path / "none"), "--out", str(tmp_path / "run")]) == 1
    assert "no such file or folder" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_recipe_of_mnist_reads_idx_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(0)
    for name, count in (("train", 40), ("t10k", 12)):
        arrays = {"images-idx3": random.integers(0, 256, (count, 8, 8)), "labels-idx1": np.arange(count) % 2}
        for kind, array in arrays.items():
            header = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
            (tmp_path / f"{name}-{kind}-ubyte").write_bytes(header + array.astype(np.uint8).tobytes())
    results = said(capsys, "train", "mnist", "--data", str(tmp_path), *SMALL, "train.steps=2", "--out", str(tmp_path / "run"))
    assert results["examples"] == 12
    assert attentif(["train", "mnist", "data.train=nowhere"]) == 1
    assert capsys.readouterr().err.endswith("nowhere: no such file or folder\n")
