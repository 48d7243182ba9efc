"""A server that listens: uvicorn with time limits on slow clients, started and stopped by signals."""

import asyncio
import logging
import socket
import sys
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from attentif.errors import UsageError
from attentif.serve.context import Context
from attentif.serve.settings import ServerSettings

log = logging.getLogger("attentif.serve")


def make_protocol(settings: ServerSettings) -> type[H11Protocol]:
    """uvicorn's protocol, for clients that have so long to send their headers, and for so many connections."""
    limits = settings.limits

    class BoundedProtocol(H11Protocol):
        waiting: asyncio.TimerHandle | None = None  # for the headers of a request

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.abort()
                return
            drop_when_unread(transport, limits.unread_seconds)
            self._expect_headers()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._between_requests():  # in the middle of headers: what trickles in gains no time
                self._expect_headers()
            else:
                self._forget_headers()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget_headers()
            super().connection_lost(exc)

        def _between_requests(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _expect_headers(self) -> None:
            if self.waiting is None:
                self.waiting = self.loop.call_later(limits.header_seconds, self._drop_if_late)

        def _forget_headers(self) -> None:
            if self.waiting is not None:
                self.waiting.cancel()
                self.waiting = None

        def _drop_if_late(self) -> None:
            """Close a connection whose first request has not come, or whose next one has begun and is not complete."""
            self.waiting = None
            if self._between_requests() and not self.transport.is_closing():
                self.transport.close()

    return BoundedProtocol


def drop_when_unread(transport: asyncio.Transport, seconds: float) -> None:
    """Let the kernel end a connection whose client has taken nothing of what was written for so long, even after it was closed."""
    sock = transport.get_extra_info("socket")
    if sock is not None and hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * seconds))


def serve(app: FastAPI, settings: ServerSettings, *, access_log: bool = True) -> None:
    """Listen until SIGTERM or Ctrl-C, then finish what runs; raises where the worker cannot start."""
    asyncio.run(_serve(app, settings, access_log))


async def _serve(app: FastAPI, settings: ServerSettings, access_log: bool) -> None:
    limits = settings.limits
    _log_to_stderr(access_log)
    config: Any = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=make_protocol(settings),
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=True,
        forwarded_allow_ips="127.0.0.1,::1",
        h11_max_incomplete_event_size=limits.headers,
        timeout_keep_alive=limits.keep_alive_seconds,
        timeout_graceful_shutdown=int(limits.drain_seconds),
        backlog=limits.connections,
    )
    server = uvicorn.Server(config)
    context: Context = app.state.context
    supervisor = context.supervisor
    try:
        sock = config.bind_socket() if settings.port else None
    except SystemExit:
        raise UsageError(f"--port {settings.port}: cannot listen on {settings.host}:{settings.port}; is it in use?") from None
    running = asyncio.create_task(server.serve(sockets=[sock] if sock else None))
    failed = asyncio.create_task(supervisor.ended.wait())
    await asyncio.wait({running, failed}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    await running
    failed.cancel()
    if supervisor.failure is not None:
        raise supervisor.failure


def _log_to_stderr(access_log: bool) -> None:
    logging.getLogger("attentif.serve.access").setLevel(logging.INFO if access_log else logging.WARNING)
    if not logging.getLogger().handlers:
        logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("attentif.serve").setLevel(logging.INFO)
