"""Who is served next: continuous batching of generation, and batches of everything else.

Between two steps rows join and leave. A prompt is read in chunks, in turns with the steps of those who are writing, so that nobody waits
for a long one. Requests for vectors and labels that are there at the same time are answered together. Clients take turns.
"""

import base64
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from attentif.errors import NonFiniteError
from attentif.models.heads.embed import EmbedHead
from attentif.serve.fair_queue import FairQueue
from attentif.serve.files import content_files, remove_contents
from attentif.serve.messages import Event, Failed, ResultMessage
from attentif.serve.rows import PromptReader, RowBatch
from attentif.serve.served import Call, RefusedError, Served
from attentif.serve.settings import ServerLimits
from attentif.serve.writing import Prompt, WritingRow
from attentif.tasks.embeddings.sentences import Texts, sentence_vectors
from attentif.tasks.ragged import Ragged

log = logging.getLogger("attentif.serve")
CHUNK = 128  # tokens of a prompt that are read at once
BETWEEN, ALONE = 128, 512  # tokens of all prompts that are read between two steps, and where nobody is writing
MOST_CANCELLED = 10_000
TOGETHER = 64  # texts that are answered at once,
PART = 8  # and of one request, while others wait
LATE = "the request took longer than its deadline"


@dataclass(frozen=True)
class WaitingJob:
    """A job that is not generation, ready to be done."""

    request: int
    client: str
    served: Served
    work: Texts | Call
    deadline: float
    answers: list[Any] = field(default_factory=list)  # to the first inputs, where there are many

    @property
    def expired(self) -> bool:
        return time.monotonic() > self.deadline

    @property
    def inputs(self) -> Sequence[Any] | None:
        """Inputs that can be answered one by one; None where there are none such."""
        return self.work.inputs if isinstance(self.work, Call) else None

    @property
    def size(self) -> int:
        if isinstance(self.work, Texts):
            return len(self.work)
        return len(self.work.inputs or (1,))

    def goes_with(self, other: "WaitingJob") -> bool:
        """Whether both can be answered at once."""
        if self.served is not other.served or type(self.work) is not type(other.work) or self.answers or other.answers:
            return False
        if isinstance(self.work, Texts) or isinstance(other.work, Texts):
            return True
        return self.work.capability is other.work.capability and self.work.inputs is not None


@dataclass
class PromptTurn:
    """A prompt that is being read; without a reader, it waits for another one that begins alike."""

    prompt: Prompt
    reader: PromptReader | None = None


@dataclass
class ModelRows:
    """The rows of one model."""

    served: Served
    rows: RowBatch
    writers: list[WritingRow] = field(default_factory=list)
    reading: deque[PromptTurn] = field(default_factory=deque)
    waiting: FairQueue[Prompt] = field(default_factory=FairQueue)

    @property
    def busy(self) -> bool:
        return bool(self.writers or self.reading or len(self.waiting))


class Scheduler:
    """Does what is asked, a step at a time. `emit` is given the events of each step."""

    def __init__(self, served: Iterable[Served], limits: ServerLimits, emit: Callable[[Sequence[Event]], None]) -> None:
        self.limits, self.emit = limits, emit
        self.decodings = {one.name: ModelRows(one, one.make_rows()) for one in served if "generate" in one.run.capabilities}
        self.tasks: FairQueue[WaitingJob] = FairQueue()
        self.cancelled: set[int] = set()
        self.batches: list[int] = []  # rows of each step, for the metrics
        self.events: list[Event] = []

    @property
    def busy(self) -> bool:
        return bool(len(self.tasks)) or any(one.busy for one in self.decodings.values())

    @property
    def rows(self) -> int:
        return sum(len(one.writers) for one in self.decodings.values())

    @property
    def waiting(self) -> int:
        return len(self.tasks) + sum(len(one.waiting) + len(one.reading) for one in self.decodings.values())

    def add_prompts(self, prompts: Sequence[Prompt]) -> None:
        for prompt in prompts:
            self.decodings[prompt.model].waiting.add(prompt)

    def cancel(self, request: int) -> None:
        """Forget a request before the next step, or when it arrives, if it is still on its way."""
        if len(self.cancelled) > MOST_CANCELLED:  # those that were done before they could be cancelled
            self.cancelled.clear()
        self.cancelled.add(request)

    def step(self) -> None:
        """One step of every model that writes, a chunk of a prompt, and one batch of other answers."""
        self._drop()
        for decoding in self.decodings.values():
            try:
                with torch.inference_mode():
                    self._read(decoding)
                    self._write(decoding)
            except Exception as error:
                self._fail_all(decoding, error)
        self._answer()
        self.flush()

    def flush(self) -> None:
        if self.events:
            self.emit(self.events)
            self.events = []

    # ----------------------------------------------------------------------------------------------- leaving, coming in

    def _drop(self) -> None:
        """Free the rows of clients that are gone and of requests that are late."""
        gone, late = self.cancelled, set[int]()
        known = set[int]()
        for decoding in self.decodings.values():
            prompts = [one.prompt for one in decoding.writers] + [one.prompt for one in decoding.reading]
            prompts += [one for own in decoding.waiting.clients.values() for one in own]
            known |= {one.request for one in prompts}
            late |= {one.request for one in prompts if one.expired}
        tasks = [one for own in self.tasks.clients.values() for one in own]
        known |= {one.request for one in tasks}
        late |= {one.request for one in tasks if one.expired}
        leaving = (gone | late) & known
        self.events += [Failed(id=one, status=504, message=LATE, code="deadline_exceeded") for one in late - gone]
        if leaving:
            for decoding in self.decodings.values():
                self._forget(decoding, leaving)
            for task in self.tasks.remove(lambda one: one.request in leaving):
                _clean(task)
        self.cancelled -= leaving

    def _forget(self, decoding: ModelRows, requests: set[int]) -> None:
        decoding.waiting.remove(lambda one: one.request in requests)
        decoding.reading = deque(one for one in decoding.reading if one.prompt.request not in requests)
        self._keep(decoding, [row for row, one in enumerate(decoding.writers) if one.prompt.request not in requests])

    def _keep(self, decoding: ModelRows, rows: list[int]) -> None:
        if len(rows) < len(decoding.writers):
            decoding.rows.keep(rows)
            decoding.writers = [decoding.writers[row] for row in rows]

    def _fail_all(self, decoding: ModelRows, error: Exception) -> None:
        """A step that fails takes its rows with it: nobody is left waiting."""
        log.error("a step of %s failed: %s: %s", decoding.served.name, type(error).__name__, error, exc_info=error)
        hit = {one.prompt.request for one in decoding.writers} | {one.prompt.request for one in decoding.reading}
        self.events += [RefusedError.of(error).event(request) for request in sorted(hit)]
        decoding.writers, decoding.reading, decoding.rows = [], deque(), decoding.served.make_rows()
        self._forget(decoding, hit)

    # ------------------------------------------------------------------------------------------------------- generation

    def _read(self, decoding: ModelRows) -> None:
        """Read a chunk of each prompt whose turn it is; those that are done join the batch."""
        free = self.limits.batch - len(decoding.writers) - len(decoding.reading)
        decoding.reading += [PromptTurn(decoding.waiting.take()) for _ in range(min(free, len(decoding.waiting)))]
        budget = BETWEEN if decoding.writers else ALONE
        chosen: dict[int, PromptReader] = {}  # one chunk each: who comes next does not wait for the rest of a long prompt
        for place, turn in enumerate(decoding.reading):
            if budget <= 0:
                break
            if turn.reader is None and not self._finds_beginning(decoding, turn.prompt.ids):
                turn.reader = decoding.rows.begin(turn.prompt.ids)
            if turn.reader is not None:
                chosen[place] = turn.reader
                budget -= min(CHUNK, max(turn.reader.left, 1))
        if not chosen:
            return
        decoding.rows.read([*chosen.values()], CHUNK)
        for place, reader in chosen.items():
            if not reader.left:
                self._join(decoding, decoding.reading[place].prompt, reader)
        behind = [turn for place, turn in enumerate(decoding.reading) if place in chosen and chosen[place].left]
        decoding.reading = deque([*(turn for place, turn in enumerate(decoding.reading) if place not in chosen), *behind])

    def _finds_beginning(self, decoding: ModelRows, ids: Sequence[int]) -> bool:
        """Whether a prompt that is being read will leave its state for these: several choices, or a system prompt that many share."""
        return any(one.reader is not None and decoding.rows.can_share(one.prompt.ids, ids) for one in decoding.reading)

    def _join(self, decoding: ModelRows, prompt: Prompt, reading: PromptReader) -> None:
        served = decoding.served
        logits = reading.logits
        row = WritingRow(prompt, served.run.tokenizer, served.vocabulary, len(logits))
        if self._push(row, logits, int(logits.argmax())) and not row.finished:
            decoding.rows.join(reading)
            decoding.writers.append(row)

    def _write(self, decoding: ModelRows) -> None:
        if not decoding.writers:
            return
        self.batches.append(len(decoding.writers))
        logits = decoding.rows.step([row.token for row in decoding.writers])
        best = logits.argmax(-1).tolist()
        going = [place for place, row in enumerate(decoding.writers) if self._push(row, logits[place], best[place]) and not row.finished]
        self._keep(decoding, going)

    def _push(self, row: WritingRow, logits: torch.Tensor, best: int) -> bool:
        """Whether the row has a next token; a model that gives no numbers ends its request."""
        if logits[best].isnan():
            self.events.append(RefusedError.of(NonFiniteError()).event(row.prompt.request))
            self.cancel(row.prompt.request)  # its other choices
            return False
        self.events.append(row.push(logits, best))
        return True

    # ---------------------------------------------------------------------------------------------------- other answers

    def _answer(self) -> None:
        """Answer the request whose turn it is, and with it all that go with it."""
        if not len(self.tasks):
            return
        first = self.tasks.take()
        if first.answers or (len(first.inputs or ()) > PART and self._others_wait(first)):
            self._answer_part(first)
            return
        together, room = [first], TOGETHER - first.size
        if isinstance(first.work, Texts) or first.inputs is not None:
            for other in [one for own in self.tasks.clients.values() for one in own]:
                if other.size <= room and first.goes_with(other):
                    together.append(other)
                    room -= other.size
            taken = {id(one) for one in together}
            self.tasks.remove(lambda one: id(one) in taken)
        try:
            self.events += answer_together(together)
        except Exception as error:
            if len(together) == 1 or isinstance(error, MemoryError):
                self._refuse(together, error)
            else:  # one of them is at fault, and the others are not to pay for it
                for one in together:
                    try:
                        self.events += answer_together([one])
                    except Exception as own:
                        self._refuse([one], own)
        for one in together:
            _clean(one)

    def _others_wait(self, task: WaitingJob) -> bool:
        """Whether somebody waits who cannot be answered in the same batch."""
        tasks = (one for own in self.tasks.clients.values() for one in own)
        return any(one.busy for one in self.decodings.values()) or any(not task.goes_with(one) for one in tasks)

    def _answer_part(self, task: WaitingJob) -> None:
        """Answer the next inputs of a request that has many, and let others in before the rest."""
        assert isinstance(task.work, Call)
        assert task.inputs is not None
        rest = task.inputs[len(task.answers) :]
        try:
            task.answers.extend(task.served.run.predict(list(rest[:PART] if self._others_wait(task) else rest)))
            if len(task.answers) < len(task.inputs):
                self.tasks.add(task)
                return
            self.events.append(_result(task, task.work.capability.build(task.answers).model_dump(mode="json")))
        except Exception as error:
            self._refuse([task], error)
        _clean(task)

    def _refuse(self, tasks: Sequence[WaitingJob], error: Exception) -> None:
        refused = RefusedError.of(error)
        if refused.status >= 500:
            log.error("a request failed: %s: %s", type(error).__name__, error, exc_info=error)
        self.events += [refused.event(task.request) for task in tasks]


def _clean(task: WaitingJob) -> None:
    if isinstance(task.work, Call):
        remove_contents(task.work.request, task.served.scratch)


def answer_together(tasks: Sequence[WaitingJob]) -> list[Event]:
    """The answers of tasks that go together, in one call of the model."""
    if isinstance(tasks[0].work, Texts):
        return embed_together(tasks)
    calls = [task.work for task in tasks if isinstance(task.work, Call)]
    capability, run = calls[0].capability, tasks[0].served.run
    if calls[0].inputs is None or len(calls) == 1:
        return [_result(tasks[0], capability.call(run, calls[0].request).model_dump(mode="json"))]
    found = run.predict([given for call in calls for given in call.inputs or ()])
    events: list[Event] = []
    start = 0
    for task, call in zip(tasks, calls, strict=True):
        size = len(call.inputs or ())
        events.append(_result(task, capability.build(found[start : start + size]).model_dump(mode="json")))
        start += size
    return events


def _result(task: WaitingJob, value: dict[str, Any]) -> ResultMessage:
    """Inputs that were files are called by their place, not by the name that they had here."""
    if not isinstance(task.work, Call):
        return ResultMessage(id=task.request, value=value)
    if task.work.capability.files:
        for place, answer in enumerate(value.get("answers", ())):
            answer["input" if "input" in answer else "question"] = (
                f"input {place}" if "input" in answer else answer["question"].partition(": ")[2] or answer["question"]
            )
    for path in content_files(task.work.request, task.served.scratch):
        for shown in value.get("maps", ()):
            shown["title"] = shown["title"].replace(str(path), "input").replace(path.name, "input")
    return ResultMessage(id=task.request, value={"capability": task.work.capability.name, **value})


def embed_together(tasks: Sequence[WaitingJob]) -> list[Event]:
    """Vectors as base64 of float32, little-endian."""
    read = [task.work for task in tasks if isinstance(task.work, Texts)]
    rows = [texts.ids[row] for texts in read for row in range(len(texts))]
    together = Texts(Ragged.of(rows), read[0].pad)
    model = tasks[0].served.run.network
    pool = model.head.pool if isinstance(model.head, EmbedHead) else "mean"
    vectors = sentence_vectors(model, together, pool)
    events: list[Event] = []
    start = 0
    for task, texts in zip(tasks, read, strict=True):
        own = vectors[start : start + len(texts)]
        start += len(texts)
        if not np.isfinite(own).all():
            events.append(RefusedError.of(NonFiniteError()).event(task.request))
            continue
        encoded = [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in own]
        events.append(ResultMessage(id=task.request, value=encoded, prompt_tokens=int(texts.lengths.sum())))
    return events
