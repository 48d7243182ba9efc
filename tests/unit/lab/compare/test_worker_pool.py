"""Processes side by side: what becomes of those that fail, and what the user sees meanwhile."""

import io
import time
from pathlib import Path

import pytest

from attentif.lab.compare.board import BarBoard, PlainBoard, SilentBoard, board
from attentif.lab.compare.worker_pool import JobResult, WorkerJob, WorkerPool


def done(jobs: int, *jobs_to_run: WorkerJob) -> dict[str, JobResult]:
    return {ended.job.label: ended for ended in WorkerPool(jobs, SilentBoard()).run(jobs_to_run)}


def plugin(folder: Path, name: str, code: str) -> WorkerJob:
    """A process whose first act is to import this file."""
    (folder / name).write_text(code)
    return WorkerJob(name, {"kind": "train", "plugins": [str(folder / name)]})


def test_a_process_that_fails_says_why_and_does_not_stop_the_others(tmp_path: Path) -> None:
    ends = done(
        2,
        plugin(tmp_path, "killed.py", "import os; os.kill(os.getpid(), 9)"),
        plugin(tmp_path, "left.py", "import os, sys; print('no more', file=sys.stderr, flush=True); os._exit(3)"),
        plugin(tmp_path, "wrong.py", "from attentif.errors import RunError\nraise RunError('the loss is not finite')"),
        WorkerJob("unknown", {"kind": "nothing", "plugins": []}),
    )
    assert ends["killed.py"].error == (
        "the process was killed; where memory is short, the system does that: try a smaller model, or --jobs 1"
    )
    assert ends["left.py"].error == "the process ended with code 3: no more"
    assert ends["wrong.py"].error == "the loss is not finite"
    assert ends["unknown"].error == "KeyError: 'nothing'"
    assert {name for name, ended in ends.items() if ended.fault} == {"killed.py", "left.py", "unknown"}


def test_no_module_of_the_working_directory_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Downloaded data may lie beside a file called tqdm.py."""
    for name in ("json", "numpy", "tqdm"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    ends = done(1, plugin(tmp_path, "mine.py", "import json, numpy, tqdm\nraise ValueError('loaded')"))
    assert ends["mine.py"].error is not None
    assert "loaded" in ends["mine.py"].error
    assert not (tmp_path / "executed").exists()


def test_whoever_stops_listening_leaves_no_process_behind(tmp_path: Path) -> None:
    pool = WorkerPool(2, SilentBoard())
    ends = pool.run([plugin(tmp_path, "quick.py", "raise ValueError('x')"), plugin(tmp_path, "slow.py", "import time; time.sleep(600)")])
    began = time.monotonic()
    assert next(ends).job.label == "quick.py"
    (slow,) = pool.running
    ends.close()
    assert slow.child.returncode is not None
    assert time.monotonic() - began < 60


def test_a_log_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 5.0, 25.0])
    monkeypatch.setattr("attentif.lab.compare.board.time.monotonic", lambda: next(clock))
    stream = io.StringIO()
    lines = PlainBoard(stream)
    for step in (1, 2, 3):
        lines.move("lstm, seed 0", step, 10, "loss 1.0")
    lines.leave("lstm, seed 0")
    assert stream.getvalue() == "lstm, seed 0: 3/10 loss 1.0\n"


def test_a_terminal_gets_a_bar_for_each_run_and_lines_that_stay() -> None:
    stream = io.StringIO()
    bars = BarBoard(stream)
    bars.move("lstm", 1, 10, "loss 1.0")
    bars.move("mamba", 2, 10, "loss 2.0")
    bars.leave("lstm")
    bars.say("run 1 of 2: [done]")
    assert list(bars.lines) == ["mamba"]
    bars.close()
    assert "run 1 of 2: [done]" in stream.getvalue()


def test_machines_get_nothing_and_pipes_get_lines() -> None:
    assert isinstance(board(machine=True), SilentBoard)
    assert isinstance(board(stream=io.StringIO()), PlainBoard)
