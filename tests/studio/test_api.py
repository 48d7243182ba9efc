"""The studio's API: numbers are those of the model, attacks are refused."""

import asyncio
import socket
from typing import Any

import httpx
import numpy as np
import pytest
import torch

import attentif
from attentif import inspect
from attentif.cli.studio import _bind
from attentif.decode import GenerateOptions
from attentif.decode.sampling import adjust_logits
from attentif.inspect.interventions import HeadsOff
from attentif.serve.studio.jobs import Jobs
from attentif.serve.studio.messages import TrainRequest
from attentif.serve.studio.numbers import Numbers

TEXT = "le film numéro 3 est superbe"
PROMPT = "le film"


@pytest.fixture
def call(studio):
    def send(path: str, body: dict[str, Any] | None = None) -> Any:
        headers = {"X-Attentif-Token": studio.token}
        url = f"{studio.url}/studio/api{path}"
        answer = httpx.get(url, headers=headers) if body is None else httpx.post(url, headers=headers, json=body, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return send


def array(numbers: dict[str, Any]) -> np.ndarray:
    return Numbers.model_validate(numbers).array()


def test_every_run_is_listed_and_a_damaged_one_says_why(call):
    runs = {run["id"]: run for run in call("/runs")["runs"]}
    assert {"classify", "lstm", "language", "mamba", "experts", "translate", "digits", "ngram", "damaged"} <= set(runs)
    assert runs["damaged"]["state"] == "damaged"
    assert runs["damaged"]["error"]
    best = runs["classify"]["scores"][0]
    assert best["metric"] == "accuracy"
    assert best["interval"][0] <= best["value"] <= best["interval"][1]


def test_an_answer_is_the_runs_own_and_words_are_measured_by_leaving_them_out(call, studio):
    run = attentif.load(studio.runs / "classify")
    found = call("/runs/classify/answer", {"text": TEXT})
    own = run.predict([TEXT])[0]
    assert found["outcome"]["probabilities"] == pytest.approx(list(own.scores.values()))
    without = run.predict([TEXT.replace(" superbe", "")])[0].scores[own.output]
    assert found["words"][-1]["effect"] == pytest.approx(own.scores[own.output] - without, abs=1e-6)


def test_steps_and_maps_are_the_tensors_of_the_model(call, studio):
    run = attentif.load(studio.runs / "language")
    batch = inspect.make_batch([run.task.prompt(run.tokenizers, PROMPT)])
    part = call("/runs/language/part", {"text": PROMPT, "path": "decoder.blocks.1.attn", "head": 1, "query": 4})
    steps = inspect.attention_steps(run.model, batch, "decoder.blocks.1.attn", head=1, query=4)
    for name in ("q", "k", "v", "dots", "scores", "weights", "mixed", "joined", "out", "after"):
        np.testing.assert_allclose(array(part["values"][name]), getattr(steps, name).numpy(), rtol=1e-5, atol=1e-6)
    maps = call("/runs/language/maps", {"text": PROMPT, "path": "decoder.blocks.1.attn"})
    np.testing.assert_allclose(array(maps["weights"])[1, 4], steps.weights.numpy(), rtol=1e-5, atol=1e-6)


def test_a_change_is_that_of_the_intervention(call, studio):
    run = attentif.load(studio.runs / "classify")
    changes = [{"kind": "heads", "path": "encoder.blocks.0.attn", "heads": [0, 1]}]
    found = call("/runs/classify/change", {"text": TEXT, "changes": changes})
    before = run.predict([TEXT])[0].scores
    with inspect.intervene(run.model, [HeadsOff("encoder.blocks.0.attn", (0, 1))]):
        after = run.predict([TEXT])[0].scores
    assert dict(zip(found["before"]["names"], found["before"]["probabilities"], strict=True)) == pytest.approx(before)
    assert dict(zip(found["after"]["names"], found["after"]["probabilities"], strict=True)) == pytest.approx(after)
    again = call("/runs/classify/change", {"text": TEXT, "changes": []})
    assert again["after"] == found["before"]


@pytest.mark.parametrize(
    ("run", "change"),
    [
        ("language", {"kind": "positions"}),
        ("language", {"kind": "unscaled"}),
        ("language", {"kind": "mask"}),
        ("language", {"kind": "sharpen", "factor": 4.0}),
        ("language", {"kind": "residual", "path": ""}),
        ("language", {"kind": "part", "path": "decoder.blocks.0.ffn"}),
        ("language", {"kind": "vector", "place": 2, "word": "z"}),
        ("language", {"kind": "patch", "path": "decoder.blocks.0.ffn", "place": 2, "text": "ce roman", "place_there": 3}),
        ("experts", {"kind": "expert", "path": "decoder.blocks.0.ffn", "expert": 0}),
        ("translate", {"kind": "part", "path": "decoder.blocks.0.cross"}),
        ("mamba", {"kind": "part", "path": "decoder.blocks.1.ssm"}),
        ("lstm", {"kind": "part", "path": "encoder.blocks.0.cell"}),
    ],
)
def test_every_kind_of_change_moves_the_answer(call, run, change):
    text = {"translate": "un deux trois", "lstm": TEXT}.get(run, PROMPT)
    paths = [
        part["path"] for stack in call(f"/runs/{run}")["architecture"]["stacks"] for block in stack["blocks"] for part in block["sublayers"]
    ]
    if change.get("path") and change["path"].replace(".1.", ".0.") not in paths:
        change = change | {"path": paths[0]}
    found = call(f"/runs/{run}/change", {"text": text, "changes": [change]})
    assert found["measure"][0] != found["measure"][1]


@pytest.mark.parametrize("run", ["classify", "language", "translate"])
def test_heads_are_ranked_by_what_their_removal_does(call, run):
    text = {"translate": "un deux trois", "classify": TEXT}.get(run, PROMPT)
    effects = [abs(one["effect"]) for one in call(f"/runs/{run}/heads", {"text": text})]
    assert effects == sorted(effects, reverse=True)
    assert effects[0] > 0


@pytest.mark.parametrize(
    ("run", "kind"),
    [
        ("lstm", "gates"),
        ("mamba", "state-space"),
        ("mamba2", "state-space"),
        ("linear", "linear"),
        ("experts", "experts"),
        ("language", "attention"),
    ],
)
def test_each_architecture_shows_its_own_computation(call, run, kind):
    stacks = call(f"/runs/{run}")["architecture"]["stacks"]
    paths = [part["path"] for stack in stacks for block in stack["blocks"] for part in block["sublayers"]]
    text = TEXT if run == "lstm" else PROMPT
    kinds = [call(f"/runs/{run}/part", {"text": text, "path": path})["kind"] for path in ("frontend", *paths, "head")]
    assert kind in kinds
    assert kinds[0] == "frontend"
    assert call(f"/runs/{run}/lens", {"text": text})["paths"][0] == "embedding"


def test_ngram_counts_are_those_of_the_text(call, studio):
    orders = call("/runs/ngram/counts", {"text": "le fil"})["orders"]
    assert orders[-1]["context"] == ["i", "l"]
    assert orders[-1]["names"][0] == "m"
    assert orders[-1]["counts"][0] > 0


def test_a_state_space_by_hand_is_the_models_and_a_long_text_is_sent_in_part(call, studio):
    run = attentif.load(studio.runs / "mamba2")
    path = "decoder.blocks.1.ssm"
    for text, query in ((PROMPT, 4), ("le film " * 60, 400)):
        batch = inspect.make_batch([run.task.prompt(run.tokenizers, text)])
        part = call("/runs/mamba2/part", {"text": text, "path": path, "channel": 5, "query": query})
        steps = inspect.state_space_steps(run.model, batch, path, channel=5, query=query)
        first = int(part["facts"]["first"])
        assert (first > 0) == (len(steps.u) > 256) == ("map" not in part["values"])
        for name in ("delta", "decay", "B", "C", "state", "y", "gated"):
            own = getattr(steps, name)[first : first + 256].numpy()
            np.testing.assert_allclose(array(part["values"][name]), own, rtol=1e-5, atol=1e-6)
        kept, written = (array(part["values"][name]) for name in ("kept", "written"))
        np.testing.assert_allclose(kept + written, steps.state[query].numpy(), rtol=1e-5, atol=1e-6)
        if not first:
            implied = array(part["values"]["map"])
            np.testing.assert_allclose(implied @ steps.u.numpy(), steps.y.numpy(), rtol=1e-4, atol=1e-5)


def test_next_token_scores_are_exact_and_writing_follows_them(call, studio):
    run = attentif.load(studio.runs / "language")
    found = call("/runs/language/next", {"text": PROMPT, "ids": []})
    ids = run.task.prompt(run.tokenizers, PROMPT)
    with torch.no_grad():
        own = run.model(inspect.make_batch([ids]))[0][0, -1]
    np.testing.assert_allclose(array(found["logits"]), own.numpy(), rtol=1e-4, atol=1e-5)
    headers = {"X-Attentif-Token": studio.token}
    body = {"text": PROMPT, "tokens": 5, "temperature": 0}
    answer = httpx.post(f"{studio.url}/studio/api/runs/language/write", headers=headers, json=body, timeout=60)
    assert answer.text.endswith("data: [DONE]\n\n")
    assert answer.text.count('"id"') == 5
    assert f'"id": {int(own.argmax())},' in answer.text
    assert adjust_logits(own[None], GenerateOptions(temperature=0.5, top_k=3)).isfinite().sum() == 3  # what the sliders redo in the page


def test_a_checkpoint_of_an_earlier_step_answers_otherwise(call):
    steps = call("/runs/classify")["steps"]
    assert len(steps) >= 2
    early = call("/runs/classify/answer", {"text": TEXT, "step": steps[0]})["outcome"]["probabilities"]
    assert early != call("/runs/classify/answer", {"text": TEXT})["outcome"]["probabilities"]


def test_a_training_is_the_command_that_a_user_would_type(tmp_path):
    jobs = Jobs(tmp_path)
    neural = jobs.command(TrainRequest(recipe="reviews", model="encoder-tiny", minutes=2), tmp_path / "a")
    assert neural[:2] == ["train", "reviews"]
    assert {"model.base=encoder-tiny", "train.minutes=2"} <= set(neural)
    assert not any(word.startswith("train.") for word in jobs.command(TrainRequest(recipe="ngram"), tmp_path / "b"))


def test_answers_leave_at_once():
    """Without TCP_NODELAY each would wait 40 ms for an acknowledgement."""

    async def accept_one(bound: socket.socket) -> list[int]:
        seen: list[int] = []

        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        async with await asyncio.start_server(answer, sock=bound):
            reader, writer = await asyncio.open_connection(*bound.getsockname())
            await reader.read()
            writer.close()
        return seen

    assert asyncio.run(accept_one(_bind(0))) == [1]


# ------------------------------------------------------------------------------------------------------------------ attacks


def refused(studio, method: str, path: str, **options: Any) -> httpx.Response:
    return httpx.request(method, f"{studio.url}{path}", timeout=20, **options)


def test_nothing_answers_without_the_sessions_token(studio):
    assert refused(studio, "GET", "/studio/api/runs").status_code == 403
    assert refused(studio, "POST", "/studio/api/runs/classify/answer", json={"text": "a"}).status_code == 403
    assert refused(studio, "GET", "/studio/").status_code == 403
    assert refused(studio, "GET", "/studio/?token=wrong").status_code == 403
    cookie = {"cookie": f"attentif_session={studio.token}"}
    assert refused(studio, "GET", "/studio/api/runs", headers=cookie).status_code == 200
    assert refused(studio, "POST", "/studio/api/runs/classify/answer", headers=cookie, json={"text": "a"}).status_code == 403


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"origin": "http://evil.example"}, {"host": "127.0.0.1.evil.example:80"}])
def test_other_hosts_and_origins_are_refused(studio, headers):
    own = {"X-Attentif-Token": studio.token} | headers
    assert refused(studio, "GET", "/studio/api/runs", headers=own).status_code == 403
    assert refused(studio, "POST", "/studio/api/runs/classify/answer", headers=own, json={"text": "a"}).status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/studio/static/../routes.py",
        "/studio/static/%2e%2e/routes.py",
        "/studio/static/..%2froutes.py",
        "/studio/static//etc/passwd",
        "/studio/static/views",
        "/studio/api/runs/..%2f..%2fetc",
        "/studio/api/runs/%2e%2e",
    ],
)
def test_tricks_with_paths_reach_nothing(studio, path):
    answer = refused(studio, "GET", path, headers={"X-Attentif-Token": studio.token})
    assert answer.status_code in (400, 404)
    assert "import" not in answer.text
    assert "root:" not in answer.text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/runs/nobody/answer", {"text": "a"}),
        ("/runs/classify/answer", {"text": ""}),
        ("/runs/classify/answer", {"text": "x" * 30_000}),
        ("/runs/classify/part", {"text": "a", "path": "encoder.blocks.9.attn"}),
        ("/runs/classify/part", {"text": "a", "path": "../../etc"}),
        ("/runs/language/write", {"text": "a", "tokens": 10_000}),
        ("/runs/language/next", {"text": "a", "ids": [99_999]}),
        ("/runs/digits/answer", {"picture": "bm8gcG5n"}),
        ("/runs/ngram/part", {"text": "a", "path": "frontend"}),
        ("/training/start", {"recipe": "../x"}),
        ("/training/start", {"recipe": "reviews", "file": 99}),
        ("/training/start", {"recipe": "reviews", "name": "../../x"}),
        ("/runs/classify/stop", {}),
    ],
)
def test_wrong_requests_get_one_sentence(studio, path, body):
    answer = refused(studio, "POST", f"/studio/api{path}", headers={"X-Attentif-Token": studio.token}, json=body)
    assert answer.status_code == 400, answer.text
    message = answer.json()["error"]["message"]
    assert message
    assert "\n" not in message
    assert str(studio.runs) not in message
