"""RWKV and the RG-LRU against transformers: weights copied, outputs, states and gradients equal.

float32 on both sides (transformers works keys out in float32 whatever the model): sums in another order differ by some 1e-6 after two
blocks, so 1e-5. Rows are compared one by one: transformers' RWKV ignores its attention mask.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.testing import assert_close
from transformers import RecurrentGemmaConfig, RwkvConfig, RwkvForCausalLM
from transformers.models.recurrent_gemma.modeling_recurrent_gemma import RecurrentGemmaRecurrentBlock
from transformers.utils import logging

from attentif.models import Batch, Input, Model, build, resolve
from attentif.nn.mixer import Site
from attentif.nn.mixers.gated_recurrence import GatedRecurrence, GatedRecurrenceConfig
from attentif.nn.seq import Seq

pytestmark = pytest.mark.parity
logging.disable_progress_bar()

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
VOCAB, WIDTH, LAYERS = 61, 24, 3
LENGTHS = [5, 17, 1, 40]
SHARES = {f"time_mix_{theirs}": f"mix_{ours}" for theirs, ours in (("key", "k"), ("value", "v"), ("receptance", "r"))}
TIME = SHARES | {
    "time_decay": "decay",
    "time_first": "bonus",
    "key.weight": "k.weight",
    "value.weight": "v.weight",
    "receptance.weight": "r.weight",
    "output.weight": "out.weight",
}
CHANNEL = SHARES | {"key.weight": "k.weight", "receptance.weight": "r.weight", "value.weight": "out.weight"}


def our_name(theirs: str) -> str:
    """Where a tensor of transformers' RWKV is in ours."""
    name = theirs.removeprefix("rwkv.")
    plain = {"embeddings.weight": "frontend.tokens.weight", "head.weight": "head.linear.weight"}
    if name in plain:
        return plain[name]
    if name.startswith("ln_out."):
        return "decoder.norm." + name.removeprefix("ln_out.")
    _, layer, part, rest = name.split(".", 3)
    match part:
        case "pre_ln":
            return f"frontend.norm.{rest}"
        case "ln1" | "ln2":
            return f"decoder.blocks.{layer}.{'time' if part == 'ln1' else 'channel'}.norm_in.{rest}"
        case "attention":
            return f"decoder.blocks.{layer}.time.mixer.{TIME[rest]}"
        case "feed_forward":
            return f"decoder.blocks.{layer}.channel.mixer.{CHANNEL[rest]}"
    raise KeyError(theirs)


@pytest.fixture
def rwkv(tmp_path: Path) -> tuple[RwkvForCausalLM, Model]:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "intermediate_size": 56}
    theirs = RwkvForCausalLM(RwkvConfig(vocab_size=VOCAB, context_length=64, rescale_every=0, **sizes)).eval()
    for name, parameter in theirs.named_parameters():  # spread out: an initial model is nearly linear, and its biases are zero
        if parameter.ndim == 1 and "time_" not in name:
            torch.nn.init.normal_(parameter, std=0.3)
        elif parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=1.5 / WIDTH**0.5)
    theirs.save_pretrained(tmp_path)
    change = {"width": WIDTH, "layers": LAYERS, "frontend": {"vocab": VOCAB}, "decoder": {"block": {"channel": {"mixer": {"hidden": 56}}}}}
    mine = build(resolve({"base": "rwkv-169m", **change})).eval()
    own = mine.state_dict()
    tensors = {our_name(name): tensor for name, tensor in load_file(tmp_path / "model.safetensors").items()}
    mine.load_state_dict({name: tensor.reshape(own[name].shape) for name, tensor in tensors.items()})
    return theirs, mine


def texts() -> list[Tensor]:
    torch.manual_seed(3)
    return [torch.randint(VOCAB, (length,)) for length in LENGTHS]


def read(model: Model, ids: Tensor, start: int = 0, state: Any = None) -> Tensor:
    logits, _ = model(Batch(Input(ids[None], Seq.from_padded([len(ids)], start=start))), state)
    return logits[0]


def test_rwkv_logits_agree_row_by_row_and_in_our_ragged_batch(rwkv: tuple[RwkvForCausalLM, Model]) -> None:
    theirs, mine = rwkv
    with torch.no_grad():
        ragged, _ = mine(Batch(Input(torch.nn.utils.rnn.pad_sequence(texts(), batch_first=True), Seq.from_padded(LENGTHS))))
        for row, ids in enumerate(texts()):
            expected = theirs(ids[None]).logits[0]
            assert_close(read(mine, ids), expected, **CLOSE)
            assert_close(ragged[row, : len(ids)], expected, **CLOSE)


def test_rwkv_states_and_steps_agree(rwkv: tuple[RwkvForCausalLM, Model]) -> None:
    theirs, mine = rwkv
    ids = texts()[1]
    with torch.no_grad():
        known, state = theirs(ids[None, :6], use_cache=True), mine.init_state(1, len(ids))
        assert_close(read(mine, ids[:6], 0, state), known.logits[0], **CLOSE)
        for place in range(6, len(ids)):
            known = theirs(ids[None, place : place + 1], state=known.state, use_cache=True)
            assert_close(read(mine, ids[place : place + 1], place, state), known.logits[0], **CLOSE)
    for layer in range(LAYERS):
        time, channel = state[f"blocks.{layer}.time"], state[f"blocks.{layer}.channel"]
        ours = [channel.last, time.last, time.p, time.q, time.o]  # type: ignore[union-attr]
        assert_close(ours, [part[:, :, layer] for part in known.state], **CLOSE)


def test_rwkv_gradients_agree(rwkv: tuple[RwkvForCausalLM, Model]) -> None:
    theirs, mine = rwkv
    ids = texts()[3]
    theirs(ids[None], use_cache=False).logits.log_softmax(-1)[..., 5].mean().backward()
    read(mine, ids).log_softmax(-1)[..., 5].mean().backward()
    own = dict(mine.named_parameters())
    named = dict(theirs.named_parameters())
    assert {our_name(name) for name in named} == set(own)
    for name, parameter in named.items():
        assert parameter.grad is not None
        assert_close(own[our_name(name)].grad, parameter.grad.reshape(own[our_name(name)].shape), msg=name, **CLOSE)


def recurrent_block(hidden: int, width: int, heads: int) -> tuple[RecurrentGemmaRecurrentBlock, GatedRecurrence]:
    torch.manual_seed(0)
    config = RecurrentGemmaConfig(hidden_size=width, lru_width=hidden, num_attention_heads=heads, num_hidden_layers=3, conv1d_width=4)
    theirs = RecurrentGemmaRecurrentBlock(config, 0).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    mine = GatedRecurrenceConfig(hidden=hidden, blocks=heads).build(Site(width=width)).eval()
    mine.load_state_dict(renamed(dict(theirs.named_parameters())))
    return theirs, mine


def renamed(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    gates = [tensors[f"rg_lru.{gate}_gate_weight"] for gate in ("input", "recurrent")]
    biases = [tensors[f"rg_lru.{gate}_gate_bias"].flatten() for gate in ("input", "recurrent")]
    linear = {"linear_x": "entry", "linear_y": "gate", "linear_out": "out"}
    return {
        **{f"{ours}.{p}": tensors[f"{theirs}.{p}"].detach() for theirs, ours in linear.items() for p in ("weight", "bias")},
        "short": tensors["conv_1d.weight"].squeeze(1).detach(),
        "short_bias": tensors["conv_1d.bias"].detach(),
        "gates": torch.stack(gates).detach(),
        "gate_biases": torch.stack(biases).detach(),
        "decay": tensors["rg_lru.recurrent_param"].detach(),
    }


def test_griffins_recurrent_block_agrees_in_outputs_and_gradients() -> None:
    theirs, mine = recurrent_block(hidden=24, width=16, heads=4)
    x, length = torch.randn(2, 30, 16), 30
    expected = theirs(x, torch.arange(length)[None].expand(2, -1), None, use_cache=False)[0]
    y = mine(x, Seq.from_padded([length, length]))
    assert_close(y, expected, **CLOSE)
    probe = torch.randn_like(y) / length
    (expected * probe).sum().backward()
    (y * probe).sum().backward()
    gradients = renamed({name: parameter.grad for name, parameter in theirs.named_parameters() if parameter.grad is not None})
    for name, parameter in mine.named_parameters():
        assert_close(parameter.grad, gradients[name], msg=name, **CLOSE)


def test_griffins_recurrent_block_agrees_step_by_step() -> None:
    theirs, mine = recurrent_block(hidden=16, width=16, heads=2)
    x = torch.randn(2, 12, 16)
    state = mine.init_state(2, 12, device=x.device, dtype=x.dtype)
    with torch.no_grad():
        prompt = theirs(x[:, :5], torch.arange(5)[None].expand(2, -1), None, use_cache=True)[0]
        assert_close(mine(x[:, :5], Seq.from_padded([5, 5]), state), prompt, **CLOSE)
        for place in range(5, 12):
            step = theirs(x[:, place : place + 1], torch.full((2, 1), place), None, use_cache=True)[0]
            assert_close(mine(x[:, place : place + 1], Seq.from_padded([1, 1], start=place), state), step, **CLOSE)
    assert_close(state.h, theirs.rg_lru.recurrent_states, **CLOSE)
    assert_close(state.tail.transpose(1, 2), theirs.conv1d_state, **CLOSE)
