"""RWKV-7 against the authors' own package, `rwkv`, on a CPU: weights copied, outputs, memories and gradients equal.

float32 on both sides; sums in another order over two blocks, so 1e-5. The published model draws the values of later blocks towards
those of the first, which our blocks do not: the package's model is compared with that switched off (σ(-∞) = 0), its first block as it is.
"""

import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from attentif.models import Batch, Input, Model, ModelConfig, build
from attentif.nn.mixer import Site
from attentif.nn.mixers.rwkv7 import DeltaMix, DeltaMixConfig
from attentif.nn.seq import Seq

pytestmark = pytest.mark.parity
pytest.importorskip("rwkv")

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
VOCAB, D, K, RANK, GATE, LAYERS, HIDDEN = 31, 16, 8, 3, 5, 2, 40
H = D // K
ORDER = (
    *("x_r", "x_w", "x_k", "x_v", "x_a", "x_g", "w0", "w1", "w2", "a0", "a1", "a2", "v0", "v1", "v2", "g1", "g2", "k_k", "k_a", "r_k"),
    *("receptance.weight", "key.weight", "value.weight", "output.weight", "ln_x.weight", "ln_x.bias"),
)


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The package's module as it is for version 7, read from the environment when imported; plain Python in place of TorchScript."""
    monkeypatch.setenv("RWKV_V7_ON", "1")
    for name, plain in (("script", lambda f: f), ("script_method", lambda f: f), ("ScriptModule", nn.Module)):
        monkeypatch.setattr(torch.jit, name, plain)
    flags = torch.backends.cudnn.benchmark
    sys.modules.pop("rwkv.model", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module: Any = import_module("rwkv.model")
    module.DTYPE, module.DEVICE = torch.float32, "cpu"
    yield module
    torch.backends.cudnn.benchmark = flags
    sys.modules.pop("rwkv.model", None)


def time_weights(mixer: DeltaMix) -> dict[str, Tensor]:
    """Our time-mix under the package's names; it keeps matrices transposed, and shares of the token before."""
    named = {f"x_{name}": 1 - mix for name, mix in zip("rwkvag", mixer.mix, strict=True)}
    for short, down, up in (("w", mixer.decay_down, mixer.decay_up), ("a", mixer.rate_down, mixer.rate_up)):
        named |= {f"{short}0": up.bias, f"{short}1": down.weight.T, f"{short}2": up.weight.T}
    named |= {"v0": torch.full((D,), -torch.inf), "v1": torch.zeros(D, 1), "v2": torch.zeros(1, D)}
    named |= {"g1": mixer.gate_down.weight.T, "g2": mixer.gate_up.weight.T}
    named |= {"k_k": mixer.removed, "k_a": mixer.replaced, "r_k": mixer.bonus.flatten()}
    matrices = {"receptance": mixer.r, "key": mixer.k, "value": mixer.v, "output": mixer.out}
    named |= {f"{name}.weight": linear.weight.T for name, linear in matrices.items()}
    return named | {"ln_x.weight": mixer.norm.weight, "ln_x.bias": mixer.norm.bias}


def spread(module: nn.Module) -> None:
    torch.manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.4 if parameter.ndim == 1 else parameter.shape[-1] ** -0.5)


def test_the_time_mix_agrees_in_outputs_memories_and_gradients(package: Any) -> None:
    mixer = DeltaMixConfig(head_width=K, rank=RANK, gate_rank=GATE).build(Site(width=D))
    spread(mixer)
    x = torch.randn(20, D)
    weights = time_weights(mixer)
    before, memory, first, steps = torch.zeros(D), torch.zeros(H, K, K), torch.zeros(D), []
    for now in x:
        y, before, memory, first = package.RWKV_x070_TMix_one(0, H, K, now, before, first, memory, *(weights[name] for name in ORDER))
        steps.append(y)
    expected = torch.stack(steps)
    state = mixer.init_state(1, 20, device=x.device, dtype=x.dtype)
    ours = mixer(x[None], Seq.from_padded([20]), state)[0]
    assert_close(ours, expected, **CLOSE)
    assert_close(state.memory[0], memory.mT, **CLOSE)  # theirs has values in rows
    probe, wanted = torch.randn_like(expected), list(mixer.parameters())
    gradients = [torch.autograd.grad((y * probe).mean(), wanted) for y in (ours, expected)]
    assert_close(*gradients, **CLOSE)


def our_model() -> Model:
    norm = {"kind": "layer"}
    time = {"kind": "rwkv7-time", "head_width": K, "rank": RANK, "gate_rank": GATE}
    channel = {"kind": "rwkv-channel", "hidden": HIDDEN, "receptance": False}
    config = ModelConfig.model_validate(
        {
            "width": D,
            "layers": LAYERS,
            "frontend": {"kind": "tokens", "vocab": VOCAB, "norm": norm},
            "decoder": {"norm": norm, "block": {"time": {"mixer": time}, "channel": {"mixer": channel}}},
            "head": {"kind": "language", "tied": False},
        }
    )
    model = build(config).eval()
    spread(model)
    return model


def their_model(package: Any, model: Model) -> Any:
    """The package's model with our weights, made without a file."""
    tensors: dict[str, Tensor] = {"head.weight": model.head.linear.weight.T}
    tensors["emb.weight"] = model.frontend.norm(model.frontend.tokens.weight)
    tensors |= {f"ln_out.{name}": p for name, p in model.decoder.norm.named_parameters()}
    for number, block in enumerate(model.decoder.blocks):
        tensors |= {f"blocks.{number}.att.{name}": tensor for name, tensor in time_weights(block.time.mixer).items()}
        channel = block.channel.mixer
        tensors |= {f"blocks.{number}.ffn.x_k": 1 - channel.mix_k}
        tensors |= {f"blocks.{number}.ffn.key.weight": channel.k.weight.T, f"blocks.{number}.ffn.value.weight": channel.out.weight.T}
        for name, norm in (("ln1", block.time.norm_in), ("ln2", block.channel.norm_in)):
            tensors |= {f"blocks.{number}.{name}.{part}": p for part, p in norm.named_parameters()}
    theirs = package.RWKV_x070.__new__(package.RWKV_x070)
    nn.Module.__init__(theirs)
    theirs.args = package.types.SimpleNamespace(n_layer=LAYERS, n_embd=D, head_size=K)
    theirs.n_head, theirs.head_size, theirs.n_embd, theirs.n_layer = H, K, D, LAYERS
    theirs.z = {name: tensor.detach() for name, tensor in tensors.items()}
    return theirs


def test_a_whole_model_agrees_read_at_once_and_step_by_step(package: Any) -> None:
    mine = our_model()
    theirs = their_model(package, mine)
    ids = torch.randint(VOCAB, (15,))
    with torch.no_grad():
        expected, known = theirs.forward(ids[:9].tolist(), None, full_output=True)
        state = mine.init_state(1, 15)
        assert_close(mine(Batch(Input(ids[None, :9], Seq.from_padded([9]))), state)[0][0], expected, **CLOSE)
        for place in range(9, 15):
            expected, known = theirs.forward(ids[place : place + 1].tolist(), known)
            logits, _ = mine(Batch(Input(ids[None, place : place + 1], Seq.from_padded([1], start=place))), state)
            assert_close(logits[0, 0], expected, **CLOSE)
