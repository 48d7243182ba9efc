"""What strangers send is refused with a status of the 400s, and no trace of it is kept."""

import json
import socket
import time

import httpx
import pytest
from running import Server

pytestmark = pytest.mark.system
CHAT = {"model": "lang", "messages": [{"role": "user", "content": "le"}], "max_tokens": 2}


def refuse(found: httpx.Response, status: int, code: str | None = None) -> None:
    assert found.status_code == status, found.text
    error = found.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    if code is not None:
        assert error["code"] == code


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost@evil.example", "a b"])
def test_a_foreign_host_is_refused(http: httpx.Client, host: str) -> None:
    refuse(http.get("/v1/models", headers={"Host": host}), 403, "host_not_allowed")
    assert http.get("/docs", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1.evil.example", "file://", "http://localhost:1"])
def test_a_foreign_origin_is_refused_and_gets_no_cors_headers(http: httpx.Client, origin: str) -> None:
    for method, path in (("POST", "/v1/chat/completions"), ("GET", "/v1/models"), ("OPTIONS", "/v1/chat/completions")):
        found = http.request(method, path, headers={"Origin": origin, "Content-Type": "application/json"})
        refuse(found, 403, "origin_not_allowed")
        assert "access-control-allow-origin" not in found.headers
    assert http.get("/v1/models", headers={"Origin": str(http.base_url).rstrip("/")}).status_code == 200


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer wrong", "Basic a-key-for-tests-of-32-characters", "Bearer a-key-for-tests-of-32-character", "Bearer é"]
)
def test_a_missing_or_wrong_key_is_refused_everywhere_but_for_probes(server: Server, given: str) -> None:
    headers = [(b"Authorization", given.encode())] if given else []
    for method, path in (("GET", "/v1/models"), ("POST", "/v1/chat/completions"), ("GET", "/metrics"), ("GET", "/docs"), ("GET", "/none")):
        refuse(httpx.request(method, server.url + path, headers=headers), 401, "invalid_api_key")
    assert httpx.get(f"{server.url}/health", headers=headers).status_code == 200


def test_a_session_is_opened_by_its_token_alone(server: Server) -> None:
    found = httpx.get(f"{server.url}/session", params={"token": "guess", "next": "//evil.example"})
    refuse(found, 403, "token_wrong")
    assert "set-cookie" not in found.headers


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "GET"])
def test_other_methods_are_refused(http: httpx.Client, method: str) -> None:
    refuse(http.request(method, "/v1/chat/completions"), 405)


def test_unknown_paths_and_tricks_with_them_are_refused(http: httpx.Client) -> None:
    for path in (
        "/",
        "/v1",
        "/v1/",
        "/v1/nothing",
        "/../etc/passwd",
        "/v1/models/..%2f..%2fetc%2fpasswd",
        "/docs/../openapi.json/x",
        "//evil",
    ):
        refuse(http.get(path), 404)
    refuse(http.post("/studio/jobs", json={}), 404)  # the key stands for the token: only the path is unknown


@pytest.mark.parametrize("model", ["../lang", "/etc/passwd", "lang/../lang", "lang\x00", "", "x" * 300, "./lang"])
def test_a_model_is_a_name_and_never_a_path(http: httpx.Client, model: str) -> None:
    assert http.post("/v1/chat/completions", json=CHAT | {"model": model}).status_code in (400, 404)


def test_oversized_and_deeply_nested_bodies_are_refused(http: httpx.Client) -> None:
    head = {"Content-Type": "application/json"}
    refuse(http.post("/v1/chat/completions", content=b" " * (2**21 + 1), headers=head), 413, "body_too_large")

    def pieces():
        for _ in range(40):
            yield b" " * 65536

    refuse(http.post("/v1/chat/completions", content=pieces(), headers=head), 413, "body_too_large")
    for deep in (b"[" * 100_000, b'{"a":' * 50_000, b"[" * 100_000 + b"]" * 100_000):
        refuse(http.post("/v1/chat/completions", content=deep, headers=head), 400)
    many = CHAT | {"messages": CHAT["messages"] * 1000}
    refuse(http.post("/v1/chat/completions", json=many), 400)
    refuse(http.post("/v1/embeddings", json={"model": "avis", "input": ["a"] * 33}), 400)


@pytest.mark.parametrize(
    "change",
    [
        {"max_tokens": -1}, {"max_tokens": 10**9}, {"n": 0}, {"n": 10**6}, {"temperature": -0.1}, {"temperature": 1e308}, {"top_p": 0},
        {"top_p": 2}, {"top_logprobs": 10**6, "logprobs": True}, {"stop": ["a"] * 100}, {"stop": ""}, {"stop": "a" * 10_000},
        {"seed": 10**30}, {"top_k": -5}, {"min_p": -1}, {"repetition_penalty": 0}, {"max_tokens": "many"}, {"max_tokens": 1.5},
    ],
    ids=str,
)  # fmt: skip
def test_numbers_out_of_bounds_are_refused(http: httpx.Client, change: dict) -> None:
    refuse(http.post("/v1/chat/completions", json=CHAT | change), 400)


def test_what_is_no_json_or_no_unicode_is_refused(http: httpx.Client) -> None:
    head = {"Content-Type": "application/json"}
    nan = json.dumps(CHAT | {"temperature": float("nan")}).encode()
    surrogate = b'{"model": "lang", "messages": [{"role": "user", "content": "\\ud800"}]}'
    for body in (
        b"\xff\xfe\x00",
        b'{"model": "\xc3\x28"}',
        b"",
        b"null",
        b"[]",
        b'"a"',
        b'{"model": 1e999}',
        nan,
        surrogate,
        b"1" * 10_000,
    ):
        refuse(http.post("/v1/chat/completions", content=body, headers=head), 400)
    refuse(http.post("/v1/chat/completions", content=json.dumps(CHAT), headers={"Content-Type": "text/plain"}), 415)


def test_header_floods_are_refused(server: Server, http: httpx.Client) -> None:
    refuse(http.get("/v1/models", headers={f"X-{n}": "a" for n in range(100)}), 431)
    assert _raw(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: " + b"a" * 40_000).startswith(b"HTTP/1.1 400")
    assert _raw(server, b"\x16\x03\x01\x00\xa5\x01\x00\x00").startswith((b"HTTP/1.1 400", b""))


def _raw(server: Server, data: bytes) -> bytes:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(data)
        return connection.recv(1000)


def test_files_are_sent_by_content_and_never_by_name(http: httpx.Client) -> None:
    for path in ("predict", "describe", "transcribe", "forecast", "answer"):
        for given in ("/etc/passwd", {"image": "/etc/passwd", "question": "?"}, {"audio": "/etc/passwd"}, {"series": "/etc/passwd"}):
            found = http.post(f"/v1/{path}", json={"model": "avis", "inputs": [given]})
            assert found.status_code in (200, 400)
            assert "root:" not in found.text


def test_attention_maps_that_would_fill_the_memory_are_refused_before_they_are_computed(http: httpx.Client) -> None:
    for model, text in (("lang", "le film " * 50), ("lang", "le film " * 10_000), ("avis", "film " * 500), ("avis", "film " * 50_000)):
        refuse(http.post("/v1/inspect", json={"model": model, "text": text}), 400)
    whole = {"model": "lang", "text": "le film " * 50}
    assert http.post("/v1/inspect", json=whole | {"layers": [1], "heads": [1]}).status_code == 200


def test_responses_carry_the_headers_that_browsers_need(http: httpx.Client) -> None:
    for path in ("/docs", "/v1/models", "/nothing"):
        headers = http.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers


def test_the_log_has_neither_texts_nor_keys_nor_paths_of_strangers(server: Server, http: httpx.Client) -> None:
    secret = "phrase-que-personne-ne-doit-lire"
    http.post("/v1/completions", json={"model": "lang", "prompt": secret, "max_tokens": 2})
    http.post("/v1/completions", json={"model": secret, "prompt": secret, "max_tokens": 2})
    http.get(f"/v1/{secret}?{secret}", headers={"User-Agent": secret})
    http.get("/v1/models", headers={"Authorization": f"Bearer {secret}"})
    time.sleep(0.1)
    log = server.log.read_text()
    assert secret not in log
    assert server.key not in log
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert {"time", "id", "client", "method", "path", "status", "ms"} <= set(lines[-1])
