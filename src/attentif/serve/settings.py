"""What a server may be told, and the bounds on everything that a client controls."""

import secrets
from dataclasses import dataclass, field
from ipaddress import ip_address

from attentif.errors import UsageError

MEBIBYTE = 1 << 20

# Bounds of requests; they stand in the OpenAPI schema.
MAX_INPUTS = 32  # texts of one request
MAX_CHOICES = 8  # continuations of one prompt (`n`)
MAX_ROWS = 32  # prompts × n
MAX_TOKENS = 8192  # tokens to write
MAX_STOPS = 4
MAX_STOP_LETTERS = 256
MAX_TOP_LOGPROBS = 20
MAX_MESSAGES = 256
MAX_COUNT = 100  # guesses, neighbours
MAX_PICTURES = 16
MAX_MAP_TOKENS = 512  # of a text whose attention maps are shown,
MAX_MAP_NUMBERS = 1_000_000  # and numbers in them
MAX_ANSWER = 32 * MEBIBYTE  # bytes
MAX_MODEL_NAME = 256
MAX_LETTERS = 1_000_000  # of one text
MAX_IDS = 65_536  # of one request to detokenize
MAX_SEED = 2**63 - 1
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Bounds of the server itself."""

    body: int = 2 * MEBIBYTE
    headers: int = 16 * 1024  # bytes of the request line and all headers
    header_count: int = 64
    connections: int = 1024
    header_seconds: float = 10.0  # for a client to send its headers,
    body_seconds: float = 20.0  # and its body,
    unread_seconds: float = 30.0  # and to read something of what it was sent
    keep_alive_seconds: int = 15
    queue: int = 128  # requests that wait or run; beyond, 429
    seconds: float = 120.0  # deadline of a request
    drain_seconds: float = 30.0  # SIGTERM: time to finish what runs
    batch: int = 16  # rows that are written at once
    context: int = 4096  # tokens of a prompt and its continuation, where the model sets no lower limit
    cache_bytes: int = 256 * MEBIBYTE  # of cached prefixes
    restarts: int = 5  # of the worker within `restart_window` seconds; beyond, the server gives up
    restart_window: float = 60.0


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a server listens and whom it answers."""

    host: str = "127.0.0.1"
    port: int = 8000
    api_key: str | None = None
    allowed_hosts: tuple[str, ...] = ()  # beside loopback's names and `host`
    allowed_origins: tuple[str, ...] = ()  # web pages of other origins that may call (CORS); none by default
    limits: ServerLimits = field(default_factory=ServerLimits)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))  # of the studio's session, for its state-changing requests

    def __post_init__(self) -> None:
        if not is_loopback(self.host) and not self.api_key:
            raise UsageError(
                f"--host {self.host} is reachable from other machines: it needs an API key (--api-key-file FILE or ATTENTIF_API_KEY)"
            )
        if self.api_key is not None and (len(self.api_key) < 16 or not self.api_key.isascii() or not self.api_key.isprintable()):
            raise UsageError("the API key needs 16 printable ASCII characters at least")

    @property
    def hosts(self) -> frozenset[str]:
        """Names that the Host header may have, without a port."""
        own = () if self.host in ("0.0.0.0", "::") else (self.host,)
        return frozenset(host.lower() for host in (*LOCAL_HOSTS, *own, *self.allowed_hosts))


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
