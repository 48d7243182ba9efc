"""Reformer against transformers' and reformer-pytorch's: the same hashes, outputs and gradients.

Everything in float64: an attention by hashes is discontinuous, and a rounding of float32 may move a token to another bucket on one side
only. Two programs that add the same numbers in another order then differ by some 1e-14 after four blocks; 1e-9 leaves room for scores of
-1e5 or -5e4, which both oracles give a token's own key and whose logarithms keep eleven digits.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.testing import assert_close
from transformers import ReformerConfig as TheirConfig
from transformers import ReformerModel, ReformerModelWithLMHead

from attentif.hub.family import family_of
from attentif.hub.rows import match, ours_from
from attentif.models import Batch, Input, Model, build, resolve
from attentif.nn.mixer import Site
from attentif.nn.mixers.reformer import Chunked, ChunkedConfig, Reformer, ReformerConfig
from attentif.nn.seq import Seq

pytestmark = pytest.mark.parity
CLOSE = {"rtol": 1e-9, "atol": 1e-9}
VOCAB, WIDTH, HEADS, CHUNK, T, SEED = 50, 16, 2, 16, 128, 3
LAYERS = ["local", "lsh", "local", "lsh"]


def their_config(causal: bool, layers: list[str] = LAYERS, **more: Any) -> TheirConfig:
    sizes: dict[str, Any] = {
        "attention_head_size": 6,
        "num_attention_heads": HEADS,
        "hidden_size": WIDTH,
        "feed_forward_size": 24,
        "vocab_size": VOCAB,
        "axial_pos_shape": (8, 16),
        "axial_pos_embds_dim": (4, 12),
        "max_position_embeddings": T,
        "local_attn_chunk_length": CHUNK,
        "lsh_attn_chunk_length": CHUNK,
        "num_hashes": 2,
        "hash_seed": SEED,
        "local_attention_probs_dropout_prob": 0.0,
        "hidden_dropout_prob": 0.0,
        "is_decoder": causal,
        "use_cache": False,
    }
    return TheirConfig(attn_layers=layers, **sizes | more)


def spread(model: nn.Module) -> nn.Module:
    """Parameters far from their beginnings, where nothing is nearly linear."""
    torch.manual_seed(1)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model.double()


def mixer(kind: str, causal: bool, *, head_width: int = 6, **more: Any) -> dict[str, Any]:
    common = {"heads": HEADS, "head_width": head_width, "causal": causal, "chunk": CHUNK}
    return {"kind": "chunked"} | common | more if kind == "local" else {"kind": "reformer", "rounds": 2, "seed": SEED} | common | more


def ours(causal: bool, tensors: dict[str, Tensor]) -> Model:
    ffn = {"mixer": {"kind": "feed-forward", "hidden": 24, "activation": "relu"}}
    stack = {
        "reversible": True,
        "halves": "concat",
        "norm": {"kind": "layer", "eps": 1e-12},
        "blocks": [{"sublayers": {"attn": {"mixer": mixer(kind, causal)}, "ffn": ffn}} for kind in ("local", "lsh")],
    }
    config = resolve(
        {
            "width": WIDTH,
            "layers": len(LAYERS),
            "dropout": 0.0,
            "frontend": {"kind": "tokens", "vocab": VOCAB, "position": {"kind": "axial", "shape": [8, 16], "widths": [4, 12]}},
            "decoder" if causal else "encoder": stack,
            "head": {"kind": "language", "tied": False} if causal else {"kind": "embed"},
        }
    )
    model = build(config, dtype=torch.float64)
    model.load_state_dict(renamed(tensors, model))
    return model


def renamed(tensors: dict[str, Tensor], model: Model) -> dict[str, Tensor]:
    """Tensors of theirs, or gradients, by our names of them."""
    architecture = ["ReformerModel" if model.decoder is None else "ReformerModelWithLMHead"]
    family = family_of("reformer", architecture)
    matched = match(family.rows(family.head_of(architecture), model.config), tensors, model.state_dict(), len(LAYERS))
    assert set(matched.unexpected) <= {"lm_head.bias"}  # kept by them, and read by nothing
    return dict(ours_from(matched, tensors))


def ids(rows: int = 2) -> Tensor:
    return torch.randint(VOCAB, (rows, T), generator=torch.Generator().manual_seed(4))


def read(tokens: Tensor) -> Batch:
    return Batch(Input(tokens, Seq.from_padded([tokens.shape[1]] * len(tokens))))


def test_a_whole_causal_model_agrees_with_transformers_in_logits_and_gradients(tmp_path: Path) -> None:
    theirs = spread(ReformerModelWithLMHead(their_config(causal=True)))
    theirs.save_pretrained(tmp_path)
    mine = ours(True, load_file(tmp_path / "model.safetensors"))
    expected, logits = theirs.train()(ids()).logits, mine.train()(read(ids()))[0]
    assert_close(logits, expected, **CLOSE)
    probe = torch.randn(expected.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    (expected * probe).mean().backward()
    (logits * probe).mean().backward()
    gradients = {name: p.grad for name, p in theirs.named_parameters() if p.grad is not None}
    for name, gradient in renamed(gradients, mine).items():
        assert_close(mine.get_parameter(name).grad, gradient, msg=lambda text, name=name: f"{name}: {text}", **CLOSE)


def test_a_whole_bidirectional_model_agrees_with_transformers_row_by_row(tmp_path: Path) -> None:
    theirs = spread(ReformerModel(their_config(causal=False)))
    theirs.save_pretrained(tmp_path)
    mine = ours(False, load_file(tmp_path / "model.safetensors"))
    with torch.no_grad():
        for length in (T, 96, 32, CHUNK, 7):  # in a padded batch, theirs hashes into other buckets: each row alone
            expected = theirs.eval()(ids(1)[:, :length]).last_hidden_state
            assert_close(mine.eval().hidden(read(ids(1)[:, :length]))[0], expected[:, :length], **CLOSE)
            if length > CHUNK:
                for layer in theirs.encoder.layers:  # transformers keeps the number of buckets of its first text for good
                    if hasattr(layer.attention.self_attention, "num_buckets"):
                        layer.attention.self_attention.num_buckets = None


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("rounds", "buckets", "around"), [(1, 8, (1, 0)), (3, [2, 4], (1, 0)), (2, None, (0, 0)), (2, 6, (2, 1))])
def test_lsh_attention_agrees_with_transformers(causal: bool, rounds: int, buckets: Any, around: tuple[int, int]) -> None:
    before, after = around[0], 0 if causal else around[1]
    more = {"num_hashes": rounds, "num_buckets": buckets, "lsh_num_chunks_before": before, "lsh_num_chunks_after": after}
    theirs = spread(ReformerModel(their_config(causal, ["lsh"], **more))).train().encoder.layers[0].attention
    factors = [] if buckets is None else [buckets] if isinstance(buckets, int) else buckets
    values = mixer("lsh", causal, rounds=rounds, buckets=factors, before=before, after=after)
    mine = Reformer(ReformerConfig.model_validate(values), Site(width=WIDTH)).double()
    copied(mine, qk=theirs.self_attention.query_key, v=theirs.self_attention.value, out=theirs.output.dense)
    assert_same_attention(mine, lambda x: theirs.output(theirs.self_attention(x).hidden_states))


@pytest.mark.parametrize(("causal", "after"), [(True, 0), (False, 0), (False, 1)])
def test_local_attention_agrees_with_transformers(causal: bool, after: int) -> None:
    theirs = spread(ReformerModel(their_config(causal, ["local"], local_num_chunks_after=after))).train().encoder.layers[0].attention
    mine = Chunked(ChunkedConfig.model_validate(mixer("local", causal, after=after)), Site(width=WIDTH)).double()
    local = theirs.self_attention
    copied(mine, q=local.query, k=local.key, v=local.value, out=theirs.output.dense)
    assert_same_attention(mine, lambda x: theirs.output(local(x).hidden_states))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("rounds", [1, 4])
def test_lsh_attention_agrees_with_reformer_pytorch(causal: bool, rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from reformer_pytorch import LSHSelfAttention

    theirs = LSHSelfAttention(WIDTH, heads=HEADS, bucket_size=CHUNK, n_hashes=rounds, causal=causal, random_rotations_per_head=True)
    theirs = spread(theirs)
    values = mixer("lsh", causal, head_width=WIDTH // HEADS, rounds=rounds, buckets=[T // CHUNK], out_bias=True, eps=1e-30)
    mine = Reformer(ReformerConfig.model_validate(values | {"scale": (WIDTH // HEADS) ** -0.5}), Site(width=WIDTH)).double()
    copied(mine, qk=theirs.toqk, v=theirs.tov, out=theirs.to_out)
    factors = (T // CHUNK,)
    directions = mine.rotations(factors, SEED, torch.empty(0, dtype=torch.float64)).transpose(1, 2)  # (H, K, R, buckets / 2), as they draw

    def by_our_directions(x: Tensor) -> Tensor:
        with monkeypatch.context() as patch:
            patch.setattr(torch, "randn", lambda shape, **_: directions.repeat(shape[0] // HEADS, 1, 1, 1))
            return theirs(x)

    assert_same_attention(mine, by_our_directions)


def copied(mine: nn.Module, **linears: nn.Linear) -> None:
    for name, linear in linears.items():
        mine.get_submodule(name).load_state_dict(linear.state_dict())


def assert_same_attention(mine: nn.Module, theirs: Any) -> None:
    generator = torch.Generator().manual_seed(6)
    x, probe = (torch.randn(2, T, WIDTH, dtype=torch.float64, generator=generator) for _ in range(2))
    x.requires_grad_()
    y, expected = mine(x, Seq.from_padded([T, T])), theirs(x)
    assert_close(y, expected, **CLOSE)
    (gradient,) = torch.autograd.grad((y * probe).sum(), x)
    assert_close(gradient, torch.autograd.grad((expected * probe).sum(), x)[0], **CLOSE)


def test_the_published_preset_has_the_parameters_of_transformers_model() -> None:
    """Shapes alone; theirs holds a bias of the vocabulary besides, which nothing reads."""
    config = TheirConfig(
        attn_layers=["local", "local", "lsh", "local"] * 3,
        hidden_size=1024,
        num_attention_heads=8,
        attention_head_size=128,
        feed_forward_size=4096,
        vocab_size=258,
        axial_pos_shape=(128, 512),
        axial_pos_embds_dim=(256, 768),
        max_position_embeddings=65536,
        lsh_attn_chunk_length=256,
        local_attn_chunk_length=128,
        is_decoder=True,
    )
    with torch.device("meta"):
        theirs = ReformerModelWithLMHead(config)
    mine = build(resolve({"base": "reformer"}), device="meta")
    assert sum(p.numel() for p in mine.parameters()) == sum(p.numel() for p in theirs.parameters()) - 258
