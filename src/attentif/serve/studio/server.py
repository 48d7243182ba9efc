"""A server with the studio on it."""

from collections.abc import Sequence
from pathlib import Path

from fastapi import FastAPI

from attentif.serve.errors import install_handlers
from attentif.serve.security import Guard
from attentif.serve.settings import ServerSettings
from attentif.serve.studio.jobs import Jobs
from attentif.serve.studio.library import Library
from attentif.serve.studio.routes import install_studio
from attentif.version import __version__


def create_studio(settings: ServerSettings, runs: Sequence[Path], data: Path | None = None) -> FastAPI:
    """The studio alone, behind the same guard as every server of the project."""
    app = FastAPI(title="Attentif studio", version=__version__, docs_url=None, redoc_url=None, openapi_url="/studio/api/openapi.json")
    install_handlers(app)
    install_studio(app, settings, Library(runs), Jobs(runs[0], data))
    app.add_middleware(Guard, settings=settings)
    return app
