"""A server that is asked too much, by clients that are slow or vanish, and whose worker is killed: what holds, measured.

python -m benchmarks.serving_faults [--seconds 60] [--requests 20000] [PART...]      (`make faults`)

    overload     ten times as many clients as places: bounded queue and memory, 429 with Retry-After, no late answer, full speed after
    vanishing    500 clients that send half a request, read nothing, or leave in the middle: nothing is left behind
    kill -9      of the worker under load: every request gets an answer, and the next worker serves
    endurance    requests in a row: memory stays as it is

Each line says what was asked for and what was seen; the exit code is 1 where something does not hold.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import attentif
from attentif.training.progress import Silent
from benchmarks.common import environment
from benchmarks.load import Seen, ask_each, free_port, post, run_server

BATCH, QUEUE, DEADLINE = 8, 32, 10.0
BODY = {"model": "m", "prompt": "le film", "max_tokens": 200, "temperature": 1, "seed": 1}
PARTS = ("overload", "vanishing", "kill", "endurance")
failures: list[str] = []


def check(what: str, seen: object, holds: bool) -> None:
    print(f"{'ok  ' if holds else 'FAIL'} {what}: {seen}", flush=True)
    if not holds:
        failures.append(what)


def train_small(folder: Path) -> Path:
    """A small language model of letters."""
    (folder / "texte.txt").write_text("".join(f"le film numéro {n} est {'superbe' if n % 2 else 'creux'}\n" for n in range(400)))
    config = {"task": {"kind": "language", "context": 64}, "tokenizer": {"kind": "char"}, "train": {"steps": 30, "threads": 1}}
    config |= {"model": {"base": "decoder-tiny", "width": 64, "layers": 4}}
    return attentif.train(config, folder / "texte.txt", out=folder / "run", watch=Silent()).path


def metric(port: int, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        return next(float(line.split()[-1]) for line in page.read().decode().splitlines() if line.startswith(name + " "))


def memory(port: int) -> float:
    return metric(port, 'attentif_memory_bytes{process="worker"}') + metric(port, 'attentif_memory_bytes{process="server"}')


async def flood(port: int, clients: int, seconds: float) -> tuple[Seen, list[float]]:
    """Clients that ask again at once, whatever they are told; the times of accepted requests."""
    seen, accepted, end = Seen(), list[float](), time.monotonic() + seconds

    async def client() -> None:
        while time.monotonic() < end:
            began = time.perf_counter()
            status, _ = await post(port, "/v1/completions", BODY, seen)
            if status == 200:
                accepted.append(time.perf_counter() - began)
            else:
                await asyncio.sleep(0.05)

    await asyncio.gather(*(client() for _ in range(clients)))
    return seen, accepted


def overload(port: int, seconds: float) -> None:
    base = asyncio.run(ask_each(port, "/v1/completions", [BODY] * (4 * BATCH), BATCH))
    before = memory(port)
    seen, accepted = asyncio.run(flood(port, 10 * BATCH, seconds))
    p99 = statistics.quantiles(accepted, n=100)[-1] if len(accepted) > 1 else float("inf")
    check("overload: only answers and 429", seen.statuses, set(seen.statuses) <= {200, 429} and seen.statuses.get(429, 0) > 0)
    check(f"overload: p99 of accepted requests below the deadline of {DEADLINE:g} s", f"{p99:.2f} s", p99 < DEADLINE)
    check("overload: memory grows by less than 20 %", f"{before / 1e6:.0f} to {memory(port) / 1e6:.0f} MB", memory(port) < 1.2 * before)
    time.sleep(1)
    check("overload: the queue is empty a second later", metric(port, "attentif_queue"), metric(port, "attentif_queue") == 0)
    after = asyncio.run(ask_each(port, "/v1/completions", [BODY] * (4 * BATCH), BATCH))
    check("overload: full speed again", f"{base.rate:.1f} before, {after.rate:.1f} requests/s after", after.rate > 0.7 * base.rate)


async def vanish(port: int, count: int) -> None:
    """Clients of three bad kinds, at once."""
    data = json.dumps(BODY | {"stream": True, "max_tokens": 2000}).encode()
    lines = ("POST /v1/completions HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", f"Content-Length: {len(data)}")
    head = "\r\n".join((*lines, "", "")).encode()

    async def client(number: int) -> None:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            whole = head + data
            writer.write(whole[: len(whole) // 2] if number % 3 == 0 else whole)
            await asyncio.sleep(random.Random(number).uniform(0.1, 3))  # reads nothing
            writer.transport.abort() if number % 3 == 1 else writer.close()

    await asyncio.gather(*(client(number) for number in range(count)))


def check_vanishing(port: int) -> None:
    before = memory(port)
    asyncio.run(vanish(port, 500))
    limit = time.monotonic() + 20
    while time.monotonic() < limit and (metric(port, "attentif_queue") or metric(port, "attentif_rows")):
        time.sleep(0.2)
    left = metric(port, "attentif_queue"), metric(port, "attentif_rows")
    check("vanishing: 500 clients leave no request and no row behind", left, left == (0, 0))
    check("vanishing: memory", f"{before / 1e6:.0f} to {memory(port) / 1e6:.0f} MB", memory(port) < 1.2 * before)


def find_worker(server: int) -> int:
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    return next(int(child) for child in children if b"serve.worker" in Path(f"/proc/{child}/cmdline").read_bytes())


def kill(port: int, server: int) -> None:
    worker = find_worker(server)

    async def kill_worker() -> Seen:
        os.kill(worker, signal.SIGSTOP)  # so that none is answered before
        asking = asyncio.create_task(ask_each(port, "/v1/completions", [BODY] * BATCH * 2, BATCH * 2))
        await asyncio.sleep(0.3)
        os.kill(worker, signal.SIGKILL)
        return await asyncio.wait_for(asking, DEADLINE + 5)

    seen = asyncio.run(kill_worker())
    check("kill -9: every request is answered with 503", seen.statuses, seen.statuses == {503: 2 * BATCH})
    began = time.monotonic()
    while time.monotonic() - began < 60:
        with suppress(OSError, StopIteration), urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5):
            if find_worker(server) != worker:
                break
        time.sleep(0.1)
    again = asyncio.run(ask_each(port, "/v1/completions", [BODY] * 4, 4))
    check("kill -9: another worker serves", f"{time.monotonic() - began:.1f} s later", again.statuses == {200: 4})


def endurance(port: int, requests: int) -> None:
    body: dict[str, Any] = {"model": "m", "prompt": "le", "max_tokens": 2, "temperature": 0}
    asyncio.run(ask_each(port, "/v1/completions", [body] * (requests // 10), 4))  # caches fill
    before = memory(port)
    seen = asyncio.run(ask_each(port, "/v1/completions", [body] * requests, 4))
    after = memory(port)
    check(
        f"endurance: {requests:,} requests in a row, memory flat within 5 %",
        f"{before / 1e6:.0f} to {after / 1e6:.0f} MB, {seen.rate:.0f} requests/s",
        after < 1.05 * before and seen.statuses == {200: requests},
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving_faults")
    parser.add_argument("--seconds", type=float, default=60, help="of overload")
    parser.add_argument("--requests", type=int, default=20_000, help="of the endurance test")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"by default all: {', '.join(PARTS)}")
    options = parser.parse_args()
    if unknown := set(options.parts) - {*PARTS}:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    print(environment("transformers"), flush=True)
    with tempfile.TemporaryDirectory() as place:
        run, port = train_small(Path(place)), free_port()
        limits = ["--batch", str(BATCH), "--queue", str(QUEUE), "--timeout", str(DEADLINE)]
        command = [sys.executable, "-m", "attentif", "serve", f"m={run}", "--port", str(port), "--no-access-log", *limits]
        with run_server(command, port, "/ready") as server:
            parts: dict[str, Callable[[], None]] = {
                "overload": lambda: overload(port, options.seconds),
                "vanishing": lambda: check_vanishing(port),
                "kill": lambda: kill(port, server.pid),
                "endurance": lambda: endurance(port, options.requests),
            }
            for name in options.parts or PARTS:
                parts[name]()
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
