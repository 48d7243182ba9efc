"""The small parts of the server: turns of clients, names of hosts, contents of files, fields that are refused."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from attentif.cli.serve import name_runs
from attentif.errors import RunError, UsageError
from attentif.serve.fair_queue import FairQueue
from attentif.serve.files import remove_contents, with_contents
from attentif.serve.messages import LENGTH, Events, ResultMessage
from attentif.serve.schemas import ChatRequest, CompletionRequest, EmbeddingRequest
from attentif.serve.security import host_name, is_same_origin
from attentif.serve.served import Served
from attentif.serve.settings import ServerLimits, ServerSettings, is_loopback
from attentif.serve.studio.given import open_input
from attentif.serve.studio.messages import InputRequest
from attentif.serve.worker import write_events
from attentif.tasks.capabilities import CAPABILITIES
from attentif.tasks.requests import PredictRequest


@dataclass(frozen=True)
class Asked:
    client: str
    request: int


def test_clients_take_turns_however_much_one_of_them_asks() -> None:
    queue: FairQueue[Asked] = FairQueue()
    for number in range(4):
        queue.add(Asked("a", number))
    queue.add(Asked("b", 10))
    queue.add(Asked("c", 20))
    assert [queue.take().request for _ in range(len(queue))] == [0, 10, 20, 1, 2, 3]


def test_what_is_removed_from_the_queue_is_not_taken() -> None:
    queue: FairQueue[Asked] = FairQueue()
    for number in range(4):
        queue.add(Asked("ab"[number % 2], number))
    assert sorted(one.request for one in queue.remove(lambda one: one.request in (1, 3))) == [1, 3]
    assert [queue.take().request for _ in range(len(queue))] == [0, 2]


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost", "localhost"), ("LocalHost:80", "localhost"), ("[::1]:8000", "::1"), ("127.0.0.1:1", "127.0.0.1"), ("a@localhost", ""),
        ("localhost/x", ""), ("localhost:x", ""), ("", ""), ("evil.example?localhost", ""), ("localhost#", "localhost"),
    ],
)  # fmt: skip
def test_the_name_of_a_host_header(header: str, name: str) -> None:
    assert host_name(header) == name


def test_an_origin_is_the_same_only_with_its_host_and_port() -> None:
    assert is_same_origin("http://localhost:8000", "localhost:8000")
    for other in ("http://localhost:8001", "http://localhost", "null", "ftp://localhost:8000", "http://localhost:8000.evil.example"):
        assert not is_same_origin(other, "localhost:8000")


def test_an_address_that_others_can_reach_needs_a_key() -> None:
    assert is_loopback("127.0.0.2")
    assert not is_loopback("example.org")
    with pytest.raises(UsageError, match="API key"):
        ServerSettings(host="192.168.0.1")
    assert "example.org" in ServerSettings(host="0.0.0.0", api_key="k" * 16, allowed_hosts=("example.org",)).hosts


def test_a_sound_becomes_a_file_of_the_worker_and_is_removed(tmp_path: Path) -> None:
    uri = "data:audio/flac;base64," + base64.b64encode(b"abc").decode()
    request = with_contents(CAPABILITIES["transcribe"], PredictRequest(inputs=[uri, {"audio": uri}]), "audio", tmp_path)
    files = [Path(given) for given in request.inputs]
    assert [file.read_bytes() for file in files] == [b"abc", b"abc"]
    assert {file.suffix for file in files} == {".flac"}
    remove_contents(request, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("capability", "reads", "given"),
    [
        ("transcribe", "audio", "/etc/passwd"), ("transcribe", "audio", {"audio": "../a.wav"}), ("forecast", "series", "file:///etc/passwd"),
        ("forecast", "series", {"values": "[]"}), ("describe", "image", "photo.png"), ("answer", "question", '{"image": "/etc/passwd"}'),
        ("answer", "question", {"question": "?", "image": "/etc/passwd"}), ("transcribe", "audio", "data:audio/wav;base64,!"),
        ("match", "text", {"image": "/etc/passwd"}), ("match", "text", {"text": "a", "audio": "a.wav"}),
        ("describe", "image", "data:text/plain;base64,/../../etc/passwd"),
    ],
)  # fmt: skip
def test_names_of_files_are_refused(capability: str, reads: str, given, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        with_contents(CAPABILITIES[capability], PredictRequest(inputs=[given]), reads, tmp_path)


PIXEL = "data:image/png;base64,YQ=="


def serve_stub(reads: str, *names: str) -> Served:
    """A run that reads files, as far as a request is prepared."""
    run: Any = SimpleNamespace(
        capabilities={name: CAPABILITIES[name] for name in (*names, "inspect")},
        require=lambda name: None,
        task=SimpleNamespace(reads=reads),
        tokenizers={},
    )
    return Served("m", run, ServerLimits(), Path("/tmp"))


@pytest.mark.parametrize(
    ("capability", "reads", "text"),
    [
        ("describe", "image", "/etc/passwd"), ("describe", "image", f'{{"image": "{PIXEL}"}}'), ("transcribe", "audio", "a.wav"),
        ("forecast", "series", "file:///etc/passwd"), ("answer", "question", '{"image": "/etc/passwd", "question": "?"}'),
        ("answer", "question", f'{{"image": "{PIXEL}", "image": ["/etc/passwd"], "question": "?"}}'),
        ("embed", "text", '{"image": "/etc/passwd"}'), ("match", "text", '{"audio": "/etc/passwd"}'),
    ],
)  # fmt: skip
def test_what_is_inspected_is_sent_by_content_too(capability: str, reads: str, text: str) -> None:
    with pytest.raises(UsageError, match="data URI"):
        serve_stub(reads, capability).call("inspect", {"text": text})


@pytest.mark.parametrize(
    ("capability", "reads", "text", "beside"),
    [
        ("embed", "text", "a", {"image": "/etc/passwd"}), ("match", "text", '{"image": "/etc/passwd"}', {}),
        ("match", "text", '{"audio": "/etc/passwd"}', {}), ("match", "text", f'{{"audio": "{PIXEL}"}}', {}),
        ("answer", "question", '{"image": "data:/etc/passwd", "question": "?"}', {}), ("answer", "question", "?", {"image": "/etc/passwd"}),
        ("describe", "image", "/etc/passwd", {}), ("transcribe", "audio", "/etc/passwd", {}),
    ],
)  # fmt: skip
def test_the_studio_opens_no_file_that_a_page_names(capability: str, reads: str, text: str, beside: dict[str, str]) -> None:
    run: Any = SimpleNamespace(capabilities={capability: CAPABILITIES[capability]}, task=SimpleNamespace(reads=reads))
    with pytest.raises(UsageError), open_input(run, InputRequest(text=text, beside=beside)):
        pass


def test_the_studio_takes_a_text_that_is_json_and_a_picture_by_its_content() -> None:
    for name, text in (("embed", '{"a": 1}'), ("embed", "[1]"), ("match", f'{{"image": "{PIXEL}"}}')):
        run: Any = SimpleNamespace(capabilities={name: CAPABILITIES[name]}, task=SimpleNamespace(reads="text"))
        with open_input(run, InputRequest(text=text)) as given:
            assert given == text


def test_a_picture_is_inspected_alone_or_beside_its_question() -> None:
    assert serve_stub("image", "describe").call("inspect", {"text": PIXEL}).request.text == PIXEL
    both = serve_stub("question", "answer").call("inspect", {"text": f'{{"image": "{PIXEL}", "question": "?"}}'}).request.text
    assert json.loads(both) == {"image": PIXEL, "question": "?"}
    assert serve_stub("text", "embed").call("inspect", {"text": '{"a":1}'}).request.text == '{"a":1}'  # a text like any other


def test_an_answer_that_is_too_large_becomes_an_error_and_the_others_stay() -> None:
    large, small = ResultMessage(id=1, value="a" * 500), ResultMessage(id=2, value="b")
    data, found = write_events([large, small], 400), []
    while data:
        (size,) = LENGTH.unpack(data[:4])
        found += Events.validate_json(data[4 : 4 + size])
        data = data[4 + size :]
    assert (found[0].id, found[0].status, found[0].code) == (1, 400, "answer_too_large")
    assert found[1] == small


@pytest.mark.parametrize(("capability", "reads"), [("match", "text"), ("answer", "question")])
def test_a_text_that_is_json_names_no_file(capability: str, reads: str, tmp_path: Path) -> None:
    hidden = {reads: '{"image": "/etc/passwd", "question": "?"}'}
    assert with_contents(CAPABILITIES[capability], PredictRequest(inputs=[hidden]), reads, tmp_path).inputs == [hidden]
    with pytest.raises(UsageError, match="object"):
        with_contents(CAPABILITIES[capability], PredictRequest(inputs=[hidden[reads]]), reads, tmp_path)


def test_fields_that_ask_for_nothing_are_accepted_and_others_refused_with_the_reason() -> None:
    message = {"model": "m", "messages": [{"role": "assistant", "content": "a", "refusal": None, "tool_calls": None}]}
    ChatRequest(**message, tools=[], presence_penalty=0, response_format={"type": "text"}, user="me", logit_bias=None)
    for change in ({"tools": [{}]}, {"presence_penalty": 0.5}, {"logit_bias": {"5": 1}}, {"nonsense": 1}, {"top_logprobs": 2}):
        with pytest.raises(ValidationError, match=next(iter(change))):
            ChatRequest(**message, **change)
    with pytest.raises(ValidationError, match="token ids"):
        CompletionRequest(model="m", prompt=[[1, 2]])
    with pytest.raises(ValidationError, match="token ids"):
        EmbeddingRequest(model="m", input=[1, 2])


def test_a_run_that_is_not_there_is_refused_before_anything_listens(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no such run"):
        name_runs([str(tmp_path / "nothing")])
    (tmp_path / "there").mkdir()
    assert name_runs([str(tmp_path / "there"), "one=gpt2"]) == {"there": str(tmp_path / "there"), "one": "gpt2"}
