"""The application: routes, guard, access log. `create_app` is all that a colleague needs to add pages of his own.

    app = create_app(settings, worker, extra_routers=[studio.router], mounts={"/studio/static": static_files(folder)})

What everything mounted here can count on:

- **Routers** are FastAPI's `APIRouter`; `context_of(request)` gives the settings, the worker (`supervisor.ask`, `supervisor.result`) and
  the metrics. `until_disconnected(request, work)` cancels work whose client left.
- **The guard** (`security.py`) has checked Host, Origin, key and sizes before a route runs. Outside `/v1`, a request that is not GET or
  HEAD must carry the session's token in the header `X-Attentif-Token`; a GET is let in by the cookie, the token or the key.
- **A page gets its session** at `GET /session?token=TOKEN&next=/studio/`, the address that `attentif serve` prints: it sets the cookie
  (HttpOnly, SameSite=Strict) and redirects to `next`, a path of this server. Pages may write `settings.token` into a
  `<meta name="attentif-token">` for their scripts to send back.
- **Static files** come from `static_files(folder)`: a fixed folder of the package, no listing, no symbolic links out of it, ETags.
- **Content-Security-Policy** is `default-src 'self'` for every response: no inline script or style, nothing from elsewhere.
- **Long jobs** report by server-sent events: `return event_stream(generator)` with `event(value, name)` of `sse.py`.
- **Errors** are `raise ApiError(status, message)`: OpenAI's body, everywhere.
"""

import hmac
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attentif.serve import pages
from attentif.serve.context import Context, DisconnectedError, context_of
from attentif.serve.errors import ApiError, install_handlers
from attentif.serve.metrics import ServerMetrics
from attentif.serve.routes import router
from attentif.serve.security import COOKIE, Guard
from attentif.serve.settings import ServerSettings
from attentif.serve.supervisor import Supervisor
from attentif.serve.worker import WorkerSettings
from attentif.version import __version__

access = logging.getLogger("attentif.serve.access")
CLIENT_CLOSED = 499  # nginx's number for a client that left


def create_app(
    settings: ServerSettings,
    worker: WorkerSettings,
    *,
    extra_routers: Sequence[APIRouter] = (),
    mounts: Mapping[str, ASGIApp] | None = None,
) -> FastAPI:
    """Build the application of a server; its worker starts with it."""
    metrics = ServerMetrics()
    supervisor = Supervisor(worker, metrics)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:  # noqa: ARG001
        await supervisor.start()
        try:
            yield
        finally:
            await supervisor.stop()

    app = FastAPI(
        title="Attentif",
        version=__version__,
        summary="Any run behind an HTTP API that OpenAI's clients understand.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.state.context = Context(settings, supervisor, metrics)
    install_handlers(app)
    app.include_router(router)
    app.include_router(_service)
    for extra in extra_routers:
        app.include_router(extra)
    for path, mounted in (mounts or {}).items():
        app.mount(path, mounted)
    app.add_middleware(Guard, settings=settings)
    app.add_middleware(AccessLog, metrics=metrics)
    return app


def static_files(folder: Path) -> StaticFiles:
    """Files of a folder of the package."""
    return StaticFiles(directory=folder, follow_symlink=False)


class AccessLog:
    """One line of JSON for each request, without what users wrote: paths are those of routes."""

    def __init__(self, app: ASGIApp, metrics: ServerMetrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, number = time.perf_counter(), CLIENT_CLOSED, secrets.token_hex(8)

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", number.encode())]
            await send(message)

        try:
            await self.app(scope, receive, answer)
        except DisconnectedError:
            pass
        finally:
            seconds = time.perf_counter() - began
            path, method = route_path(scope), method_name(scope)
            self.metrics.requests.labels(path, method, str(status)).inc()
            self.metrics.seconds.labels(path).observe(seconds)
            client = scope["client"][0] if scope.get("client") else None
            line = {"time": round(time.time(), 3), "id": number, "client": client, "method": method, "path": path, "status": status}
            access.info(json.dumps(line | {"ms": round(1000 * seconds, 1)}))


def route_path(scope: Scope) -> str:
    """The template of the route, so that what a client puts into a path is neither logged nor counted."""
    route: BaseRoute | None = scope.get("route")
    return str(getattr(route, "path", "other"))


def method_name(scope: Scope) -> str:
    return scope["method"] if scope["method"] in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS") else "other"


_service = APIRouter(include_in_schema=False)


@_service.api_route("/health", methods=["GET", "HEAD"])
async def health() -> JSONResponse:
    """Whether the process answers."""
    return JSONResponse({"status": "ok"})


@_service.api_route("/ready", methods=["GET", "HEAD"])
async def ready(request: Request) -> JSONResponse:
    """Whether the models are loaded."""
    state = context_of(request).supervisor.state
    return JSONResponse({"status": state}, 200 if state == "ready" else 503, None if state == "ready" else {"Retry-After": "2"})


@_service.get("/metrics")
async def metrics(request: Request) -> PlainTextResponse:
    return PlainTextResponse(context_of(request).metrics.text(), media_type="text/plain; version=0.0.4")


@_service.get("/session")
async def open_session(request: Request, token: str = "", next: str = "/docs") -> Response:
    """Exchange the token of the printed address for a cookie."""
    settings = context_of(request).settings
    if not hmac.compare_digest(token.encode(), settings.token.encode()):
        raise ApiError(403, "this address is out of date: `attentif serve` printed a new one when it started", code="token_wrong")
    target = next if next.startswith("/") and not next.startswith(("//", "/\\")) and next.isprintable() else "/docs"
    response = RedirectResponse(target, 303)
    response.set_cookie(COOKIE, settings.token, httponly=True, samesite="strict", path="/", secure=request.url.scheme == "https")
    return response


@_service.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    return HTMLResponse(pages.render_docs(request.app.openapi(), str(request.base_url).rstrip("/")))


@_service.get("/docs/style.css")
async def style() -> Response:
    return Response(pages.STYLE.read_bytes(), media_type="text/css", headers={"Cache-Control": "max-age=3600"})
