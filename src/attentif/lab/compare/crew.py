"""Processes side by side, one for each piece of work, so many at a time.

A process that fails does not stop the others. Ctrl-C (or SIGTERM) asks all of them to save and leave, and waits until they have. They end
by themselves when this process is killed: each holds the other end of a pipe to it (see `worker`).
"""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from attentif.lab.compare.board import Board

PATIENCE = 60.0  # seconds for the processes to save and leave
LISTENING = 0.2  # seconds: how soon a signal is noticed


@dataclass(frozen=True)
class Work:
    """What one process is to do: `order` goes to it as JSON."""

    label: str
    order: dict[str, Any]


@dataclass(frozen=True)
class Ended:
    """What came of it: a result, or an error in words."""

    work: Work
    result: Any = None
    error: str | None = None
    fault: bool = False  # not of the configuration or the data: the process was killed, memory was short, the program broke


@dataclass
class _Process:
    work: Work
    child: subprocess.Popen[bytes]
    errors: IO[bytes]
    listener: threading.Thread = field(init=False)
    last: dict[str, Any] = field(default_factory=dict)  # its last word: the result or the error

    def close(self) -> None:
        for stream in (self.child.stdin, self.child.stdout, self.errors):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


class Crew:
    """`for ended in Crew(2, board).do(works): ...`, in the order in which they end."""

    def __init__(self, jobs: int, board: Board) -> None:
        self.jobs, self.board = jobs, board
        self.heard: queue.Queue[tuple[_Process, dict[str, Any] | None]] = queue.Queue()
        self.going: list[_Process] = []

    def do(self, works: Iterable[Work]) -> Generator[Ended]:
        waiting = list(works)
        try:
            while waiting or self.going:
                while waiting and len(self.going) < self.jobs:
                    self.going.append(self._start(waiting.pop(0)))
                try:
                    process, news = self.heard.get(timeout=LISTENING)
                except queue.Empty:
                    continue
                if news is not None:
                    self._note(process, news)
                    continue
                self.going.remove(process)
                self.board.leave(process.work.label)
                yield self._ended(process)
        finally:
            self._stop()

    def _start(self, work: Work) -> _Process:
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "attentif.lab.compare.worker"],  # -P: no module of the working directory is imported
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=os.environ | {"PYTHONIOENCODING": "utf-8"},
            start_new_session=True,  # Ctrl-C comes from us, in order, not from the terminal
        )
        process = _Process(work, child, errors)
        process.listener = threading.Thread(target=self._listen, args=(process,), daemon=True)
        assert child.stdin is not None
        child.stdin.write(json.dumps(work.order).encode() + b"\n")
        child.stdin.flush()
        process.listener.start()
        return process

    def _listen(self, process: _Process) -> None:
        assert process.child.stdout is not None
        for line in process.child.stdout:
            try:
                self.heard.put((process, json.loads(line)))
            except ValueError:
                continue  # torn: the process was killed while it wrote
        process.child.wait()
        self.heard.put((process, None))

    def _note(self, process: _Process, news: dict[str, Any]) -> None:
        if "result" in news or "error" in news:
            process.last = news
        else:
            self.board.move(process.work.label, news["done"], news["total"], news["words"])

    def _ended(self, process: _Process) -> Ended:
        code, last = process.child.returncode, process.last
        error, fault = last.get("error"), bool(last.get("fault"))
        if "result" not in last and error is None:
            error, fault = self._silent_end(process, code), True
        process.close()
        return Ended(process.work, last.get("result"), error, fault)

    def _silent_end(self, process: _Process, code: int) -> str:
        """A process that ended without a word: killed, by the system where memory is short."""
        if code == -9:  # SIGKILL
            return "the process was killed; where memory is short, the system does that: try a smaller model, or --jobs 1"
        process.errors.seek(0)
        said = process.errors.read().decode("utf-8", "replace").strip().splitlines()
        return f"the process ended with code {code}" + (f": {said[-1]}" if said else "")

    def _stop(self) -> None:
        """Ask what still goes on to save and leave; whoever does not is ended."""
        for process in self.going:
            process.child.terminate()
        until = time.monotonic() + PATIENCE
        try:
            for process in self.going:
                process.child.wait(max(0.1, until - time.monotonic()))
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            for process in self.going:
                process.child.kill()
                process.child.wait()
        for process in self.going:
            process.listener.join()
            process.close()
        self.going = []
