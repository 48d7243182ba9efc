"""What a browser is given: the page and its modules, and in a sandbox the reports of runs and the pages of the laboratory."""

import hashlib
import hmac
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from attentif.serve.errors import ApiError
from attentif.serve.security import COOKIE, read_cookie
from attentif.serve.settings import ServerSettings
from attentif.serve.studio.jobs import Jobs
from attentif.serve.studio.library import Library
from attentif.version import __version__
from attentif.view.page import known_scripts
from attentif.view.page import policy as page_policy

TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".json": "application/json"}


def studio_pages(settings: ServerSettings) -> APIRouter:
    pages = APIRouter(include_in_schema=False)
    known = hmac.compare_digest

    @pages.get("/studio")
    def bare() -> RedirectResponse:
        return RedirectResponse("/studio/", 307)

    @pages.get("/studio/")
    def index(request: Request, token: str = "") -> Response:
        if token and known(token.encode(), settings.token.encode()):
            answer = RedirectResponse("/studio/", 303)  # the token leaves the address bar, and the history
            answer.set_cookie(COOKIE, settings.token, httponly=True, samesite="strict", path="/")
            return answer
        if not known(read_cookie(request.headers.get("cookie", "")).encode(), settings.token.encode()):
            return HTMLResponse(_static("closed.html"), 403)
        page = _static("index.html").replace("{{token}}", escape(settings.token, quote=True)).replace("{{version}}", escape(__version__))
        return HTMLResponse(page)

    @pages.get("/studio/static/{name:path}")
    async def static(name: str, request: Request) -> Response:
        file = _files().get(name)
        if file is None:
            raise ApiError(404, "there is no such file")
        headers = {"cache-control": "no-cache", "etag": file.tag}  # a browser asks each time, and is told that it has it
        if file.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(file.content, media_type=file.type, headers=headers)

    return pages


def report_pages(library: Library, jobs: Jobs, session: Callable[[Request], None]) -> APIRouter:
    """Pages that were written by training and by the laboratory. They run in a sandbox, and only the project's own scripts in them."""
    pages = APIRouter(prefix="/studio/pages", include_in_schema=False, dependencies=[Depends(session)])
    policy = f"sandbox allow-scripts allow-downloads; {page_policy(known_scripts())}; frame-ancestors 'self'"

    def page(path: Path) -> Response:
        if not path.is_file():
            raise ApiError(404, "there is no such page")
        return HTMLResponse(path.read_bytes(), headers={"content-security-policy": policy, "cross-origin-resource-policy": "cross-origin"})

    @pages.get("/runs/{id}")
    def report(id: str) -> Response:
        found = library.entries().get(id)
        if found is None:
            raise ApiError(404, "there is no such run")
        return page(found.path / "report.html")

    @pages.get("/lab/{name}")
    def experiment(name: str) -> Response:
        if name not in jobs.list_measured():
            raise ApiError(404, "this experiment has not been measured here")
        return page(jobs.lab / f"{name}.html")

    return pages


@dataclass(frozen=True)
class StaticFile:
    """A file of the page as it is sent."""

    content: bytes
    type: str
    tag: str  # an ETag: the digest of the content


@cache
def _files() -> dict[str, StaticFile]:
    """Files that may be asked for, by name: one that is not here is never opened."""
    found = {}
    for name, item in _walk(files(__package__) / "static", ""):
        if (kind := TYPES.get(PurePosixPath(name).suffix)) is not None:
            content = item.read_bytes()
            found[name] = StaticFile(content, kind, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
    return found


def _walk(folder: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _walk(item, f"{prefix}{item.name}/")
        else:
            yield f"{prefix}{item.name}", item


def _static(name: str) -> str:
    return _files()[name].content.decode()
