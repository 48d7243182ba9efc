"""The server's side of its worker: starts it, asks it, and starts it again when it dies.

    async with supervisor.ask(job, client="127.0.0.1") as events:
        async for event in events: ...

Leaving the block before the last event cancels the request. A request whose worker dies ends with `ApiError` 503, never in silence.
"""

import asyncio
import itertools
import logging
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Literal

from attentif.errors import AttentifError
from attentif.serve.errors import ApiError, overload_error
from attentif.serve.messages import (
    LARGEST,
    LENGTH,
    Ask,
    Cancel,
    Event,
    Events,
    Failed,
    GenerateJob,
    Job,
    LoadFailed,
    ModelInfo,
    ReadyMessage,
    ResultMessage,
    Started,
    Stats,
    TokenMessage,
    write_frame,
)
from attentif.serve.metrics import ServerMetrics
from attentif.serve.settings import ServerLimits
from attentif.serve.worker import WorkerSettings

log = logging.getLogger("attentif.serve")
Answer = Started | TokenMessage | ResultMessage
GRACE = 5.0  # seconds for a worker to report a late request itself


class WorkerError(AttentifError):
    """A worker that cannot be started."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass
class Pending:
    """A request that the worker has not answered to the end."""

    events: asyncio.Queue[Event]
    deadline: float
    choices: int  # continuations to be written; 0: one result
    done: bool = False


class Supervisor:
    """One worker process and the requests it works on."""

    def __init__(self, settings: WorkerSettings, metrics: ServerMetrics) -> None:
        self.settings, self.metrics = settings, metrics
        self.limits: ServerLimits = settings.limits
        self.state: Literal["loading", "ready", "draining", "failed"] = "loading"
        self.failure: WorkerError | None = None
        self.models: dict[str, ModelInfo] = {}
        self.pending: dict[int, Pending] = {}
        self.numbers = itertools.count(1)
        self.ended = asyncio.Event()
        self.process: subprocess.Popen[bytes] | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.deaths: deque[float] = deque()
        self.scratch: tempfile.TemporaryDirectory[str] | None = None  # for what clients send
        self.watching: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------------------------------------------- the process

    async def start(self) -> None:
        self.scratch = tempfile.TemporaryDirectory(prefix="attentif-serve-")
        self.watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """Keep a worker running until there is nothing more to do."""
        try:
            while self.state != "draining":
                await self._serve()
                if self.state in ("draining", "failed"):
                    return
                self._note_death()
        except WorkerError as error:
            self.state, self.failure = "failed", error
        finally:
            self._fail_pending()
            self.ended.set()

    async def _serve(self) -> None:
        """Start a worker and read what it says until it ends."""
        ours, theirs = socket.socketpair()
        assert self.scratch is not None
        settings = replace(self.settings, scratch=self.scratch.name)
        command = [sys.executable, "-P", "-m", "attentif.serve.worker", str(theirs.fileno())]
        with theirs:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[theirs.fileno()])
        assert self.process.stdin is not None
        with suppress(BrokenPipeError), self.process.stdin as stdin:
            stdin.write(settings.to_json().encode())
        reader, self.writer = await asyncio.open_connection(sock=ours, limit=LARGEST)
        try:
            while True:
                (size,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
                for event in Events.validate_json(await reader.readexactly(size)):
                    self._hear(event)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            await self._end_process()

    async def _end_process(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None
        process = self.process
        if process is None:
            return
        for _ in range(50):
            if process.poll() is not None:
                return
            await asyncio.sleep(0.02)
        process.kill()
        await asyncio.to_thread(process.wait)

    def _note_death(self) -> None:
        """Answer what the dead worker left, and let another one start, unless they die one after the other."""
        code = None if self.process is None else self.process.returncode
        log.error("the worker ended with code %s; it is started again", code)
        was_ready, self.state = self.state == "ready", "loading"
        self._fail_pending()
        self.metrics.restarts.inc()
        now = time.monotonic()
        self.deaths.append(now)
        while self.deaths and now - self.deaths[0] > self.limits.restart_window:
            self.deaths.popleft()
        if len(self.deaths) > self.limits.restarts or not (was_ready or self.models):
            raise WorkerError(f"the worker ended {len(self.deaths)} times (code {code}); the lines above say why")

    def _fail_pending(self) -> None:
        for number, pending in self.pending.items():
            message = "the worker that answered this request died; send it again"
            pending.events.put_nowait(Failed(id=number, status=503, message=message, code="worker_died"))

    async def stop(self) -> None:
        """Let the worker finish, then end it."""
        self.state = "draining" if self.state != "failed" else "failed"
        limit = time.monotonic() + self.limits.drain_seconds
        while self.pending and time.monotonic() < limit:
            await asyncio.sleep(0.02)
        if self.writer is not None:
            self.writer.close()  # the worker sees the end and leaves
        if self.watching is not None:
            with suppress(asyncio.CancelledError):
                await asyncio.wait_for(self.watching, 10)
        if self.scratch is not None:
            self.scratch.cleanup()

    # ------------------------------------------------------------------------------------------------------ what it says

    def _hear(self, event: Event) -> None:
        if isinstance(event, ReadyMessage):
            self.models = {model.id: model for model in event.models}
            if self.state == "loading":
                self.state = "ready"
            log.info("ready: %s", ", ".join(self.models))
        elif isinstance(event, LoadFailed):
            raise WorkerError(event.message, event.exit_code)
        elif isinstance(event, Stats):
            self.metrics.observe_worker(event)
        elif pending := self.pending.get(event.id):
            pending.events.put_nowait(event)

    # ----------------------------------------------------------------------------------------------------------- asking

    def require_model(self, name: str) -> ModelInfo:
        """The model of that name; names are looked up, never taken for paths."""
        self._require_ready()
        if name not in self.models:
            raise ApiError(404, f"there is no model {name[:100]!r} here; GET /v1/models lists them", param="model", code="model_not_found")
        return self.models[name]

    def _require_ready(self) -> None:
        if self.state == "ready":
            return
        if self.state == "draining":
            raise ApiError(503, "the server is stopping", code="stopping", headers={"Connection": "close"})
        raise ApiError(503, "the models are being loaded", code="loading", headers={"Retry-After": "2"})

    @asynccontextmanager
    async def ask(self, job: Job, client: str) -> AsyncIterator[AsyncIterator[Answer]]:
        """Send a job; inside the block, its events until the last one."""
        self.require_model(job.model)
        if len(self.pending) >= self.limits.queue:
            self.metrics.refused.inc()
            raise overload_error()
        number = next(self.numbers)
        choices = max(len(job.prompts), 1) * job.n if isinstance(job, GenerateJob) else 0
        pending = Pending(asyncio.Queue(), time.monotonic() + self.limits.seconds, choices)
        self.pending[number] = pending
        self.metrics.queue.set(len(self.pending))
        try:
            self._write(Ask(id=number, client=client, seconds=self.limits.seconds, job=job))
            yield self._events(pending)
        finally:
            del self.pending[number]
            self.metrics.queue.set(len(self.pending))
            if not pending.done and self.writer is not None:
                self._write(Cancel(cancel=number))

    async def _events(self, pending: Pending) -> AsyncIterator[Answer]:
        while True:
            try:
                async with asyncio.timeout(max(pending.deadline - time.monotonic(), 0) + GRACE):
                    event = await pending.events.get()
            except TimeoutError:
                raise ApiError(504, "the request took longer than its deadline", code="deadline_exceeded") from None
            if isinstance(event, Failed):
                pending.done = True
                raise ApiError(event.status, event.message, param=event.param, code=event.code)
            assert isinstance(event, Started | TokenMessage | ResultMessage)
            ended = isinstance(event, TokenMessage) and event.finish is not None
            pending.choices -= ended
            pending.done = isinstance(event, ResultMessage) or (ended and not pending.choices)
            yield event
            if pending.done:
                return

    def _write(self, frame: Ask | Cancel) -> None:
        if self.writer is None:
            raise ApiError(503, "the worker is being started again", code="loading", headers={"Retry-After": "2"})
        self.writer.write(write_frame(frame.model_dump_json().encode()))

    async def result(self, job: Job, client: str) -> ResultMessage:
        """The answer of a job that is not generation."""
        async with self.ask(job, client) as events:
            async for event in events:
                if isinstance(event, ResultMessage):
                    return event
        raise AssertionError("a job ends with a result")
