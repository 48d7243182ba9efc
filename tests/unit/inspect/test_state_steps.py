"""Every step by hand ends where the model's own forward pass does, to 1e-5."""

import numpy as np
import pytest
import torch
from torch import Tensor

from attentif import inspect
from attentif.errors import UsageError
from attentif.inspect.counts import ngram_counts, ngram_steps
from attentif.models import Batch, Input, Model, build, resolve
from attentif.nn.seq import Seq
from attentif.text.ngram import NGramConfig, TokenText

VOCAB = 11
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def model_of(base: str, **values) -> Model:
    torch.manual_seed(0)
    given = {"base": base, "width": 32, "layers": 2, "dropout": 0.0, "frontend": {"vocab": VOCAB}} | values
    model = build(resolve(given).with_any_size())
    with torch.no_grad():  # the steps of a fresh state space are all near zero, and its skips all one
        for name, parameter in model.named_parameters():
            if name.endswith(("step.bias", ".D", "conv_bias")):
                parameter.uniform_(-0.5, 1.5)
    return model


def batch_of(*lengths: int) -> Batch:
    ids = torch.randint(VOCAB, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(1))
    return Batch(Input(ids, Seq.from_padded(lengths)))


def entering(model: Model, batch: Batch, path: str, part: str) -> Tensor:
    """What a part of the mixer at a path reads in the model's own forward pass."""
    kept: list[Tensor] = []
    hook = model.get_submodule(f"{path}.mixer.{part}").register_forward_pre_hook(lambda _, given: kept.append(given[0].detach()))
    with torch.no_grad():
        model.eval().hidden(batch)
    hook.remove()
    return kept[-1]


def check_stream(model: Model, batch: Batch, path: str, steps, query: int, row: int) -> None:
    flow = inspect.activations(model, batch)[path]
    torch.testing.assert_close(steps.out, flow.branch[row, query], **CLOSE)
    torch.testing.assert_close(steps.after, flow.stream[row, query], **CLOSE)
    torch.testing.assert_close(steps.before + steps.out, steps.after, **CLOSE)


@pytest.mark.parametrize("base", ["mamba-tiny", "mamba2-tiny"])
@pytest.mark.parametrize("channel", [0, 37])
@pytest.mark.parametrize(("row", "query"), [(0, 5), (1, 2)])
def test_a_channel_of_a_state_space_by_hand_is_that_of_the_model(base, channel, row, query):
    groups = {"decoder": {"block": {"ssm": {"mixer": {"head_width": 16, "groups": 2, "state": 8}}}}} if base == "mamba2-tiny" else {}
    model, batch, path = model_of(base, **groups), batch_of(6, 4), "decoder.blocks.1.ssm"
    steps = inspect.state_space_steps(model, batch, path, channel=channel, query=query, row=row)
    length = (6, 4)[row]
    own = entering(model, batch, path, "out" if base == "mamba-tiny" else "norm")[row, :length, channel]
    torch.testing.assert_close(steps.gated, own, **CLOSE)
    assert own.std() > 1e-4  # something is compared
    by_token = [steps.decay, steps.B, steps.C, steps.state]
    assert {len(one) for one in (*by_token, steps.u, steps.delta, steps.y, steps.gate)} == {length}
    before = steps.state[query - 1]
    torch.testing.assert_close(steps.decay[query] * before + steps.delta[query] * steps.u[query] * steps.B[query], steps.state[query])
    check_stream(model, batch, path, steps, query, row)
    if base == "mamba-tiny":
        implied = inspect.implied_map(model, batch, path, channel)[row, :length, :length]
        torch.testing.assert_close(implied @ steps.u, steps.y, **CLOSE)


FEATURES = [("elu", "query"), ("relu", "query"), ("squared-relu", "query"), ("softmax", "feature")]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("features", "normalise"), FEATURES)
def test_a_head_of_linear_attention_by_hand_is_that_of_the_model(features, normalise, causal):
    mixer = {"features": features, "normalise": normalise, "causal": causal}
    check_linear(model_of("linear-transformer-tiny", decoder={"block": {"attn": {"mixer": mixer}}}))


def test_a_head_of_a_performer_by_hand_is_that_of_the_model():
    check_linear(model_of("performer-tiny"))


def check_linear(model: Model) -> None:
    batch, path = batch_of(6, 4), "decoder.blocks.1.attn"
    for row, query, head in ((0, 5, 1), (1, 2, 3), (0, 0, 0)):
        steps = inspect.linear_attention_steps(model, batch, path, head=head, query=query, row=row)
        width = steps.v.shape[1]
        joined = entering(model, batch, path, "out")[row, query]
        torch.testing.assert_close(steps.joined, joined)
        torch.testing.assert_close(steps.mixed, joined[head * width : (head + 1) * width], **CLOSE)
        torch.testing.assert_close(steps.weights @ steps.v, steps.mixed, **CLOSE)  # the implied matrix says the same
        check_stream(model, batch, path, steps, query, row)


@pytest.mark.parametrize(
    "ask",
    [
        lambda model, batch: inspect.state_space_steps(model, batch, "decoder.blocks.0.ffn", channel=0, query=0),
        lambda model, batch: inspect.state_space_steps(model, batch, "decoder.blocks.0.ssm", channel=64, query=0),
        lambda model, batch: inspect.state_space_steps(model, batch, "decoder.blocks.0.ssm", channel=0, query=6),
        lambda model, batch: inspect.linear_attention_steps(model, batch, "decoder.blocks.0.ssm", head=0, query=0),
    ],
)
def test_a_part_that_is_not_there_is_named(ask):
    with pytest.raises(UsageError, match=r"decoder\.blocks\.0"):
        ask(model_of("mamba-tiny"), batch_of(6))


@pytest.mark.parametrize("smoothing", ["modified", "plain"])
@pytest.mark.parametrize("order", [1, 2, 4])
def test_kneser_ney_by_hand_is_the_models_probability(order, smoothing):
    ids = np.random.default_rng(0).integers(0, 7, 400)
    model = NGramConfig(order=order, smoothing=smoothing).build()
    model.fit(TokenText(ids, VOCAB, 0))
    for before in ([], [3], [1, 2, 3], [9, 9, 9], [*ids[:5].tolist()]):
        p = model.next(before)
        assert sum(ngram_steps(model, before, token)[-1].probability for token in range(VOCAB)) == pytest.approx(1)
        for token in range(VOCAB):
            steps = ngram_steps(model, before, token)
            assert steps[-1].probability == pytest.approx(p[token], rel=1e-12)
            assert [one.total for one in steps] == [one.total for one in ngram_counts(model, before)]
            assert [one.lower for one in steps[1:]] == [one.probability for one in steps[:-1]]
    with pytest.raises(UsageError, match="vocabulary"):
        ngram_steps(model, [], VOCAB)
