"""Work on several processes or machines by dask.distributed: `--cluster local | tcp://HOST:PORT | slurm`.

Runs and files are named by their paths, which all machines see. A worker that is lost has its tasks given to another one; what a task
raises comes back as its result. dask sends functions and values as pickles between its processes: only on networks that you trust.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from attentif.errors import AttentifError, RunError, UsageError
from attentif.extras import require_extra

Item = TypeVar("Item")
AHEAD = 2  # tasks for each worker that are on their way
LOSSES = 3  # workers that a task may lose before it is given up


@dataclass(frozen=True)
class RemoteOutcome:
    """What a task returned, or the error that it raised; errors of ours would lose their place as pickles."""

    value: Any = None
    error: tuple[type[AttentifError], str, str | None, int | None, str] | None = None

    def get(self) -> Any:
        if self.error is None:
            return self.value
        kind, message, file, line, code = self.error
        raise kind(message, file=file, line=line, code=code)


def run_task(function: Callable[..., Any], *args: Any) -> RemoteOutcome:
    """Run on a worker."""
    try:
        return RemoteOutcome(function(*args))
    except AttentifError as error:
        kind = type(error) if type(error).__init__ is AttentifError.__init__ else RunError
        return RemoteOutcome(error=(kind, error.message, None if error.file is None else str(error.file), error.line, error.code))


class Cluster:
    """An open connection to the workers."""

    def __init__(self, client: Any) -> None:
        self.client = client

    @property
    def workers(self) -> int:
        return max(1, len(self.client.scheduler_info(n_workers=-1)["workers"]))

    def map_ordered(self, function: Callable[[Item], Any], items: Iterable[Item]) -> Iterator[tuple[Item, RemoteOutcome]]:
        """Every item with what came of it, in order; a few more are being worked on meanwhile, so that memory is bounded."""
        waiting: deque[tuple[Item, Any]] = deque()
        for item in items:
            waiting.append((item, self.submit(function, item)))
            if len(waiting) >= AHEAD * self.workers:
                yield self._first(waiting)
        while waiting:
            yield self._first(waiting)

    def map_completed(self, function: Callable[[Item], Any], items: Iterable[Item]) -> Iterator[tuple[Item, RemoteOutcome]]:
        """The same in the order in which they end."""
        from distributed import as_completed

        meant = {self.submit(function, item): item for item in items}
        for future in as_completed(list(meant)):
            yield meant.pop(future), self.wait_for(future)

    def submit(self, function: Callable[..., Any], *args: Any) -> Any:
        return self.client.submit(run_task, function, *args, pure=False)

    def _first(self, waiting: deque[tuple[Item, Any]]) -> tuple[Item, RemoteOutcome]:
        item, future = waiting.popleft()
        return item, self.wait_for(future)

    def wait_for(self, future: Any) -> RemoteOutcome:
        from distributed import KilledWorker

        try:
            return future.result()
        except KilledWorker:
            return RemoteOutcome(
                error=(RunError, f"{LOSSES + 1} workers were lost with the same task; is there enough memory?", None, None, "worker-lost")
            )


@contextmanager
def open_cluster(where: str) -> Iterator[Cluster]:
    """Connect to `where`, or start it: a process for each core of this machine, or jobs of a Slurm queue."""
    if where not in ("local", "slurm") and "://" not in where:
        raise UsageError(f"--cluster: must be local, slurm, or the address of a dask scheduler such as tcp://host:8786, not {where!r}")
    require_extra("distributed")
    import dask
    from distributed import Client, LocalCluster

    dask.config.set({"distributed.scheduler.allowed-failures": LOSSES})
    logging.getLogger("distributed").setLevel(logging.ERROR)  # dask tells every step of its life
    cluster: Any = where
    if where == "local":
        cluster = LocalCluster(threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs="ERROR")
    elif where == "slurm":
        require_extra("dask_jobqueue")
        from dask_jobqueue import SLURMCluster

        cluster = SLURMCluster()  # cores, memory, queue: in ~/.config/dask/jobqueue.yaml
        cluster.adapt(minimum=1, maximum=dask.config.get("attentif.jobs", 16))
    try:
        client = Client(cluster, timeout=20)
    except (OSError, TimeoutError) as error:
        raise RunError(f"no dask scheduler answers at {where}: {error}", code="no-cluster") from None
    try:
        yield Cluster(client)
    finally:
        client.close()
        if where in ("local", "slurm"):
            cluster.close()
