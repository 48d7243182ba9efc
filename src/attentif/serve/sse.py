"""Server-sent events: OpenAI's streams and the progress of jobs.

    return event_stream(events())      # events() yields bytes made by `event`, or plain JSON values

A client that goes away closes the generator, which frees whatever it holds.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse

DONE = b"data: [DONE]\n\n"


def event(value: Any, name: str | None = None) -> bytes:
    """One event; `value` is JSON."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value, ensure_ascii=False, separators=(',', ':'))}\n\n".encode("utf-8", "replace")


def event_stream(events: AsyncIterator[bytes]) -> StreamingResponse:
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}  # nginx passes each event on at once
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)
