import os
import subprocess
import sys

import pytest

from attentif.errors import RunError, UsageError
from attentif.files import writer_name
from attentif.training.rundir import RunFolder, create, read_results


def fill(folder):
    (folder / "config.toml").write_text("")


def test_runs_are_numbered_and_never_overwritten(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [str(create(None, "toy", fill).path) for _ in range(3)] == ["runs/toy-1", "runs/toy-2", "runs/toy-3"]
    (tmp_path / "runs" / "toy-2").rename(tmp_path / "gone")
    assert str(create(None, "toy", fill).path) == "runs/toy-4"
    assert str(create(None, "toy-x", fill).path) == "runs/toy-x-1"


def test_an_existing_run_is_replaced_only_by_force(tmp_path):
    out = tmp_path / "run"
    create(out, "toy", fill)
    (out / "old").touch()
    with pytest.raises(UsageError, match="--force"):
        create(out, "toy", fill)
    assert (out / "old").exists()
    create(out, "toy", fill, force=True)
    assert not (out / "old").exists()
    assert os.listdir(tmp_path) == ["run"]


def test_a_folder_that_is_no_run_is_never_replaced(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").touch()
    with pytest.raises(UsageError, match="is not a run"):
        create(tmp_path / "thesis", "toy", fill, force=True)


def test_a_run_that_is_being_written_is_not_replaced_even_by_force(tmp_path):
    run = create(tmp_path / "run", "toy", fill)
    with run.writing(), pytest.raises(RunError, match="is writing this run"):
        create(tmp_path / "run", "toy", fill, force=True)
    assert os.listdir(tmp_path) == ["run"]


def test_a_run_that_cannot_be_filled_leaves_nothing(tmp_path):
    def fail(folder):
        fill(folder)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        create(tmp_path / "run", "toy", fail)
    assert os.listdir(tmp_path) == []


def test_what_is_not_a_run_is_not_opened(tmp_path):
    with pytest.raises(RunError, match="no such run"):
        RunFolder.open(tmp_path / "none")
    with pytest.raises(RunError, match="is not a run"):
        RunFolder.open(tmp_path)


def test_a_writer_removes_what_a_killed_one_left(tmp_path):
    run = create(tmp_path / "run", "toy", fill)
    (run.path / ".report.html.7.tmp").touch()
    (run.path / ".tmp8VPTUh").touch()  # safetensors writes so, beside the file that it makes
    with run.writing():
        assert sorted(os.listdir(run.path)) == ["config.toml", "lock"]


@pytest.mark.parametrize("damage", ["", "{", "3", "[1]"])
def test_damaged_results_are_refused_with_the_way_out(tmp_path, damage):
    (tmp_path / "results.json").write_text(damage)
    with pytest.raises(RunError, match=r"results.json"):
        read_results(RunFolder(tmp_path))


def left_behind(name, process):
    """The name of a temporary folder of some process of this machine."""
    return f".{name}.{process}@{writer_name().partition('@')[2]}"


def dead_process():
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_writes_is_not(tmp_path):
    dead, living = (tmp_path / f"{left_behind('run', process)}.abc.tmp" for process in (dead_process(), os.getpid()))
    elsewhere = tmp_path / ".run.1@another-machine.abc.tmp"
    for path in (dead, living, elsewhere):
        path.mkdir()
    create(tmp_path / "other", "toy", fill)
    assert not dead.exists()
    assert living.exists()
    assert elsewhere.exists()


def test_a_run_that_was_being_replaced_when_its_writer_was_killed_is_put_back(tmp_path):
    create(tmp_path / "run", "toy", fill)
    (tmp_path / "run").rename(tmp_path / f"{left_behind('run', dead_process())}.old.tmp")
    assert RunFolder.open(tmp_path / "run").config.is_file()
    assert os.listdir(tmp_path) == ["run"]
