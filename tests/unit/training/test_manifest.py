"""A finished run whose files are not those that were written never answers in silence."""

import json
import shutil
from pathlib import Path
from random import Random

import pytest
import torch
from safetensors.torch import load_file, save_file

import attentif
from attentif.cli.main import run as command
from attentif.errors import NonFiniteError, UsageError
from attentif.training.manifest import DamagedError, accept_files, find_damage
from attentif.training.progress import Silent

CONFIG = {
    "task": {"kind": "classify"},
    "tokenizer": {"kind": "word"},
    "model": {"base": "encoder-tiny", "width": 16, "layers": 1},
    "train": {"steps": 2, "threads": 1},
}
NEEDED = {"config.toml", "tokenizer.json", "model.safetensors", "task.json"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("data") / "avis.csv"
    rows = [f"film {n} vraiment {word},{label}" for n in range(20) for word, label in (("superbe", "oui"), ("creux", "non"))]
    data.write_text("text,label\n" + "\n".join(rows) + "\n")
    return attentif.train(CONFIG, data, out=tmp_path_factory.mktemp("runs") / "one", watch=Silent()).path


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def test_the_manifest_of_a_finished_run_lists_every_file(trained: Path) -> None:
    listed = json.loads((trained / "manifest.json").read_text())["files"]
    there = {path.name for path in trained.iterdir() if path.is_file()}
    assert set(listed) == there - {"manifest.json", "lock"}
    assert set(listed) >= NEEDED
    assert find_damage(trained) == {}


@pytest.mark.parametrize("name", sorted(NEEDED | {"manifest.json"}))
def test_one_flipped_bit_is_refused_and_the_file_is_named(copied: Path, name: str) -> None:
    data, random = bytearray((copied / name).read_bytes()), Random(0)
    for _ in range(5):
        place, bit = random.randrange(len(data)), 1 << random.randrange(8)
        data[place] ^= bit
        (copied / name).write_bytes(data)
        with pytest.raises(DamagedError, match=name):
            attentif.load(copied)
        data[place] ^= bit


@pytest.mark.parametrize("name", sorted(NEEDED - {"config.toml"} | {"manifest.json"}))
def test_a_missing_file_is_refused_and_named(copied: Path, name: str) -> None:
    (copied / name).unlink()
    with pytest.raises(DamagedError, match=name):
        attentif.load(copied)


def test_files_that_only_people_read_may_be_edited(copied: Path) -> None:
    (copied / "README.md").write_text("my notes")
    attentif.load(copied)
    assert find_damage(copied) == {"README.md": "changed"}


def test_a_run_from_before_checksums_opens_with_a_warning(copied: Path, caplog: pytest.LogCaptureFixture) -> None:
    (copied / "manifest.json").unlink()
    config = copied / "config.toml"
    config.write_text("\n".join(line for line in config.read_text().splitlines() if not line.startswith("format")))
    attentif.load(copied)
    assert "not verified" in caplog.text


def test_verification_can_be_turned_off(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (copied / "task.json").write_text((copied / "task.json").read_text() + " ")
    monkeypatch.setenv("ATTENTIF_VERIFY", "0")
    attentif.load(copied)
    monkeypatch.setenv("ATTENTIF_VERIFY", "yes")
    with pytest.raises(UsageError, match="ATTENTIF_VERIFY"):
        attentif.load(copied)


def test_weights_that_are_not_numbers_give_no_answer(copied: Path) -> None:
    file = copied / "model.safetensors"
    weights = load_file(file)
    name = next(name for name in weights if name.startswith("head"))
    save_file(weights | {name: torch.full_like(weights[name], float("nan"))}, file)
    assert set(accept_files(copied)) == {"model.safetensors"}
    with pytest.raises(NonFiniteError):
        attentif.load(copied).predict(["film superbe"])


def test_the_command_lists_what_differs_and_can_accept_it(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["verify", str(copied)]) == 0
    (copied / "task.json").write_text((copied / "task.json").read_text() + "\n")
    (copied / "report.html").unlink()
    assert command(["verify", str(copied)]) == 1
    printed = capsys.readouterr().out
    assert "task.json: changed" in printed
    assert "report.html: missing" in printed
    assert command(["predict", str(copied), "film superbe"]) == 1
    assert "--accept" in capsys.readouterr().err
    assert command(["verify", str(copied), "--accept"]) == 0
    assert command(["predict", str(copied), "film superbe"]) == 0


def test_an_unfinished_run_cannot_be_verified(copied: Path) -> None:
    for name in ("manifest.json", "results.json"):
        (copied / name).unlink()
    assert command(["verify", str(copied)]) == 1
