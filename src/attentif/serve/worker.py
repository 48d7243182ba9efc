"""The process that owns the models: reads requests from a socket, prepares them in threads, and lets the scheduler do them.

    python -P -m attentif.serve.worker FD < settings as JSON

It ends when the server's end of the socket closes, so that none is left behind.
"""

import json
import logging
import os
import queue
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from attentif.errors import AttentifError
from attentif.runtime import keep_buffers, limit_openmp_spinning, resident_memory
from attentif.serve.messages import (
    Ask,
    Cancel,
    DetokenizeJob,
    EmbedJob,
    Event,
    Events,
    Failed,
    GenerateJob,
    LoadFailed,
    ReadyMessage,
    ResultMessage,
    Started,
    Stats,
    TokenizeJob,
    ToWorker,
    read_frame,
    write_frame,
)
from attentif.serve.settings import MAX_ANSWER, ServerLimits

PREPARERS = 4  # threads that tokenize and render
GATHER = 0.003  # seconds to wait for requests that could be answered together
SWITCH = 0.0005  # seconds after which a thread that waits for the interpreter gets it: preparing must not wait for steps
REPORT = 0.5  # seconds between reports of what goes on,
IDLE = 0.02  # and without a request until the last one
STOP = object()  # the server is gone
log = logging.getLogger("attentif.serve")


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a worker is told."""

    models: dict[str, str]  # paths by name
    limits: ServerLimits
    scratch: str  # folder for what clients send, removed by the server
    device: str = "auto"
    threads: int = 0
    plugins: tuple[str, ...] = ()
    precision: Literal["float32", "bf16", "int8", "auto"] = "float32"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "WorkerSettings":
        said = json.loads(text)
        return cls(
            said["models"],
            ServerLimits(**said["limits"]),
            said["scratch"],
            said["device"],
            said["threads"],
            tuple(said["plugins"]),
            said["precision"],
        )


class Worker:
    """Everything around the scheduler."""

    def __init__(self, connection: socket.socket, settings: WorkerSettings) -> None:
        self.connection, self.settings = connection, settings
        self.sending, self.counting = threading.Lock(), threading.Lock()
        self.inbox: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.preparers = ThreadPoolExecutor(PREPARERS, "prepare")
        self.preparing = 0  # requests on their way to the scheduler

    def emit(self, events: Sequence[Event]) -> None:
        data = write_events(events)
        with self.sending:
            self.connection.sendall(data)

    def load(self) -> None:
        """Open the runs."""
        from attentif.api import load
        from attentif.plugin import load_plugin
        from attentif.serve.scheduler import Scheduler
        from attentif.serve.served import Served

        scratch = Path(self.settings.scratch)
        for plugin in self.settings.plugins:
            load_plugin(plugin)
        how = self.settings
        self.served = {
            name: Served(name, load(path, device=how.device, threads=how.threads, precision=how.precision), how.limits, scratch)
            for name, path in how.models.items()
        }
        for one in self.served.values():
            one.warm_up()
        self.scheduler = Scheduler(self.served.values(), self.settings.limits, self.emit)
        self.emit([ReadyMessage(models=[one.info for one in self.served.values()])])

    def listen(self) -> None:
        """Read requests until the server is gone."""
        while (data := read_frame(self.connection)) is not None:
            asked = ToWorker.validate_json(data)
            if isinstance(asked, Cancel):
                self.inbox.put(asked)
            else:
                with self.counting:
                    self.preparing += 1
                self.preparers.submit(self.prepare, asked)
        self.inbox.put(STOP)

    def prepare(self, ask: Ask) -> None:
        """Tokenize and check; what needs the model goes to the scheduler."""
        from attentif.serve.served import RefusedError

        ready: object = None
        try:
            ready = self._prepare(ask)
        except Exception as error:
            refused = RefusedError.of(error)
            if refused.status >= 500:
                log.error("a request failed: %s: %s", type(error).__name__, error, exc_info=error)
            self.emit([refused.event(ask.id)])
        with self.counting:
            self.preparing -= 1
        if ready is not None:  # after it is counted out: the scheduler does not wait for what it has
            self.inbox.put(ready)

    def _prepare(self, ask: Ask) -> object:
        """What the scheduler is to do; None where the answer needs no model, and is given."""
        from attentif.serve.scheduler import WaitingJob

        served, job = self.served[ask.job.model], ask.job
        deadline = time.monotonic() + ask.seconds
        if isinstance(job, GenerateJob):
            prompts = served.prompts(job, ask.id, ask.client, deadline)
            self.emit([Started(id=ask.id, prompt_tokens=sum(len(one.ids) for one in prompts[:: job.n]))])
            return prompts
        if isinstance(job, EmbedJob):
            return WaitingJob(ask.id, ask.client, served, served.read_texts(job), deadline)
        if isinstance(job, TokenizeJob | DetokenizeJob):
            self.emit([ResultMessage(id=ask.id, value=served.tokenize(job) if isinstance(job, TokenizeJob) else served.detokenize(job))])
            return None
        return WaitingJob(ask.id, ask.client, served, served.call(job.capability, job.request), deadline)

    def run(self) -> None:
        """Serve for ever."""
        from attentif.serve.scheduler import WaitingJob

        scheduler, reported = self.scheduler, 0.0
        while True:
            first = None if scheduler.busy else self._wait()
            if isinstance(first, WaitingJob):
                self._gather()
            if not self._take(first):
                return
            scheduler.step()
            if time.monotonic() - reported > REPORT:
                self._report()
                reported = time.monotonic()

    def _wait(self) -> object:
        """The next thing to do; what goes on is reported once nothing has come for a while, not between two requests."""
        try:
            return self.inbox.get(timeout=IDLE)
        except queue.Empty:
            self._report()
            return self.inbox.get()

    def _gather(self) -> None:
        """Wait a little for requests that are being prepared: they can be answered together."""
        limit = time.monotonic() + GATHER
        while self.preparing and time.monotonic() < limit:
            time.sleep(GATHER / 10)

    def _take(self, first: object) -> bool:
        """Hand over everything that has come in; whether the server is still there."""
        from attentif.serve.scheduler import WaitingJob

        item = first
        while item is not STOP:
            if isinstance(item, Cancel):
                self.scheduler.cancel(item.cancel)
            elif isinstance(item, WaitingJob):
                self.scheduler.tasks.add(item)
            elif isinstance(item, list):
                self.scheduler.add_prompts(item)
            try:
                item = self.inbox.get_nowait()
            except queue.Empty:
                return True
        return False

    def _report(self) -> None:
        scheduler = self.scheduler
        caches = [one.cache for one in self.served.values()]
        stats = Stats(
            rows=scheduler.rows,
            waiting=scheduler.waiting,
            memory=resident_memory(),
            cached=sum(cache.bytes for cache in caches),
            prefix_tokens=sum(cache.found_tokens for cache in caches),
            batch=scheduler.batches,
        )
        scheduler.batches = []
        self.emit([stats])


def write_events(events: Sequence[Event], largest: int = MAX_ANSWER) -> bytes:
    """Events as frames; an answer that is too large becomes an error."""
    data = Events.dump_json(list(events))
    if len(data) <= largest:
        return write_frame(data)
    if len(events) > 1:
        return b"".join(write_events([one], largest) for one in events)
    message = f"the answer has {len(data):,} bytes, more than {largest:,}: ask for less"
    return write_frame(
        Events.dump_json(
            [Failed(id=one.id, status=400, message=message, code="answer_too_large") for one in events if isinstance(one, ResultMessage)]
        )
    )


def main() -> None:
    limit_openmp_spinning()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's: it drains, and then closes the socket
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    connection = socket.socket(fileno=int(sys.argv[1]))
    settings = WorkerSettings.from_json(sys.stdin.read())
    worker = Worker(connection, settings)
    keep_buffers()
    sys.setswitchinterval(SWITCH)
    try:
        worker.load()
    except AttentifError as error:
        worker.emit([LoadFailed(message=str(error), exit_code=error.exit_code)])
        return
    threading.Thread(target=worker.listen, daemon=True).start()
    worker.run()
    os._exit(0)  # threads that still prepare something do so for nobody


if __name__ == "__main__":
    main()
