"""Completions and chat: the worker's pieces in OpenAI's form, whole or streamed."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from attentif.serve.context import Context, client_name, until_disconnected
from attentif.serve.errors import ApiError
from attentif.serve.messages import ChosenToken, GenerateJob, Message, Started, TokenMessage
from attentif.serve.schemas import (
    AssistantMessage,
    ChatChoice,
    ChatLogprob,
    ChatLogprobs,
    ChatRequest,
    ChatResponse,
    CompletionChoice,
    CompletionLogprobs,
    CompletionRequest,
    CompletionResponse,
    TopLogprob,
    Usage,
)
from attentif.serve.sse import DONE, event, event_stream
from attentif.serve.supervisor import Answer

COMPLETION_TOKENS = 16  # OpenAI's default


@dataclass
class WrittenChoice:
    """What was written of one continuation."""

    text: str = ""
    finish: str | None = None
    tokens: list[ChosenToken] = field(default_factory=list)


class Meter:
    """Counts tokens and measures the time to them."""

    def __init__(self, context: Context, model: str) -> None:
        self.metrics, self.model = context.metrics, model
        self.began, self.last = time.perf_counter(), dict[int, float]()
        self.prompt_tokens = self.completion_tokens = 0

    def see(self, answer: Answer) -> None:
        now = time.perf_counter()
        if isinstance(answer, Started):
            self.prompt_tokens = answer.prompt_tokens
            self.metrics.tokens_in.labels(self.model).inc(answer.prompt_tokens)
        elif isinstance(answer, TokenMessage):
            self.completion_tokens += 1
            self.metrics.tokens_out.labels(self.model).inc()
            if answer.choice in self.last:
                self.metrics.per_token.labels(self.model).observe(now - self.last[answer.choice])
            elif not self.last:
                self.metrics.first_token.labels(self.model).observe(now - self.began)
            self.last[answer.choice] = now

    @property
    def usage(self) -> Usage:
        total = self.prompt_tokens + self.completion_tokens
        return Usage(prompt_tokens=self.prompt_tokens, completion_tokens=self.completion_tokens, total_tokens=total)


async def complete(context: Context, request: Request, asked: CompletionRequest) -> CompletionResponse | Response:
    """`POST /v1/completions`."""
    sampling = asked.sampling(asked.max_tokens or COMPLETION_TOKENS, asked.logprobs)
    n = asked.n or 1
    job = GenerateJob(model=asked.model, prompts=asked.prompts, n=n, sampling=sampling)
    head = {"id": f"cmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": asked.model}
    before = [prompt for prompt in asked.prompts for _ in range(n)] if asked.echo else [""] * (n * len(asked.prompts))
    offsets = [len(text) for text in before]

    def chunks(piece: TokenMessage, first: bool) -> list[dict[str, Any]]:
        text = (before[piece.choice] if first else "") + piece.text
        logprobs = None
        if piece.token is not None:
            logprobs = completion_logprobs([piece.token], asked.logprobs, offsets[piece.choice]).model_dump()
            offsets[piece.choice] += len(piece.token.token)
        if not text and logprobs is None and piece.finish is None:
            return []
        return [{"index": piece.choice, "text": text, "logprobs": logprobs, "finish_reason": piece.finish}]

    if asked.stream:
        return await _stream(context, request, job, {**head, "object": "text_completion"}, chunks, asked.include_usage)
    choices, usage = await _collect(context, request, job)
    return CompletionResponse(
        **head,
        choices=[
            CompletionChoice(
                index=place,
                text=before[place] + one.text,
                logprobs=None if asked.logprobs is None else completion_logprobs(one.tokens, asked.logprobs, len(before[place])),
                finish_reason=one.finish,
            )
            for place, one in sorted(choices.items())
        ],
        usage=usage,
    )


async def chat(context: Context, request: Request, asked: ChatRequest) -> ChatResponse | Response:
    """`POST /v1/chat/completions`."""
    sampling = asked.sampling(asked.max_completion_tokens or asked.max_tokens, asked.wanted_logprobs)
    roles = {"developer": "system"}  # OpenAI's newer name for it
    messages = [Message(role=roles.get(one.role, one.role), content=one.text, name=one.name) for one in asked.messages]
    job = GenerateJob(model=asked.model, messages=messages, n=asked.n or 1, sampling=sampling)
    head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": asked.model}

    def chunks(piece: TokenMessage, first: bool) -> list[dict[str, Any]]:
        found = []
        if first:
            found.append(_delta(piece.choice, {"role": "assistant", "content": ""}))
        logprobs = None if piece.token is None else chat_logprobs([piece.token]).model_dump()
        if piece.text or logprobs is not None:
            found.append(_delta(piece.choice, {"content": piece.text}, logprobs))
        if piece.finish is not None:
            found.append(_delta(piece.choice, {}, finish=piece.finish))
        return found

    if asked.stream:
        return await _stream(context, request, job, {**head, "object": "chat.completion.chunk"}, chunks, asked.include_usage)
    choices, usage = await _collect(context, request, job)
    return ChatResponse(
        **head,
        choices=[
            ChatChoice(
                index=place,
                message=AssistantMessage(content=one.text),
                logprobs=chat_logprobs(one.tokens) if asked.logprobs else None,
                finish_reason=one.finish,
            )
            for place, one in sorted(choices.items())
        ],
        usage=usage,
    )


def _delta(index: int, delta: dict[str, str], logprobs: Any = None, finish: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}


async def _collect(context: Context, request: Request, job: GenerateJob) -> tuple[dict[int, WrittenChoice], Usage]:
    """All choices, once they are written; a client that leaves is noticed."""
    choices: dict[int, WrittenChoice] = {}
    meter = Meter(context, job.model)

    async def collect() -> None:
        async with context.supervisor.ask(job, client_name(request)) as answers:
            async for answer in answers:
                meter.see(answer)
                if isinstance(answer, TokenMessage):
                    own = choices.setdefault(answer.choice, WrittenChoice())
                    own.text += answer.text
                    own.finish = answer.finish
                    own.tokens += [answer.token] if answer.token is not None else []

    await until_disconnected(request, collect())
    return choices, meter.usage


async def _stream(
    context: Context,
    request: Request,
    job: GenerateJob,
    head: dict[str, Any],
    chunks: Callable[[TokenMessage, bool], list[dict[str, Any]]],
    include_usage: bool,
) -> Response:
    """Events as they come. What is wrong with the request is said before the stream begins, by its status."""
    stack, meter = AsyncExitStack(), Meter(context, job.model)
    try:
        answers = await stack.enter_async_context(context.supervisor.ask(job, client_name(request)))
        started = await until_disconnected(request, anext(answers))
        meter.see(started)
        first = await until_disconnected(request, anext(answers))
    except BaseException:
        await stack.aclose()
        raise
    usage = {"usage": None} if include_usage else {}

    async def events() -> AsyncIterator[bytes]:
        begun: set[int] = set()
        try:
            async with asyncio.timeout(context.settings.limits.seconds + 5):  # a client that does not read is not waited for
                async for answer in _chain(first, answers):
                    meter.see(answer)
                    if isinstance(answer, TokenMessage):
                        for choice in chunks(answer, answer.choice not in begun):
                            yield event({**head, "choices": [choice], **usage})
                        begun.add(answer.choice)
                if include_usage:
                    yield event({**head, "choices": [], "usage": meter.usage.model_dump()})
                yield DONE
        except ApiError as error:
            yield event(error.body)
        finally:
            await stack.aclose()

    return event_stream(events())


async def _chain(first: Answer, rest: AsyncIterator[Answer]) -> AsyncIterator[Answer]:
    yield first
    async for answer in rest:
        yield answer


def completion_logprobs(tokens: list[ChosenToken], wanted: int | None, offset: int) -> CompletionLogprobs:
    offsets = []
    for one in tokens:
        offsets.append(offset)
        offset += len(one.token)
    return CompletionLogprobs(
        tokens=[one.token for one in tokens],
        token_logprobs=[one.logprob for one in tokens],
        top_logprobs=[{top.token: top.logprob for top in (*one.top, one)} for one in tokens] if wanted else None,  # the chosen one too
        text_offset=offsets,
    )


def chat_logprobs(tokens: list[ChosenToken]) -> ChatLogprobs:
    return ChatLogprobs(
        content=[
            ChatLogprob(
                token=one.token,
                logprob=one.logprob,
                bytes=one.bytes,
                top_logprobs=[TopLogprob(token=top.token, logprob=top.logprob, bytes=top.bytes) for top in one.top],
            )
            for one in tokens
        ]
    )
