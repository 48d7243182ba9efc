"""The language of a page: its modules send it with every request, as Accept-Language."""

from typing import Annotated

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.responses import JSONResponse

from attentif.french import Lang, to_french
from attentif.serve.errors import ApiError, invalid


def page_language(request: Request) -> Lang:
    """French where the request asks for it first."""
    return "fr" if request.headers.get("accept-language", "").strip().lower().startswith("fr") else "en"


PageLang = Annotated[Lang, Depends(page_language)]


def localize_for(lang: Lang, message: str) -> str:
    """The message in the language of a page; the process may have another."""
    return to_french(message) if lang == "fr" else message


def install_languages(app: FastAPI) -> None:
    """Answer errors in the language of the page that asked."""

    def say(request: Request, error: ApiError) -> JSONResponse:
        error.detail.message = localize_for(page_language(request), error.detail.message)
        return error.response()

    @app.exception_handler(ApiError)
    async def refuse(request: Request, error: ApiError) -> JSONResponse:
        return say(request, error)

    @app.exception_handler(RequestValidationError)
    async def refuse_invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return say(request, invalid(error))
