"""Requests and responses of OpenAI's API, as far as this server has them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from attentif.serve.messages import Sampling
from attentif.serve.settings import (
    MAX_CHOICES,
    MAX_IDS,
    MAX_INPUTS,
    MAX_LETTERS,
    MAX_MESSAGES,
    MAX_MODEL_NAME,
    MAX_ROWS,
    MAX_SEED,
    MAX_STOP_LETTERS,
    MAX_STOPS,
    MAX_TOKENS,
    MAX_TOP_LOGPROBS,
)

Text = Annotated[str, Field(max_length=MAX_LETTERS)]
ModelName = Annotated[str, Field(min_length=1, max_length=MAX_MODEL_NAME, description="name of a model, as /v1/models lists them")]
Stop = Annotated[str, Field(min_length=1, max_length=MAX_STOP_LETTERS)]

# Fields of OpenAI's API that this server has no use for, with the reason; a value that asks for nothing is accepted.
UNSUPPORTED = {
    "tools": "models served here call no tools",
    "tool_choice": "models served here call no tools",
    "functions": "models served here call no functions",
    "function_call": "models served here call no functions",
    "audio": "there is no sound in answers",
    "modalities": "answers are texts",
    "prediction": "predicted outputs are not supported",
    "web_search_options": "there is no search here",
    "reasoning_effort": "models served here have no reasoning effort",
    "verbosity": "models served here have no verbosity",
    "logit_bias": "not supported; use stop, temperature, top_p, top_k or min_p",
    "presence_penalty": "not supported; repetition_penalty is",
    "frequency_penalty": "not supported; repetition_penalty is",
    "best_of": "not supported; ask for n choices",
    "suffix": "texts are continued, not filled in; /v1/fill serves masked models",
    "store": "nothing is stored",
}
NEUTRAL: tuple[Any, ...] = (None, False, 0, 0.0, [], {}, "none", ["text"])
IGNORED = ("user", "metadata", "service_tier", "parallel_tool_calls", "safety_identifier", "prompt_cache_key")  # ask for nothing


UNSUPPORTED_CODE, INVALID_CODE = "unsupported_parameter", "invalid_value"  # OpenAI's names


def refused_field(name: str, reason: str, code: str = INVALID_CODE) -> PydanticCustomError:
    """The error of a field that a rule over several fields finds; clients look for its name in `param`."""
    return PydanticCustomError("refused_field", "{field}: {reason}", {"field": name, "reason": reason, "code": code})


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    model: ModelName

    @model_validator(mode="before")
    @classmethod
    def _refuse_unsupported(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        for name, reason in UNSUPPORTED.items():
            if name in values and values[name] not in NEUTRAL and not (name == "best_of" and values[name] == values.get("n", 1)):
                raise refused_field(name, reason, UNSUPPORTED_CODE)
        kind = values.get("response_format")
        if kind is not None and kind != {"type": "text"}:
            raise refused_field("response_format", "only text is written", UNSUPPORTED_CODE)
        return {name: value for name, value in values.items() if name not in (*UNSUPPORTED, *IGNORED, "response_format")}


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")

    include_usage: bool | None = Field(None, description="send the counted tokens as one last chunk")


class SamplingRequest(Strict):
    """How a continuation is chosen."""

    temperature: float | None = Field(None, ge=0, le=2, description="sampling temperature; 0 is greedy (default: 1)")
    top_p: float | None = Field(None, gt=0, le=1, description="draw among the likeliest tokens that have this probability together")
    n: int | None = Field(None, ge=1, le=MAX_CHOICES, description="continuations of each prompt")
    stop: Stop | Annotated[list[Stop], Field(max_length=MAX_STOPS)] | None = Field(
        None, description="texts that end the answer before them"
    )
    seed: int | None = Field(None, ge=-MAX_SEED, le=MAX_SEED, description="the same seed draws the same answer")
    stream: bool | None = Field(None, description="send the text as it is written, as server-sent events")
    stream_options: StreamOptions | None = None
    top_k: int | None = Field(None, ge=1, le=1_000_000, description="not OpenAI's: draw among the k likeliest tokens")
    min_p: float | None = Field(None, ge=0, le=1, description="not OpenAI's: draw among tokens at least this probable beside the likeliest")
    repetition_penalty: float | None = Field(None, gt=0, le=10, description="not OpenAI's: above 1, tokens of the text become less likely")

    @model_validator(mode="after")
    def _options_of_streams(self) -> "SamplingRequest":
        if self.stream_options is not None and not self.stream:
            raise refused_field("stream_options", "only with stream = true")
        return self

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

    def sampling(self, max_tokens: int | None, logprobs: int | None) -> Sampling:
        stops = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        return Sampling(
            max_tokens=max_tokens,
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty or 1.0,
            stop=stops,
            seed=None if self.seed is None else self.seed % (1 << 63),
            logprobs=logprobs,
        )


class CompletionRequest(SamplingRequest):
    prompt: Text | Annotated[list[Text], Field(min_length=1, max_length=MAX_INPUTS)]
    max_tokens: int | None = Field(None, ge=1, le=MAX_TOKENS, description="default: 16")
    logprobs: int | None = Field(None, ge=0, le=5, description="log-probabilities of each token and of so many alternatives")
    echo: bool | None = Field(None, description="repeat the prompt before its continuation")

    @model_validator(mode="before")
    @classmethod
    def _refuse_ids(cls, values: Any) -> Any:
        return refuse_ids(values, "prompt")

    @model_validator(mode="after")
    def _check_bounds(self) -> "CompletionRequest":
        if len(self.prompts) * (self.n or 1) > MAX_ROWS:
            raise refused_field("n", f"{MAX_ROWS} continuations at most, over all prompts")
        if self.echo and self.logprobs is not None:
            raise refused_field("echo", "the log-probabilities of a prompt are not given; leave out echo or logprobs")
        return self

    @property
    def prompts(self) -> list[str]:
        return [self.prompt] if isinstance(self.prompt, str) else self.prompt


class TextPart(BaseModel):
    model_config = ConfigDict(extra="forbid")

    type: Literal["text"]
    text: Text


class ChatMessage(BaseModel):
    model_config = ConfigDict(extra="forbid")

    role: Literal["system", "developer", "user", "assistant"]
    content: Text | Annotated[list[TextPart], Field(min_length=1, max_length=MAX_INPUTS)]
    name: Annotated[str, Field(max_length=64)] | None = Field(None, description="of who speaks, where the chat template shows it")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, values: Any) -> Any:
        """Clients send back what they were given: `refusal`, `tool_calls` and others that are null."""
        return {key: value for key, value in values.items() if value is not None} if isinstance(values, dict) else values

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ChatRequest(SamplingRequest):
    messages: list[ChatMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    max_tokens: int | None = Field(None, ge=1, le=MAX_TOKENS, description="older name of max_completion_tokens, which comes first")
    max_completion_tokens: int | None = Field(None, ge=1, le=MAX_TOKENS, description="default: what the context holds")
    logprobs: bool | None = Field(None, description="log-probabilities of each token")
    top_logprobs: int | None = Field(None, ge=0, le=MAX_TOP_LOGPROBS, description="alternatives of each token, with logprobs = true")

    @model_validator(mode="after")
    def _log_probabilities(self) -> "ChatRequest":
        if self.top_logprobs is not None and not self.logprobs:
            raise refused_field("top_logprobs", "only with logprobs = true")
        return self

    @property
    def wanted_logprobs(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None


class EmbeddingRequest(Strict):
    input: Text | Annotated[list[Text], Field(min_length=1, max_length=MAX_INPUTS)]
    encoding_format: Literal["float", "base64"] | None = Field(None, description="numbers, or base64 of little-endian float32")
    dimensions: int | None = Field(None, ge=1, le=65_536, description="the model's own, and no other")
    truncate: bool | None = Field(None, description="not OpenAI's: cut texts that are too long instead of refusing them")

    @model_validator(mode="before")
    @classmethod
    def _refuse_ids(cls, values: Any) -> Any:
        return refuse_ids(values, "input")

    @property
    def texts(self) -> list[str]:
        return [self.input] if isinstance(self.input, str) else self.input


def refuse_ids(values: Any, name: str) -> Any:
    """Arrays of token ids belong to one vocabulary, which is not the one that clients know."""
    given = values.get(name) if isinstance(values, dict) else None
    if isinstance(given, list) and given and isinstance(given[0], int | list):
        raise refused_field(
            name, "send texts; token ids of another tokenizer mean nothing here (LangChain: check_embedding_ctx_length=False)"
        )
    return values


class TokenizeRequest(Strict):
    text: Text
    special: bool = Field(False, description="with the special tokens that the model reads around a text")


class TokenizeResponse(BaseModel):
    tokens: list[int]
    names: list[str] = Field(description="tokens as people read them")
    count: int


class DetokenizeRequest(Strict):
    tokens: list[Annotated[int, Field(ge=0, le=2**31 - 1)]] = Field(max_length=MAX_IDS)


class DetokenizeResponse(BaseModel):
    text: str


# ----------------------------------------------------------------------------------------------------------- responses


class Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int = 0
    total_tokens: int


class EmbeddingUsage(BaseModel):
    prompt_tokens: int
    total_tokens: int


class Embedding(BaseModel):
    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingResponse(BaseModel):
    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage


class CompletionLogprobs(BaseModel):
    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]] | None
    text_offset: list[int]


class CompletionChoice(BaseModel):
    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: Literal["stop", "length"] | None = None


class CompletionResponse(BaseModel):
    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None


class TopLogprob(BaseModel):
    token: str
    logprob: float
    bytes: list[int]


class ChatLogprob(TopLogprob):
    top_logprobs: list[TopLogprob]


class ChatLogprobs(BaseModel):
    content: list[ChatLogprob]
    refusal: None = None


class AssistantMessage(BaseModel):
    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class ChatChoice(BaseModel):
    index: int
    message: AssistantMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: Literal["stop", "length"]


class ChatResponse(BaseModel):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class ModelCard(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "attentif"
    kind: str
    capabilities: list[str]
    parameters: int
    context: int | None = None
    note: str = ""


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelCard]
