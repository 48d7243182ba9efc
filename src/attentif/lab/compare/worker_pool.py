"""A pool of worker processes, one per job, a limited number at a time.

A failing process does not stop the others. Ctrl-C (or SIGTERM) asks all of them to save and exit, and waits for them. They exit by
themselves when this process dies: each holds the other end of a pipe to it (see `worker`).
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
from functools import partial
from typing import IO, Any, Protocol
from uuid import uuid4

from attentif.cluster import Cluster
from attentif.lab.compare.board import Board

PATIENCE = 60.0  # seconds for the processes to save and leave
LISTENING = 0.2  # seconds: how soon a signal is noticed


# -P: no module of the working directory is imported
COMMAND = [sys.executable, "-P", "-m", "attentif.lab.compare.worker"]


@dataclass(frozen=True)
class WorkerJob:
    """A job for one process; `order` is sent to it as JSON."""

    label: str
    order: dict[str, Any]


@dataclass(frozen=True)
class JobResult:
    """The result of a job, or its error message."""

    job: WorkerJob
    result: Any = None
    error: str | None = None
    fault: bool = False  # not of the configuration or the data: the process was killed, memory was short, the program broke


@dataclass
class _Process:
    job: WorkerJob
    child: subprocess.Popen[bytes]
    errors: IO[bytes]
    listener: threading.Thread = field(init=False)
    last: dict[str, Any] = field(default_factory=dict)  # its last word: the result or the error

    def close(self) -> None:
        for stream in (self.child.stdin, self.child.stdout, self.errors):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


class Pool(Protocol):
    """What runs jobs: processes of this machine, or a cluster."""

    def run(self, jobs: Iterable[WorkerJob]) -> Generator[JobResult]: ...


class ClusterPool:
    """The same on the workers of a cluster, a process for each job. A lost worker's job goes on elsewhere, from its checkpoint."""

    def __init__(self, cluster: Cluster, board: Board) -> None:
        self.cluster, self.board = cluster, board

    def run(self, jobs: Iterable[WorkerJob]) -> Generator[JobResult]:
        topic = f"attentif-{uuid4().hex}"
        moved = lambda event: self.board.move(*event[1])
        self.cluster.client.subscribe_topic(topic, moved)
        try:
            for job, outcome in self.cluster.map_completed(partial(run_remotely, topic), list(jobs)):
                last = outcome.value or {"error": outcome.error[1] if outcome.error else "the worker ended without a word", "fault": True}
                self.board.leave(job.label)
                yield JobResult(job, last.get("result"), last.get("error"), bool(last.get("fault")))
        finally:
            self.cluster.client.unsubscribe_topic(topic)


def run_remotely(topic: str, job: WorkerJob) -> dict[str, Any]:
    """One job in a process of its own, on the worker of a cluster; the last that it says."""
    from distributed import get_worker

    worker, last = get_worker(), dict[str, Any]()
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(job.order).encode() + b"\n")
        child.stdin.flush()  # and left open: where this worker dies, the child sees it closed, and ends
        for line in child.stdout:
            message = json.loads(line)
            if "result" in message or "error" in message:
                last = message
            else:
                worker.log_event(topic, (job.label, message["done"], message["total"], message["words"]))
    return last or {"error": f"the process ended with code {child.returncode}", "fault": True}


class WorkerPool:
    """`for ended in WorkerPool(2, board).run(jobs): ...`, in the order in which they end."""

    def __init__(self, jobs: int, board: Board) -> None:
        self.jobs, self.board = jobs, board
        self.messages: queue.Queue[tuple[_Process, dict[str, Any] | None]] = queue.Queue()
        self.running: list[_Process] = []

    def run(self, jobs: Iterable[WorkerJob]) -> Generator[JobResult]:
        waiting = list(jobs)
        try:
            while waiting or self.running:
                while waiting and len(self.running) < self.jobs:
                    self.running.append(self._start(waiting.pop(0)))
                try:
                    process, message = self.messages.get(timeout=LISTENING)
                except queue.Empty:
                    continue
                if message is not None:
                    self._note(process, message)
                    continue
                self.running.remove(process)
                self.board.leave(process.job.label)
                yield self._result(process)
        finally:
            self._stop()

    def _start(self, job: WorkerJob) -> _Process:
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        child = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=os.environ | {"PYTHONIOENCODING": "utf-8"},
            start_new_session=True,  # Ctrl-C comes from us, in order, not from the terminal
        )
        process = _Process(job, child, errors)
        process.listener = threading.Thread(target=self._listen, args=(process,), daemon=True)
        assert child.stdin is not None
        child.stdin.write(json.dumps(job.order).encode() + b"\n")
        child.stdin.flush()
        process.listener.start()
        return process

    def _listen(self, process: _Process) -> None:
        assert process.child.stdout is not None
        for line in process.child.stdout:
            try:
                self.messages.put((process, json.loads(line)))
            except ValueError:
                continue  # torn: the process was killed while it wrote
        process.child.wait()
        self.messages.put((process, None))

    def _note(self, process: _Process, message: dict[str, Any]) -> None:
        if "result" in message or "error" in message:
            process.last = message
        else:
            self.board.move(process.job.label, message["done"], message["total"], message["words"])

    def _result(self, process: _Process) -> JobResult:
        code, last = process.child.returncode, process.last
        error, fault = last.get("error"), bool(last.get("fault"))
        if "result" not in last and error is None:
            error, fault = self._describe_exit(process, code), True
        process.close()
        return JobResult(process.job, last.get("result"), error, fault)

    def _describe_exit(self, process: _Process, code: int) -> str:
        """Describe the exit of a process that reported nothing."""
        if code == -9:  # SIGKILL
            return "the process was killed; where memory is short, the system does that: try a smaller model, or --jobs 1"
        process.errors.seek(0)
        lines = process.errors.read().decode("utf-8", "replace").strip().splitlines()
        return f"the process ended with code {code}" + (f": {lines[-1]}" if lines else "")

    def _stop(self) -> None:
        """Ask running processes to save and exit; kill those that do not."""
        for process in self.running:
            process.child.terminate()
        until = time.monotonic() + PATIENCE
        try:
            for process in self.running:
                process.child.wait(max(0.1, until - time.monotonic()))
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            for process in self.running:
                process.child.kill()
                process.child.wait()
        for process in self.running:
            process.listener.join()
            process.close()
        self.running = []
