"""`attentif serve`: runs behind an HTTP API."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from attentif.cli.options import Device, Precision, Threads
from attentif.cli.out import say
from attentif.errors import UsageError

KEY = "ATTENTIF_API_KEY"


def serve(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="[NAME=]RUN...", help="Runs, Hugging Face folders or names, GGUF files.", show_default=False),
    ],
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on; other than loopback needs an API key.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=1, max=65535, help="Port.")] = 8000,
    api_key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help=f"File with the API key; or the environment variable {KEY}.", show_default=False)
    ] = None,
    allow_host: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Further host name of the server (repeatable).")] = None,
    allow_origin: Annotated[list[str] | None, typer.Option(metavar="URL", help="Allowed CORS origin (repeatable).")] = None,
    batch: Annotated[int, typer.Option(metavar="N", min=1, max=256, help="Maximum batch size of generation.")] = 16,
    queue: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="Maximum number of requests, waiting or running; beyond it, 429.")
    ] = 128,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, max=3600, help="Timeout of a request.")] = 120.0,
    drain: Annotated[float, typer.Option(metavar="SECONDS", min=0, max=3600, help="Time to finish requests after SIGTERM.")] = 30.0,
    context: Annotated[int, typer.Option(metavar="N", min=2, max=1_000_000, help="Maximum tokens of prompt and continuation.")] = 4096,
    cache: Annotated[int, typer.Option(metavar="MB", min=0, max=1_000_000, help="Memory of the prompt cache.")] = 256,
    access_log: Annotated[bool, typer.Option(help="Log each request to stderr as JSON.")] = True,
    precision: Precision = "float32",
    device: Device = "auto",
    threads: Threads = 0,
) -> None:
    """Serve runs over an OpenAI-compatible HTTP API.

    \b
    For example:
    attentif serve runs/reviews-1 runs/stdlib-1
    curl http://127.0.0.1:8000/v1/predict -H 'Content-Type: application/json' -d '{"model": "reviews-1", "inputs": ["Quel film !"]}'
    """
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise UsageError("serving needs more packages: pip install 'attentif[serve]'") from None
    from attentif.serve.settings import MEBIBYTE, ServerLimits, ServerSettings
    from attentif.serve.worker import WorkerSettings

    limits = ServerLimits(queue=queue, seconds=timeout, drain_seconds=drain, batch=batch, context=context, cache_bytes=cache * MEBIBYTE)
    # wrong usage is refused (exit 2) before any run is looked for (exit 1)
    settings = ServerSettings(host, port, read_key(api_key_file), tuple(allow_host or ()), tuple(allow_origin or ()), limits)
    worker = WorkerSettings(name_runs(runs), limits, scratch="", device=device, threads=threads, precision=precision)
    from attentif.serve.app import create_app
    from attentif.serve.server import serve as listen

    app = create_app(settings, worker)
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    say(f"{address}/docs; Ctrl-C stops")
    if settings.api_key and sys.stderr.isatty():  # a log is no place for it
        say(f"in a browser: {address}/session?token={settings.token}")
    listen(app, settings, access_log=access_log)


def name_runs(runs: list[str]) -> dict[str, str]:
    """Paths by the names that clients know: `name=path`, or the last part of the path."""
    from attentif.hub.source import refuse_missing

    found: dict[str, str] = {}
    for given in runs:
        name, equals, path = given.partition("=")
        if not equals or Path(given).exists():
            own = Path(given).resolve()
            name, path = own.stem if own.is_file() else own.name if own.exists() else given, given
        if not name or name in found:
            raise UsageError(f"{given}: two runs are called {name!r}; name them: attentif serve one={path} two=...")
        found[name] = path
    for path in found.values():
        refuse_missing(path)
    return found


def read_key(file: Path | None) -> str | None:
    """The API key of a file, or of the environment; options of a command are seen by every user of the machine."""
    if file is None:
        return os.environ.get(KEY) or None
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise UsageError("the API key cannot be read", file=file) from None
