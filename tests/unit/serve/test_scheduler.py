"""What the scheduler does in one step, with rows that only count."""

import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from attentif.decode.options import GenerateOptions
from attentif.serve.messages import Event, Failed, ResultMessage, TokenMessage
from attentif.serve.scheduler import CHUNK, Scheduler, WaitingJob
from attentif.serve.served import Call
from attentif.serve.settings import ServerLimits
from attentif.serve.writing import Prompt
from attentif.tasks.capabilities import CAPABILITIES
from attentif.tasks.requests import PredictRequest


class Reader:
    def __init__(self, rows: "Rows", ids: Sequence[int]) -> None:
        self.rows, self.ids, self.left = rows, ids, len(ids)
        self.logits = torch.tensor([0.0, 1.0])


class Rows:
    """Prompts are told apart by their first token; equal ones can share."""

    def __init__(self, broken: int = -1) -> None:
        self.log: list[tuple[int, int]] = []
        self.broken = broken

    def begin(self, ids: Sequence[int]) -> Reader:
        return Reader(self, ids)

    def can_share(self, earlier: Sequence[int], ids: Sequence[int]) -> bool:
        return list(earlier) == list(ids)

    def read(self, readers: Sequence[Reader], count: int) -> None:
        for one in readers:
            if one.ids[0] == self.broken:
                raise RuntimeError
            self.log.append((one.ids[0], min(count, one.left)))
            one.left -= min(count, one.left)

    def join(self, reading: Reader) -> None: ...

    def step(self, tokens: Sequence[int]) -> torch.Tensor:
        return torch.tensor([[0.0, 1.0]] * len(tokens))

    def keep(self, rows: Sequence[int]) -> None: ...


def make(rows: Rows) -> tuple[Scheduler, list[Event]]:
    tokenizer = SimpleNamespace(decode=lambda ids: "a" * len(ids))
    run = SimpleNamespace(capabilities=["generate"], tokenizer=tokenizer)
    events: list[Event] = []
    served: Any = SimpleNamespace(name="m", run=run, make_rows=lambda: rows, vocabulary=None)
    return Scheduler([served], ServerLimits(), events.extend), events


def prompt(request: int, length: int, choice: int = 0, tokens: int = 5) -> Prompt:
    options = GenerateOptions(max_tokens=tokens, temperature=0)
    return Prompt(request, "a", "m", choice, choice, [request] * length, options, (), None, time.monotonic() + 100)


def test_who_comes_next_waits_for_one_chunk_of_a_long_prompt() -> None:
    rows = Rows()
    scheduler, _ = make(rows)
    scheduler.add_prompts([prompt(1, 1000)])
    scheduler.step()
    assert rows.log == [(1, CHUNK)]
    scheduler.add_prompts([prompt(2, 10)])
    scheduler.step()
    assert rows.log == [(1, CHUNK), (1, CHUNK), (2, 10)]


def test_a_prompt_is_cut_into_the_same_chunks_whoever_else_is_there() -> None:
    rows = Rows()
    scheduler, _ = make(rows)
    scheduler.add_prompts([prompt(number, length) for number, length in ((1, 300), (2, 10), (3, 150))])
    while scheduler.busy:
        scheduler.step()
    read = {number: [count for own, count in rows.log if own == number] for number in (1, 2, 3)}
    assert read == {1: [128, 128, 44], 2: [10], 3: [128, 22]}


def test_the_second_choice_waits_until_the_first_has_read_the_prompt() -> None:
    rows = Rows()
    scheduler, _ = make(rows)
    scheduler.add_prompts([prompt(1, 200, 0), prompt(1, 200, 1)])
    scheduler.step()
    assert rows.log == [(1, 128)]
    scheduler.step()
    scheduler.step()
    assert rows.log == [(1, 128), (1, 72), (1, 128)]


@pytest.mark.parametrize("choices", [1, 3])
def test_a_prompt_that_cannot_be_read_ends_its_request_and_those_beside_it(choices: int) -> None:
    scheduler, events = make(Rows(broken=2))
    scheduler.add_prompts([prompt(1, 10), *(prompt(2, 10, choice) for choice in range(choices))])
    scheduler.step()
    assert sorted(event.id for event in events if isinstance(event, Failed)) == [1, 2]
    assert not scheduler.busy
    scheduler.add_prompts([prompt(3, 10, tokens=2)])
    scheduler.step()
    assert [event.id for event in events if isinstance(event, TokenMessage) and event.finish] == [3]


def test_a_request_of_many_inputs_lets_others_in_before_it_is_done() -> None:
    seen: list[list[str]] = []

    def predict(inputs: list[str]) -> list[Any]:
        seen.append(inputs)
        return [SimpleNamespace(input=one, output="oui", probability=1.0, scores={"oui": 1.0}) for one in inputs]

    scheduler, events = make(Rows())
    served: Any = SimpleNamespace(name="c", run=SimpleNamespace(predict=predict), scratch=Path("/nowhere"))
    many, one = [f"a{number}" for number in range(20)], ["b"]
    for request, name, inputs in ((1, "classify", many), (2, "translate", one)):
        work = Call(CAPABILITIES[name], PredictRequest(inputs=inputs))
        scheduler.tasks.add(WaitingJob(request, str(request), served, work, time.monotonic() + 100))
    while scheduler.busy:
        scheduler.step()
    assert seen == [many[:8], ["b"], many[8:]]
    results = {event.id: [answer["input"] for answer in event.value["answers"]] for event in events if isinstance(event, ResultMessage)}
    assert results == {1: many, 2: one}
