"""Shorter types: what is multiplied in them, what stays float32, that runs resume to the last bit and that the choice is remembered."""

import json

import pytest
import torch
import toy
from torch.testing import assert_close

from attentif.errors import ConfigError, UsageError
from attentif.inspect import make_batch
from attentif.kernels import measured
from attentif.kernels.cross_entropy import linear_cross_entropy
from attentif.models import build, resolve
from attentif.models.precision import choose_products, keep_bf16, set_products, shorten_weights
from attentif.training.load import load_run_config
from attentif.training.precision import FIRST_SCALE, STEADY, begin_scale, lower_scale, note_step
from attentif.training.run import check_config
from attentif.training.signals import StoppedError
from attentif.training.train_state import TrainState
from attentif.training.weights import read_tensors

CPU = torch.device("cpu")
EVERY_FAMILY = [
    "gpt2",
    "llama-tiny",
    "mixtral-tiny",
    "mamba-tiny",
    "mamba2-tiny",
    "rwkv-tiny",
    "rwkv7-tiny",
    "lstm-tiny",
    "gated-linear-tiny",
]


def model_of(base, seed=0, **changes):
    torch.manual_seed(seed)
    small = {"width": 48, "layers": 2, "decoder": {"block": {"attn": {"mixer": {"heads": 4}}}}} if base == "gpt2" else {}
    model = build(resolve({"base": base} | small | changes).with_sizes(vocab=64))
    for parameter in model.parameters():  # logits near 1: how much rounding costs then depends on nothing else
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=0.1)
    return model.eval()  # no dropout


@pytest.mark.parametrize("base", EVERY_FAMILY)
def test_products_in_bf16_change_loss_and_gradients_by_their_rounding_alone(base):
    model, batch = model_of(base), make_batch([[3, 1, 4, 1, 5, 9, 2, 6], [5, 3]])
    labels = torch.arange(10)

    def loss_and_gradients(precision):
        set_products(model, precision)
        model.zero_grad()
        x, seq = model.hidden(batch)
        loss = model.head.loss(x[seq.valid], labels)
        loss.backward()
        assert loss.dtype is torch.float32
        return loss.item(), torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    (exact, slopes), (loss, rounded) = loss_and_gradients("float32"), loss_and_gradients("bf16")
    # 8 bits of fraction: 2^-9 of each factor, over two or more layers
    assert loss == pytest.approx(exact, rel=0.02)
    assert loss != exact
    assert rounded.dtype is torch.float32
    assert (rounded - slopes).norm() < 0.2 * slopes.norm()
    assert loss_and_gradients("float32")[0] == exact


def test_cross_entropy_in_bf16_rounds_products_alone():
    x, weight, bias = torch.randn(40, 24), torch.randn(90, 24), torch.randn(90)
    labels = torch.randint(90, (40,))
    for given in (x, weight, bias):
        given.requires_grad_()
    exact, rounded = (linear_cross_entropy(x, weight, labels, bias, 0.1, products) for products in (None, torch.bfloat16))
    assert_close(rounded, exact, rtol=0.01, atol=0)
    for one, other in zip(*(torch.autograd.grad(loss, (x, weight, bias)) for loss in (exact, rounded)), strict=True):
        assert (one - other).norm() < 0.02 * one.norm()


def test_a_bf16_run_resumes_to_the_last_bit(tmp_path):
    settings = toy.settings(precision="bf16")
    places = {"whole": toy.train(tmp_path / "whole", settings, balance=[])}
    with pytest.raises(StoppedError, match="stopped at step"):
        toy.train(tmp_path / "cut", settings, balance=[], display=toy.Words(9))
    places["cut"] = toy.train(tmp_path / "cut", settings.replace(precision="auto"), balance=[])  # the checkpoint knows its own
    toy.train(tmp_path / "other", settings.replace(precision="float32"), balance=[])
    cut, whole, other = (read_tensors(tmp_path / name / "model.safetensors") for name in ("cut", "whole", "other"))
    assert {place.precision for place in places.values()} == {"bf16"}
    assert all(torch.equal(cut[name], whole[name]) for name in whole)
    assert not all(torch.equal(other[name], whole[name]) for name in whole)


def test_fp16_is_refused_on_a_cpu_before_any_data_is_read():
    config = {"data": {"train": "none.csv"}, "task": {"kind": "classify"}, "tokenizer": {"kind": "word"}, "model": {"base": "encoder-tiny"}}
    with pytest.raises(ConfigError, match="fp16"):
        check_config(load_run_config(config | {"train": {"steps": 1, "precision": "fp16"}}))


def test_the_scale_of_fp16_halves_on_overflow_and_doubles_when_steady():
    place = TrainState(precision="fp16")
    begin_scale(place)
    assert place.scale == FIRST_SCALE
    assert lower_scale(place)
    assert (place.scale, place.steady) == (FIRST_SCALE / 2, 0)
    for _ in range(STEADY):
        note_step(place)
    assert (place.scale, place.steady) == (FIRST_SCALE, 0)
    assert not lower_scale(TrainState(precision="bf16"))


def test_auto_measures_once_and_remembers(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTENTIF_CACHE", str(tmp_path))
    said = []
    first = choose_products("auto", CPU, said.append)
    (tmp_path / "measured.json").write_text(
        json.dumps({key: {"float32": 3.0, "bf16": 1.0} for key in json.loads((tmp_path / "measured.json").read_text())})
    )
    assert first in ("float32", "bf16")
    assert choose_products("auto", CPU, said.append) == "bf16"
    assert "measured now" in said[0]
    assert "3 times as fast" in said[1]
    (tmp_path / "measured.json").write_text("[damaged")
    assert measured.choose_fastest("x", CPU, lambda: {"a": 2.0, "b": 1.9}, prefer="a", gain=1.1).name == "a"
    assert measured.choose_fastest("y", CPU, lambda: {"a": 2.0, "b": 1.0}, prefer="a", gain=1.1).name == "b"


def test_weights_kept_in_bf16_answer_nearly_the_same():
    model, batch = model_of("llama-tiny").eval(), make_batch([[3, 1, 4, 1, 5]])
    with torch.no_grad():
        exact = model(batch)[0]
        assert keep_bf16(model)
        rounded = model(batch)[0]
    assert 0 < (rounded - exact).norm() < 0.03 * exact.norm()
    with pytest.raises(UsageError, match="large enough"):
        shorten_weights(torch.nn.Linear(4, 4), "bf16", source="run", say=print)
