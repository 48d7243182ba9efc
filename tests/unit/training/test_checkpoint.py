import json

import pytest
import torch

from attentif.errors import RunError
from attentif.training.checkpoint import Checkpoint, Checkpoints, DamagedError, read, verify
from attentif.training.manifest import render_manifest


def checkpoint(step):
    torch.manual_seed(step)
    return Checkpoint(
        step, {"step": step, "seconds": 0.1}, {"model": {"w": torch.randn(3, 4)}, "optimizer": {"0.0.step": torch.tensor(7.0)}}
    )


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_was_saved_is_read_back(tmp_path):
    saved = checkpoint(5)
    found = read(Checkpoints(tmp_path).save(saved))
    assert (found.step, found.state) == (5, saved.state)
    assert torch.equal(found.tensors["model"]["w"], saved.tensors["model"]["w"])
    assert torch.equal(found.tensors["optimizer"]["0.0.step"], torch.tensor(7.0))


def test_the_oldest_go_once_the_new_one_is_in_place(tmp_path):
    store = Checkpoints(tmp_path, keep=2)
    for step in (1, 2, 3):
        store.save(checkpoint(step))
    assert names(tmp_path) == ["step-00000002", "step-00000003"]


def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch):
    store = Checkpoints(tmp_path, keep=1)
    store.save(checkpoint(1))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("attentif.training.checkpoint.write_tensors", full)
    with pytest.raises(RunError, match="No space left"):
        store.save(checkpoint(2))
    assert names(tmp_path) == ["step-00000001"]
    verify(tmp_path / "step-00000001")


def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_is_used(tmp_path):
    store, said = Checkpoints(tmp_path, keep=3), []
    for step in (1, 2, 3):
        store.save(checkpoint(step))
    (tmp_path / "step-00000003" / "state.json").write_text("{}")
    (tmp_path / "step-00000002" / "manifest.json").unlink()
    assert store.latest(said.append).name == "step-00000001"
    assert names(tmp_path) == ["step-00000001", "step-00000002.damaged", "step-00000003.damaged"]
    assert len(said) == 2
    assert "step-00000003" in said[0]


def test_a_second_damaged_checkpoint_of_the_same_step_does_not_replace_the_first(tmp_path):
    store = Checkpoints(tmp_path)
    for _ in range(2):
        (store.save(checkpoint(1)) / "state.json").write_text("{}")
        assert store.latest(lambda line: None) is None
    assert names(tmp_path) == ["step-00000001.damaged", "step-00000001.damaged-2"]


def test_looking_for_sound_ones_changes_nothing(tmp_path):
    store = Checkpoints(tmp_path)
    for step in (1, 2):
        store.save(checkpoint(step))
    (tmp_path / "step-00000002" / "state.json").write_text("{}")
    assert [path.name for path in store.sound()] == ["step-00000001"]
    assert names(tmp_path) == ["step-00000001", "step-00000002"]


def test_a_checkpoint_under_another_steps_name_is_damaged(tmp_path):
    path = Checkpoints(tmp_path).save(checkpoint(1))
    with pytest.raises(DamagedError):
        verify(path.rename(tmp_path / "step-00000009"))


def test_a_newer_format_is_said_and_not_taken_for_damage(tmp_path):
    store = Checkpoints(tmp_path)
    manifest = store.save(checkpoint(1)) / "manifest.json"
    values = json.loads(manifest.read_text())
    values.pop("sha256")
    manifest.write_text(render_manifest(values | {"version": 99}))
    with pytest.raises(RunError, match="version 99"):
        store.latest(lambda line: None)
    assert names(tmp_path) == ["step-00000001"]


def test_leftovers_of_a_killed_writer_are_removed(tmp_path):
    store = Checkpoints(tmp_path)
    store.save(checkpoint(1))
    (tmp_path / ".step-00000002.77.tmp").mkdir()
    (tmp_path / ".step-00000002.77.tmp" / "model.safetensors").write_bytes(b"half")
    store.clean()
    assert names(tmp_path) == ["step-00000001"]
