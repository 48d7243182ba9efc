"""Heartbeats of the processes of a run: detect the one that died or hangs, so that the others stop and name it.

Each process has a thread that writes [beats, calls, waiting, farewell] to the store of the process group every second and reads the
others'. `calls` counts what its main thread has come to: collective operations, batches of a step or of an evaluation; `waiting` says that
it is inside of one. Where all come to nothing for `train.stall` minutes, the one that is behind, or does not wait, hangs.
Whoever no longer beats is dead, or on a machine that is. A process that leaves says so first.
"""

import json
import os
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import torch.distributed as dist

from attentif.errors import RunError

EVERY = 1.0  # seconds between two beats
SILENT = 60  # beats of ours without one of theirs: a machine that is gone; a killed process is noticed through its closed connections
LOOKING = 8.0  # seconds to find out who closed a connection


class RankLostError(RunError):
    """Another process of the run died or hangs. One of the processes that notice reports it."""

    code = "process-lost"

    def __init__(self, message: str, *, quiet: bool) -> None:
        super().__init__(message)
        self.quiet = quiet


@dataclass
class ProcessStatus:
    """Last status of a process, and for how many of our own beats it has not changed."""

    beats: int = -1
    calls: int = -1
    waiting: bool = False
    farewell: str | None = None  # why it left; "" where it was done
    who: str = ""
    silent: int = 0
    idle: int = 0


@dataclass
class Heartbeat:
    """The thread of one process. Its clock is its own beats: a run whose processes are all suspended and woken loses none of them."""

    store: Any
    rank: int
    world: int
    limit: float = 0.0  # seconds after which a process that is behind hangs; 0: not yet, the data are being read
    resume: str = ""  # how to go on, once there is a run
    calls: int = 0
    beats: int = 0
    farewell: str | None = None
    seen: dict[int, ProcessStatus] = field(default_factory=dict)

    def start(self) -> None:
        self.main = threading.get_ident()
        self.lock, self.stopped = threading.Lock(), threading.Event()
        self.seen = {rank: ProcessStatus() for rank in range(self.world)}
        self._write()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def listen(self) -> None:
        """Read the others' heartbeats, once every process has written one (reading a missing key would block)."""
        self.thread.start()

    def tick(self) -> None:
        self.calls += 1

    def leave(self, why: str) -> None:
        """Announce the end of this process, so that the others do not take it for a crash."""
        self.farewell = why
        self.stopped.set()
        try:
            self._write()
        except (RuntimeError, dist.DistError):
            return  # the store is gone: nobody is left to tell

    def blame(self) -> RankLostError:
        """The process that closed its connections: one that announced its end, or one without heartbeats."""
        until = time.monotonic() + LOOKING
        while time.monotonic() < until:
            with self.lock:
                left = [rank for rank, seen in self.seen.items() if seen.farewell and rank != self.rank]
                dead = [rank for rank, seen in self.seen.items() if seen.silent >= 3 and seen.farewell is None and rank != self.rank]
            if left or dead:
                rank = (left or dead)[0]
                return self._lost_error(rank, f"ended: {self.seen[rank].farewell}" if left else "was killed, or its machine is gone")
            time.sleep(EVERY / 4)
        return RankLostError(f"a connection to another process of the run was lost{self._way_out()}", quiet=self.rank != 0)

    def _lost_error(self, rank: int, what: str) -> RankLostError:
        gone = {other for other, seen in self.seen.items() if other == rank or seen.silent >= 3}
        first = min((other for other in range(self.world) if other not in gone), default=self.rank)
        named = f"process {rank} of {self.world} ({self.seen[rank].who})"
        return RankLostError(f"{named} {what}; the others end{self._way_out()}", quiet=self.rank != first)

    def _way_out(self) -> str:
        return f". Go on from the last checkpoint with: {self.resume}" if self.resume else ""

    def _write(self) -> None:
        who = f"{os.getpid()} on {socket.gethostname()}"
        self.store.set(f"beat/{self.rank}", json.dumps([self.beats, self.calls, is_waiting(self.main), self.farewell, who]))

    def _run(self) -> None:
        keys = [f"beat/{rank}" for rank in range(self.world)]
        while not self.stopped.wait(EVERY):
            self.beats += 1
            try:
                self._write()
                values = self.store.multi_get(keys)
            except (RuntimeError, dist.DistError):
                continue  # it is the processes that count: without a store, their connections still tell
            with self.lock:
                for rank, value in enumerate(values):
                    self._note(self.seen[rank], *json.loads(value))
                problem = self._find_problem()
            if problem is not None and not self.stopped.is_set():
                if problem.quiet:
                    time.sleep(3 * EVERY)  # or the one that says it would see us die first
                else:
                    print(f"error: {problem}", file=sys.stderr, flush=True)
                os._exit(problem.exit_code)  # the main thread waits inside a collective operation, which nothing else ends

    def _note(self, seen: ProcessStatus, beats: int, calls: int, waiting: bool, farewell: str | None, who: str) -> None:
        seen.silent = 0 if beats != seen.beats else seen.silent + 1
        seen.idle = 0 if calls != seen.calls else seen.idle + 1
        seen.beats, seen.calls, seen.waiting, seen.farewell, seen.who = beats, calls, waiting, farewell, who

    def _find_problem(self) -> RankLostError | None:
        here = {rank: seen for rank, seen in self.seen.items() if seen.farewell is None}
        for rank, seen in here.items():
            if seen.silent >= SILENT:
                return self._lost_error(rank, f"has given no sign of life for {SILENT * EVERY:.0f} s")
        if self.limit and len(here) > 1 and all(seen.idle * EVERY >= self.limit for seen in here.values()):
            rank = min(here, key=lambda rank: (here[rank].calls, here[rank].waiting))  # the others wait for it
            return self._lost_error(rank, f"hangs: nothing came of it for {self.limit / 60:.3g} minutes (train.stall)")
        return None


def is_waiting(thread: int, depth: int = 8) -> bool:
    """Whether a thread is inside of a collective operation, and so waits for another process."""
    frame = sys._current_frames().get(thread)
    while frame is not None and depth:
        if "torch/distributed/" in frame.f_code.co_filename.replace(os.sep, "/"):
            return True
        frame, depth = frame.f_back, depth - 1
    return False
