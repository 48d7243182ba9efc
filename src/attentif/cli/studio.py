"""`attentif studio`: inspect runs in the browser."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attentif.french import localize

if TYPE_CHECKING:
    import socket


def studio(
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="RUNS", help="Run folders, or folders of runs; by default runs.", show_default=False)
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder with data files for training from the page.", show_default=False)
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any free port.")] = 8765,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
) -> None:
    """Inspect runs in the browser, in French or English.

    Predictions, attention, interventions, training. The page is served on this machine only and works offline.
    The URL contains the session token.

    For example: attentif studio runs --data examples
    """
    from attentif.errors import UsageError

    try:
        import uvicorn

        from attentif.serve.settings import ServerSettings
        from attentif.serve.studio.server import create_studio
    except ImportError as error:
        raise UsageError(f"the studio needs {error.name}: pip install attentif[serve]") from None
    folders = runs or [Path("runs")]
    for folder in folders:
        if not folder.is_dir() and (runs or not folder.exists()):
            hint = "train something first (attentif train reviews), or name a folder" if not runs else "no such folder"
            raise UsageError(hint, file=folder)
    if data is not None and not data.is_dir():
        raise UsageError("no such folder", file=data)
    bound = _bind(port)
    settings = ServerSettings(port=bound.getsockname()[1])
    app = create_studio(settings, folders, data)
    address = f"http://127.0.0.1:{settings.port}/studio/?token={settings.token}"
    print(f"studio: {address}", localize("Ctrl-C stops it; trainings that it started continue."), sep="\n", flush=True)
    if open_page:
        _show(address)
    config = uvicorn.Config(app, log_level="warning", server_header=False, timeout_keep_alive=settings.limits.keep_alive_seconds)
    uvicorn.Server(config).run(sockets=[bound])


def _bind(port: int) -> "socket.socket":
    """Bind the port before the address is printed."""
    import socket

    from attentif.errors import UsageError

    # with its protocol named: asyncio turns Nagle's algorithm off for such sockets alone, and it would hold each answer back for 40 ms
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
    except OSError as error:
        raise UsageError(f"port {port} cannot be used ({(error.strerror or str(error)).lower()}); choose another with --port") from None
    return listening


def _show(address: str) -> None:
    import threading
    import webbrowser

    threading.Timer(0.5, lambda: webbrowser.open(address)).start()
