"""Errors in OpenAI's form: `{"error": {"message", "type", "param", "code"}}`."""

from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from attentif.errors import printable

TYPES = {  # OpenAI's
    400: "invalid_request_error",
    401: "invalid_request_error",
    403: "permission_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
    431: "invalid_request_error",
    503: "service_unavailable_error",
    504: "timeout_error",
}
UNROUTED = {  # what no route answers
    404: ("there is no such endpoint here; GET /docs lists those that are", "unknown_url"),
    405: ("this endpoint has no such method; GET /docs lists those that it has", "method_not_supported"),
}
MOST_LETTERS = 300  # of a message that quotes the request


class ErrorDetail(BaseModel):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(BaseModel):
    error: ErrorDetail


class ApiError(Exception):
    """A request that is refused or failed; it becomes a response, or the last event of a stream."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.headers = status, dict(headers or {})
        self.detail = ErrorDetail(message=printable(message), type=TYPES.get(status, "server_error"), param=param, code=code)

    @property
    def body(self) -> dict[str, object]:
        return {"error": self.detail.model_dump()}

    def response(self) -> JSONResponse:
        return JSONResponse(self.body, self.status, self.headers)


def overload_error(seconds: int = 1) -> ApiError:
    return ApiError(429, "the queue is full; try again later", code="rate_limit_exceeded", headers={"Retry-After": str(seconds)})


def install_handlers(app: FastAPI) -> None:
    """Make every error of an app, its own and the framework's, an `ErrorBody`."""

    @app.exception_handler(ApiError)
    async def refuse(request: Request, error: ApiError) -> JSONResponse:  # noqa: ARG001
        return error.response()

    @app.exception_handler(RequestValidationError)
    async def refuse_invalid(request: Request, error: RequestValidationError) -> JSONResponse:  # noqa: ARG001
        return invalid(error).response()

    @app.exception_handler(HTTPException)
    async def refuse_http(request: Request, error: HTTPException) -> JSONResponse:  # noqa: ARG001
        message, code = UNROUTED.get(error.status_code, (str(error.detail), None))
        return ApiError(error.status_code, message, code=code, headers=error.headers).response()

    @app.exception_handler(Exception)
    async def fail(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001
        return ApiError(500, "the server failed on this request; its log says why", code="internal_error").response()


def invalid(error: RequestValidationError) -> ApiError:
    """The first problem of a request, by the field that has it."""
    problem = min(error.errors(), key=lambda one: one["type"] in ("list_type", "string_type"))  # of a union, the branch that came further
    if problem["type"] == "json_invalid":
        return ApiError(400, "the body is no JSON", code="invalid_json")
    if problem["type"] == "refused_field":
        said = problem["ctx"]
        return ApiError(400, f"{said['field']}: {said['reason']}", param=said["field"], code=said["code"])
    place = [str(part) for part in problem["loc"] if part != "body" and not is_branch(part)]
    message = str(problem["msg"]).removeprefix("Value error, ")[:MOST_LETTERS]
    if problem["type"] == "extra_forbidden":
        message = "there is no such field here"
    param = ".".join(place)[:MOST_LETTERS] or None
    return ApiError(400, f"{param}: {message}" if param else message, param=param, code="invalid_value")


def is_branch(part: int | str) -> bool:
    """Whether a part of an error's place names the type of a union that was tried (`list[constrained-str]`), and no field."""
    return isinstance(part, str) and ("[" in part or part in ("str", "constrained-str"))
