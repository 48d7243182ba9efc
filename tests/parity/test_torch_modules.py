"""torch's own attention, transformer layers and norms, with copied weights.

The same arithmetic in another order: 1e-10 in float64, 1e-5 in float32.
"""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import attentif.models  # noqa: F401  registers every kind
from attentif.nn.mixer import Site
from attentif.nn.mixers import Attention, AttentionConfig, CrossAttention, CrossAttentionConfig
from attentif.nn.norm import LayerNormConfig, RMSNormConfig
from attentif.nn.seq import Seq
from attentif.nn.stack import Stack, StackConfig

pytestmark = pytest.mark.parity

WIDTH, HEADS, HIDDEN, LAYERS = 24, 4, 40, 2
LENGTHS, SOURCE_LENGTHS = [4, 11, 7], [9, 3, 6]
precisions = pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])


def batch(lengths: list[int], dtype: torch.dtype, seed: int) -> tuple[Tensor, Seq]:
    torch.manual_seed(seed)
    seq = Seq.from_padded(lengths)
    return torch.randn(*seq.pos.shape, WIDTH, dtype=dtype), seq


def spread(module: nn.Module, dtype: torch.dtype) -> Any:
    torch.manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return module.to(dtype).eval()


def copy_linear(ours: nn.Linear, theirs: nn.Linear) -> None:
    ours.weight.copy_(theirs.weight)
    ours.bias.copy_(theirs.bias)


def copy_attention(ours: Attention | CrossAttention, theirs: nn.MultiheadAttention) -> None:
    for part, weight, bias in zip((ours.q, ours.k, ours.v), theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), strict=True):
        part.weight.copy_(weight)
        part.bias.copy_(bias)
    copy_linear(ours.out, theirs.out_proj)


@precisions
@pytest.mark.parametrize("causal", [False, True])
def test_self_attention_agrees_in_output_weights_and_gradients(dtype: torch.dtype, tolerance: float, causal: bool) -> None:
    theirs = spread(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), dtype)
    ours = AttentionConfig(heads=HEADS, causal=causal).build(Site(width=WIDTH)).to(dtype).eval()
    with torch.no_grad():
        copy_attention(ours, theirs)
    x, seq = batch(LENGTHS, dtype, 1)
    x.requires_grad_()
    forbidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1) if causal else None
    known, _ = theirs(x, x, x, key_padding_mask=~seq.valid, attn_mask=forbidden, need_weights=False)
    mine = ours(x, seq)
    assert_close(mine[seq.valid], known[seq.valid], rtol=tolerance, atol=tolerance)
    expected = torch.autograd.grad(known[seq.valid].square().sum(), x)
    assert_close(torch.autograd.grad(mine[seq.valid].square().sum(), x), expected, rtol=10 * tolerance, atol=100 * tolerance)


@precisions
def test_cross_attention_agrees(dtype: torch.dtype, tolerance: float) -> None:
    theirs = spread(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), dtype)
    ours = CrossAttentionConfig(heads=HEADS).build(Site(width=WIDTH, memory_width=WIDTH)).to(dtype).eval()
    with torch.no_grad():
        copy_attention(ours, theirs)
        x, seq = batch(LENGTHS, dtype, 1)
        memory, memory_seq = batch(SOURCE_LENGTHS, dtype, 2)
        known, _ = theirs(x, memory, memory, key_padding_mask=~memory_seq.valid, need_weights=False)
        assert_close(ours(x, seq, memory, memory_seq)[seq.valid], known[seq.valid], rtol=tolerance, atol=tolerance)


def stack(placement: str, activation: str, decoder: bool) -> Stack:
    attention = {"mixer": {"kind": "attention", "heads": HEADS, "causal": decoder}}
    ffn = {"mixer": {"kind": "feed-forward", "hidden": HIDDEN, "activation": activation}}
    cross = {"cross": {"mixer": {"kind": "cross-attention", "heads": HEADS}}} if decoder else {}
    config = StackConfig.model_validate({"placement": placement, "final_norm": True, "block": {"attn": attention, **cross, "ffn": ffn}})
    return Stack(config, width=WIDTH, layers=LAYERS, dropout=0.0, memory_width=WIDTH if decoder else None)


@torch.no_grad()
def copy_stack(ours: Stack, theirs: Any, norm: str) -> None:
    for mine, known in zip(ours.blocks, theirs.layers, strict=True):
        names = ["attn", "cross", "ffn"] if hasattr(mine, "cross") else ["attn", "ffn"]
        for number, name in enumerate(names, 1):
            getattr(getattr(mine, name), norm).load_state_dict(getattr(known, f"norm{number}").state_dict())
        copy_attention(mine.attn.mixer, known.self_attn)
        if hasattr(mine, "cross"):
            copy_attention(mine.cross.mixer, known.multihead_attn)
        copy_linear(mine.ffn.mixer.up, known.linear1)
        copy_linear(mine.ffn.mixer.out, known.linear2)
    ours.norm.load_state_dict(theirs.norm.state_dict())


@precisions
@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_transformer_encoder_agrees(dtype: torch.dtype, tolerance: float, placement: str, activation: str) -> None:
    options: dict[str, Any] = {"dropout": 0.0, "activation": activation, "batch_first": True, "norm_first": placement == "pre"}
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, **options)
    theirs = spread(nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False), dtype)
    ours = stack(placement, activation, decoder=False).to(dtype).eval()
    copy_stack(ours, theirs, "norm_in" if placement == "pre" else "norm_out")
    x, seq = batch(LENGTHS, dtype, 1)
    x.requires_grad_()  # also keeps torch off its fused inference path, which rounds differently
    known = theirs(x, src_key_padding_mask=~seq.valid)
    mine = ours(x, seq)
    assert_close(mine[seq.valid], known[seq.valid], rtol=tolerance, atol=tolerance)
    packed = ours(x[seq.valid], Seq.from_packed(LENGTHS))
    assert_close(packed, known[seq.valid], rtol=tolerance, atol=tolerance)


@precisions
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_transformer_decoder_agrees_whole_and_step_by_step(dtype: torch.dtype, tolerance: float, placement: str) -> None:
    options: dict[str, Any] = {"dropout": 0.0, "batch_first": True, "norm_first": placement == "pre"}
    layer = nn.TransformerDecoderLayer(WIDTH, HEADS, HIDDEN, **options)
    theirs = spread(nn.TransformerDecoder(layer, LAYERS, nn.LayerNorm(WIDTH)), dtype)
    ours = stack(placement, "relu", decoder=True).to(dtype).eval()
    copy_stack(ours, theirs, "norm_in" if placement == "pre" else "norm_out")
    (x, seq), (memory, memory_seq) = batch(LENGTHS, dtype, 1), batch(SOURCE_LENGTHS, dtype, 2)
    forbidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    with torch.no_grad():
        known = theirs(x, memory, tgt_mask=forbidden, memory_key_padding_mask=~memory_seq.valid)
        whole = ours(x, seq, memory, memory_seq)
        assert_close(whole[seq.valid], known[seq.valid], rtol=tolerance, atol=tolerance)
        state = ours.init_state(len(x), x.shape[1], memory, memory_seq, device=x.device, dtype=dtype)
        steps = [ours(x[:, t : t + 1], Seq.from_padded([1] * len(x), start=t), state=state) for t in range(x.shape[1])]
        assert_close(torch.cat(steps, 1), known, rtol=tolerance, atol=tolerance)


@precisions
def test_norms_agree_with_their_definitions(dtype: torch.dtype, tolerance: float) -> None:
    x, _ = batch(LENGTHS, dtype, 1)
    layer, rms = spread(LayerNormConfig(eps=1e-3).build(WIDTH), dtype), spread(RMSNormConfig(eps=1e-3).build(WIDTH), dtype)
    with torch.no_grad():
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
        assert_close(layer(x), (x - mean) / (variance + 1e-3).sqrt() * layer.weight + layer.bias, rtol=tolerance, atol=tolerance)
        assert_close(rms(x), x / (x.square().mean(-1, keepdim=True) + 1e-3).sqrt() * rms.weight, rtol=tolerance, atol=tolerance)
    assert LayerNormConfig(bias=False).build(WIDTH).bias is None
