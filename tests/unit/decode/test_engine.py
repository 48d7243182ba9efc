"""The fused step inside sessions: the models that have one, in float32 and int8, and those that do not."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from attentif.decode.engine import runner
from attentif.decode.engine.pages import join_ranges
from attentif.decode.session import Session
from attentif.inspect import make_batch
from attentif.models import Batch, Model, build, resolve
from attentif.models.int8 import quantize
from attentif.models.precision import keep_bf16
from attentif.nn.tape import record

PROMPTS = [[3, 1, 4, 1, 5, 9, 2], [6], [5, 3, 5]]
LLAMA: dict[str, Any] = {
    "width": 64,
    "layers": 2,
    "frontend": {"kind": "tokens"},
    "decoder": {
        "norm": {"kind": "rms"},
        "block": {
            "attn": {"mixer": {"kind": "attention", "heads": 4, "kv_heads": 2, "causal": True, "rotary": {}, "bias": False}},
            "ffn": {"mixer": {"kind": "feed-forward", "activation": "swiglu", "hidden": 96}},
        },
    },
    "head": {"kind": "language"},
}


def model_of(values: dict[str, Any], vocab: int = 40) -> Model:
    torch.manual_seed(0)
    model = build(resolve(values).with_sizes(vocab=vocab)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def placed(placement: str, **decoder: Any) -> dict[str, Any]:
    return LLAMA | {"decoder": LLAMA["decoder"] | {"placement": placement} | decoder}


BRANCHES = dict(LLAMA["decoder"]["block"])
PARALLEL = placed("pre", block={"both": {"mixer": {"kind": "parallel", "branches": BRANCHES}}})
MODELS = {
    "llama": LLAMA,
    "gpt2": {"base": "gpt2", "width": 48, "layers": 2, "decoder": {"block": {"attn": {"mixer": {"heads": 4}}}}},
    "post": placed("post"),
    "sandwich": placed("sandwich"),
    "both": placed("both", norm={"kind": "layer"}),
    "branch": placed("branch", final_norm=False),
    "capped": LLAMA | {"head": {"kind": "language", "tied": False, "bias": True, "softcap": 5.0}},
    "hybrid": {"base": "hybrid-tiny"},
    "rwkv": {"base": "rwkv-tiny"},
    "rwkv7": {"base": "rwkv7-tiny"},
    "mamba2": {"base": "mamba2-tiny"},
    "mixtral": {"base": "mixtral-tiny"},
    "deepseek": {"base": "deepseek-tiny"},
    "gated-linear": {"base": "gated-linear-tiny"},
    "linear": {"base": "linear-transformer-tiny"},
    "parallel": PARALLEL,
    "lstm": {"base": "lstm-tiny"},
    "sinusoidal": LLAMA | {"frontend": {"kind": "tokens", "scale": True, "position": {"kind": "sinusoidal"}, "norm": {"kind": "layer"}}},
    "learned": LLAMA
    | {
        "frontend": {"kind": "tokens", "embedding": 32, "position": {"kind": "learned", "max_len": 64, "offset": 2}},
        "head": {"kind": "language", "tied": False},
    },
    "narrow": placed("post", out=32) | {"frontend": {"kind": "tokens", "embedding": 32, "projects": "tokens"}},
    "narrow-transform": placed("pre", out=32)
    | {
        "frontend": {"kind": "tokens", "embedding": 32, "projects": "tokens"},
        "head": {"kind": "language", "transform": {"kind": "layer"}},
    },
    "axial": LLAMA | {"frontend": {"kind": "tokens", "position": {"kind": "axial", "shape": [8, 8]}}},
    "transform": LLAMA | {"head": {"kind": "language", "transform": {"kind": "layer"}}},
}


@torch.no_grad()
def again(model: Model, ids: list[int]) -> torch.Tensor:
    return model(make_batch([ids]))[0][0, -1]


@pytest.mark.parametrize("name", ["transformer-tiny", "t5-tiny", "switch-tiny", "whisper-like"])
def test_fused_steps_of_encoder_decoders_equal_a_model_that_reads_all_again(name: str) -> None:
    values = {"base": name} if name != "whisper-like" else {"base": "transformer-tiny", "decoder": {"placement": "pre"}}
    model, sources = model_of(values), [[5, 6, 7, 8, 9], [4], [9, 8]]
    with torch.no_grad():
        session, texts = Session(model, PROMPTS, 12, make_batch(sources).source), [list(prompt) for prompt in PROMPTS]
        assert session.stepper.engine is not None
        for number, kept in enumerate(([0, 1, 2], [2, 2, 0, 0], [1, 2], [1])):
            session.select(kept)
            texts, sources = [list(texts[row]) for row in kept], [sources[row] for row in kept]
            session.read(torch.tensor([3 * number + row for row in range(len(kept))]))
            for row, (text, source) in enumerate(zip(texts, sources, strict=True)):
                text.append(3 * number + row)
                expected = model(Batch(make_batch([source]).source, make_batch([text]).source))[0][0, -1]
                assert_close(session.logits[row], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_fused_steps_equal_a_model_that_reads_all_again(name: str, threads: int) -> None:
    model, before = model_of(MODELS[name]), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.no_grad():
            session, texts = Session(model, PROMPTS, 12), [list(prompt) for prompt in PROMPTS]
            assert session.stepper.engine is not None
            for number in range(8):
                if number == 4:
                    session.select([2, 0, 2])
                    texts = [list(texts[2]), list(texts[0]), list(texts[2])]
                tokens = [(5 * number + row) % 40 for row in range(3)]
                session.read(torch.tensor(tokens))
                texts = [[*text, token] for text, token in zip(texts, tokens, strict=True)]
                expected = torch.stack([again(model, text) for text in texts])
                # float32: logits near 10, sums of about a hundred terms in two orders
                assert_close(session.logits, expected, rtol=1e-4, atol=1e-4)
    finally:
        torch.set_num_threads(before)


def test_int8_steps_equal_int8_forward() -> None:
    model = model_of(LLAMA)
    plain = again(model, [*PROMPTS[0], 7])
    assert len(quantize(model)) == 15  # seven maps of each block, and the head
    with torch.no_grad():
        session = Session(model, PROMPTS[:1], 4)
        assert session.stepper.engine is not None
        session.read(torch.tensor([7]))
    int8 = again(model, [*PROMPTS[0], 7])
    # numbers at a tie may be rounded to either side: a few steps of 1/127 of what is added up
    assert (session.logits[0] - int8).abs().max() < 0.02 * int8.std()
    assert 0 < (plain - int8).abs().max() < 0.2 * plain.std()


def test_bf16_steps_equal_the_model_of_rounded_weights() -> None:
    """The fused step rounds weights alone; x and the sums are float32."""
    model = model_of(LLAMA)
    for parameter in model.parameters():
        parameter.data = parameter.bfloat16().float()
    with torch.no_grad():
        expected = again(model, [*PROMPTS[1], 7, 8])
        state, read = Session(model, PROMPTS, 4), [7, 8]
        assert len(keep_bf16(model)) == 15
        session = Session(model, PROMPTS, 4)
        session.state = state.state  # what the prompts left, before bf16 rounded what is multiplied
        assert session.stepper.engine is not None
        for token in read:
            session.read(torch.tensor([token] * 3))
    assert_close(session.logits[1], expected, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_a_thread_without_a_core_delays_no_step_and_changes_nothing_when_it_comes_late(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[Callable[[], None]] = []

    class NeverRuns:
        def submit(self, run: Callable[..., None], *args: Any) -> Future[None]:
            held.append(lambda: run(*args))
            return Future()

    monkeypatch.setattr(runner, "_threads", lambda count: NeverRuns())
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    model = model_of(MODELS["hybrid"])
    session = Session(model, PROMPTS, 4)
    session.read(torch.tensor([7, 8, 9]))
    assert_close(session.logits[1], again(model, [*PROMPTS[1], 8]), rtol=1e-4, atol=1e-4)
    for late in held:
        late()
    assert len(held) == 2
    session.read(torch.tensor([1, 2, 3]))
    assert_close(session.logits[1], again(model, [*PROMPTS[1], 8, 2]), rtol=1e-4, atol=1e-4)


def test_weights_side_by_side_are_one_range_of_memory() -> None:
    page = 4096
    assert join_ranges([(9 * page, 10 * page), (0, page), (page + 16, 3 * page)]) == [(0, 3 * page), (9 * page, 10 * page)]


@torch.no_grad()
def test_engines_are_kept_between_texts_until_the_weights_change() -> None:
    model = model_of(LLAMA)
    first, second = Session(model, PROMPTS, 4), Session(model, PROMPTS, 4)
    kept = first.stepper.engine
    assert kept is not None
    assert second.stepper.engine is not kept  # two texts at once have buffers of their own
    del first
    third = Session(model, PROMPTS, 40)  # a capacity that is rounded up to the same
    assert third.stepper.engine is kept
    del third
    model.decoder.blocks[0].attn.norm_in.weight.mul_(2)  # type: ignore[union-attr]
    changed = Session(model, PROMPTS, 4)
    assert changed.stepper.engine is not kept
    changed.read(torch.tensor([7, 8, 9]))
    assert_close(changed.logits[1], again(model, [*PROMPTS[1], 8]), rtol=1e-4, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("name", ["llama", "sinusoidal", "learned", "narrow"])
def test_tokens_become_vectors_inside_the_program(name: str) -> None:
    model, numbers = model_of(MODELS[name]), torch.tensor([7, 8, 9])
    session = Session(model, PROMPTS, 4)
    engine, seq = session.stepper.engine, session.upcoming
    assert engine is not None
    assert engine.lines is not None
    session.read(numbers)
    with pytest.raises(IndexError):  # a line outside the table is never read
        engine.step(torch.tensor([7, 40, 9]), seq, engine.bind([session.state]))
    doubled = model.frontend.register_forward_hook(lambda module, given, found: (2 * found[0], found[1]))
    hooked = Session(model, PROMPTS, 4)
    assert hooked.stepper.engine is not None
    assert hooked.stepper.engine.lines is None
    hooked.read(numbers)
    assert_close(hooked.logits[1], again(model, [*PROMPTS[1], 8]), rtol=1e-4, atol=1e-4)
    doubled.remove()


@torch.no_grad()
def test_a_short_prompt_is_read_by_fused_steps() -> None:
    model, prompt = model_of(LLAMA), [number % 40 for number in range(3, 27)]  # more than the rows of one step
    session = Session(model, [prompt], 4)
    assert_close(session.logits[0], again(model, prompt), rtol=1e-4, atol=1e-4)
    session.read(torch.tensor([7]))
    assert_close(session.logits[0], again(model, [*prompt, 7]), rtol=1e-4, atol=1e-4)


def test_a_model_with_another_mixer_decodes_by_forward() -> None:
    model = model_of({"base": "griffin-tiny"})
    with torch.no_grad():
        session = Session(model, PROMPTS, 4)
        assert session.stepper.engine is None
        session.read(torch.tensor([7, 8, 9]))
    assert_close(session.logits[0], again(model, [*PROMPTS[0], 7]), rtol=1e-4, atol=1e-4)


def test_a_tape_sees_every_step() -> None:
    model = model_of(LLAMA)
    with torch.no_grad():
        session = Session(model, PROMPTS[:1], 4)
        session.read(torch.tensor([7]))
        with record(model) as tape:
            session.read(torch.tensor([8]))
        session.read(torch.tensor([9]))
    assert tape.maps("decoder.blocks.1.attn").shape == (1, 4, 1, 9)
    assert_close(session.logits[0], again(model, [*PROMPTS[0], 7, 8, 9]), rtol=1e-4, atol=1e-4)


def test_more_rows_than_a_step_takes_decode_by_forward() -> None:
    model, prompts = model_of(LLAMA), [[1 + row % 7] for row in range(17)]
    with torch.no_grad():
        session = Session(model, prompts, 4)
        session.read(torch.arange(17))
        session.select(range(3))
        session.read(torch.tensor([1, 2, 3]))
    assert_close(session.logits[2], again(model, [3, 2, 3]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["llama", "hybrid", "rwkv", "lstm"])
def test_tokens_read_at_once_between_steps_equal_a_model_that_reads_all_again(name: str) -> None:
    model = model_of(MODELS[name])
    with torch.no_grad():
        session = Session(model, PROMPTS[:1], 12)
        session.read(torch.tensor([7]))
        session.extend([8, 9, 10])
        assert_close(session.logits[0], again(model, [*PROMPTS[0], 7, 8, 9, 10]), rtol=1e-4, atol=1e-4)
        session.read(torch.tensor([11]))
    assert_close(session.logits[0], again(model, [*PROMPTS[0], 7, 8, 9, 10, 11]), rtol=1e-4, atol=1e-4)
