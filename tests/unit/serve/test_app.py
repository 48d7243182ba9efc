"""The guard in front of an application whose worker never starts."""

import pytest
from fastapi import APIRouter
from starlette.testclient import TestClient

from attentif.serve.app import create_app
from attentif.serve.security import COOKIE, TOKEN_HEADER
from attentif.serve.settings import ServerLimits, ServerSettings
from attentif.serve.worker import WorkerSettings

KEY = "k" * 32
extra = APIRouter()


@extra.get("/studio/")
async def page() -> str:
    return "page"


@extra.post("/studio/jobs")
async def begin() -> str:
    return "begun"


@pytest.fixture
def settings() -> ServerSettings:
    return ServerSettings(api_key=KEY, allowed_origins=("https://site.example",))


@pytest.fixture
def client(settings: ServerSettings) -> TestClient:
    app = create_app(settings, WorkerSettings({}, ServerLimits(), ""), extra_routers=[extra])
    return TestClient(app, base_url="http://localhost", follow_redirects=False)  # without its lifespan: no worker


def test_the_token_of_the_printed_address_becomes_a_strict_cookie_that_opens_pages(client: TestClient, settings: ServerSettings) -> None:
    assert client.get("/studio/").status_code == 401
    opened = client.get("/session", params={"token": settings.token, "next": "/studio/"})
    assert opened.headers["location"] == "/studio/"
    assert "samesite=strict" in opened.headers["set-cookie"].lower()
    assert "httponly" in opened.headers["set-cookie"].lower()
    assert client.get("/studio/").status_code == 200
    assert client.get("/session", params={"token": settings.token, "next": "//evil.example"}).headers["location"] == "/docs"


def test_a_cookie_alone_changes_nothing(client: TestClient, settings: ServerSettings) -> None:
    client.cookies.set(COOKIE, settings.token)
    assert client.post("/studio/jobs").status_code == 401
    assert client.post("/studio/jobs", headers={TOKEN_HEADER: "wrong"}).status_code == 401
    assert client.post("/studio/jobs", headers={TOKEN_HEADER: settings.token}).status_code == 200


def test_without_a_key_what_changes_something_still_needs_the_token() -> None:
    app = create_app(ServerSettings(), WorkerSettings({}, ServerLimits(), ""), extra_routers=[extra])
    client = TestClient(app, base_url="http://localhost")
    assert client.get("/studio/").status_code == 200
    assert client.post("/studio/jobs").json()["error"]["code"] == "token_missing"
    assert client.post("/v1/completions", json={"model": "m", "prompt": "a"}).json()["error"]["code"] == "loading"
    assert client.get("/ready").status_code == 503


def test_an_allowed_origin_gets_cors_headers_and_no_other(client: TestClient) -> None:
    head = {"Origin": "https://site.example", "Access-Control-Request-Method": "POST"}
    asked = client.options("/v1/completions", headers=head)
    assert asked.status_code == 204
    assert asked.headers["access-control-allow-origin"] == "https://site.example"
    assert client.options("/v1/completions", headers=head | {"Origin": "https://other.example"}).status_code == 403


def test_the_page_of_the_api_has_every_endpoint_and_no_script(client: TestClient) -> None:
    found = client.get("/docs", headers={"Authorization": f"Bearer {KEY}"}).text
    for path in ("/v1/chat/completions", "/v1/embeddings", "/v1/predict", "/v1/inspect", "/v1/fill", "/v1/tokenize"):
        assert f"<code>{path}</code>" in found
    for inside in ("ChatMessage", "TextPart", "ChatLogprob", "StreamOptions"):  # types in the fields of others
        assert f"with <code>{inside}</code>" in found
    assert "curl http://localhost/v1" in found
    assert "<script" not in found


MESSAGES = [{"role": "user", "content": "a"}]
PICTURE = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]


@pytest.mark.parametrize(
    ("path", "fields", "param", "code"),
    [
        ("chat/completions", {"messages": MESSAGES, "tools": [{}]}, "tools", "unsupported_parameter"),
        (
            "chat/completions",
            {"messages": MESSAGES, "response_format": {"type": "json_object"}},
            "response_format",
            "unsupported_parameter",
        ),
        ("chat/completions", {"messages": MESSAGES, "top_logprobs": 2}, "top_logprobs", "invalid_value"),
        ("chat/completions", {"messages": MESSAGES, "stop": ["a"] * 5}, "stop", "invalid_value"),
        ("chat/completions", {"messages": MESSAGES, "stop": 3}, "stop", "invalid_value"),
        ("chat/completions", {"messages": MESSAGES, "nonsense": 3}, "nonsense", "invalid_value"),
        ("chat/completions", {"messages": PICTURE}, "messages.0.content.0.type", "invalid_value"),
        ("completions", {"prompt": [1, 2]}, "prompt", "invalid_value"),
        ("completions", {"prompt": "a", "echo": True, "logprobs": 1}, "echo", "invalid_value"),
        ("embeddings", {"input": []}, "input", "invalid_value"),
    ],
)
def test_a_refused_field_is_named_where_clients_look_for_it(path: str, fields: dict, param: str, code: str) -> None:
    client = TestClient(create_app(ServerSettings(), WorkerSettings({}, ServerLimits(), "")), base_url="http://localhost")
    found = client.post(f"/v1/{path}", json={"model": "m"} | fields)
    error = found.json()["error"]
    assert (found.status_code, error["param"], error["code"]) == (400, param, code)
    assert error["message"].startswith(f"{param}: ")


def test_a_path_or_method_that_is_not_there_says_where_to_look() -> None:
    client = TestClient(create_app(ServerSettings(), WorkerSettings({}, ServerLimits(), "")), base_url="http://localhost")
    for found, status in ((client.post("/v1/responses", json={}), 404), (client.get("/v1/embeddings"), 405)):
        assert found.status_code == status
        assert "/docs" in found.json()["error"]["message"]
    assert client.get("/v1/models/org/name").json()["error"]["code"] == "loading"  # names of the hub have a slash
    assert client.head("/health").status_code == 200
