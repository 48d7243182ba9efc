"""Whatever the schema allows is answered or refused, and never fails; what is answered has the form that the schema says."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from running import Server
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

pytestmark = pytest.mark.system
MODELS = ("lang", "talk", "avis")


def test_no_request_that_the_schema_allows_makes_the_server_fail(server: Server) -> None:
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json", headers=server.headers)
    checks = [not_a_server_error, response_schema_conformance, status_code_conformance]
    tried = []
    for found in schema.get_all_operations():
        operation = found.ok()
        tried.append(operation.path)

        @given(case=operation.as_strategy())
        @settings(max_examples=8, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
        def call(case) -> None:
            if isinstance(case.body, dict):
                case.body = likely(case.body)
            case.call_and_validate(headers=server.headers, checks=checks, timeout=30)

        call()
    assert {"/v1/chat/completions", "/v1/embeddings", "/v1/predict", "/v1/models", "/v1/inspect"} <= set(tried)


def likely(body: dict[str, Any]) -> dict[str, Any]:
    """The same for a model that is served, so that more than the lookup is tried; few tokens, and no stream, which is no JSON."""
    short = {key: 3 for key in ("max_tokens", "max_completion_tokens") if isinstance(body.get(key), int)}
    named = {"model": MODELS[len(str(body)) % len(MODELS)]} if isinstance(body.get("model"), str) else {}
    return {key: value for key, value in body.items() if key not in ("stream", "stream_options")} | short | named
