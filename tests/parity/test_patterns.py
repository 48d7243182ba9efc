"""Window, global and random attention against other people's: outputs and gradients, at lengths that are computed by blocks.

Longformer works out its softmax in float32, whatever it is given: two programs that add the same numbers in another order differ by
some 1e-6 after two blocks, so 1e-5 there. BigBird and local-attention are compared in float64.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from local_attention import LocalAttention
from torch import Tensor
from torch.testing import assert_close
from transformers import BigBirdConfig, BigBirdModel, LongformerConfig, LongformerModel, PreTrainedModel
from transformers.utils import logging

from attentif.hub import read_folder
from attentif.models import Batch, Input, Model, ModelConfig, build, resolve
from attentif.nn.mixer import Site
from attentif.nn.mixers import Attention, AttentionConfig
from attentif.nn.pattern import WindowPattern
from attentif.nn.seq import Seq

pytestmark = pytest.mark.parity
logging.disable_progress_bar()
logging.set_verbosity_error()  # how they pad rows to whole windows

SINGLE, DOUBLE = {"rtol": 1e-5, "atol": 1e-5}, {"rtol": 1e-10, "atol": 1e-10}
VOCAB, WIDTH, HEADS, LAYERS, MAX_LEN = 97, 32, 4, 2, 400
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 64,
    "max_position_embeddings": MAX_LEN,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def spread(model: PreTrainedModel) -> PreTrainedModel:
    """An initial model is nearly linear, and its biases are zero."""
    torch.manual_seed(0)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, std=0.3)
        else:
            torch.nn.init.normal_(parameter, std=0.2)
    return model


def ours(theirs: PreTrainedModel, folder: Path, base: str, patterns: list[Any]) -> Model:
    """The preset at their size with their weights, read from the file they save, and a pattern for each layer; the head is not theirs."""
    theirs.save_pretrained(folder)
    mixers = {"attn": {"mixer": {"heads": HEADS, "dropout": 0.0}}, "ffn": {"mixer": {"hidden": 64}}}
    frontend = {"vocab": VOCAB, "segments": 2, "position": {"max_len": MAX_LEN}}
    sizes = {"width": WIDTH, "layers": LAYERS, "dropout": 0.0, "frontend": frontend, "encoder": {"block": mixers}, "head": {"classes": 2}}
    values = resolve({"base": base} | sizes).model_dump()
    block = values["encoder"].pop("block")
    layers = [{"attn": {"mixer": block["attn"]["mixer"] | {"pattern": pattern}}, "ffn": block["ffn"]} for pattern in patterns]
    values["encoder"]["blocks"] = [{"sublayers": layer} for layer in layers]
    model = build(ModelConfig.model_validate(values), dtype=next(theirs.parameters()).dtype)
    missing = model.load_state_dict(read_folder(folder, dtype=None).model.state_dict(), strict=False)
    assert not missing.unexpected_keys
    assert all(key.startswith("head.") for key in missing.missing_keys)
    return model


def gradients_agree(mine: Model, theirs: PreTrainedModel, layer: int, tolerance: dict[str, float]) -> None:
    block, other = mine.encoder.blocks[layer], theirs.encoder.layer[layer]
    assert_close(mine.frontend.tokens.weight.grad, theirs.embeddings.word_embeddings.weight.grad, **tolerance)
    pairs = {"q": "query", "k": "key", "v": "value", "q_global": "query_global", "k_global": "key_global", "v_global": "value_global"}
    for own, their in pairs.items():
        if hasattr(block.attn.mixer, own):
            gradient = getattr(block.attn.mixer, own).weight.grad
            assert gradient.abs().max() > 0
            assert_close(gradient, getattr(other.attention.self, their).weight.grad, **tolerance)


LENGTHS = [300, 41, 320]


@pytest.fixture
def longformer(tmp_path: Path) -> tuple[LongformerModel, Model]:
    config = LongformerConfig(**SIZES, attention_window=32, layer_norm_eps=1e-5, pad_token_id=1)
    theirs = spread(LongformerModel(config, add_pooling_layer=False)).eval()
    pattern = [{"kind": "window", "left": 16, "right": 16}, {"kind": "global"}]
    return theirs, ours(theirs, tmp_path, "longformer-base", [pattern] * LAYERS).eval()


def test_longformer_agrees_in_hidden_states_and_gradients(longformer: tuple[LongformerModel, Model]) -> None:
    """A ragged batch; some tokens of every row are global: at the beginning, in the middle, next to each other."""
    theirs, mine = longformer
    torch.manual_seed(3)
    valid = Seq.from_padded(LENGTHS).valid
    ids = torch.where(valid, torch.randint(3, VOCAB, valid.shape), 1)
    marks = torch.zeros_like(valid)
    marks[0, [0, 100, 101]], marks[1, [0, 5]], marks[2, [17, 319]] = True, True, True
    seq = Seq.from_padded(LENGTHS, marks=marks)
    places = seq.pos
    known = theirs(ids, attention_mask=valid.long(), global_attention_mask=marks.long(), position_ids=places).last_hidden_state
    hidden, _ = mine.hidden(Batch(Input(ids, seq)))
    assert mine.encoder.blocks[0].attn.mixer.sparse.pays(seq.max_len)
    assert_close(hidden[valid], known[valid], **SINGLE)
    packed = Batch(Input(ids[valid], Seq.from_packed(LENGTHS, marks=marks[valid])))
    assert_close(mine.hidden(packed)[0], known[valid], **SINGLE)
    probe = torch.randn(hidden[valid].shape) / 100
    (known[valid] * probe).sum().backward()
    (hidden[valid] * probe).sum().backward()
    for layer in range(LAYERS):
        gradients_agree(mine, theirs, layer, SINGLE)


def test_longformer_without_global_tokens_agrees(longformer: tuple[LongformerModel, Model]) -> None:
    theirs, mine = longformer
    ids = torch.randint(3, VOCAB, (1, 320), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        known = theirs(ids, position_ids=torch.arange(320)[None]).last_hidden_state
        assert_close(mine.hidden(Batch(Input(ids, Seq.from_padded([320]))))[0], known, **SINGLE)


BLOCK, RANDOM = 8, 2


def their_blocks(theirs: BigBirdModel, layer: int, length: int) -> Tensor:
    """(heads, blocks − 2, random): what this layer draws in training; in evaluation all of its random blocks are the first one."""
    attention = theirs.encoder.layer[layer].attention.self
    plan = attention._get_rand_attn_plan(length, BLOCK, RANDOM)
    np.random.seed(attention.seed)
    tables = attention._bigbird_block_rand_mask_with_head(
        from_seq_length=length,
        to_seq_length=length,
        from_block_size=BLOCK,
        to_block_size=BLOCK,
        num_heads=HEADS,
        plan_from_length=plan[0],
        plan_num_rand_blocks=plan[1],
    )
    return torch.from_numpy(np.stack(tables))


@pytest.mark.parametrize("length", [80, 256, 392])
def test_bigbird_agrees_in_hidden_states_and_gradients(length: int, tmp_path: Path) -> None:
    """Row by row: in a padded batch of theirs, the last block that all see is the padding."""
    config = BigBirdConfig(**SIZES, attention_type="block_sparse", block_size=BLOCK, num_random_blocks=RANDOM)
    theirs = spread(BigBirdModel(config, add_pooling_layer=False)).double().train()  # without dropout; the draw is that of training
    window = {"kind": "window", "left": 1, "right": 1, "block": BLOCK}
    ends = {"kind": "global", "first": BLOCK, "last": BLOCK}
    tables = [[[[], *rows, []] for rows in their_blocks(theirs, layer, length).tolist()] for layer in range(LAYERS)]
    mine = ours(theirs, tmp_path, "bigbird-base", [[window, ends, {"kind": "random", "block": BLOCK, "table": table}] for table in tables])
    ids = torch.randint(3, VOCAB, (1, length), generator=torch.Generator().manual_seed(3))
    known = theirs(ids).last_hidden_state
    assert theirs.attention_type == "block_sparse"
    hidden, _ = mine.hidden(Batch(Input(ids, Seq.from_padded([length]))))
    assert mine.encoder.blocks[0].attn.mixer.sparse.pays(length) == (length >= 256)
    assert_close(hidden, known, **DOUBLE)
    probe = torch.randn(hidden.shape, dtype=torch.float64) / 100
    (known * probe).sum().backward()
    (hidden * probe).sum().backward()
    for layer in range(LAYERS):
        gradients_agree(mine, theirs, layer, DOUBLE)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_local_attention_agrees_in_output_and_gradients(causal: bool, exact: bool) -> None:
    """`exact`: so many neighbours; else the own block and the one before (and after)."""
    size, length = 32, 320
    theirs = LocalAttention(window_size=size, causal=causal, exact_windowsize=exact, use_rotary_pos_emb=False)
    right = 0 if causal else 1
    window = WindowPattern(left=size, right=size * right) if exact else WindowPattern(left=1, right=right, block=size)
    mine = AttentionConfig(heads=HEADS, causal=causal, pattern=(window,)).build(Site(width=WIDTH))
    assert isinstance(mine, Attention)
    assert mine.sparse.pays(length)
    torch.manual_seed(0)
    x = [torch.randn(2, HEADS, length, WIDTH // HEADS, dtype=torch.float64, requires_grad=True) for _ in "qkv"]
    known = theirs(*x).transpose(1, 2).flatten(2)
    y = mine.attend(*x, Seq.from_padded([length] * 2))
    assert_close(y, known, **DOUBLE)
    probe = torch.randn(y.shape, dtype=torch.float64)
    assert_close(torch.autograd.grad((y * probe).sum(), x), torch.autograd.grad((known * probe).sum(), x), **DOUBLE)


@pytest.mark.parametrize(("name", "theirs", "reserved"), [("longformer-base", LongformerModel, 2), ("bigbird-base", BigBirdModel, 0)])
def test_the_presets_have_the_parameters_of_the_published_models(name: str, theirs: Any, reserved: int) -> None:
    """Longformer keeps RoBERTa's two first rows of positions, which no token uses."""
    published = {
        "longformer-base": LongformerConfig(vocab_size=50265, max_position_embeddings=4098, type_vocab_size=1),
        "bigbird-base": BigBirdConfig(),
    }
    with torch.device("meta"):
        other = theirs(published[name])
    model = build(resolve({"base": name, "head": {"classes": 2}}), device="meta")
    count = sum(p.numel() for p in model.parameters()) - model.head.out.weight.numel() - model.head.out.bias.numel()
    assert count == sum(p.numel() for p in other.parameters()) - reserved * 768
