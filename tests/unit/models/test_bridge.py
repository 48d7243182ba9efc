"""From the encoder's last state to the decoder's first."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.decode import GenerateOptions, beam_search, generate
from attentif.errors import ConfigError
from attentif.models import Batch, Input, Model, ModelConfig, build, resolve
from attentif.nn.seq import Seq

VOCAB = 11
TOKENS = {"kind": "tokens", "vocab": VOCAB}
LENGTHS, SOURCE_LENGTHS = (3, 7, 1), (4, 2, 6)


def values(encoder: dict[str, Any], decoder: dict[str, Any], **more: Any) -> dict[str, Any]:
    def stack(sublayers: dict[str, Any]) -> dict[str, Any]:
        return {"placement": "none", "block": {name: {"residual": False, "mixer": mixer} for name, mixer in sublayers.items()}}

    shape = {"width": 8, "layers": 2, "dropout": 0.0, "frontend": TOKENS, "target": TOKENS, "head": {"kind": "language", "tied": False}}
    return shape | {"encoder": stack(encoder), "decoder": stack(decoder), "bridge": ["rnn"]} | more


def made(kind: str = "lstm", **more: Any) -> Model:
    torch.manual_seed(0)
    model = build(ModelConfig.model_validate(values({"rnn": {"kind": kind}}, {"rnn": {"kind": kind}}, **more)), dtype=torch.float64).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def ids(lengths: tuple[int, ...], seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(VOCAB, (length,), generator=generator) for length in lengths]


def padded(sequences: list[Tensor]) -> Input:
    return Input(torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True), Seq.from_padded([len(x) for x in sequences]))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_a_bridged_model_is_one_recurrence_from_the_source_into_the_target(kind: str, reverse: bool) -> None:
    """torch's own cells, two layers, the decoder's begun in the state in which the encoder's ended."""
    model = made(kind, reverse=reverse)
    assert model.encoder is not None
    assert model.decoder is not None
    source, target = ids((5,), 1)[0], ids((4,), 2)[0]
    peers = []
    for stack in (model.encoder, model.decoder):
        peer = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}[kind](8, 8, 2).double()
        for layer, (_, sublayer) in enumerate(stack.sublayers()):
            mixer: Any = sublayer.mixer
            with torch.no_grad():
                getattr(peer, f"weight_ih_l{layer}").copy_(mixer.x.weight)
                getattr(peer, f"weight_hh_l{layer}").copy_(mixer.w_h)
                getattr(peer, f"bias_ih_l{layer}").copy_(mixer.x.bias)
                getattr(peer, f"bias_hh_l{layer}").zero_()
                if kind == "gru":
                    getattr(peer, f"bias_hh_l{layer}")[16:].copy_(mixer.b_h)
        peers.append(peer)
    _, summary = peers[0](model.frontend.tokens(source.flip(0) if reverse else source))
    expected, _ = peers[1](model.target.tokens(target), summary)
    assert_close(model.hidden(Batch(padded([source]), padded([target])))[0][0], expected, rtol=1e-12, atol=1e-12)


def test_what_the_encoder_gives_out_is_in_the_order_of_the_source_again() -> None:
    model, source = made(reverse=True), ids(SOURCE_LENGTHS, 1)
    turned = build(model.config.replace(reverse=False), dtype=torch.float64).eval()
    turned.load_state_dict(model.state_dict())
    backwards = turned.encode(padded([x.flip(0) for x in source])).x
    for row, (x, memory) in enumerate(zip(source, model.encode(padded(source)).x, strict=True)):
        assert_close(memory[: len(x)], backwards[row, : len(x)].flip(0))


def test_the_gradient_flows_back_over_the_bridge_to_the_first_word() -> None:
    model = made()
    kept: list[Tensor] = []
    model.frontend.tokens.register_forward_hook(lambda *args: kept.append(args[-1]))
    logits, seq = model(Batch(padded(ids(SOURCE_LENGTHS, 1)), padded(ids(LENGTHS, 2))))
    (gradient,) = torch.autograd.grad(logits[seq.valid].square().sum(), kept[0])
    assert (gradient.abs().sum(-1) > 0)[Seq.from_padded(SOURCE_LENGTHS).valid].all()
    assert torch.count_nonzero(gradient[~Seq.from_padded(SOURCE_LENGTHS).valid]) == 0


@pytest.mark.parametrize("beams", [1, 3])
def test_decoding_side_by_side_gives_what_each_source_gives_alone(beams: int) -> None:
    model, source = made(reverse=True), ids(SOURCE_LENGTHS, 1)
    prompts = [[1], [2, 3], [4]]
    options = GenerateOptions(max_tokens=6, beams=beams)
    together = generate(model, prompts, options, source=padded(source), stop_tokens=[0], alternatives=None if beams > 1 else 0)
    for row, found in enumerate(together):
        alone = generate(
            model,
            prompts[row : row + 1],
            options,
            source=padded(source[row : row + 1]),
            stop_tokens=[0],
            alternatives=None if beams > 1 else 0,
        )[0]
        assert found.tokens == alone.tokens
        assert found.log_prob == pytest.approx(alone.log_prob, abs=1e-10)


def test_the_score_of_a_beam_is_that_of_teacher_forcing() -> None:
    model, source = made(), ids(SOURCE_LENGTHS, 1)
    found = beam_search(model, [[1]] * 3, GenerateOptions(max_tokens=5, beams=3), source=padded(source))
    for row, hypotheses in enumerate(found):
        for hypothesis in hypotheses:
            read = torch.tensor([1, *hypothesis.tokens])
            logits, _ = model(Batch(padded(source[row : row + 1]), padded([read[:-1]])))
            forced = logits[0].log_softmax(-1).gather(-1, read[1:, None]).sum().item()
            assert hypothesis.log_prob == pytest.approx(forced, abs=1e-10)


def test_what_was_read_can_be_gone_on_from_twice() -> None:
    model = made()
    memory = model.encode(padded(ids(SOURCE_LENGTHS, 1)))
    one = Input(torch.ones(3, 1, dtype=torch.long), Seq.from_padded([1, 1, 1]))
    with torch.no_grad():
        first, second = (model.decode(one, state=model.init_state(3, 2, *memory))[0] for _ in range(2))
    assert torch.equal(first, second)


def test_a_bridge_needs_all_that_the_encoder_gave() -> None:
    model = made()
    memory, seq, _ = model.encode(padded(ids(SOURCE_LENGTHS, 1)))
    with pytest.raises(ValueError, match=r"give.*encode"):
        model.init_state(3, 5, memory, seq)


LSTM, GRU = {"kind": "lstm"}, {"kind": "gru"}
ATTENTION = {"kind": "attention", "heads": 2, "causal": True}
ATTENTIVE = {"kind": "attentive-recurrence", "cell": "lstm", "layers": 2}


@pytest.mark.parametrize(
    ("encoder", "decoder", "more", "message"),
    [
        ({"rnn": LSTM}, {"cell": LSTM}, {}, "bridge: the decoder has no sublayer called 'rnn'"),
        ({"cell": LSTM}, {"rnn": LSTM}, {}, "bridge: the encoder has no sublayer called 'rnn'"),
        ({"rnn": LSTM}, {"rnn": GRU}, {}, "bridge: GRU needs exactly one mixer"),
        ({"rnn": LSTM | {"hidden": 9}}, {"rnn": LSTM}, {}, "bridge: LSTM needs exactly one mixer"),
        ({"rnn": ATTENTION}, {"rnn": ATTENTION}, {}, "bridge: Attention needs exactly one mixer"),
        ({"rnn": {"kind": "bidirectional"}}, {"rnn": LSTM}, {}, "bridge: the encoder is bidirectional and has no last state"),
        ({"rnn": LSTM}, {"rnn": ATTENTIVE}, {}, "bridge: a bridge to 2 layers of cells needs as many in the encoder, which has 1"),
        ({"rnn": GRU}, {"rnn": ATTENTIVE}, {"layers": 1}, "bridge: a bridge to 2 layers"),
        ({"rnn": LSTM}, {"rnn": ATTENTIVE | {"layers": 1, "start": "mean"}}, {}, "bridge: start = 'mean' takes the initial state"),
        ({"rnn": GRU}, {"rnn": ATTENTIVE | {"layers": 1}}, {}, "bridge: a bridge to this mixer needs lstm cells with hidden = 8"),
        ({"rnn": LSTM}, {"rnn": LSTM}, {"bridge": []}, "decoder: no sublayer reads the encoder's output; .* or a bridge"),
    ],
)
def test_what_cannot_be_carried_across_is_refused_when_configured(encoder: Any, decoder: Any, more: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(values(encoder, decoder, **more))


def test_unequal_numbers_of_layers_are_refused() -> None:
    wanted = values({"rnn": LSTM}, {"rnn": LSTM}, layers=3)
    with pytest.raises(ConfigError, match=r"3.*'rnn'.*2"):
        resolve(wanted | {"decoder": wanted["decoder"] | {"layers": 2}})


def test_a_bridge_and_a_reversed_source_belong_to_an_encoder() -> None:
    alone = {key: value for key, value in values({}, {"rnn": LSTM}).items() if key not in ("encoder", "target")}
    with pytest.raises(ConfigError, match="`bridge`"):
        resolve(alone)
    with pytest.raises(ConfigError, match="`reverse`"):
        resolve(alone | {"bridge": [], "reverse": True})
