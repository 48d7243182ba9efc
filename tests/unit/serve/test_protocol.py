"""Clients that are slow on purpose lose their connections."""

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from attentif.serve.server import make_protocol
from attentif.serve.settings import ServerLimits, ServerSettings

LARGE = b"a" * (16 << 20)  # more than sockets hold


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse(LARGE if scope["path"] == "/large" else b"small")(scope, receive, send)


@pytest.fixture
def server() -> Iterator[uvicorn.Server]:
    settings = ServerSettings(limits=ServerLimits(header_seconds=0.5, unread_seconds=0.5))
    config = uvicorn.Config(app, port=0, http=make_protocol(settings), ws="none", lifespan="off", log_level="error", access_log=False)
    found = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(found.serve()))
    thread.start()
    wait_until(lambda: found.started)
    yield found
    found.should_exit = True
    thread.join(30)


def connect(server: uvicorn.Server) -> socket.socket:
    return socket.create_connection(server.servers[0].sockets[0].getsockname(), timeout=10)


def wait_until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_headers_that_trickle_in_gain_no_time(server: uvicorn.Server) -> None:
    with connect(server) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while not answer.endswith(b"small"):
            answer += client.recv(1000)
        client.settimeout(0.1)  # a byte of the next request each time, and never the last one
        ended, limit = False, time.monotonic() + 20
        while not ended and time.monotonic() < limit:
            try:
                client.sendall(b"G")
                ended = client.recv(10) == b""
            except TimeoutError:
                pass
            except ConnectionError:
                ended = True
        assert ended


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's time limit is Linux's")
def test_a_client_that_reads_nothing_is_left_behind(server: uvicorn.Server) -> None:
    with connect(server) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        wait_until(lambda: bool(server.server_state.connections))
        wait_until(lambda: not server.server_state.connections)
