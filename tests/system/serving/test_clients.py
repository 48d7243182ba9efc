"""The packages that people have, against a running server."""

import math
import time

import httpx
import numpy as np
import openai
import pytest
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from running import Server

import attentif

pytestmark = pytest.mark.system


@pytest.fixture
def client(server: Server):
    with openai.OpenAI(base_url=server.v1, api_key=server.key, max_retries=0) as found:
        yield found


@pytest.fixture(scope="module")
def lang(models) -> attentif.Run:
    return attentif.load(models / "lang", threads=1)


def test_a_greedy_completion_is_the_one_of_the_run(client, lang) -> None:
    found = client.completions.create(model="lang", prompt="le film", max_tokens=12, temperature=0)
    own = lang.generate("le film", max_tokens=12)
    assert found.choices[0].text == own.text
    assert found.choices[0].finish_reason == "length"
    assert found.usage.completion_tokens == 12
    assert found.usage.prompt_tokens == len(lang.task.prompt(lang.tokenizers, "le film"))
    assert found.usage.total_tokens == found.usage.prompt_tokens + 12


def test_a_seed_draws_the_same_as_the_run_and_each_choice_differently(client, lang) -> None:
    found = client.completions.create(model="lang", prompt="le", max_tokens=16, temperature=1, seed=5, n=3)
    texts = [choice.text for choice in found.choices]
    assert texts[0] == lang.generate("le", max_tokens=16, temperature=1.0, seed=5).text
    assert len(set(texts)) == 3
    again = client.completions.create(model="lang", prompt="le", max_tokens=16, temperature=1, seed=5, n=3)
    assert [choice.text for choice in again.choices] == texts


def test_a_stream_has_the_text_of_the_whole_and_usage_only_where_asked(client) -> None:
    whole = client.chat.completions.create(model="talk", messages=[{"role": "user", "content": "le film"}], max_tokens=20, seed=1)
    for asked in (True, False):
        options = {"include_usage": asked}
        chunks = list(
            client.chat.completions.create(
                model="talk",
                messages=[{"role": "user", "content": "le film"}],
                max_completion_tokens=20,
                seed=1,
                stream=True,
                stream_options=options,
            )
        )
        texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
        assert "".join(texts) == whole.choices[0].message.content
        assert chunks[0].choices[0].delta.role == "assistant"
        assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == whole.choices[0].finish_reason
        assert [chunk.usage for chunk in chunks if chunk.usage] == ([whole.usage] if asked else [])
        assert bool(chunks[-1].choices) is not asked


def test_a_stop_text_ends_the_answer_before_it(client, lang) -> None:
    text = lang.generate("ce roman", max_tokens=24).text
    stop = text[5:8]
    found = client.completions.create(model="lang", prompt="ce roman", max_tokens=24, temperature=0, stop=[stop])
    assert found.choices[0].text == text[: text.index(stop)]
    assert found.choices[0].finish_reason == "stop"


def test_log_probabilities_are_those_of_the_model(client, lang) -> None:
    found = client.chat.completions.create(
        model="lang", messages=[{"role": "user", "content": "le"}], max_tokens=4, temperature=0, logprobs=True, top_logprobs=3
    )
    content = found.choices[0].logprobs.content
    own = lang.generate("le\n", max_tokens=4, alternatives=3).steps
    assert [one.logprob for one in content] == pytest.approx([step.log_prob for step in own][: len(content)], abs=1e-4)
    assert all(len(one.top_logprobs) == 3 and one.top_logprobs[0].logprob >= one.logprob for one in content)
    assert bytes(content[0].bytes).decode() == content[0].token
    old = client.completions.create(model="lang", prompt="le\n", max_tokens=4, temperature=0, logprobs=2).choices[0].logprobs
    assert old.token_logprobs[0] == pytest.approx(content[0].logprob, abs=1e-4)
    assert math.isclose(max(old.top_logprobs[0].values()), content[0].top_logprobs[0].logprob, abs_tol=1e-4)


def test_choices_of_a_prompt_read_it_once(client, http: httpx.Client) -> None:
    def found_tokens() -> float:
        lines = http.get("/metrics").text.splitlines()
        return float(next(line.split()[-1] for line in lines if line.startswith("attentif_prefix_cache_tokens ")))

    before, limit = found_tokens(), time.monotonic() + 20
    found = client.completions.create(model="lang", prompt="une phrase que personne n'a lue", max_tokens=2, temperature=0, n=4)
    assert len({choice.text for choice in found.choices}) == 1
    while found_tokens() < before + 3 * found.usage.prompt_tokens:
        assert time.monotonic() < limit
        time.sleep(0.05)


def test_a_speaker_has_the_name_that_the_template_shows(client) -> None:
    """The template of `talk` shows none; what matters is that a name is taken, as OpenAI does."""
    message = {"role": "user", "content": "le film", "name": "Ada"}
    found = [
        client.chat.completions.create(model="talk", messages=[one], max_tokens=3, temperature=0)
        for one in (message, message | {"name": "Zoé"})
    ]
    assert found[0].choices[0].message == found[1].choices[0].message


def test_several_prompts_are_answered_in_their_order_and_echo_repeats_them(client, lang) -> None:
    found = client.completions.create(model="lang", prompt=["le", "ce"], max_tokens=3, temperature=0, echo=True)
    assert [choice.text for choice in found.choices] == [text + lang.generate(text, max_tokens=3).text for text in ("le", "ce")]


def test_vectors_are_those_of_the_run_in_both_encodings(client, models) -> None:
    texts = ["le film est superbe", "ce roman"]
    own = attentif.load(models / "avis", threads=1).embed(texts)
    by_default = client.embeddings.create(model="avis", input=texts)  # the package asks for base64
    as_numbers = client.embeddings.create(model="avis", input=texts, encoding_format="float")
    for found in (by_default, as_numbers):
        np.testing.assert_allclose([one.embedding for one in found.data], own, atol=1e-5)  # float32, in other batches
    assert by_default.usage.prompt_tokens > 0


def test_what_cannot_be_served_is_refused_with_the_reason(client) -> None:
    message = [{"role": "user", "content": "le"}]
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    with pytest.raises(openai.BadRequestError, match="tools"):
        client.chat.completions.create(model="lang", messages=message, tools=[tool])
    with pytest.raises(openai.BadRequestError, match="response_format"):
        client.chat.completions.create(model="lang", messages=message, response_format={"type": "json_object"})
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="../avis", messages=message)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="cannot generate") as unable:
        client.completions.create(model="avis", prompt="le")
    assert unable.value.code == "capability_missing"
    with pytest.raises(openai.BadRequestError) as long:
        client.completions.create(model="lang", prompt="le " * 5000, max_tokens=5)
    assert (long.value.code, long.value.param) == ("context_length_exceeded", "prompt")
    with pytest.raises(openai.BadRequestError, match="token ids"):
        client.embeddings.create(model="avis", input=[1, 2, 3])
    with pytest.raises(openai.AuthenticationError) as unknown:
        client.with_options(api_key="wrong").models.list()
    assert unknown.value.type == missing.value.type == "invalid_request_error"


def test_models_are_listed_and_described(client) -> None:
    assert [model.id for model in client.models.list()] == ["lang", "talk", "avis"]
    assert client.models.retrieve("lang").object == "model"


def test_langchain_chats_streams_and_embeds(server: Server) -> None:
    options = {"base_url": server.v1, "api_key": server.key, "model": "talk", "max_tokens": 8, "temperature": 0, "max_retries": 0}
    chat = ChatOpenAI(**options)
    whole = chat.invoke([HumanMessage("le film")])
    assert whole.usage_metadata["output_tokens"] == 8
    assert "".join(chunk.content for chunk in chat.stream([HumanMessage("le film")])) == whole.content
    embeddings = OpenAIEmbeddings(base_url=server.v1, api_key=server.key, model="avis", check_embedding_ctx_length=False)
    assert len(embeddings.embed_documents(["le film", "ce roman"])) == 2


def test_every_capability_of_a_run_has_an_endpoint(http: httpx.Client, models) -> None:
    run = attentif.load(models / "avis", threads=1)
    text = "le film numéro 3 est superbe"
    (own,) = run.predict([text])
    for path in ("predict", "classify"):
        found = http.post(f"/v1/{path}", json={"model": "avis", "inputs": [text]}).json()
        assert found["answers"][0]["label"] == own.output
        assert found["answers"][0]["probabilities"] == pytest.approx(own.scores, abs=1e-5)
    maps = http.post("/v1/inspect", json={"model": "avis", "text": text, "layers": [1]}).json()["maps"]
    assert maps[0]["layers"][0]["name"] == "encoder 1 attn"
    assert np.sum(maps[0]["layers"][0]["heads"][0][0]) == pytest.approx(1, abs=1e-3)
    looked = http.post(
        "/v1/inspect", json={"model": "lang", "text": "le film", "heads": [2], "next_tokens": 3, "attributions": True}
    ).json()
    assert {len(layer["heads"]) for one in looked["maps"] for layer in one["layers"]} == {1}
    assert len(looked["attributions"]) == len(looked["maps"][0]["rows"])
    chances = [one["probability"] for one in looked["next_tokens"]]
    assert len(chances) == 3
    assert chances == sorted(chances, reverse=True)
    near = http.post("/v1/neighbours", json={"model": "avis", "word": "film", "count": 2}).json()["neighbours"]
    assert len(near) == 2
    tokens = http.post("/v1/tokenize", json={"model": "avis", "text": text}).json()["tokens"]
    assert http.post("/v1/detokenize", json={"model": "avis", "tokens": tokens}).json()["text"] == text
    assert http.post("/v1/translate", json={"model": "avis", "inputs": ["a"]}).json()["error"]["code"] == "capability_missing"
