"""No space left: one line that names the file, exit code 1, nothing half-written."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from terminal import typed

from attentif.api import train
from attentif.errors import RunError
from attentif.files import name_full_disk, write_text
from attentif.training.progress import Silent

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full on this system")
def test_output_to_a_full_disk_is_one_line() -> None:
    with FULL.open("w") as full:
        done = subprocess.run([sys.executable, "-m", "attentif", "list"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: output: no space left")
    assert done.stderr.count("\n") == 1


def fail_writing(handle: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_file_is_named_and_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", fail_writing)
    with pytest.raises(RunError, match="no space left") as caught:
        write_text(tmp_path / "config.toml", "x = 1")
    assert caught.value.file == tmp_path / "config.toml"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command", [["train", "ngram", "--out", "run"], ["tokenizer", "train", "t.txt", "--vocab", "300", "--out", "t.json"]]
)
def test_a_command_on_a_full_disk_says_so_in_one_line_and_leaves_nothing(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.txt").write_text("un chat gris dort\n" * 50, encoding="utf-8")
    monkeypatch.setattr(os, "fsync", fail_writing)
    done = typed(*command)
    assert done.code == 1
    assert "no space left" in done.err.lower().splitlines()[-1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.txt"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, the same as a Hugging Face folder, and a file of rows."""
    folder = tmp_path_factory.mktemp("full")
    rows = [{"text": f"film {'bon' if n % 2 else 'mauvais'} {n % 7}", "label": "+" if n % 2 else "-"} for n in range(60)]
    settings = {"epochs": 0, "min_steps": 0, "steps": 2, "baselines": False}
    model = {"base": "esm-tiny", "layers": 1, "width": 64}
    train("reviews", data=rows, out=folder / "run", train=settings, model=model, watch=Silent())
    assert typed("export", str(folder / "run"), "--to", "hf", str(folder / "hf")).code == 0
    (folder / "rows.csv").write_text("text\nfilm bon\nfilm mauvais\n")
    return folder


@pytest.mark.parametrize(
    "words",
    [
        "import hf new",
        "export run --to hf new",
        "quantize run new",
        "predict run --file rows.csv --out new.csv",
        "embed run rows.csv --text text --out new.npz",
    ],
)
def test_a_command_that_uses_a_run_does_so_too(words: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    before = sorted(path.name for path in place.iterdir())
    monkeypatch.setattr(os, "fsync", fail_writing)
    done = typed(*words.split())
    assert done.code == 1
    assert "no space left" in done.err.lower().splitlines()[-1]
    assert sorted(path.name for path in place.iterdir()) == before


def test_the_outermost_name_is_said() -> None:
    with pytest.raises(RunError) as caught, name_full_disk(Path("runs/a")), name_full_disk(Path("runs/.a.tmp/weights")):
        fail_writing(0)
    assert caught.value.file == Path("runs/a")
