"""Capabilities: what a run can do, with typed requests and responses.

The command line, the Python API and what serves a run iterate over `CAPABILITIES`; none of them imports a task. A task names its own
capabilities (`Task.capabilities`) and implements their protocol; adding a task adds names, never an `isinstance` of a task elsewhere.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from attentif.decode import Generated, GenerateOptions, Token
from attentif.decode.session import Writing
from attentif.tasks import requests, responses
from attentif.tasks.base import Tokenizers
from attentif.tasks.requests import PredictRequest, Request
from attentif.tasks.responses import Response
from attentif.view.blocks import AttentionMaps

# ------------------------------------------------------------------------------------------------------------ protocols


class Generator(Protocol):
    """Continues texts: a language model, neural or of n-grams."""

    def prompt(self, tokenizers: Tokenizers, text: str) -> list[int]:
        """Token ids that a continuation of `text` starts from."""
        ...

    def options(self, given: dict[str, Any]) -> GenerateOptions:
        """Decoding options: those given, over the task's own."""
        ...

    def generate(
        self, model: Any, tokenizers: Tokenizers, prompt: str, options: GenerateOptions, alternatives: int | None = None
    ) -> Generated: ...

    def stream(
        self, model: Any, tokenizers: Tokenizers, prompt: str, options: GenerateOptions, alternatives: int | None = None
    ) -> Iterator[Token]: ...

    def session(self, model: Any, ids: Sequence[int], room: int) -> Writing:
        """Scores of the token after `ids`, to be read on token by token."""
        ...


class Filler(Protocol):
    def fill(self, model: Any, tokenizers: Tokenizers, text: str, count: int) -> Any: ...


class Painter(Protocol):
    def paint(self, model: Any, state: Any, tokenizers: Tokenizers, text: str, count: int, **options: Any) -> NDArray[np.uint8]: ...


class Aligner(Protocol):
    def align(self, model: Any, tokenizers: Tokenizers, source: str, target: str) -> AttentionMaps: ...


# ---------------------------------------------------------------------------------------------------------------- table


@dataclass(frozen=True)
class Capability:
    """One thing that a run can do: the method that does it, and what it takes and gives."""

    name: str
    does: str  # completes "this run cannot ..."
    method: str  # of `Run`
    request: type[Request]
    response: type[Response]
    build: Callable[[Any], Response]  # the response from what the method returns
    files: tuple[str, ...] = ()  # roles of inputs that are files: their names on the command line, their contents over HTTP
    answer: Callable[[Any, Any], Response] | None = None  # the response from a run and a request, where that takes more than one method

    def call(self, run: Any, request: Request) -> Response:
        """Call the method of `run` with the fields of the request."""
        if self.answer is not None:
            return self.answer(run, request)
        return self.build(getattr(run, self.method)(**request.model_dump(exclude_unset=True)))


CAPABILITIES: dict[str, Capability] = {
    capability.name: capability
    for capability in (
        Capability("classify", "classify", "predict", PredictRequest, responses.ClassifyResponse, responses.build_classified),
        Capability("estimate", "estimate numbers", "predict", PredictRequest, responses.EstimateResponse, responses.build_estimates),
        Capability("tag", "tag tokens", "predict", PredictRequest, responses.TagResponse, responses.build_tagged),
        Capability("answer", "answer questions", "predict", PredictRequest, responses.AnswerResponse, responses.build_answered, ("image",)),
        Capability("translate", "translate", "predict", PredictRequest, responses.TranslateResponse, responses.build_translated),
        Capability("forecast", "forecast", "predict", PredictRequest, responses.ForecastResponse, responses.build_forecast, ("series",)),
        Capability(
            "transcribe", "transcribe", "predict", PredictRequest, responses.TranscribeResponse, responses.build_transcribed, ("audio",)
        ),
        Capability(
            "describe", "describe pictures", "predict", PredictRequest, responses.ClassifyResponse, responses.build_classified, ("image",)
        ),
        Capability(
            "match",
            "match pictures, texts and sounds",
            "predict",
            PredictRequest,
            responses.ClassifyResponse,
            responses.build_classified,
            ("image", "audio"),
        ),
        Capability(
            "generate",
            "generate text",
            "generate",
            requests.GenerateRequest,
            responses.GenerateResponse,
            responses.GenerateResponse.model_validate,
        ),
        Capability(
            "chat", "chat", "generate", requests.GenerateRequest, responses.GenerateResponse, responses.GenerateResponse.model_validate
        ),
        Capability(
            "fill", "fill in hidden words", "fill", requests.FillRequest, responses.FillResponse, responses.FillResponse.model_validate
        ),
        Capability(
            "embed",
            "embed texts",
            "embed",
            requests.EmbedRequest,
            responses.EmbedResponse,
            lambda found: responses.EmbedResponse(vectors=found.tolist()),
            ("image",),
        ),
        Capability("paint", "paint", "paint", requests.PaintRequest, responses.PaintResponse, responses.build_painted),
        Capability(
            "neighbours",
            "find neighbours of words",
            "neighbours",
            requests.NeighboursRequest,
            responses.NeighboursResponse,
            lambda found: responses.NeighboursResponse(neighbours=found),
        ),
        Capability(
            "align",
            "align sentences",
            "align",
            requests.AlignRequest,
            responses.AlignResponse,
            lambda found: responses.AlignResponse(map=responses.build_map(found)),
        ),
        Capability(
            "inspect",
            "show attention maps",
            "maps",
            requests.InspectRequest,
            responses.InspectResponse,
            lambda found: responses.InspectResponse(maps=[responses.build_map(one) for one in found.maps]),
            answer=responses.inspect_run,
        ),
    )
}
