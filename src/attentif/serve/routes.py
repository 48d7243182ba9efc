"""Routes under `/v1`: OpenAI's, and one for every capability, generated from the table."""

import array
import base64
import sys
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, create_model
from starlette.responses import Response

from attentif.serve.completions import chat, complete
from attentif.serve.context import client_name, context_of, until_disconnected
from attentif.serve.errors import ApiError, ErrorBody
from attentif.serve.messages import CallJob, DetokenizeJob, EmbedJob, ModelInfo, TokenizeJob
from attentif.serve.schemas import (
    ChatRequest,
    ChatResponse,
    CompletionRequest,
    CompletionResponse,
    DetokenizeRequest,
    DetokenizeResponse,
    Embedding,
    EmbeddingRequest,
    EmbeddingResponse,
    EmbeddingUsage,
    ModelCard,
    ModelList,
    ModelName,
    TokenizeRequest,
    TokenizeResponse,
)
from attentif.serve.settings import MAX_COUNT, MAX_INPUTS, MAX_LETTERS, MAX_PICTURES
from attentif.tasks.capabilities import CAPABILITIES, Capability
from attentif.tasks.requests import PredictRequest

OWN_ROUTES = ("generate", "chat", "embed")  # served by OpenAI's endpoints
LONGEST_INSPECTED = 2000  # characters
ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorBody, "description": "refused, with the reason"},
    "5XX": {"model": ErrorBody, "description": "loading, stopping, or too late"},
}

router = APIRouter(prefix="/v1", responses=ERRORS)


@router.get("/models", tags=["models"])
async def list_models(request: Request) -> ModelList:
    """List the models that are served."""
    supervisor = context_of(request).supervisor
    return ModelList(data=[card(model) for model in supervisor.models.values()])


@router.get("/models/{model:path}", tags=["models"])  # names of the hub have a slash
async def show_model(request: Request, model: str) -> ModelCard:
    """Describe one model."""
    return card(context_of(request).supervisor.require_model(model))


def card(model: ModelInfo) -> ModelCard:
    return ModelCard(**model.model_dump())


@router.post("/completions", tags=["generation"], response_model=CompletionResponse)
async def create_completion(request: Request, asked: CompletionRequest) -> CompletionResponse | Response:
    """Continue texts, as OpenAI's endpoint does."""
    return await complete(context_of(request), request, asked)


@router.post("/chat/completions", tags=["generation"], response_model=ChatResponse)
async def create_chat_completion(request: Request, asked: ChatRequest) -> ChatResponse | Response:
    """Answer a conversation, written down by the model's own chat template."""
    return await chat(context_of(request), request, asked)


@router.post("/embeddings", tags=["embeddings"], response_model=EmbeddingResponse)
async def create_embeddings(request: Request, asked: EmbeddingRequest) -> Response:
    """Return a vector of length 1 for each text."""
    context = context_of(request)
    job = EmbedJob(model=asked.model, texts=asked.texts, truncate=bool(asked.truncate))
    found = await until_disconnected(request, context.supervisor.result(job, client_name(request)))
    size = len(base64.b64decode(found.value[0])) // 4
    if asked.dimensions not in (None, size):
        raise ApiError(400, f"dimensions: vectors of this model have {size} numbers", param="dimensions", code="invalid_value")
    context.metrics.tokens_in.labels(asked.model).inc(found.prompt_tokens)
    vectors = found.value if asked.encoding_format == "base64" else [floats(vector) for vector in found.value]
    whole = EmbeddingResponse(
        data=[Embedding(index=place, embedding=vector) for place, vector in enumerate(vectors)],
        model=asked.model,
        usage=EmbeddingUsage(prompt_tokens=found.prompt_tokens, total_tokens=found.prompt_tokens),
    )
    return Response(whole.model_dump_json(), media_type="application/json")  # validated once, not again by the framework


def floats(encoded: str) -> list[float]:
    """Numbers from base64 of little-endian float32."""
    values = array.array("f", base64.b64decode(encoded))
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()


@router.post("/tokenize", tags=["tokens"])
async def tokenize(request: Request, asked: TokenizeRequest) -> TokenizeResponse:
    """Cut a text into the model's tokens."""
    job = TokenizeJob(model=asked.model, text=asked.text, special=asked.special)
    found = await until_disconnected(request, context_of(request).supervisor.result(job, client_name(request)))
    return TokenizeResponse(**found.value)


@router.post("/detokenize", tags=["tokens"])
async def detokenize(request: Request, asked: DetokenizeRequest) -> DetokenizeResponse:
    """Turn tokens back into text."""
    job = DetokenizeJob(model=asked.model, tokens=asked.tokens)
    found = await until_disconnected(request, context_of(request).supervisor.result(job, client_name(request)))
    return DetokenizeResponse(**found.value)


# -------------------------------------------------------------------------------------------------------- capabilities

Row = dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=4 * MAX_LETTERS)]]
BOUNDS: dict[str, Any] = {  # what HTTP allows of the fields of a request
    "inputs": (list[Annotated[str, Field(max_length=4 * MAX_LETTERS)] | Row], Field(min_length=1, max_length=MAX_INPUTS)),
    "text": (str, Field(min_length=1, max_length=LONGEST_INSPECTED)),
    "source": (str, Field(min_length=1, max_length=LONGEST_INSPECTED)),
    "target": (str, Field(min_length=1, max_length=LONGEST_INSPECTED)),
    "pair": (str, Field(min_length=1, max_length=LONGEST_INSPECTED)),
    "word": (str, Field(min_length=1, max_length=256)),
    "count": (int, Field(ge=1, le=MAX_COUNT)),
    "heads": (list[Annotated[int, Field(ge=1, le=1024)]], Field(max_length=256)),
    "next_tokens": (int, Field(ge=0, le=MAX_COUNT)),
    "attributions": (bool, Field()),
    "layers": (list[Annotated[int, Field(ge=1, le=1024)]], Field(max_length=256)),
}


def bound_request(capability: Capability) -> type[BaseModel]:
    """The capability's request with the name of a model and bounds on every field."""
    fields: dict[str, Any] = {"model": (ModelName, ...)}
    for name, own in capability.request.model_fields.items():
        kind, bounds = BOUNDS[name]
        if capability.name == "paint" and name == "count":
            bounds = Field(ge=1, le=MAX_PICTURES)
        if capability.name == "inspect" and name == "text":  # may be a picture; a text is bounded by its tokens
            bounds = Field(min_length=1, max_length=4 * MAX_LETTERS)
        if own.is_required():
            fields[name] = (Annotated[kind, bounds], Field(description=own.description))
        else:
            optional = Annotated[kind, bounds] | None if own.default is None else Annotated[kind, bounds]
            fields[name] = (optional, Field(own.default, description=own.description))
    name = f"{capability.name.title()}Request"
    return create_model(name, __config__=ConfigDict(extra="forbid", title=name), **fields)


def endpoint(capability: Capability | None, body: type[BaseModel]) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def answer(request: Request, asked: body) -> Any:  # type: ignore[valid-type]
        fields = asked.model_dump(exclude_unset=True, exclude_none=True)  # type: ignore[attr-defined]
        job = CallJob(model=fields.pop("model"), capability=capability.name if capability else None, request=fields)
        found = await until_disconnected(request, context_of(request).supervisor.result(job, client_name(request)))
        return found.value

    return answer


def add_capabilities() -> None:
    """`/v1/predict` for whatever answers inputs, and `/v1/<name>` for each capability."""
    answering = [one for one in CAPABILITIES.values() if one.request is PredictRequest]
    predict = bound_request(answering[0])
    predict.__name__ = "PredictRequest"
    either: Any = None
    for one in answering:
        either = one.response if either is None else either | one.response
    router.add_api_route(
        "/predict",
        endpoint(None, predict),
        methods=["POST"],
        name="predict",
        description="Answer inputs as the run was trained to: labels, tags, answers, translations, forecasts, transcripts.",
        tags=["capabilities"],
        responses={200: {"model": either}},
    )
    for one in CAPABILITIES.values():
        if one.name in OWN_ROUTES:
            continue
        about = " Files are sent as data URIs." if one.files else ""
        router.add_api_route(
            f"/{one.name}",
            endpoint(one, bound_request(one)),
            methods=["POST"],
            name=one.name,
            description=f"{one.does.capitalize()}.{about}",
            tags=["capabilities"],
            responses={200: {"model": one.response}},
        )


add_capabilities()
