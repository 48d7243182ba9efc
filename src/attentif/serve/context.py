"""What routes share: the settings, the worker, the metrics; and a client that may leave."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from starlette.requests import Request

from attentif.serve.metrics import ServerMetrics
from attentif.serve.settings import ServerSettings
from attentif.serve.supervisor import Supervisor

T = TypeVar("T")


@dataclass(frozen=True)
class Context:
    """One server; routes find it in `request.app.state.context`."""

    settings: ServerSettings
    supervisor: Supervisor
    metrics: ServerMetrics


class DisconnectedError(Exception):
    """The client is gone: nothing that is answered would be read."""


def context_of(request: Request) -> Context:
    found = request.app.state.context
    assert isinstance(found, Context)
    return found


def client_name(request: Request) -> str:
    """Who takes turns with whom: addresses."""
    return request.client.host if request.client else "unknown"


async def until_disconnected(request: Request, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled as soon as the client leaves."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise DisconnectedError
        return await task
    finally:
        for one in (task, gone):
            if not one.done():
                one.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
