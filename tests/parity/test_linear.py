"""Linear, Performer, Linformer and latent attention against other people's implementations: outputs and gradients, weights copied.

Everything in float64 where the other side allows it, compared at 1e-9: sums of some hundred terms in another order differ by 1e-14.
transformers turns queries in float32 whatever it is given, so latent attention is compared in float32, at 1e-5.
"""

import warnings
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close
from transformers import DeepseekV2Config, DeepseekV3Config
from transformers.models.deepseek_v2 import modeling_deepseek_v2 as v2
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as v3

from attentif.nn.mixer import Mixer, Site
from attentif.nn.mixers.latent import Latent, LatentConfig
from attentif.nn.mixers.linear import LinearAttentionConfig
from attentif.nn.mixers.linformer import LinformerConfig
from attentif.nn.mixers.performer import PerformerConfig
from attentif.nn.seq import Seq

with warnings.catch_warnings():  # they use what Python and torch have deprecated since
    warnings.simplefilter("ignore")
    import linear_attention_transformer.linear_attention_transformer as theirs_linear
    import linformer
    import performer_pytorch.performer_pytorch as theirs_performer

pytestmark = pytest.mark.parity

WIDTH, HEADS, T = 24, 4, 32
CLOSE = {"rtol": 1e-9, "atol": 1e-9}
SINGLE = {"rtol": 1e-5, "atol": 1e-5}
PROJECTIONS = {"to_q": "q", "to_k": "k", "to_v": "v", "to_out": "out"}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def inputs(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """A batch of two rows, and a weight for each output."""
    return torch.randn(2, T, WIDTH, dtype=dtype), torch.randn(2, T, WIDTH, dtype=dtype)


def copied(mine: Mixer, theirs: nn.Module, pairs: dict[str, str]) -> None:
    for their_name, name in pairs.items():
        mine.get_submodule(name).load_state_dict(theirs.get_submodule(their_name).state_dict())


def with_gradients(call: Any, x: Tensor, probe: Tensor, parameters: list[Tensor]) -> list[Tensor]:
    """The output, the gradient of x, and those of the parameters."""
    x = x.clone().requires_grad_()
    y = call(x)
    return [y, *torch.autograd.grad((y * probe).sum(), [x, *parameters])]


def compared(mine: Mixer, theirs: nn.Module, pairs: dict[str, str], **options: Any) -> None:
    x, probe = inputs()
    copied(mine, theirs, pairs)
    same = [
        (mine.get_submodule(name).get_parameter(part), theirs.get_submodule(their_name).get_parameter(part))
        for their_name, name in pairs.items()
        for part, _ in mine.get_submodule(name).named_parameters()
    ]
    ours = with_gradients(lambda x: mine(x, Seq.from_padded([T, T])), x, probe, [pair[0] for pair in same])
    assert_close(ours, with_gradients(lambda x: theirs(x, **options), x, probe, [pair[1] for pair in same]), **CLOSE)


# --------------------------------------------------------------------------------------------- linear-attention-transformer


def test_bidirectional_linear_attention_agrees_with_linear_attention_transformer() -> None:
    """Theirs is efficient attention: softmax of queries over features, of keys over time; and it divides by √K, as our values do here."""
    theirs = theirs_linear.SelfAttention(WIDTH, HEADS).double()
    config = LinearAttentionConfig(heads=HEADS, features="softmax", normalise="feature", bias=False, eps=1e-30)
    mine = config.build(Site(width=WIDTH)).double()
    with torch.no_grad():
        theirs.to_v.weight *= (WIDTH // HEADS) ** 0.5
    copied(mine, theirs, PROJECTIONS)
    with torch.no_grad():
        mine.v.weight /= (WIDTH // HEADS) ** 0.5
    x, probe = inputs()
    names = [("to_q", "q"), ("to_k", "k"), ("to_out", "out")]
    ours = with_gradients(lambda x: mine(x, Seq.from_padded([T, T])), x, probe, [mine.get_submodule(n).weight for _, n in names])
    assert_close(ours, with_gradients(theirs, x, probe, [theirs.get_submodule(n).weight for n, _ in names]), **CLOSE)
    mask = Seq.from_padded([T, 19]).valid  # ragged
    assert_close(mine(x, Seq.from_padded([T, 19]))[mask], theirs(x, input_mask=mask)[mask], **CLOSE)


def test_causal_linear_attention_agrees_with_linear_attention_transformer() -> None:
    theirs = theirs_linear.SelfAttention(WIDTH, HEADS, causal=True).double()
    mine = LinearAttentionConfig(heads=HEADS, causal=True, features="softmax", bias=False, eps=1e-30).build(Site(width=WIDTH)).double()
    compared(mine, theirs, PROJECTIONS)


# ---------------------------------------------------------------------------------------------------------- performer-pytorch


def performers(causal: bool, eps: float, **options: Any) -> tuple[Mixer, nn.Module]:
    """Both with one projection matrix. Theirs adds 1e-6 to the causal divisor: taken away."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = theirs_performer.SelfAttention(
            WIDTH, heads=HEADS, dim_head=WIDTH // HEADS, nb_features=10, causal=causal, **options
        ).double()
    if causal:
        theirs.fast_attention.causal_linear_fn = partial(theirs_performer.causal_linear_attention_noncuda, eps=0.0)
    kernel = "relu" if options else "softmax"
    config = PerformerConfig(heads=HEADS, causal=causal, features=10, kernel=kernel, eps=eps, bias=False)
    mine = config.build(Site(width=WIDTH)).double()
    mine.directions.copy_(theirs.fast_attention.projection_matrix)
    return mine, theirs


def test_bidirectional_performer_agrees_with_performer_pytorch() -> None:
    compared(*performers(causal=False, eps=1e-4), PROJECTIONS)


def test_causal_performer_agrees_with_performer_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ε: theirs is relative to the largest key of the whole sequence, which a causal output must not know."""
    monkeypatch.setattr(theirs_performer, "softmax_kernel", partial(theirs_performer.softmax_kernel, eps=0.0))
    compared(*performers(causal=True, eps=0.0), PROJECTIONS)


@pytest.mark.parametrize("causal", [True, False])
def test_performer_with_relu_features_agrees_with_performer_pytorch(causal: bool) -> None:
    compared(*performers(causal=causal, eps=1e-3, generalized_attention=True), PROJECTIONS)


# ------------------------------------------------------------------------------------------------------------------ linformer


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("max_len", [T, T + 9])
def test_linformer_agrees_with_linformer(shared: bool, max_len: int) -> None:
    """Sharing, theirs takes the keys for the values as well: our projection to values is then a copy of that to keys."""
    theirs = linformer.LinformerSelfAttention(WIDTH, max_len, k=7, heads=HEADS, share_kv=shared).double()
    config = LinformerConfig(heads=HEADS, max_len=max_len, rank=7, share="key-value" if shared else "heads", bias=False)
    mine = config.build(Site(width=WIDTH)).double()
    with torch.no_grad():
        mine.over_keys[0] = theirs.proj_k
        if mine.over_values is not None:
            mine.over_values[0] = theirs.proj_v
    if shared:
        copied(mine, theirs, {"to_k": "v"})
        x, probe = inputs()
        copied(mine, theirs, {"to_q": "q", "to_k": "k", "to_out": "out"})
        ours = with_gradients(lambda x: mine(x, Seq.from_padded([T, T])), x, probe, [mine.q.weight, mine.over_keys])
        known = with_gradients(theirs, x, probe, [theirs.to_q.weight, theirs.proj_k])
        known[3] = known[3][None]
        assert_close(ours, known, **CLOSE)
    else:
        compared(mine, theirs, PROJECTIONS)
        x, probe = inputs()
        ours = with_gradients(lambda x: mine(x, Seq.from_padded([T, T])), x, probe, [mine.over_keys, mine.over_values])
        known = with_gradients(theirs, x, probe, [theirs.proj_k, theirs.proj_v])
        assert_close([t.squeeze(0) for t in ours[2:]], known[2:], **CLOSE)


# --------------------------------------------------------------------------------------------------------------- DeepSeek V2, V3

K, P, V, RANK = 6, 4, 5, 8  # V2's rotation wants an even rank
YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 8,
    "rope_theta": 100.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
}


def latents(version: Any, q_rank: int | None, *, interleaved: bool = True, yarn: bool = False) -> tuple[Latent, nn.Module, nn.Module]:
    """Ours, theirs, and their rotary angles."""
    values: dict[str, Any] = {
        "hidden_size": WIDTH,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "q_lora_rank": q_rank,
        "kv_lora_rank": RANK,
        "qk_nope_head_dim": K,
        "qk_rope_head_dim": P,
        "v_head_dim": V,
        "attention_bias": True,
        "max_position_embeddings": 32,
        "attn_implementation": "eager",
        "rope_parameters": YARN if yarn else {"rope_type": "default", "rope_theta": 100.0},
    }
    if version is v2:
        theirs = v2.DeepseekV2Attention(config := DeepseekV2Config(**values), 0)
        angles = v2.DeepseekV2RotaryEmbedding(config)
    else:
        theirs = v3.DeepseekV3Attention(config := DeepseekV3Config(rope_interleave=interleaved, **values), 0)
        angles = v3.DeepseekV3RotaryEmbedding(config)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.4)
    scaling = {"kind": "yarn", "factor": 4.0, "trained": 8, "sharpen": 1.0}
    mine = LatentConfig.model_validate(
        {
            "heads": HEADS,
            "head_width": K,
            "value_width": V,
            "rotary_width": P,
            "kv_rank": RANK,
            "q_rank": q_rank,
            "bias": True,
            "out_bias": True,
            "scale": theirs.scaling,
            "rotary": {"base": 100.0, "pairs": "adjacent" if interleaved else "half", **({"scaling": scaling} if yarn else {})},
        }
    ).build(Site(width=WIDTH))
    tensors = theirs.state_dict()
    both = tensors["kv_b_proj.weight"].view(HEADS, K + V, RANK)
    renamed = {"k.weight": both[:, :K].flatten(0, 1), "v.weight": both[:, K:].flatten(0, 1)}
    names = {"q_proj": "q", "q_a_proj": "q_down", "q_a_layernorm": "q_norm", "q_b_proj": "q", "kv_a_proj_with_mqa": "kv_down"}
    names |= {"kv_a_layernorm": "kv_norm", "o_proj": "out"}
    for name, tensor in tensors.items():
        module, part = name.rsplit(".", 1)
        if module != "kv_b_proj":
            renamed[f"{names[module]}.{part}"] = tensor
    mine.load_state_dict(renamed)
    return mine, theirs, angles


@pytest.mark.parametrize(
    ("version", "q_rank", "options"),
    [
        (v2, None, {}),
        (v2, 9, {}),
        (v2, 9, {"yarn": True}),
        (v3, None, {}),
        (v3, 9, {}),
        (v3, 9, {"interleaved": False}),
        (v3, 9, {"yarn": True}),
    ],
    ids=["v2", "v2-query-rank", "v2-yarn", "v3", "v3-query-rank", "v3-halves", "v3-yarn"],
)
def test_latent_attention_agrees_with_deepseek(version: Any, q_rank: int | None, options: dict[str, bool]) -> None:
    mine, theirs, angles = latents(version, q_rank, **options)
    x, probe = inputs(torch.float32)
    positions = angles(x, torch.arange(T)[None])
    mask = torch.full((T, T), float("-inf")).triu(1)[None, None]

    def known(x: Tensor) -> Tensor:
        return theirs(x, position_embeddings=positions, attention_mask=mask)[0]

    expected = with_gradients(known, x, probe, [theirs.kv_a_proj_with_mqa.weight, theirs.kv_b_proj.weight, theirs.o_proj.weight])
    ours = with_gradients(
        lambda x: mine(x, Seq.from_padded([T, T])), x, probe, [mine.kv_down.weight, mine.k.weight, mine.v.weight, mine.out.weight]
    )
    up = torch.cat([ours[3].view(HEADS, K, RANK), ours[4].view(HEADS, V, RANK)], 1).flatten(0, 1)
    assert_close([*ours[:3], up, ours[5]], expected, **SINGLE)
    with torch.no_grad():  # token by token: the absorbed form
        state = mine.init_state(2, T, device=x.device, dtype=x.dtype)
        steps = [mine(x[:, t : t + 1], Seq.from_padded([1, 1], start=t), state) for t in range(T)]
    assert_close(torch.cat(steps, 1), expected[0].detach(), **SINGLE)
