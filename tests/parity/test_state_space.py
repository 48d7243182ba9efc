"""Mamba and Mamba-2 against transformers (whole models) and mambapy (the scan, and a block): outputs, gradients, cached steps.

float32 on both sides: two programs that add the same numbers in another order differ by some 1e-6 after two blocks, so 1e-5 for outputs.
Gradients are sums over all tokens, larger than an output by some ten times: 1e-4 relative to the largest number of each tensor.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from mambapy.mamba import MambaBlock
from mambapy.mamba import MambaConfig as BlockConfig
from mambapy.pscan import pscan
from safetensors.torch import load_file
from torch import Tensor
from torch.testing import assert_close
from transformers import Mamba2Config, Mamba2ForCausalLM, MambaConfig, MambaForCausalLM, PreTrainedModel
from transformers.utils import logging

from attentif.kernels.selective_scan import selective_scan
from attentif.models import Batch, Input, Model, ModelConfig, build
from attentif.nn.mixer import Site
from attentif.nn.mixers.mamba import Mamba
from attentif.nn.mixers.mamba import MambaConfig as OwnConfig
from attentif.nn.seq import Seq

pytestmark = pytest.mark.parity
logging.disable_progress_bar()

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
VOCAB, WIDTH, LAYERS, STATE = 97, 32, 2, 8
HEAD_WIDTH, GROUPS = 16, 2
LENGTHS = [5, 17, 1, 11]
TOKEN_IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
SIZES = {"vocab_size": VOCAB, "hidden_size": WIDTH, "state_size": STATE, "num_hidden_layers": LAYERS, **TOKEN_IDS}


def written(model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    """The model, its weights spread out so that every part of it matters, saved."""
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1 or "A_log" in name:
            torch.nn.init.normal_(parameter, std=0.4)
        else:
            torch.nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
    model.eval().save_pretrained(folder)
    return model


def ours(mixer: dict[str, Any], tensors: dict[str, Tensor]) -> Model:
    config = ModelConfig.model_validate(
        {
            "width": WIDTH,
            "layers": LAYERS,
            "frontend": {"kind": "tokens", "vocab": VOCAB},
            "decoder": {"norm": {"kind": "rms"}, "block": {"ssm": {"mixer": mixer}}},
            "head": {"kind": "language"},
        }
    )
    model = build(config).eval()
    model.load_state_dict(tensors)
    return model


def common_tensors(theirs: dict[str, Tensor], block: str, mine: str) -> dict[str, Tensor]:
    """What Mamba and Mamba-2 name alike, in one block."""
    names = {
        "norm.weight": "norm_in.weight",
        "mixer.conv1d.bias": "mixer.conv_bias",
        "mixer.A_log": "mixer.A_log",
        "mixer.D": "mixer.D",
        "mixer.out_proj.weight": "mixer.out.weight",
    }
    tensors = {f"{mine}.{own}": theirs.pop(f"{block}.{name}") for name, own in names.items()}
    return tensors | {f"{mine}.mixer.conv": theirs.pop(f"{block}.mixer.conv1d.weight").squeeze(1)}


def mamba_tensors(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our tensors from theirs, all of which must be used."""
    tensors = outer_tensors(theirs)
    for i in range(LAYERS):
        block, mine = f"backbone.layers.{i}", f"decoder.blocks.{i}.ssm"
        tensors |= common_tensors(theirs, block, mine)
        inp, gate = theirs.pop(f"{block}.mixer.in_proj.weight").chunk(2)
        tensors |= {f"{mine}.mixer.inp.weight": inp, f"{mine}.mixer.gate.weight": gate}
        tensors[f"{mine}.mixer.select.weight"] = theirs.pop(f"{block}.mixer.x_proj.weight")
        tensors |= {f"{mine}.mixer.step.{p}": theirs.pop(f"{block}.mixer.dt_proj.{p}") for p in ("weight", "bias")}
    assert not theirs, ", ".join(theirs)
    return tensors


def mamba2_tensors(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    tensors = outer_tensors(theirs)
    E = 2 * WIDTH
    for i in range(LAYERS):
        block, mine = f"backbone.layers.{i}", f"decoder.blocks.{i}.ssm"
        tensors |= common_tensors(theirs, block, mine)
        parts = theirs.pop(f"{block}.mixer.in_proj.weight").split([E, E + 2 * GROUPS * STATE, E // HEAD_WIDTH])
        tensors |= {f"{mine}.mixer.{name}.weight": part for name, part in zip(("gate", "inp", "step"), parts, strict=True)}
        tensors[f"{mine}.mixer.step.bias"] = theirs.pop(f"{block}.mixer.dt_bias")
        tensors[f"{mine}.mixer.norm.weight"] = theirs.pop(f"{block}.mixer.norm.weight")
    assert not theirs, ", ".join(theirs)
    return tensors


def outer_tensors(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    theirs.pop("lm_head.weight", None)  # tied
    table = theirs.pop("backbone.embeddings.weight", None)
    table = theirs.pop("backbone.embedding.weight") if table is None else table
    return {"frontend.tokens.weight": table, "decoder.norm.weight": theirs.pop("backbone.norm_f.weight")}


@pytest.fixture
def mamba(tmp_path: Path) -> tuple[PreTrainedModel, Model]:
    torch.manual_seed(0)
    theirs = written(MambaForCausalLM(MambaConfig(**SIZES)), tmp_path)
    return theirs, ours({"kind": "mamba", "state": STATE}, mamba_tensors(load_file(tmp_path / "model.safetensors")))


@pytest.fixture
def mamba2(tmp_path: Path) -> tuple[PreTrainedModel, Model]:
    torch.manual_seed(0)
    heads = {"num_heads": 2 * WIDTH // HEAD_WIDTH, "head_dim": HEAD_WIDTH, "n_groups": GROUPS, "chunk_size": 8}
    theirs = written(Mamba2ForCausalLM(Mamba2Config(**SIZES, **heads, tie_word_embeddings=True)), tmp_path)
    mixer = {"kind": "mamba2", "state": STATE, "head_width": HEAD_WIDTH, "groups": GROUPS}
    return theirs, ours(mixer, mamba2_tensors(load_file(tmp_path / "model.safetensors")))


both = pytest.mark.parametrize("family", ["mamba", "mamba2"])


def ids() -> Tensor:
    torch.manual_seed(3)
    return torch.randint(3, VOCAB, (len(LENGTHS), max(LENGTHS)))


@both
def test_logits_agree_for_every_row_of_ragged_and_packed_batches(family: str, request: pytest.FixtureRequest) -> None:
    theirs, mine = request.getfixturevalue(family)
    tokens, seq = ids(), Seq.from_padded(LENGTHS)
    with torch.no_grad():
        known = torch.cat([theirs(row[None, :n]).logits[0] for row, n in zip(tokens, LENGTHS, strict=True)])
        assert_close(mine(Batch(Input(tokens, seq)))[0][seq.valid], known, **CLOSE)
        assert_close(mine(Batch(Input(tokens[seq.valid], Seq.from_packed(LENGTHS))))[0], known, **CLOSE)


@both
def test_gradients_agree_in_every_parameter(family: str, request: pytest.FixtureRequest) -> None:
    theirs, mine = request.getfixturevalue(family)
    tokens = ids()
    theirs(tokens).logits.log_softmax(-1)[:, :, 5].mean().backward()
    mine(Batch(Input(tokens, Seq.from_padded([tokens.shape[1]] * len(tokens)))))[0].log_softmax(-1)[:, :, 5].mean().backward()
    table = {"mamba": mamba_tensors, "mamba2": mamba2_tensors}[family]
    known = table({name: p.grad for name, p in theirs.named_parameters()})
    own = dict(mine.named_parameters())
    assert own.keys() == known.keys()
    for name, gradient in known.items():
        assert float((own[name].grad - gradient).abs().max()) <= 1e-4 * float(gradient.abs().max()), name


@both
def test_cached_steps_agree_after_a_prompt(family: str, request: pytest.FixtureRequest) -> None:
    theirs, mine = request.getfixturevalue(family)
    tokens = ids()[:2]
    with torch.no_grad():
        known = theirs(tokens[:, :6], use_cache=True)
        state = mine.init_state(2, tokens.shape[1])
        assert_close(mine(Batch(Input(tokens[:, :6], Seq.from_padded([6, 6]))), state)[0], known.logits, **CLOSE)
        for place in range(6, tokens.shape[1]):
            one = tokens[:, place : place + 1]
            known = theirs(one, cache_params=known.cache_params, use_cache=True)
            assert_close(mine(Batch(Input(one, Seq.from_padded([1, 1], start=place))), state)[0], known.logits, **CLOSE)


@both
def test_generation_agrees(family: str, request: pytest.FixtureRequest) -> None:
    theirs, mine = request.getfixturevalue(family)
    prompt = ids()[:1, :6]
    known = theirs.generate(prompt, max_new_tokens=12, do_sample=False, eos_token_id=-1, pad_token_id=0)[0, 6:]
    with torch.no_grad():
        state, seq, tokens, read = mine.init_state(1, 20), Seq.from_padded([6]), [], prompt
        for _ in range(12):
            read = mine(Batch(Input(read, seq)), state)[0][:, -1:].argmax(-1)
            tokens.append(int(read))
            seq = seq.next_step()
    assert tokens == known.tolist()


def test_the_scan_agrees_with_mambapy() -> None:
    torch.manual_seed(0)
    B, T, D, S = 2, 37, 24, 5
    x, delta, write, read = torch.randn(B, T, D), torch.rand(B, T, D), torch.randn(B, T, S), torch.randn(B, T, S)
    A, skip = -torch.rand(D, S) * 4, torch.randn(D)
    inputs = [t.requires_grad_() for t in (x, delta, A, write, read, skip)]
    states = pscan(torch.exp(delta[..., None] * A), delta[..., None] * write[:, :, None] * x[..., None])
    known = (states @ read[..., None]).squeeze(3) + skip * x
    flat = [t if t.ndim < 3 else t.flatten(0, 1) for t in inputs]
    y, last = selective_scan(*flat, torch.zeros(B, S, D), torch.arange(B) * T, torch.full((B,), T))
    assert_close(y.view(B, T, D), known, **CLOSE)
    assert_close(last.mT, states[:, -1], **CLOSE)
    probe = torch.randn(B, T, D)
    ours_, theirs = (torch.autograd.grad((out * probe).sum(), inputs) for out in (y.view(B, T, D), known))
    assert_close(ours_, theirs, rtol=1e-4, atol=1e-4)


def test_a_block_agrees_with_mambapy_in_outputs_gradients_and_steps() -> None:
    torch.manual_seed(0)
    theirs = MambaBlock(BlockConfig(d_model=WIDTH, n_layers=1, d_state=STATE, conv_bias=True, bias=True))
    mine = Mamba(OwnConfig(state=STATE, bias=True), Site(width=WIDTH))
    inp, gate = theirs.in_proj.weight.chunk(2), theirs.in_proj.bias.chunk(2)
    tensors = {"inp.weight": inp[0], "gate.weight": inp[1], "inp.bias": gate[0], "gate.bias": gate[1]}
    tensors |= {"conv": theirs.conv1d.weight.squeeze(1), "conv_bias": theirs.conv1d.bias, "A_log": theirs.A_log, "D": theirs.D}
    tensors |= {"select.weight": theirs.x_proj.weight, "step.weight": theirs.dt_proj.weight, "step.bias": theirs.dt_proj.bias}
    mine.load_state_dict(tensors | {"out.weight": theirs.out_proj.weight, "out.bias": theirs.out_proj.bias})
    x = torch.randn(2, 19, WIDTH, requires_grad=True)
    y, known = mine(x, Seq.from_padded([19, 19])), theirs(x)
    assert_close(y, known, **CLOSE)
    probe = torch.randn_like(y)
    wanted = [(x, x), (mine.A_log, theirs.A_log), (mine.out.weight, theirs.out_proj.weight), (mine.step.bias, theirs.dt_proj.bias)]
    ours_ = torch.autograd.grad((y * probe).sum(), [own for own, _ in wanted])
    assert_close(ours_, torch.autograd.grad((known * probe).sum(), [other for _, other in wanted]), rtol=1e-4, atol=1e-4)
    state = mine.init_state(2, 0, device=x.device, dtype=x.dtype)
    cache: Any = (None, torch.zeros(2, 2 * WIDTH, 3))
    with torch.no_grad():
        for place in range(5):
            step, cache = theirs.step(x[:, place], cache)
            assert_close(mine(x[:, place : place + 1], Seq.from_padded([1, 1], start=place), state)[:, 0], step, **CLOSE)
