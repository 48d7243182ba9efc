"""Workers that die, clients that leave, servers that stop."""

import os
import signal
import threading
import time
from pathlib import Path

import httpx
import openai
import pytest
import terminal
from running import start

pytestmark = pytest.mark.kill


def test_a_killed_worker_is_started_again_and_its_requests_get_an_answer(models: Path) -> None:
    server = start(models, "lang", "--queue", "3")
    try:
        server.wait()
        found: list[int | str] = []
        patient: list[str] = []

        def ask_again() -> None:
            with openai.OpenAI(base_url=server.v1, api_key="none", max_retries=60) as client:
                patient.append(client.completions.create(model="lang", prompt="le", max_tokens=3).choices[0].finish_reason)

        def ask() -> None:
            body = {"model": "lang", "prompt": "le", "max_tokens": 4000, "temperature": 0}
            try:
                found.append(httpx.post(f"{server.v1}/completions", json=body, timeout=30).status_code)
            except httpx.HTTPError as error:
                found.append(type(error).__name__)

        worker = server.worker()
        os.kill(worker, signal.SIGSTOP)  # so that none is answered before
        asking = [threading.Thread(target=ask) for _ in range(3)]
        for one in asking:
            one.start()
        time.sleep(0.5)
        refused = httpx.post(f"{server.v1}/completions", json={"model": "lang", "prompt": "le"})
        assert refused.status_code == 429
        assert int(refused.headers["Retry-After"]) > 0
        asking.append(threading.Thread(target=ask_again))  # OpenAI's package tries again after 429 and 503
        asking[-1].start()
        time.sleep(0.2)
        os.kill(worker, signal.SIGKILL)
        for one in asking:
            one.join(180)
        assert found == [503, 503, 503]
        assert patient
        server.wait()
        assert server.worker() != worker
        body = {"model": "lang", "prompt": "le", "max_tokens": 3}
        assert httpx.post(f"{server.v1}/completions", json=body, timeout=30).status_code == 200
        assert "attentif_worker_restarts_total 1.0" in httpx.get(f"{server.url}/metrics").text
        _leave_in_the_middle(server)
        _stop_in_the_middle(server)
    finally:
        server.process.kill()
        server.process.wait()


def _leave_in_the_middle(server) -> None:
    """Clients that go away free their rows, streamed or not."""
    body = {"model": "lang", "prompt": "le", "max_tokens": 4000, "temperature": 0, "stream": True}
    with httpx.stream("POST", f"{server.v1}/completions", json=body) as stream:
        next(stream.iter_lines())
    os.kill(server.worker(), signal.SIGSTOP)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{server.v1}/completions", json=body | {"stream": False}, timeout=0.3)
    os.kill(server.worker(), signal.SIGCONT)
    limit = time.monotonic() + 5
    while time.monotonic() < limit:
        text = httpx.get(f"{server.url}/metrics").text
        if "\nattentif_rows 0.0" in text and "\nattentif_queue 0.0" in text:
            return
        time.sleep(0.1)
    raise AssertionError("rows are left behind")


def _stop_in_the_middle(server) -> None:
    """SIGTERM: what was begun is finished, nothing new is begun, and no process is left."""
    worker = server.worker()
    body = {"model": "lang", "prompt": "le", "max_tokens": 300, "temperature": 0, "stream": True}
    with httpx.stream("POST", f"{server.v1}/completions", json=body, timeout=30) as stream:
        lines = stream.iter_lines()
        next(lines)
        server.process.send_signal(signal.SIGTERM)
        rest = list(lines)
    assert rest[-2] == "data: [DONE]"
    assert server.process.wait(60) in (0, 143, -signal.SIGTERM)
    assert not Path(f"/proc/{worker}").exists()


def test_a_run_that_cannot_be_loaded_is_one_line_and_an_exit_code(models: Path) -> None:
    server = start(models, "nothing")
    assert server.process.wait(180) == 1
    last = server.log.read_text().strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert "no such run" in last


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("a", "--host", "0.0.0.0"), "API key"),
        (("a", "a"), "two runs"),
        (("a", "--api-key-file", "none"), "API key"),
        (("a", "--api-key-file", "empty"), "16"),
        (("a", "--api-key-file", "short"), "16"),
    ],
    ids=lambda given: given[-1] if isinstance(given, tuple) else "",
)
def test_wrong_usage_is_refused_before_any_run_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    """In a folder that has no run `a`: the usage is what is refused, whatever the environment of the tests holds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATTENTIF_API_KEY", raising=False)
    (tmp_path / "empty").touch()
    (tmp_path / "short").write_text("short\n")
    found = terminal.typed("serve", *words)
    assert (found.code, found.out) == (2, "")
    assert said in found.err


def test_a_short_key_of_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATTENTIF_API_KEY", "short")
    found = terminal.typed("serve", "a")
    assert found.code == 2
    assert "16" in found.err
