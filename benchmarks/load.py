"""Clients that ask a server on loopback, and what they saw. Plain sockets: a client library would use a good part of two cores."""

import asyncio
import json
import socket
import statistics
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Seen:
    """What the clients of one round saw."""

    seconds: float = 0.0
    tokens: int = 0
    first: list[float] = field(default_factory=list)  # seconds to the first token, or to the answer
    whole: list[float] = field(default_factory=list)  # seconds of a request
    statuses: dict[int, int] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Tokens, or requests, a second."""
        return (self.tokens or len(self.whole)) / self.seconds

    @property
    def first_ms(self) -> float:
        return 1000 * statistics.median(self.first)


async def post(port: int, path: str, body: dict[str, Any], seen: Seen) -> tuple[int, bytes]:
    """One request on a connection of its own; a stream is read to its end."""
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    data = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        f"Content-Length: {len(data)}",
        "Connection: close",
    )
    writer.write("\r\n".join((*head, "", "")).encode() + data)
    status = int((await reader.readline()).split()[1])
    seen.statuses[status] = seen.statuses.get(status, 0) + 1
    answer, first = b"", False
    while line := await reader.readline():
        if not first and line.startswith(b"data: ") and (b'"text":"' in line or b'"text": "' in line):
            seen.first.append(time.perf_counter() - began)
            first = True
        if b'"usage"' in line and b'"completion_tokens"' in line:
            answer = line
        elif not body.get("stream"):
            answer += line
    writer.close()
    seen.whole.append(time.perf_counter() - began)
    return status, answer


async def write_texts(port: int, model: str, prompts: Sequence[str], clients: int, tokens: int) -> Seen:
    """So many clients, each with a stream after the other, until all prompts are continued."""
    seen, waiting = Seen(), list(prompts)

    async def client() -> None:
        while waiting:
            body = {"model": model, "prompt": waiting.pop(), "max_tokens": tokens, "temperature": 0, "stream": True}
            _, usage = await post(port, "/v1/completions", body | {"stream_options": {"include_usage": True}}, seen)
            seen.tokens += json.loads(usage.removeprefix(b"data: "))["usage"]["completion_tokens"]

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    seen.seconds = time.perf_counter() - began
    return seen


async def ask_each(port: int, path: str, bodies: Sequence[dict[str, Any]], clients: int) -> Seen:
    """So many clients, each with a request after the other."""
    seen, waiting = Seen(), list(bodies)

    async def client() -> None:
        while waiting:
            await post(port, path, waiting.pop(), seen)

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    seen.seconds = time.perf_counter() - began
    return seen


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def run_server(command: Sequence[str], port: int, ready: str, seconds: float = 120) -> Iterator[subprocess.Popen[bytes]]:
    """A server in a process of its own, from when it is ready on."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        limit = time.monotonic() + seconds
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{ready}", timeout=5):
                    break
            except (urllib.error.URLError, OSError):
                if time.monotonic() > limit or process.poll() is not None:
                    raise RuntimeError(f"{command[:4]} does not answer on {ready}") from None
                time.sleep(0.2)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
