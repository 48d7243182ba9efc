"""Folders and names: what is there is taken, what is a name is looked for, and a typing error is no name."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError
from huggingface_hub.utils import filter_repo_objects

from attentif.api import import_model
from attentif.errors import RunError
from attentif.hub.files import CONFIG, INDEX, WEIGHTS, refuse_outer_links
from attentif.hub.source import READ, UNREAD, folder_of
from attentif.hub.styles import STYLES
from attentif.text.chat_template import FILE as CHAT


def test_a_link_out_of_a_folder_is_not_followed_by_an_import(tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret", tmp_path / "model"
    secret.write_text("mot de passe")
    folder.mkdir()
    (folder / CONFIG).write_text("{}")
    (folder / CHAT).symlink_to(secret)
    with pytest.raises(RunError, match="symbolic link") as caught:
        import_model(folder, tmp_path / "run")
    assert caught.value.file == folder / CHAT
    assert not (tmp_path / "run").exists()


def test_links_of_the_cache_stay_within_their_model(tmp_path: Path) -> None:
    blob, snapshot = tmp_path / "models--a--b" / "blobs" / "1f", tmp_path / "models--a--b" / "snapshots" / "main"
    blob.parent.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    blob.write_text("{}")
    (snapshot / CONFIG).symlink_to("../../blobs/1f")
    refuse_outer_links(snapshot)


def test_a_folder_is_itself(tmp_path: Path) -> None:
    assert folder_of(tmp_path) == tmp_path


@pytest.mark.parametrize("name", ["typo", "runs/typo", "a/b/c", "../x/y"])
def test_a_typing_error_is_not_looked_for_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: pytest.fail("was looked for"))
    with pytest.raises(RunError, match=r"run.*folder"):
        folder_of(name)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("shards", [False, True])
def test_the_cache_comes_before_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool, shards: bool) -> None:
    calls: list[dict[str, Any]] = []

    def download(name: str, **options: Any) -> str:
        calls.append({"name": name} | options)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    (tmp_path / "config.json").touch()
    if shards:
        (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}')
        (tmp_path / "1.safetensors").touch()
    if whole:
        (tmp_path / ("2.safetensors" if shards else "model.safetensors")).touch()
    assert folder_of("org/name@v1") == tmp_path
    assert [call["name"] for call in calls] == ["org/name"] * (1 if whole else 2)
    assert all(call["revision"] == "v1" for call in calls)
    assert calls[0]["local_files_only"]
    if not whole:  # another program had fetched a part of it
        assert not {"*.bin", "*.py"} & {*calls[1]["allow_patterns"]}


@pytest.mark.parametrize("name", ["org/name", "runs/none"])  # a model's name, or a run's that was mistyped: both are said
def test_without_network_and_cache_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    monkeypatch.chdir(tmp_path)

    def download(name: str, **options: Any) -> str:
        raise LocalEntryNotFoundError("no\nnetwork") if options.get("local_files_only") else ConnectionError("no\nnetwork")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(RunError) as caught:
        folder_of(name)
    assert str(caught.value).startswith(f"{name}: cannot be downloaded (ConnectionError); there is no such folder here, nor such a model")
    assert "in the cache" in str(caught.value)
    assert "look at the path again" in str(caught.value)
    assert f"`hf download {name} --local-dir {name.split('/')[1]}`, and give that folder" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "file",
    [
        *sorted({file for style in STYLES.values() for file in style.files}),
        "target.spm",
        CONFIG,
        WEIGHTS,
        INDEX,
        "1_Pooling/config.json",
        CHAT,
    ],
)
def test_all_that_is_read_is_downloaded(file: str) -> None:
    assert [*filter_repo_objects([file, "pytorch_model.bin", "modeling.py"], allow_patterns=READ, ignore_patterns=UNREAD)] == [file]


def test_reading_a_folder_does_not_import_the_library_of_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace())
    assert folder_of(tmp_path) == tmp_path


@pytest.mark.parametrize("kept_as", ["camembert-base", "almanach/camembert-base"])
def test_a_short_name_is_found_in_the_cache_under_either_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kept_as: str) -> None:
    (tmp_path / "config.json").touch()
    (tmp_path / "model.safetensors").touch()

    def download(name: str, **options: Any) -> str:
        assert options.get("local_files_only"), "the network was asked"
        if name != kept_as:
            raise LocalEntryNotFoundError("not here")
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert folder_of("camembert-base") == tmp_path


def test_a_short_name_that_is_in_no_cache_is_asked_for_by_its_full_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    asked: list[str] = []

    def download(name: str, **options: Any) -> str:
        if options.get("local_files_only"):
            raise LocalEntryNotFoundError("not here")
        asked.append(name)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert folder_of("bert-base-multilingual-cased@main") == tmp_path
    assert asked == ["google-bert/bert-base-multilingual-cased"]
