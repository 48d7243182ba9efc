"""What the server and its worker say to each other: JSON in frames, each after its length in four bytes.

The server sends `Ask` and `Cancel`; the worker answers with lists of events. Nothing is pickled.
"""

import socket
import struct
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

LENGTH = struct.Struct("!I")
LARGEST = 64 << 20  # bytes of a frame


class WorkerMessage(BaseModel):
    model_config = ConfigDict(frozen=True)


# ------------------------------------------------------------------------------------------------------ to the worker


class Message(WorkerMessage):
    role: str
    content: str
    name: str | None = None  # for templates that show it


class Sampling(WorkerMessage):
    """How a continuation is chosen."""

    max_tokens: int | None = None  # None: as many as the context holds
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int | None = None
    logprobs: int | None = None  # likeliest tokens to return for each step; 0: the chosen one's alone


class GenerateJob(WorkerMessage):
    kind: Literal["generate"] = "generate"
    model: str
    prompts: list[str] = []
    messages: list[Message] = []  # of a chat, instead of prompts
    n: int = 1
    sampling: Sampling = Sampling()


class EmbedJob(WorkerMessage):
    kind: Literal["embed"] = "embed"
    model: str
    texts: list[str]
    truncate: bool = False


class CallJob(WorkerMessage):
    """Any other capability; None: whichever the run's `predict` serves."""

    kind: Literal["call"] = "call"
    model: str
    capability: str | None
    request: dict[str, Any]  # fields of the capability's request, validated by its type on both sides


class TokenizeJob(WorkerMessage):
    kind: Literal["tokenize"] = "tokenize"
    model: str
    text: str
    special: bool


class DetokenizeJob(WorkerMessage):
    kind: Literal["detokenize"] = "detokenize"
    model: str
    tokens: list[int]


Job = Annotated[GenerateJob | EmbedJob | CallJob | TokenizeJob | DetokenizeJob, Field(discriminator="kind")]


class Ask(WorkerMessage):
    id: int
    client: str  # who asks: clients take turns
    seconds: float  # until its deadline
    job: Job


class Cancel(WorkerMessage):
    cancel: int  # id of the request


ToWorker = TypeAdapter[Ask | Cancel](Ask | Cancel)

# ---------------------------------------------------------------------------------------------------- from the worker


class ModelInfo(WorkerMessage):
    id: str
    kind: str  # task: "classify", "language"
    capabilities: list[str]
    created: int  # seconds since 1970
    parameters: int
    context: int | None = None  # tokens
    note: str = ""


class ReadyMessage(WorkerMessage):
    event: Literal["ready"] = "ready"
    models: list[ModelInfo]


class LoadFailed(WorkerMessage):
    event: Literal["load_failed"] = "load_failed"
    message: str
    exit_code: int


class TokenLogprob(WorkerMessage):
    token: str
    bytes: list[int]
    logprob: float


class ChosenToken(TokenLogprob):
    top: list[TokenLogprob]


class Started(WorkerMessage):
    event: Literal["started"] = "started"
    id: int
    prompt_tokens: int


class TokenMessage(WorkerMessage):
    """One more token of a choice; its text may come with a later one."""

    event: Literal["piece"] = "piece"
    id: int
    choice: int
    text: str
    finish: Literal["stop", "length"] | None = None
    token: ChosenToken | None = None


class ResultMessage(WorkerMessage):
    """The whole answer of a job that is not generation."""

    event: Literal["result"] = "result"
    id: int
    value: Any  # JSON
    prompt_tokens: int = 0


class Failed(WorkerMessage):
    event: Literal["failed"] = "failed"
    id: int
    status: int
    message: str
    param: str | None = None
    code: str | None = None


class Stats(WorkerMessage):
    event: Literal["stats"] = "stats"
    rows: int  # being written
    waiting: int
    memory: int  # bytes
    cached: int  # bytes of prefixes
    prefix_tokens: int  # tokens of prompts that were found in the cache, since the start
    batch: list[int]  # rows of each step since the last report


Event = Annotated[ReadyMessage | LoadFailed | Started | TokenMessage | ResultMessage | Failed | Stats, Field(discriminator="event")]
Events = TypeAdapter[list[Event]](list[Event])


def write_frame(data: bytes) -> bytes:
    return LENGTH.pack(len(data)) + data


def read_frame(connection: socket.socket) -> bytes | None:
    """The next frame of a blocking socket; None at its end."""
    head = _read_exactly(connection, LENGTH.size)
    if head is None:
        return None
    (size,) = LENGTH.unpack(head)
    return None if size > LARGEST else _read_exactly(connection, size)


def _read_exactly(connection: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        try:
            more = connection.recv(min(size - len(parts), 1 << 20))
        except OSError:
            return None
        if not more:
            return None
        parts += more
    return bytes(parts)
