"""The same sentences for whole models: frontend, stacks with their shared bias, tied embeddings, head."""

import copy
from typing import Any

import pytest
import torch
from common import CLOSE, LENGTHS, SOURCE_LENGTHS
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.testing import assert_close

from attentif.models import Batch, Input, Model, ModelConfig, build
from attentif.nn.seq import Seq
from attentif.nn.tape import record

pytestmark = pytest.mark.contract

VOCAB = 11


def attention(causal: bool = False, **more: Any) -> dict[str, Any]:
    return {"mixer": {"kind": "attention", "heads": 4, "causal": causal, **more}}


def alone(**mixer: Any) -> dict[str, Any]:
    """A sublayer without a residual."""
    return {"mixer": mixer, "residual": False}


FFN: dict[str, Any] = {"mixer": {"kind": "feed-forward", "activation": "swiglu"}}
CROSS: dict[str, Any] = {"mixer": {"kind": "cross-attention", "heads": 2}}
TOKENS = {"kind": "tokens", "vocab": VOCAB}
SINUSOIDAL = TOKENS | {"position": {"kind": "sinusoidal"}, "scale": True}
RELATIVE = {"kind": "relative", "heads": 4, "buckets": 8, "max_distance": 20}
LANGUAGE = {"kind": "language"}

MODELS: dict[str, dict[str, Any]] = {
    "encoder": {
        "frontend": TOKENS | {"position": {"kind": "learned", "max_len": 40}, "segments": 2, "norm": {"kind": "layer"}},
        "encoder": {"block": {"attn": attention(), "ffn": FFN}, "placement": "post"},
        "head": {"kind": "tokens", "classes": 3},
    },
    "decoder": {
        "frontend": TOKENS,
        "decoder": {"block": {"attn": attention(True, rotary={}, kv_heads=2), "ffn": FFN}, "norm": {"kind": "rms"}},
        "head": LANGUAGE,
    },
    "decoder-alibi-untied": {
        "frontend": TOKENS,
        "decoder": {
            "bias": {"kind": "alibi", "heads": 4},
            "placement": "sandwich",
            "block": {"attn": attention(True), "ffn": FFN},
        },
        "head": LANGUAGE | {"tied": False, "bias": True},
    },
    "decoder-narrow-embeddings": {
        "frontend": TOKENS | {"embedding": 6, "projects": "tokens", "position": {"kind": "learned", "max_len": 40}},
        "decoder": {"out": 6, "placement": "post", "block": {"attn": attention(True), "ffn": FFN}},
        "head": LANGUAGE,
    },
    "decoder-parallel": {
        "frontend": SINUSOIDAL,
        "decoder": {"block": {"both": {"mixer": {"kind": "parallel", "branches": {"attn": attention(True), "ffn": FFN}}}}},
        "head": LANGUAGE,
    },
    "decoder-reversible": {
        "frontend": SINUSOIDAL,
        "decoder": {"reversible": True, "halves": "concat", "block": {"attn": attention(True), "ffn": FFN}},
        "head": LANGUAGE | {"tied": False},
    },
    "decoder-alternating": {
        "layers": 3,
        "frontend": SINUSOIDAL,
        "decoder": {
            "placement": "branch",
            "blocks": [
                {"sublayers": {"near": attention(True, pattern=[{"kind": "window", "left": 3}]), "ffn": FFN}},
                {"sublayers": {"far": attention(True, softcap=3.0), "ffn": FFN | {"weight": 0.5}}},
            ],
        },
        "head": LANGUAGE,
    },
    "encoder-decoder-relative": {
        "frontend": TOKENS,
        "target": TOKENS,
        "shared": True,
        "encoder": {"bias": RELATIVE, "block": {"attn": attention(), "ffn": FFN}},
        "decoder": {"bias": RELATIVE | {"bidirectional": False}, "block": {"attn": attention(True), "cross": CROSS, "ffn": FFN}},
        "head": LANGUAGE,
    },
    "encoder-decoder-bridge": {
        "frontend": TOKENS,
        "target": TOKENS,
        "bridge": ["rnn"],
        "reverse": True,
        "encoder": {"block": {"ffn": FFN, "rnn": alone(kind="lstm")}, "placement": "none"},
        "decoder": {"block": {"rnn": alone(kind="lstm"), "attn": attention(True)}, "placement": "none"},
        "head": LANGUAGE,
    },
    "encoder-decoder-bahdanau": {
        "frontend": TOKENS,
        "target": TOKENS,
        "encoder": {"block": {"rnn": alone(kind="bidirectional", mixer={"kind": "gru"}, join="sum")}},
        "decoder": {"block": {"rnn": alone(kind="attentive-recurrence", start="first", readout="maxout")}},
        "head": LANGUAGE,
    },
    "encoder-decoder-luong": {
        "frontend": TOKENS,
        "target": TOKENS,
        "bridge": ["rnn"],
        "reverse": True,
        "encoder": {"block": {"rnn": alone(kind="lstm")}, "placement": "none"},
        "decoder": {
            "layers": 1,
            "placement": "none",
            "block": {"rnn": alone(kind="attentive-recurrence", cell="lstm", layers=2, score="general", feeding="input")},
        },
        "head": LANGUAGE,
    },
}
WRITING = [name for name in MODELS if "target" in MODELS[name]]
every_model = pytest.mark.parametrize("name", MODELS)
STEPPING = [name for name in MODELS if "decoder" in MODELS[name]]


def built(name: str, dropout: float = 0.0) -> Model:
    torch.manual_seed(0)
    config = ModelConfig.model_validate({"width": 16, "layers": 2, "dropout": dropout} | MODELS[name])
    model = build(config, dtype=torch.float64).eval()
    for parameter in model.parameters():  # what initialisation makes the same for every token would hide errors
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def ids(lengths: tuple[int, ...], seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(VOCAB, (length,), generator=generator) for length in lengths]


def padded(sequences: list[Tensor]) -> Input:
    return Input(pad_sequence(sequences, batch_first=True), Seq.from_padded([len(x) for x in sequences]))


def packed(sequences: list[Tensor]) -> Input:
    return Input(torch.cat(sequences), Seq.from_packed([len(x) for x in sequences]))


def inputs(name: str) -> tuple[list[Tensor], list[Tensor] | None]:
    """Sources, and targets where there are any; what the logits stand for has LENGTHS."""
    if "target" in MODELS[name]:
        return ids(SOURCE_LENGTHS, 1), ids(LENGTHS, 2)
    return ids(LENGTHS, 2), None


def batch(name: str, layout: Any = padded) -> Batch:
    source, target = inputs(name)
    return Batch(layout(source), None if target is None else layout(target))


def each_alone(name: str, model: Model) -> list[Tensor]:
    source, target = inputs(name)
    logits = []
    for row in range(len(LENGTHS)):
        alone = Batch(padded(source[row : row + 1]), None if target is None else padded(target[row : row + 1]))
        logits.append(model(alone)[0][0])
    return logits


def gradients(model: Model, data: Batch) -> list[Tensor]:
    logits, seq = model(data)
    return list(torch.autograd.grad(logits[seq.valid].square().mean(), list(model.parameters())))


@every_model
def test_ragged_and_packed_batches_equal_each_row_alone(name: str) -> None:
    model = built(name)
    expected = torch.cat(each_alone(name, model))
    logits, seq = model(batch(name))
    assert_close(logits[seq.valid], expected, **CLOSE)
    assert_close(model(batch(name, packed))[0], expected, **CLOSE)


@every_model
def test_gradients_of_packed_and_padded_batches_are_the_same(name: str) -> None:
    model = built(name)
    assert_close(gradients(model, batch(name, packed)), gradients(model, batch(name)), **CLOSE)


@pytest.mark.parametrize("name", STEPPING)
def test_ragged_prefill_then_steps_equal_the_whole(name: str) -> None:
    model = built(name)
    source, target = inputs(name)
    read, expected = target or source, each_alone(name, model)
    prompt = [max(1, len(x) // 2) for x in read]
    memory = model.encode(padded(source)) if target else (None, None)
    with torch.no_grad():
        state = model.init_state(len(read), max(LENGTHS), *memory)
        x, seq = model.decode(padded([x[:n] for x, n in zip(read, prompt, strict=True)]), state=state)
        logits = model.head(x, seq)
        for row, n in enumerate(prompt):
            assert_close(logits[row, :n], expected[row][:n], **CLOSE)
        rows = [row for row, n in enumerate(prompt) if n < LENGTHS[row]]
        state = state.select(torch.tensor(rows))
        for step in range(3):
            places = [prompt[row] + step for row in rows]
            token = torch.stack([read[row][place] for row, place in zip(rows, places, strict=True)])[:, None]
            one = Input(token, Seq.from_padded([1] * len(rows), start=torch.tensor(places)))
            logits = model.head(*model.decode(one, state=state))
            assert_close(logits[:, 0], torch.stack([expected[row][place] for row, place in zip(rows, places, strict=True)]), **CLOSE)


@pytest.mark.parametrize("name", STEPPING)
def test_the_decoder_is_causal_to_the_bit(name: str) -> None:
    model = built(name)
    assert model.caps.causal
    source, target = inputs(name)
    read = target or source
    changed = [torch.cat([x[:4], (x[4:] + 1) % VOCAB]) for x in read]
    before, after = (
        model(Batch(padded(source), padded(tokens)) if target else Batch(padded(tokens)))[0][:, :4] for tokens in (read, changed)
    )
    assert torch.equal(before, after)


@every_model
def test_deepcopy_is_its_own_model_with_its_own_ties(name: str) -> None:
    model, data = built(name), batch(name)
    before = model(data)[0]
    other = copy.deepcopy(model)
    assert torch.equal(other(data)[0], before)
    assert [n for n, _ in other.named_parameters()] == [n for n, _ in model.named_parameters()]
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.5)
    assert torch.equal(model(data)[0], before)
    fresh = built(name)
    fresh.load_state_dict(other.state_dict())
    assert torch.equal(other(data)[0], fresh(data)[0])


@every_model
def test_functional_call_reaches_tied_and_shared_parameters(name: str) -> None:
    model, data = built(name), batch(name)
    changed = {key: value * 1.5 for key, value in model.named_parameters()}
    other = built(name)
    other.load_state_dict(changed)
    assert torch.equal(torch.func.functional_call(model, changed, (data,))[0], other(data)[0])
    for key in changed:  # each of them matters
        assert not torch.equal(torch.func.functional_call(model, {key: changed[key] + 1}, (data,))[0], model(data)[0]), key


@every_model
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_checkpointing_gives_the_same_gradients_and_records_nothing_twice(name: str, dropout: float) -> None:
    results = []
    for checkpointing in (False, True):
        model = built(name, dropout).train()
        model.checkpointing = checkpointing
        assert model.checkpointing == checkpointing
        torch.manual_seed(7)
        with record(model) as tape:
            results.append(gradients(model, batch(name)))
        assert all(len(kept) == 1 for kept in tape.records.values())
        results.append(torch.rand(3))  # the random state goes on from the same place
    assert_close(results[2:], results[:2], rtol=0, atol=0)


@every_model
def test_recording_changes_no_bit_and_shows_every_attention(name: str) -> None:
    model = built(name)
    before = model(batch(name))[0]
    with record(model) as tape:
        assert torch.equal(model(batch(name))[0], before)
    stacks = {"encoder": model.encoder, "decoder": model.decoder}
    paths = {f"{stack}.{path}" for stack, part in stacks.items() if part for path, sub in part.sublayers() if sub.mixer.caps.maps}
    if name == "decoder-parallel":
        paths = {"decoder.blocks.0.both.attn", "decoder.blocks.1.both.attn"}
    assert set(tape) == paths
    for path in tape:
        maps = tape.maps(path)
        queries = Seq.from_padded(SOURCE_LENGTHS if path.startswith("encoder") and model.decoder else LENGTHS).valid
        assert_close(maps.sum(-1).transpose(1, 2)[queries], torch.ones(int(queries.sum()), maps.shape[1], dtype=torch.float64), **CLOSE)


def test_layers_choose_what_is_recorded() -> None:
    model = built("decoder-alternating")
    with record(model, layers=[1]) as tape:
        model(batch("decoder-alternating"))
    assert list(tape) == ["decoder.blocks.1.far"]


@pytest.mark.parametrize("name", WRITING)
def test_beams_reordered_step_by_step_equal_sequences_read_whole(name: str) -> None:
    model, (source, _) = built(name), inputs(name)
    memory = model.encode(padded(source))
    beams = ids((5,) * 8, seed=5)  # two for each source
    with torch.no_grad():
        state = model.init_state(4, 8, *memory).select(torch.arange(4).repeat_interleave(2))
        history = [tokens[:2] for tokens in beams]
        model.decode(padded(history), state=state)
        order = torch.tensor([1, 0, 2, 2, 5, 5, 6, 7])
        state, history = state.select(order), [history[row] for row in order]
        token = torch.stack([tokens[2:3] for tokens in beams])
        x, _ = model.decode(Input(token, Seq.from_padded([1] * 8, start=2)), state=state)
        for row in range(8):
            alone, _ = model.decode(padded([torch.cat([history[row], token[row]])]), *model.encode(padded([source[row // 2]])))
            assert_close(x[row, 0], alone[0, 2], **CLOSE)
