"""Requests of capabilities: the arguments of a run's methods, typed."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


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
    texts: list[str] = Field(min_length=1, description="texts; pictures as data URIs, of a model that reads them")
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
    heads: list[int] | None = Field(None, description="heads to return, counted from 1")
    next_tokens: int = Field(0, ge=0, description="likeliest next tokens to return, of a language model")
    attributions: bool = Field(False, description="how much each token moved the likeliest answer: gradient times embedding")
