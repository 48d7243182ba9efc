"""What inspection says is what the equations say: compared with autograd written out, finite differences, naive twins, other orders."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F

from attentif import inspect
from attentif.errors import UsageError
from attentif.models import Batch, Input, Model, build, resolve
from attentif.nn.seq import Seq
from attentif.nn.tape import record

WIDTH, VOCAB = 16, 11


def model_of(base: str, **values) -> Model:
    torch.manual_seed(0)
    config = resolve({"base": base, "width": WIDTH, "layers": 2, "dropout": 0.0, "frontend": {"vocab": VOCAB}} | values).with_any_size()
    return build(config)


def batch_of(*lengths: int, packed: bool = False) -> Batch:
    generator = torch.Generator().manual_seed(1)
    if packed:
        seq = Seq.from_packed(lengths)
        return Batch(Input(torch.randint(VOCAB, (sum(lengths),), generator=generator), seq))
    return Batch(Input(torch.randint(VOCAB, (len(lengths), max(lengths)), generator=generator), Seq.from_padded(lengths)))


def summed(model: Model, batch: Batch) -> torch.Tensor:
    """A loss that is a sum over the rows."""
    x, seq = model.hidden(batch)
    return (x[seq.valid] * torch.linspace(-1, 1, x.shape[-1])).sum()


# -------------------------------------------------------------------------------------------------------------- activations


def test_the_stream_is_the_sum_of_what_the_mixers_add():
    model = model_of("decoder-tiny")
    flows = inspect.activations(model, batch_of(5, 3))
    paths = list(flows)
    assert paths == [f"decoder.blocks.{block}.{name}" for block in range(2) for name in ("attn", "ffn")]
    for before, after in pairwise(paths):  # pre-norm: x + f(n(x))
        torch.testing.assert_close(flows[after].stream, flows[before].stream + flows[after].branch)
    y, _ = model.eval().hidden(batch_of(5, 3))
    torch.testing.assert_close(model.decoder.norm(flows[paths[-1]].stream), y)


def test_norms_leave_padding_out_and_looking_changes_nothing():
    model = model_of("decoder-tiny").train()
    alone = inspect.residual_norms(model, batch_of(5))
    ragged = batch_of(5)
    padded = Batch(Input(F.pad(ragged.source.data, (0, 4)), Seq.from_padded([5], 9)))
    for path, norms in inspect.residual_norms(model, padded).items():
        assert norms.stream == pytest.approx(alone[path].stream, rel=1e-5)
        assert norms.branch == pytest.approx(alone[path].branch, rel=1e-5)
    assert model.training
    assert not any(module._forward_hooks for module in model.modules())


# ---------------------------------------------------------------------------------------------------------------- gradients


@pytest.mark.parametrize("base", ["decoder-tiny", "lstm-tiny", "mamba-tiny", "encoder-tiny"])
def test_gradients_by_distance_are_those_of_the_jacobian_written_out(base):
    model, batch = model_of(base).eval(), batch_of(6, 4)
    found = inspect.gradient_by_distance(model, batch)
    stack = model.decoder or model.encoder
    x, _ = model.frontend(batch.source)
    for row, length in enumerate((6, 4)):
        alone = x[row : row + 1, :length].detach()
        jacobian = torch.autograd.functional.jacobian(lambda v, n=length: stack(v, Seq.from_padded([n]))[0, n - 1], alone)  # (D, 1, T, D)
        norms = torch.linalg.matrix_norm(jacobian[:, 0].transpose(0, 1))
        torch.testing.assert_close(found[row, :length], norms.flip(0), rtol=1e-3, atol=1e-5)  # other orders of addition
        assert found[row, length:].isnan().all()


def test_probes_estimate_the_same_norms():
    model, batch = model_of("lstm-tiny"), batch_of(5)
    exact, guessed = inspect.gradient_by_distance(model, batch), inspect.gradient_by_distance(model, batch, probes=400)
    torch.testing.assert_close(guessed, exact, rtol=0.2, atol=0)  # 400 probes: a standard error of a few percent


def test_packed_rows_are_refused_in_one_line():
    with pytest.raises(UsageError, match="padded rows"):
        inspect.gradient_by_distance(model_of("decoder-tiny"), batch_of(3, 2, packed=True))


def test_gradient_norms_are_those_of_backward():
    model, batch = model_of("decoder-tiny").eval(), batch_of(5, 3)
    found = inspect.gradient_norms(model, summed(model, batch))
    summed(model, batch).backward()
    own = [weight.grad.square().sum() for weight in model.decoder.blocks[1].ffn.parameters()]
    assert found["decoder.blocks.1.ffn"] == pytest.approx(float(torch.stack(own).sum().sqrt()), rel=1e-5)
    assert found["decoder.norm"] > 0
    whole = sum(norm**2 for norm in found.values())
    assert whole == pytest.approx(sum(float(w.grad.square().sum()) for w in model.parameters() if w.grad is not None), rel=1e-4)


def test_the_gradient_of_the_stream_is_that_of_the_last_block_s_output():
    model, batch = model_of("decoder-tiny").double(), batch_of(4)
    found = inspect.stream_gradients(model, batch, summed)
    last = model.eval().decoder.blocks[1]
    kept = {}
    hook = last.register_forward_hook(lambda module, inputs, y: kept.setdefault("y", y.detach().requires_grad_()))  # in place of its output
    total = summed(model, batch)
    hook.remove()
    (gradient,) = torch.autograd.grad(total, kept["y"])
    assert found["decoder.blocks.1.ffn"] == pytest.approx(float(gradient.norm()), rel=1e-6)


# -------------------------------------------------------------------------------------------------------------------- heads


def test_importance_is_the_derivative_of_ablating_a_little():
    model, batch = model_of("decoder-tiny").double(), batch_of(5, 3)
    found = inspect.head_importance(model, [batch], summed)
    assert list(found) == list(inspect.count_heads(model)) == ["decoder.blocks.0.attn", "decoder.blocks.1.attn"]
    step, path = 1e-5, "decoder.blocks.0.attn"
    for head in range(4):
        derivatives = []
        for length, row in ((5, 0), (3, 1)):  # importance takes each example by itself
            one = Batch(Input(batch.source.data[row : row + 1, :length], Seq.from_padded([length])))
            losses = []
            for sign in (1, -1):
                gate = torch.ones(4, dtype=torch.double)
                gate[head] += sign * step
                with torch.no_grad(), inspect.head_gates(model.eval(), {path: gate}):
                    losses.append(float(summed(model, one)))
            derivatives.append(abs(losses[0] - losses[1]) / (2 * step))
        assert float(found[path][head]) == pytest.approx(sum(derivatives) / 2, rel=1e-4)


@pytest.mark.parametrize("kind", ["attention", "linear", "chunked"])
def test_an_ablated_head_is_one_whose_values_are_nothing(kind):
    mixer = {"kind": kind, "heads": 4, "causal": True}
    model = model_of("decoder-tiny", decoder={"block": {"attn": {"mixer": mixer}}})
    path, batch = "decoder.blocks.0.attn", batch_of(5)
    own = model.decoder.blocks[0].attn.mixer
    with torch.no_grad(), inspect.without_heads(model.eval(), {path: [2]}):
        ablated, _ = model.hidden(batch)
    with torch.no_grad():
        own.v.weight.view(4, -1, WIDTH)[2] = 0
        if own.v.bias is not None:
            own.v.bias.view(4, -1)[2] = 0
        without, _ = model.hidden(batch)
    torch.testing.assert_close(ablated, without)


def test_ablation_measures_the_loss_without_each_head():
    model, batch = model_of("decoder-tiny"), batch_of(5, 3)
    found = inspect.head_ablation(model, [batch, batch], summed)
    with torch.no_grad():
        whole = summed(model.eval(), batch)
        with inspect.without_heads(model, {"decoder.blocks.1.attn": [3]}):
            less = summed(model, batch)
    assert float(found["decoder.blocks.1.attn"][3]) == pytest.approx(2 * float(less - whole), abs=1e-4)
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_heads_that_are_not_there_are_refused():
    model = model_of("decoder-tiny")
    for removed, said in (({"nowhere": [0]}, "there are no heads at 'nowhere'"), ({"decoder.blocks.0.attn": [7]}, "heads 0 to 3")):
        with pytest.raises(UsageError, match=said), inspect.without_heads(model, removed):
            pass


# ------------------------------------------------------------------------------------------------------------------- states


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("base", ["lstm-tiny", "peephole-lstm-tiny"])
def test_the_gates_of_an_lstm_rebuild_its_output(base, packed):
    model, batch = model_of(base).eval(), batch_of(6, 4, packed=packed)
    for path, opened in inspect.gates(model, batch).items():
        i, f, g, o, c = (opened[name] for name in ("input", "forget", "candidate", "output", "cell"))
        before = F.pad(c, (0, 0, 1, 0))[:, :-1]
        valid = batch.source.seq.padded_mask()[..., None]
        torch.testing.assert_close(c, (f * before + i * g) * valid)
        flow = inspect.activations(model, batch)[path]
        mixer = model.get_submodule(f"{path}.mixer")
        y = o * torch.tanh(c)
        y = y if mixer.out is None else mixer.out(y)
        shown = y[valid[..., 0]] if packed else y * valid
        branch = flow.branch if packed else flow.branch * valid
        torch.testing.assert_close(shown, branch, rtol=1e-4, atol=1e-5)


def test_the_gates_of_a_gru_rebuild_its_output():
    model, batch = model_of("gru-tiny").eval(), batch_of(6)
    (path, *_), opened = zip(*inspect.gates(model, batch).items(), strict=True)
    z, n = opened[0]["update"], opened[0]["candidate"]
    h, outputs = torch.zeros_like(z[:, 0]), []
    for t in range(6):
        h = (1 - z[:, t]) * n[:, t] + z[:, t] * h
        outputs.append(h)
    mixer = model.get_submodule(f"{path}.mixer")
    y = torch.stack(outputs, 1)
    torch.testing.assert_close(
        y if mixer.out is None else mixer.out(y), inspect.activations(model, batch)[path].branch, rtol=1e-4, atol=1e-5
    )


def test_the_implied_map_of_mamba_times_its_inputs_is_its_output():
    model, batch = model_of("mamba-tiny").eval(), batch_of(7)
    path = "decoder.blocks.1.ssm"
    sublayer = model.get_submodule(path)
    mixer, before = sublayer.mixer, inspect.activations(model, batch)["decoder.blocks.0.ssm"].stream
    x = sublayer.norm_in(before)
    u, z = mixer.inp(x), mixer.gate(x)
    kernel = mixer.conv[:, None]  # (E, 1, conv)
    v = F.silu(F.conv1d(F.pad(u.transpose(1, 2), (mixer.config.conv - 1, 0)), kernel, mixer.conv_bias, groups=mixer.inner)).transpose(1, 2)
    y = torch.stack([(inspect.implied_map(model, batch, path, d) @ v[..., d : d + 1])[..., 0] for d in range(mixer.inner)], -1)
    torch.testing.assert_close(mixer.out(y * F.silu(z)), inspect.activations(model, batch)[path].branch, rtol=1e-3, atol=1e-5)


def test_step_sizes_are_the_softplus_of_their_projection():
    model, batch = model_of("mamba2-tiny", decoder={"block": {"ssm": {"mixer": {"head_width": 8}}}}).eval(), batch_of(5)
    (path, delta), *_ = inspect.step_sizes(model, batch).items()
    sublayer = model.get_submodule(path)
    x, _ = model.frontend(batch.source)
    torch.testing.assert_close(delta, F.softplus(sublayer.mixer.step(sublayer.norm_in(x))))
    assert inspect.step_sizes(model_of("mamba-tiny"), batch)["decoder.blocks.0.ssm"].shape == (1, 5, 2 * WIDTH)


def test_routing_tells_each_token_its_experts_without_padding():
    model, batch = model_of("mixtral-tiny"), batch_of(5, 2)
    found = inspect.routing(model, batch)
    for routed in found.values():
        assert routed.chosen.shape == (7, 2)
        torch.testing.assert_close(routed.weights.sum(-1), torch.ones(7))
        assert float(routed.shares.sum()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("look", "said"),
    [
        (inspect.gates, "gated recurrent"),
        (inspect.step_sizes, "selective"),
        (inspect.routing, "experts"),
        (lambda m, b: inspect.implied_map(m, b, "x", 0), "Mamba"),
    ],
)
def test_a_model_without_it_says_so(look, said):
    with pytest.raises(UsageError, match=rf"this model has no .*{said}"):
        look(model_of("decoder-tiny"), batch_of(3))


def test_recording_a_recurrence_changes_no_bit():
    model, batch = model_of("lstm-tiny").eval(), batch_of(6, 3)
    with torch.no_grad():
        plain, _ = model.hidden(batch)
        with record(model):
            watched, _ = model.hidden(batch)
    assert torch.equal(plain, watched)
