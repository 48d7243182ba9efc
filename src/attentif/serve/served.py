"""A run as the worker uses it: what the scheduler needs of tasks, tokenizers and chat templates, in one place."""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import nn

from attentif.api import Run
from attentif.decode.options import GenerateOptions
from attentif.decode.turns import Turns
from attentif.errors import AttentifError, NonFiniteError, UsageError
from attentif.models import Model
from attentif.nn.channels import MAP_HEADS
from attentif.nn.mixer import Recordable
from attentif.serve.files import with_contents, with_inspected_content
from attentif.serve.messages import DetokenizeJob, EmbedJob, Failed, GenerateJob, Message, ModelInfo, Sampling, TokenizeJob
from attentif.serve.rows import PromptCache, RowBatch, SessionRows, StateRows
from attentif.serve.settings import MAX_MAP_NUMBERS, MAX_MAP_TOKENS, MAX_TOKENS, ServerLimits
from attentif.serve.writing import Prompt, TokenTexts
from attentif.tasks.capabilities import CAPABILITIES, Capability
from attentif.tasks.embeddings.sentences import Texts, longest_of, read_texts
from attentif.tasks.requests import AlignRequest, InspectRequest, Request
from attentif.text.chat_template import ChatTemplate
from attentif.text.explain import format_token

PREDICTS = "predict"


class RefusedError(Exception):
    """A job that cannot be done: the client's error, or the model's."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code

    @classmethod
    def of(cls, error: Exception) -> "RefusedError":
        """What to tell the client of an error."""
        if isinstance(error, RefusedError):
            return error
        if isinstance(error, NonFiniteError):
            return cls(422, error.message, code="model_failed")
        if isinstance(error, AttentifError):  # without its file: paths are the server's own business
            return cls(400, error.message)
        return cls(500, "the model failed on this request; the server's log says why", code="internal_error")

    def event(self, request: int) -> Failed:
        return Failed(id=request, status=self.status, message=self.message, param=self.param, code=self.code)


@dataclass(frozen=True)
class Call:
    """A capability with its request, ready to be called."""

    capability: Capability
    request: Request

    @property
    def inputs(self) -> Sequence[Any] | None:
        """Inputs that can be answered together with those of other requests; None where there is one of its own kind."""
        return getattr(self.request, "inputs", None) if self.capability.method == PREDICTS else None


def count_maps(network: Model, layers: Sequence[int] | None, heads: Sequence[int] | None) -> int:
    """Attention maps of a pass through a network; layers and heads are counted from 1."""
    found = 0
    for path, mixer in network.named_modules():
        if isinstance(mixer, Recordable) and mixer.caps.maps:
            block = re.search(r"blocks\.(\d+)", path)
            if layers is None or (block is not None and int(block[1]) + 1 in layers):
                own = getattr(getattr(mixer, "config", None), "heads", None) or MAP_HEADS
                found += own if heads is None else sum(head <= own for head in heads)
    return found


class Served:
    """One model by its name."""

    def __init__(self, name: str, run: Run, limits: ServerLimits, scratch: Path) -> None:
        self.name, self.run, self.limits, self.scratch = name, run, limits, scratch
        self.cache = PromptCache(limits.cache_bytes)

    @cached_property
    def info(self) -> ModelInfo:
        run = self.run
        try:
            created = int(run.path.stat().st_mtime)
        except OSError:
            created = int(time.time())
        return ModelInfo(
            id=self.name,
            kind=run.kind,
            capabilities=list(run.capabilities),
            created=created,
            parameters=sum(run.model.sizes().values()),
            context=self.context if "generate" in run.capabilities else self.longest,
            note=run.note,
        )

    def warm_up(self) -> None:
        """Compile what is compiled at the first call, so that no client waits for it."""
        if hasattr(self.run.model, "eval"):
            self.run.model.eval()
        if "generate" in self.run.capabilities:
            rows = self.make_rows()
            with torch.inference_mode():
                reading = rows.begin(self.run.require("generate").prompt(self.run.tokenizers, "a")[:2])
                rows.read([reading], 2)
                rows.join(reading)
                rows.step([int(reading.logits.argmax())])
        elif "embed" in self.run.capabilities and self.run.tokenizers:  # others read pictures alone
            self.run.embed(["a"])

    # --------------------------------------------------------------------------------------------------------- generation

    @cached_property
    def context(self) -> int:
        """Tokens of a prompt and its continuation."""
        limit = getattr(getattr(self.run.model, "caps", None), "max_len", None)
        return self.limits.context if limit is None else min(limit, self.limits.context)

    @cached_property
    def vocabulary(self) -> TokenTexts:
        return TokenTexts(self.run.tokenizer)

    @cached_property
    def template(self) -> ChatTemplate | None:
        return ChatTemplate.from_folder(self.run.path)

    @cached_property
    def turns(self) -> Turns:
        """How a conversation is written down, and what ends an answer."""
        assert self.template is not None
        return Turns(self.template, self.run.tokenizer)

    def make_rows(self) -> RowBatch:
        run = self.run
        if isinstance(run.model, Model):
            return StateRows(run.model, self.context, self.cache)
        return SessionRows(lambda ids: run.require("generate").session(run.model, ids, self.context - len(ids)))

    def prompts(self, job: GenerateJob, request: int, client: str, deadline: float) -> list[Prompt]:
        """The rows of a request: every choice of every prompt."""
        task = self.require("chat" if job.messages else "generate")
        ends, stop = self.run.tokenizer.ends, job.sampling.stop
        if job.messages:
            texts = [self._chat_ids(job.messages)]
            if self.template is not None:
                ends, stop = frozenset(self.turns.ends), (*stop, *self.turns.stop)
            else:
                stop = (*stop, "\n")
        else:
            texts = [task.prompt(self.run.tokenizers, text) for text in job.prompts]
        found = []
        for place, ids in enumerate(texts):
            options = self._options(job.sampling, ids, stop, "messages" if job.messages else "prompt")
            found += [
                Prompt(request, client, self.name, place * job.n + draw, draw, ids, options, ends, job.sampling.logprobs, deadline)
                for draw in range(job.n)
            ]
        return found

    def _chat_ids(self, messages: Sequence[Message]) -> list[int]:
        if self.template is not None:
            turns = copy(self.turns)  # what was worked out of the template once serves every conversation
            turns.messages = [one.model_dump(exclude_none=True) for one in messages]
            return turns.prompt()
        if odd := next((one.role for one in messages if one.role not in ("user", "assistant")), None):
            raise RefusedError(400, f"this model has no chat template, and so no place for a message of {odd!r}", param="messages")
        lines = "".join(f"{one.content}\n" for one in messages)
        return list(self.require("chat").prompt(self.run.tokenizers, lines))

    def _options(self, sampling: Sampling, ids: Sequence[int], stop: tuple[str, ...], param: str) -> GenerateOptions:
        room = self.context - len(ids)
        asked = sampling.max_tokens
        if room < 1 or (asked is not None and asked > room):
            more = "" if asked is None else f" and {asked:,} to write"
            message = f"this model holds {self.context:,} tokens; the prompt has {len(ids):,}{more}: shorten it"
            raise RefusedError(400, message, param=param, code="context_length_exceeded")
        draws = bool(sampling.temperature)
        return GenerateOptions(
            max_tokens=min(room, MAX_TOKENS) if asked is None else asked,
            temperature=sampling.temperature,
            top_k=sampling.top_k if draws else None,
            top_p=sampling.top_p if draws and sampling.top_p < 1 else None,
            min_p=sampling.min_p if draws else None,
            repetition_penalty=sampling.repetition_penalty,
            stop=stop,
            seed=sampling.seed,
        )

    # ------------------------------------------------------------------------------------------------------ other answers

    def require(self, capability: str) -> Any:
        """The task of this run, which has the capability."""
        try:
            return self.run.require(capability)
        except UsageError:
            able = ", ".join(self.run.capabilities)
            what = CAPABILITIES[capability].does
            message = f"the model {self.name!r} cannot {what}; what it can do: {able}"
            raise RefusedError(400, message, param="model", code="capability_missing") from None

    @cached_property
    def longest(self) -> int | None:
        """Tokens of the longest text that is read at once."""
        return longest_of(self.run.require("embed"), self.run.network) if "embed" in self.run.capabilities else None

    def read_texts(self, job: EmbedJob) -> Texts:
        self.require("embed")
        for place, text in enumerate(job.texts):
            if not text.strip():
                raise RefusedError(400, f"input {place} is empty: it has no vector", param="input")
        cut: list[str] = []
        texts = read_texts(self.run.require("embed"), self.run.network, self.run.tokenizers, job.texts, cut.append)
        if cut and not job.truncate:
            message = f"this model reads {self.longest:,} tokens, and an input has more: shorten it, or send truncate: true"
            raise RefusedError(400, message, param="input", code="context_length_exceeded")
        return texts

    def call(self, name: str | None, fields: Mapping[str, Any]) -> Call:
        """A capability of this run; by default the one that answers inputs."""
        own = self.run.capabilities
        if name is None:
            name = next((key for key, one in own.items() if one.method == PREDICTS), None)
            if name is None:
                raise RefusedError(400, f"the model {self.name!r} answers no inputs; what it can do: {', '.join(own)}", param="model")
        self.require(name)
        capability = CAPABILITIES[name]
        try:
            request = capability.request.model_validate(fields)
        except ValidationError as error:
            raise RefusedError(400, str(error.errors()[0]["msg"])) from None
        reads = self.run.task.reads
        if isinstance(request, InspectRequest):
            roles = {role for one in own.values() for role in one.files}
            request, texts = with_inspected_content(request, reads, roles, self.scratch)
            self._check_maps([*texts, request.target, request.pair], request.layers, request.heads)
        elif isinstance(request, AlignRequest):
            self._check_maps([request.source, request.target])
        return Call(capability, with_contents(capability, request, reads, self.scratch))

    def _check_maps(self, texts: Iterable[str | None], layers: Sequence[int] | None = None, heads: Sequence[int] | None = None) -> None:
        """Refuse texts whose attention maps are too large: they grow with the square of the tokens."""
        tokenizer = next(iter(self.run.tokenizers.values()), None)
        if tokenizer is None:  # pictures, sounds, series: cut to what the model reads
            return
        tokens = sum(len(tokenizer.encode(text).ids) for text in texts if text)
        if tokens > MAX_MAP_TOKENS:
            message = f"the text has {tokens:,} tokens, and attention maps are shown of {MAX_MAP_TOKENS:,} at most: shorten it"
            raise RefusedError(400, message, param="text")
        maps = count_maps(self.run.network, layers, heads) if isinstance(self.run.model, nn.Module) else 1
        if (numbers := tokens**2 * maps) > MAX_MAP_NUMBERS:
            most = f"{numbers:,} numbers, more than {MAX_MAP_NUMBERS:,}"
            message = f"these attention maps have {most}: choose layers and heads, or shorten the text"
            raise RefusedError(400, message, param="layers")

    def tokenize(self, job: TokenizeJob) -> dict[str, Any]:
        tokenizer = self._tokenizer()
        encoding = tokenizer.encode(job.text, wrap="cls" if job.special else "none")
        names = [format_token(str(tokenizer.rust.id_to_token(token) or ""), self.vocabulary.byte_level) for token in encoding.ids]
        return {"tokens": list(encoding.ids), "names": names, "count": len(encoding.ids)}

    def detokenize(self, job: DetokenizeJob) -> dict[str, Any]:
        tokenizer = self._tokenizer()
        if odd := next((token for token in job.tokens if token >= tokenizer.vocab), None):
            raise RefusedError(400, f"there is no token {odd}: the vocabulary has {tokenizer.vocab:,}", param="tokens")
        return {"text": tokenizer.decode(job.tokens)}

    def _tokenizer(self) -> Any:
        if "tokenizer" not in self.run.tokenizers:
            raise RefusedError(400, f"the model {self.name!r} has no tokenizer", param="model")
        return self.run.tokenizer
