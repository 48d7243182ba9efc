"""Cached numbers are those of this very program: an edit of any source file asks for new ones."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from attentif.config import Layer
from attentif.lab import sources
from attentif.lab.compare.cache_key import RunSpec
from attentif.lab.experiment import Settings
from attentif.lab.experiments import EXPERIMENTS
from attentif.lab.results import load_result, measure, satisfies, save_result
from attentif.lab.sources import hash_sources
from attentif.training.load import run_config
from attentif.training.progress import Silent

RUN = {
    "data": {"name": "reviews"},
    "task": {"kind": "classify"},
    "tokenizer": {"kind": "word"},
    "model": {"base": "encoder-tiny"},
    "train": {"steps": 10},
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package, which cache keys are made of."""
    copy = tmp_path / "attentif"
    shutil.copytree(sources.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sources, "PACKAGE", copy)
    monkeypatch.setenv("ATTENTIF_CACHE", str(tmp_path / "cache"))
    hash_sources.cache_clear()
    return copy


def edit(path: Path) -> None:
    """As a new process finds it after an edit."""
    assert path.is_file()
    path.write_text(path.read_text(encoding="utf-8") + "# edited\n", encoding="utf-8")
    hash_sources.cache_clear()


@pytest.mark.parametrize("file", ["nn/norm.py", "training/loop.py", "models/presets/encoder-tiny.toml"])
def test_a_cached_run_is_not_served_after_an_edit(file: str, package: Path, tmp_path: Path) -> None:
    config = run_config(Layer(RUN, "test"))
    first = RunSpec("label", "encoder-0", tmp_path / "a", config, "data")
    first.folder.path.mkdir(parents=True)
    for name in ("config.toml", "model.safetensors", "results.json"):
        (first.folder.path / name).write_text("{}")
    first.publish()
    assert replace(first, within=tmp_path / "b").fetch() is not None
    edit(package / file)
    assert replace(first, within=tmp_path / "c").fetch() is None
    assert not replace(first).done


def test_a_result_of_the_laboratory_is_not_served_after_an_edit(package: Path, tmp_path: Path) -> None:
    experiment, settings = EXPERIMENTS["L5"], Settings(size="tiny")
    save_result(measure(experiment, settings, Silent()), tmp_path)
    assert satisfies(load_result(experiment, tmp_path), settings)
    edit(package / "lab" / "exact.py")
    assert not satisfies(load_result(experiment, tmp_path), settings)


def test_a_renamed_source_file_is_another_program_and_compiled_files_do_not_count(package: Path) -> None:
    before = hash_sources(package)
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "config.pyc").write_bytes(b"x")
    hash_sources.cache_clear()
    assert hash_sources(package) == before
    (package / "errors.py").rename(package / "faults.py")
    hash_sources.cache_clear()
    assert hash_sources(package) != before
