"""What every request passes before any route sees it.

    Host        one of the names the server is known by: a page on another domain that resolves to this machine is refused (DNS rebinding)
    Origin      the server's own, or one allowed by --allow-origin; there is no CORS otherwise
    key         `Authorization: Bearer KEY` where the server has a key; compared in constant time
    session     the studio's: a SameSite=Strict cookie, and the same token in a header for every request that changes something
    body        JSON, read whole within a time and a size; headers are bounded in number and size

Requests outside `/v1` that are not GET or HEAD change something on the machine: they need the token even where there is no key.
"""

import asyncio
import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attentif.serve.errors import ApiError
from attentif.serve.settings import ServerSettings

COOKIE, TOKEN_HEADER = "attentif_session", "x-attentif-token"
OPEN_PATHS = frozenset({"/health", "/ready", "/session"})  # probes have no key; a session asks for its token itself
READING = frozenset({"GET", "HEAD"})
JSON = "application/json"
POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """ASGI middleware that refuses what may not pass, and bounds what may."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self.app, self.settings, self.limits = app, settings, settings.limits
        self.key = None if settings.api_key is None else _digest(settings.api_key)
        self.token = _digest(settings.token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no websockets
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        allowed = origin if origin in self.settings.allowed_origins else None

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    own.setdefault(name, value)
                own.setdefault("cache-control", "no-store")
                if allowed is not None:
                    own["access-control-allow-origin"] = allowed
                    own["vary"] = "Origin"
            await send(message)

        try:
            self._check_head(scope, headers)
            if allowed is not None and scope["method"] == "OPTIONS":
                await self._preflight(answer)
                return
            self._check_key(scope, headers)
            receive = await self._read_body(scope, headers, receive)
        except ApiError as error:
            await error.response()(scope, receive, answer)
            return
        await self.app(scope, receive, answer)

    def _check_head(self, scope: Scope, headers: Headers) -> None:
        raw = scope["headers"]
        if len(raw) > self.limits.header_count or sum(len(name) + len(value) for name, value in raw) > self.limits.headers:
            raise ApiError(431, "too many headers, or too long ones")
        named = headers.getlist("host")
        if len(named) != 1 or host_name(named[0]) not in self.settings.hosts:
            raise ApiError(403, "this server does not answer for the given Host; --allow-host NAME adds one", code="host_not_allowed")
        origin = headers.get("origin")
        if origin is not None and origin not in self.settings.allowed_origins and not is_same_origin(origin, named[0]):
            raise ApiError(403, "requests from other origins are refused; --allow-origin URL allows one", code="origin_not_allowed")
        if headers.get("sec-fetch-site") == "cross-site" and origin is None and scope["method"] not in READING:
            raise ApiError(403, "requests from other sites are refused", code="origin_not_allowed")

    def _check_key(self, scope: Scope, headers: Headers) -> None:
        """Every comparison is made, whatever the one before found: nothing is told by the time it takes."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        with_key = self.key is not None and (hmac.compare_digest(_digest(given.strip()), self.key) & (scheme.lower() == "bearer"))
        with_cookie = hmac.compare_digest(_digest(read_cookie(headers.get("cookie", ""))), self.token)
        with_token = hmac.compare_digest(_digest(headers.get(TOKEN_HEADER, "")), self.token)
        reading = scope["method"] in READING
        if with_key or with_token or (with_cookie and reading):
            return
        if self.key is not None and scope["path"] not in OPEN_PATHS:
            raise ApiError(401, "give the server's key: Authorization: Bearer KEY", code="invalid_api_key", headers=_CHALLENGE)
        if not reading and not scope["path"].startswith("/v1/"):
            raise ApiError(403, f"requests that change something need the session's token ({TOKEN_HEADER})", code="token_missing")

    async def _read_body(self, scope: Scope, headers: Headers, receive: Receive) -> Receive:
        """The body at once, and then whether the client is still there."""
        if scope["method"] in READING:
            return receive
        length = headers.get("content-length", "")
        if length and (not length.isdigit() or int(length[:20]) > self.limits.body):
            raise ApiError(413, f"the body may have {self.limits.body:,} bytes at most", code="body_too_large")
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        break
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > self.limits.body:
                        raise ApiError(413, f"the body may have {self.limits.body:,} bytes at most", code="body_too_large")
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise ApiError(408, "the body took too long to arrive", headers={"Connection": "close"}) from None
        if size and headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            raise ApiError(415, f"send JSON, with Content-Type: {JSON}")
        whole: list[Message] = [{"type": "http.request", "body": b"".join(parts), "more_body": False}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        return replay

    async def _preflight(self, send: Send) -> None:
        wanted = [(b"access-control-allow-methods", b"GET, POST"), (b"access-control-allow-headers", b"authorization, content-type")]
        await send({"type": "http.response.start", "status": 204, "headers": [*wanted, (b"access-control-max-age", b"600")]})
        await send({"type": "http.response.body", "body": b""})


_CHALLENGE = {"WWW-Authenticate": "Bearer"}


def _digest(text: str) -> bytes:
    """Digests have one length: comparing them tells nothing about that of the secret."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def host_name(host: str) -> str:
    """The name of a Host header, without its port and brackets; empty where it is none."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return ""
    return "" if parts.path or parts.query or parts.fragment or "@" in host else (parts.hostname or "").lower()


def is_same_origin(origin: str, host: str) -> bool:
    """Whether a page that this server gave out sends the request."""
    scheme, _, rest = origin.partition("://")
    return scheme in ("http", "https") and rest.lower() == host.lower()


def read_cookie(header: str) -> str:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""
