"""Capabilities: what a run can do, with typed requests and responses.

The command line, the Python API and what serves a run iterate over `CAPABILITIES`; none of them imports a task. A task names its own
capabilities (`Task.capabilities`) and implements their protocol; adding a task adds names, never an `isinstance` of a task elsewhere.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from attentif.decode import Generated, GenerateOptions, Token
from attentif.decode.session import Writing
from attentif.tasks.task import Prediction, Tokenizers
from attentif.view.blocks import AttentionMaps

# ------------------------------------------------------------------------------------------------------------- requests


class Request(BaseModel):
    """The fields are the arguments of the run's method."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PredictRequest(Request):
    inputs: list[str | dict[str, str]] = Field(min_length=1, description="texts, or rows by role: text and pair, question and passage")


class GenerateRequest(Request):
    model_config = ConfigDict(frozen=True, extra="allow")  # the rest are `GenerateOptions`

    prompt: str = Field(description="text to continue")
    alternatives: int | None = Field(None, gt=0, description="likeliest tokens to return for each step")


class FillRequest(Request):
    text: str = Field(min_length=1, description="text with [MASK], <mask> or ___ in it")
    count: int = Field(5, gt=0, description="guesses for each hidden word")


class EmbedRequest(Request):
    texts: list[str] = Field(min_length=1, description="texts")
    pooling: Literal["mean", "first", "cls", "last", "max"] | None = Field(None, description="by default the checkpoint's own, or mean")
    normalise: bool = Field(True, description="scale vectors to length 1")


class PaintRequest(Request):
    text: str = Field(min_length=1, description="what to draw")
    count: int = Field(16, gt=0, description="pictures")


class NeighboursRequest(Request):
    word: str = Field(min_length=1, description="word")
    count: int = Field(10, gt=0, description="neighbours")


class AlignRequest(Request):
    source: str = Field(min_length=1, description="sentence")
    target: str = Field(min_length=1, description="its translation")


class InspectRequest(Request):
    text: str = Field(min_length=1, description="text to read")
    target: str | None = Field(None, description="translation to read instead of the model's own")
    pair: str | None = Field(None, description="second text of a pair")
    layers: list[int] | None = Field(None, description="layers to return, counted from 1")


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
    def paint(self, model: Any, tokenizers: Tokenizers, text: str, count: int, **options: Any) -> NDArray[np.uint8]: ...


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
    response: Any  # a type that pydantic can validate and write as JSON

    def call(self, run: Any, request: Request) -> Any:
        """The answer as plain data."""
        found = getattr(run, self.method)(**request.model_dump(exclude_unset=True))
        return found.tolist() if isinstance(found, np.ndarray) else TypeAdapter(self.response).dump_python(found, mode="json")


Answers = list[Prediction]
Vectors = list[list[float]]
CAPABILITIES: dict[str, Capability] = {
    capability.name: capability
    for capability in (
        Capability("classify", "classify", "predict", PredictRequest, Answers),
        Capability("tag", "tag tokens", "predict", PredictRequest, Answers),
        Capability("answer", "answer questions", "predict", PredictRequest, Answers),
        Capability("translate", "translate", "predict", PredictRequest, Answers),
        Capability("forecast", "forecast", "predict", PredictRequest, Answers),
        Capability("transcribe", "transcribe", "predict", PredictRequest, Answers),
        Capability("describe", "describe pictures", "predict", PredictRequest, Answers),
        Capability("generate", "generate text", "generate", GenerateRequest, Generated),
        Capability("chat", "chat", "generate", GenerateRequest, Generated),
        Capability("fill", "fill in hidden words", "fill", FillRequest, Any),
        Capability("embed", "embed texts", "embed", EmbedRequest, Vectors),
        Capability("paint", "paint", "paint", PaintRequest, list[Any]),
        Capability("neighbours", "find neighbours of words", "neighbours", NeighboursRequest, list[Any]),
        Capability("align", "align sentences", "align", AlignRequest, Any),
        Capability("inspect", "show attention maps", "maps", InspectRequest, Any),
    )
}
