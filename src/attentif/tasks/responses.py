"""Responses of capabilities, typed, and how they are made from what a run's methods return."""

import math
from base64 import b64encode
from collections.abc import Sequence
from io import BytesIO
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from attentif.errors import UsageError
from attentif.extras import require_extra
from attentif.models import Batch, Input
from attentif.nn.seq import Seq
from attentif.tasks.answers import Prediction
from attentif.tasks.attention import influence
from attentif.tasks.details import EstimateAnswer, SpanAnswer, TagAnswer, require_details
from attentif.tasks.requests import InspectRequest
from attentif.view.blocks import AttentionMaps
from attentif.view.words import say


class Response(BaseModel):
    """Base of every response; built from what the run's method returned."""

    model_config = ConfigDict(frozen=True, from_attributes=True)


class ClassifiedInput(Response):
    input: str = Field(description="the text, or what it is called")
    label: str = Field(description="likeliest class")
    probability: float | None = Field(None, description="of the label")
    probabilities: dict[str, float] = Field(default_factory=dict, description="of every class, likeliest first")


class ClassifyResponse(Response):
    answers: list[ClassifiedInput]


class EstimatedInput(Response):
    input: str
    value: float
    low: float | None = Field(None, description="the interval from `low` to `high` is made to hold nine times in ten")
    high: float | None = None


class EstimateResponse(Response):
    answers: list[EstimatedInput]


class Entity(Response):
    type: str
    text: str
    start: int = Field(description="first character")
    end: int = Field(description="one past the last character")


class TaggedInput(Response):
    input: str
    output: str = Field(description="the text with its entities in brackets")
    entities: list[Entity]
    words: list[str]
    tags: list[str] = Field(description="of each word")


class TagResponse(Response):
    answers: list[TaggedInput]


class AnsweredQuestion(Response):
    question: str
    answer: str = Field(description="empty where the passage does not say")
    probability: float | None = None
    start: int | None = Field(None, description="first character of the answer in the passage")
    end: int | None = Field(None, description="one past its last character")


class AnswerResponse(Response):
    answers: list[AnsweredQuestion]


class WrittenText(Response):
    input: str
    output: str


class TranslateResponse(Response):
    answers: list[WrittenText]


class TranscribedSound(Response):
    input: str
    transcript: str
    probability: float | None = Field(None, description="of the transcript, where it is one of a few")
    probabilities: dict[str, float] = Field(default_factory=dict)


class TranscribeResponse(Response):
    answers: list[TranscribedSound]


class ForecastSeries(Response):
    input: str
    summary: str
    table: list[dict[str, str | float | None]] = Field(description="a row for each step: its date, then each column and its quantiles")
    notes: list[str] = Field(default_factory=list, description="what was done to read the input")


class ForecastResponse(Response):
    answers: list[ForecastSeries]


class GenerateResponse(Response):
    text: str | None
    tokens: list[int]
    finish: Literal["token", "text", "length", "limit"] = Field(description="what ended the text")
    log_prob: float | None = None


class FilledWord(Response):
    word: str
    probability: float
    text: str = Field(description="the whole text with this word")
    token: int


class FillResponse(Response):
    input: str
    text: str = Field(description="with the likeliest word at each place")
    places: list[list[FilledWord]]


class EmbedResponse(Response):
    vectors: list[list[float]]


class PaintResponse(Response):
    pictures: list[str] = Field(description="PNG files, as data URIs")


class NearWord(Response):
    word: str
    cosine: float
    angle: float = Field(description="degrees")
    distance: float


class NeighboursResponse(Response):
    neighbours: list[NearWord]


class LayerWeights(Response):
    name: str = Field(description="such as `encoder 1 attn`")
    heads: list[list[list[float]]] = Field(description="(heads, rows, columns)")


class AttentionMap(Response):
    title: str
    rows: list[str] = Field(description="tokens that look")
    columns: list[str] = Field(description="tokens that are looked at")
    layers: list[LayerWeights]


class AlignResponse(Response):
    map: AttentionMap


class TokenProbability(Response):
    token: str
    probability: float


class TokenAttribution(Response):
    token: str
    value: float = Field(description="positive where the token speaks for the answer")


class InspectResponse(Response):
    maps: list[AttentionMap] = Field(description="empty where the model has none")
    next_tokens: list[TokenProbability] = Field(default_factory=list, description="likeliest first")
    attributions: list[TokenAttribution] = Field(default_factory=list)


# ------------------------------------------------------------------------------------------ from results to responses


def build_classified(found: Sequence[Prediction]) -> ClassifyResponse:
    return ClassifyResponse(
        answers=[ClassifiedInput(input=one.input, label=one.output, probability=one.probability, probabilities=one.scores) for one in found]
    )


def build_estimates(found: Sequence[Prediction]) -> EstimateResponse:
    return EstimateResponse(
        answers=[EstimatedInput.model_validate({"input": one.input, **require_details(one, EstimateAnswer)}) for one in found]
    )


def build_tagged(found: Sequence[Prediction]) -> TagResponse:
    return TagResponse(
        answers=[TaggedInput.model_validate({"input": one.input, "output": one.output, **require_details(one, TagAnswer)}) for one in found]
    )


def build_answered(found: Sequence[Prediction]) -> AnswerResponse:
    spans = [(place.get("start"), place.get("end")) for place in (require_details(one, SpanAnswer) for one in found)]
    return AnswerResponse(
        answers=[
            AnsweredQuestion(question=one.input, answer=one.output, probability=one.probability, start=start, end=end)
            for one, (start, end) in zip(found, spans, strict=True)
        ]
    )


def build_translated(found: Sequence[Prediction]) -> TranslateResponse:
    return TranslateResponse(answers=[WrittenText(input=one.input, output=one.output) for one in found])


def build_transcribed(found: Sequence[Prediction]) -> TranscribeResponse:
    return TranscribeResponse(
        answers=[
            TranscribedSound(input=one.input, transcript=one.output, probability=one.probability, probabilities=one.scores) for one in found
        ]
    )


def build_forecast(found: Sequence[Prediction]) -> ForecastResponse:
    return ForecastResponse(
        answers=[ForecastSeries(input=one.input, summary=one.output, table=one.table, notes=one.notes) for one in found]
    )


def build_painted(found: NDArray[np.uint8]) -> PaintResponse:
    return PaintResponse(pictures=[_png(picture) for picture in found])


def _png(pixels: NDArray[np.uint8]) -> str:
    require_extra("PIL")
    from PIL import Image

    file = BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return f"data:image/png;base64,{b64encode(file.getvalue()).decode()}"


def build_map(found: AttentionMaps, heads: Sequence[int] | None = None) -> AttentionMap:
    layers = []
    for name, weights in found.weights.items():
        chosen = range(1, len(weights) + 1) if heads is None else [head for head in heads if head <= len(weights)]
        values = np.round(np.asarray(weights, np.float64)[[head - 1 for head in chosen]], 5)
        layers.append(LayerWeights(name=name, heads=values.tolist()))
    return AttentionMap(title=say(found.title, "en"), rows=list(found.rows), columns=list(found.keys), layers=layers)


def inspect_run(run: Any, request: InspectRequest) -> InspectResponse:
    """Maps, next tokens and attributions of one text, as requested and supported by the model."""
    wanted = request.model_dump(include={"target", "pair", "layers"}, exclude_none=True)
    try:
        maps = run.maps(request.text, **wanted).maps
    except UsageError:
        if not request.next_tokens and not request.attributions:
            raise
        maps = []
    following: list[TokenProbability] = []
    if request.next_tokens:
        (step,) = run.generate(request.text, max_tokens=1, alternatives=request.next_tokens).steps
        following = [TokenProbability(token=run.token_name(token), probability=math.exp(value)) for token, value in step.alternatives]
    return InspectResponse(
        maps=[build_map(one, request.heads) for one in maps],
        next_tokens=following,
        attributions=attribute(run, request.text) if request.attributions else [],
    )


def attribute(run: Any, text: str) -> list[TokenAttribution]:
    """Gradient × embedding of the largest logit: of the class, or of the token that comes next."""
    continues = "generate" in run.capabilities
    if run.network.decoder is not None and run.network.encoder is not None:
        raise UsageError("attributions are of models with one stack, and this one has two")
    ids = list(run.task.prompt(run.tokenizers, text)) if continues else list(run.tokenizer.encode(text).ids)
    batch = Batch(Input(torch.tensor([ids]), Seq.from_padded([len(ids)])))
    found = influence(run.model, batch, lambda logits: (logits[:, -1] if logits.dim() == 3 else logits).amax(-1))
    if found is None:
        raise UsageError("attributions are of tokens, and this model reads none")
    return [TokenAttribution(token=run.token_name(token), value=value) for token, value in zip(ids, found[0].tolist(), strict=True)]
