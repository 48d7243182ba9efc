"""Processes that encode texts, each with a `WordEncoder`: the same ids, in the same order, from any number of them.

    python -P -m attentif.text.encoder_worker      the tokenizer, then texts on stdin; their ids on stdout

A message is a list of byte strings, their sizes first (`write_parts`). Workers are started afresh, not forked, and end when their stdin is
closed: also where this process was killed.
"""

import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from queue import SimpleQueue
from typing import IO, Any, TypeVar

import numpy as np

from attentif.errors import DataError, RunError
from attentif.text.tokenizer import Tokenizer
from attentif.text.word_encoder import WordEncoder

Batch = TypeVar("Batch", bound=Sequence[tuple[str, bool]])
COMMAND = [sys.executable, "-P", "-m", "attentif.text.encoder_worker"]  # -P: no module of the working directory is imported
AHEAD = 2  # batches that wait while every process has one


def encode_batches(
    batches: Iterable[Batch], tokenizer: Tokenizer, dtype: np.dtype[Any], processes: int
) -> Iterator[tuple[Batch, list[bytes]]]:
    """Each batch of (text, ...) pairs with the ids of its texts, in order; with one process, in this one."""
    if processes == 1:
        encoder = WordEncoder(tokenizer, dtype)
        for batch in batches:
            yield batch, encoder.encode([text for text, _ in batch])
        return
    with _start_workers(tokenizer, dtype, processes) as idle, ThreadPoolExecutor(processes) as pool:
        waiting: deque[tuple[Batch, Future[list[bytes]]]] = deque()
        try:
            for batch in batches:
                waiting.append((batch, pool.submit(_ask, idle, [text for text, _ in batch])))
                if len(waiting) >= processes + AHEAD:
                    first, future = waiting.popleft()
                    yield first, future.result()
            for first, future in waiting:
                yield first, future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def count_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _start_workers(tokenizer: Tokenizer, dtype: np.dtype[Any], processes: int) -> Iterator["SimpleQueue[subprocess.Popen[bytes]]"]:
    environment = os.environ | {"TOKENIZERS_PARALLELISM": "false"}
    # in sessions of their own: Ctrl-C is for this process, which then ends them
    options: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": environment, "start_new_session": True}
    with ExitStack() as stack:
        workers = [stack.enter_context(_kill_at_exit(subprocess.Popen(COMMAND, **options))) for _ in range(processes)]
        idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        for worker in workers:
            assert worker.stdin is not None
            with suppress(BrokenPipeError):  # the first batch says that it is gone
                write_parts(worker.stdin, [tokenizer.json.encode(), dtype.str.encode()])
            idle.put(worker)
        yield idle


@contextmanager
def _kill_at_exit(worker: "subprocess.Popen[bytes]") -> Iterator["subprocess.Popen[bytes]"]:
    try:
        yield worker
    finally:
        worker.kill()
        with suppress(BrokenPipeError):
            worker.communicate()


def _ask(idle: "SimpleQueue[subprocess.Popen[bytes]]", texts: Sequence[str]) -> list[bytes]:
    worker = idle.get()
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        write_parts(worker.stdin, [text.encode() for text in texts])
        error, *ids = read_parts(worker.stdout)
    except (BrokenPipeError, EOFError):
        raise RunError(f"a process that encodes text ended with code {worker.wait()}; is there enough memory?") from None
    finally:
        idle.put(worker)
    if error:
        raise DataError(error.decode())
    return ids


def write_parts(stream: IO[bytes], parts: Sequence[bytes]) -> None:
    stream.write(np.array([len(parts), *map(len, parts)], dtype="<i8").tobytes())
    stream.write(b"".join(parts))
    stream.flush()


def read_parts(stream: IO[bytes]) -> list[bytes]:
    """The parts of a message; EOFError where there is none, or half of one."""
    count = int(np.frombuffer(_read_all(stream, 8), dtype="<i8")[0])
    sizes = np.frombuffer(_read_all(stream, 8 * count), dtype="<i8").tolist()
    whole = memoryview(_read_all(stream, sum(sizes)))
    places = [0, *np.cumsum(sizes).tolist()]
    return [bytes(whole[start : start + size]) for start, size in zip(places, sizes, strict=False)]


def _read_all(stream: IO[bytes], size: int) -> bytes:
    found = stream.read(size)
    if len(found) < size:
        raise EOFError
    return found
