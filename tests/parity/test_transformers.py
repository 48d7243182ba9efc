"""Tiny random models of transformers, saved to disk and read back, against ours: logits and hidden states, alone, ragged, step by step.

float32 on both sides: two programs that add the same numbers in another order differ by some 1e-6 after two blocks, so 1e-5.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.utils import logging

from attentif.hub import read_folder
from attentif.models import Batch, Input, Model, ModelConfig, build, resolve
from attentif.nn.seq import Seq

pytestmark = pytest.mark.parity
logging.disable_progress_bar()

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
VOCAB, WIDTH, HEADS, LAYERS = 97, 32, 4, 2
LENGTHS = [5, 17, 1, 11]
TOKEN_IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def written(model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    """The model, its parameters spread out (an initial one is nearly linear, and its biases are zero), saved."""
    for parameter in model.parameters():
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, std=0.3)
        else:
            parameter.data *= 8
    model.eval().save_pretrained(folder)
    return model


def ours(config: ModelConfig, folder: Path) -> Model:
    """A model of this configuration with the weights of a saved one."""
    model = build(config).eval()
    model.load_state_dict(read_folder(folder).model.state_dict())
    return model


def tokens() -> tuple[Tensor, Tensor]:
    """Ids with 0 on the padding, and transformers' mask."""
    torch.manual_seed(3)
    mask = Seq.from_padded(LENGTHS).valid
    return torch.randint(3, VOCAB, mask.shape) * mask, mask.long()


def read(model: Model, ids: Tensor, lengths: list[int], **more: Any) -> Batch:
    return Batch(Input(ids, Seq.from_padded(lengths), **more))


@pytest.fixture
def gpt2(tmp_path: Path) -> tuple[PreTrainedModel, Model]:
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=VOCAB, n_positions=40, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, **TOKEN_IDS)
    theirs = written(GPT2LMHeadModel(config), tmp_path)
    mine = resolve(
        {
            "base": "gpt2",
            "width": WIDTH,
            "layers": LAYERS,
            "frontend": {"vocab": VOCAB, "position": {"max_len": 40}},
            "decoder": {"block": {"attn": {"mixer": {"heads": HEADS}}, "ffn": {"mixer": {"hidden": 4 * WIDTH}}}},
        }
    )
    return theirs, ours(mine, tmp_path)


@pytest.fixture
def llama(tmp_path: Path) -> tuple[PreTrainedModel, Model]:
    torch.manual_seed(0)
    sizes = {"vocab_size": VOCAB, "hidden_size": WIDTH, "intermediate_size": 48, "num_hidden_layers": LAYERS, "rms_norm_eps": 1e-6}
    config = LlamaConfig(num_attention_heads=HEADS, num_key_value_heads=2, max_position_embeddings=64, **sizes, **TOKEN_IDS)
    theirs = written(LlamaForCausalLM(config), tmp_path)
    mine = resolve(
        {
            "base": "decoder-tiny",
            "width": WIDTH,
            "layers": LAYERS,
            "frontend": {"vocab": VOCAB},
            "decoder": {
                "norm": {"eps": 1e-6},
                "block": {"attn": {"mixer": {"heads": HEADS, "kv_heads": 2}}, "ffn": {"mixer": {"hidden": 48}}},
            },
            "head": {"tied": False},
        }
    )
    return theirs, ours(mine, tmp_path)


decoders = pytest.mark.parametrize("family", ["gpt2", "llama"])


@decoders
def test_decoder_logits_agree_alone_and_in_a_ragged_batch(family: str, request: pytest.FixtureRequest) -> None:
    theirs, mine = request.getfixturevalue(family)
    ids, mask = tokens()
    with torch.no_grad():
        batch = theirs(ids, attention_mask=mask).logits
        logits, seq = mine(read(mine, ids, LENGTHS))
        assert_close(logits[seq.valid], batch[seq.valid], **CLOSE)
        packed = mine(Batch(Input(ids[seq.valid], Seq.from_packed(LENGTHS))))[0]
        assert_close(packed, batch[seq.valid], **CLOSE)
        for row, length in enumerate(LENGTHS):
            alone = ids[row : row + 1, :length]
            assert_close(mine(read(mine, alone, [length]))[0], theirs(alone).logits, **CLOSE)


@decoders
def test_decoder_hidden_states_agree_after_the_last_norm(family: str, request: pytest.FixtureRequest) -> None:
    theirs, mine = request.getfixturevalue(family)
    ids = tokens()[0][1:2]
    with torch.no_grad():
        hidden = theirs(ids, output_hidden_states=True).hidden_states[-1]
        assert_close(mine.hidden(read(mine, ids, [ids.shape[1]]))[0], hidden, **CLOSE)


@decoders
def test_decoder_logits_agree_step_by_step_with_the_cache(family: str, request: pytest.FixtureRequest) -> None:
    theirs, mine = request.getfixturevalue(family)
    ids = tokens()[0][1:2]
    with torch.no_grad():
        known = theirs(ids[:, :4], use_cache=True)
        state = mine.init_state(1, ids.shape[1])
        assert_close(mine(read(mine, ids[:, :4], [4]), state)[0], known.logits, **CLOSE)
        for place in range(4, ids.shape[1]):
            one = ids[:, place : place + 1]
            known = theirs(one, past_key_values=known.past_key_values, use_cache=True)
            mine_one = mine(Batch(Input(one, Seq.from_padded([1], start=place))), state)[0]
            assert_close(mine_one, known.logits, **CLOSE)


def test_gpt2_gradients_agree(gpt2: tuple[PreTrainedModel, Model]) -> None:
    theirs, mine = gpt2
    ids, mask = tokens()
    valid = mask.bool()
    theirs(ids, attention_mask=mask).logits[valid].log_softmax(-1)[:, 5].mean().backward()
    mine(read(mine, ids, LENGTHS))[0][valid].log_softmax(-1)[:, 5].mean().backward()
    assert_close(mine.frontend.tokens.weight.grad, theirs.transformer.wte.weight.grad, **CLOSE)
    assert_close(mine.decoder.blocks[0].ffn.mixer.up.weight.grad, theirs.transformer.h[0].mlp.c_fc.weight.grad.T, **CLOSE)


def test_bert_agrees_in_hidden_states_and_class_scores(tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": 64}
    config = BertConfig(vocab_size=VOCAB, max_position_embeddings=40, num_labels=3, pad_token_id=0, **sizes)
    theirs = written(BertForSequenceClassification(config), tmp_path)
    norm = {"kind": "layer", "eps": 1e-12}
    attention = {"kind": "attention", "heads": HEADS}
    mine = ours(
        ModelConfig.model_validate(
            {
                "width": WIDTH,
                "layers": LAYERS,
                "frontend": {
                    "kind": "tokens",
                    "vocab": VOCAB,
                    "segments": 2,
                    "position": {"kind": "learned", "max_len": 40},
                    "norm": norm,
                },
                "encoder": {
                    "placement": "post",
                    "norm": norm,
                    "block": {"attn": {"mixer": attention}, "ffn": {"mixer": {"kind": "feed-forward", "hidden": 64}}},
                },
                "head": {"kind": "classify", "classes": 3, "pool": "first", "hidden": True},
            }
        ),
        tmp_path,
    )
    ids, mask = tokens()
    segments = (torch.arange(ids.shape[1]) > 3).long().expand_as(ids)
    with torch.no_grad():
        known = theirs(ids, attention_mask=mask, token_type_ids=segments, output_hidden_states=True)
        batch = read(mine, ids, LENGTHS, segments=segments)
        hidden, seq = mine.hidden(batch)
        assert_close(hidden[seq.valid], known.hidden_states[-1][seq.valid], **CLOSE)
        assert_close(mine(batch)[0], known.logits, **CLOSE)
        packed = Batch(Input(ids[seq.valid], Seq.from_packed(LENGTHS), segments[seq.valid]))
        assert_close(mine(packed)[0], known.logits, **CLOSE)
        for row, length in enumerate(LENGTHS):  # alone, and without segments: all of the first
            alone = ids[row : row + 1, :length]
            assert_close(mine(read(mine, alone, [length]))[0], theirs(alone).logits, **CLOSE)


def test_t5_agrees_in_the_decoders_hidden_states(tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = {"d_model": WIDTH, "d_kv": 8, "d_ff": 64, "num_layers": LAYERS, "num_heads": HEADS}
    config = T5Config(vocab_size=VOCAB, relative_attention_num_buckets=8, relative_attention_max_distance=12, **sizes)
    theirs = T5ForConditionalGeneration(config).eval()
    theirs.save_pretrained(tmp_path)
    frontend = {"kind": "tokens", "vocab": VOCAB}
    bias = {"kind": "relative", "heads": HEADS, "buckets": 8, "max_distance": 12}
    plain = {"heads": HEADS, "scale": 1.0, "bias": False, "out_bias": False}
    attention, cross = {"kind": "attention", **plain}, {"kind": "cross-attention", **plain}
    ffn = {"mixer": {"kind": "feed-forward", "hidden": 64, "activation": "relu", "bias": False}}
    norm = {"kind": "rms", "eps": 1e-6}
    decoder_block = {"attn": {"mixer": attention | {"causal": True}}, "cross": {"mixer": cross}, "ffn": ffn}
    mine = ours(
        ModelConfig.model_validate(
            {
                "width": WIDTH,
                "layers": LAYERS,
                "shared": True,
                "frontend": frontend,
                "target": frontend,
                "encoder": {"norm": norm, "bias": bias, "block": {"attn": {"mixer": attention}, "ffn": ffn}},
                "decoder": {"norm": norm, "bias": bias | {"bidirectional": False}, "block": decoder_block},
                "head": {"kind": "language"},
            }
        ),
        tmp_path,
    )
    source, mask = tokens()
    target = tokens()[0].flip(0)
    lengths = LENGTHS[::-1]
    with torch.no_grad():
        known = theirs(input_ids=source, attention_mask=mask, decoder_input_ids=target, output_hidden_states=True)
        batch = Batch(Input(source, Seq.from_padded(LENGTHS)), Input(target, Seq.from_padded(lengths)))
        memory, memory_seq, _ = mine.encode(batch.source)
        assert_close(memory[memory_seq.valid], known.encoder_last_hidden_state[memory_seq.valid], **CLOSE)
        hidden, seq = mine.hidden(batch)
        assert_close(hidden[seq.valid], known.decoder_hidden_states[-1][seq.valid], **CLOSE)
        logits = mine.head(hidden * WIDTH**-0.5, seq)  # T5 shrinks what it multiplies with the shared table
        assert_close(logits[seq.valid], known.logits[seq.valid], **CLOSE)
