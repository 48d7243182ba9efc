"""Frontend, stacks and head together: what each does, and what cannot be built."""

import tomllib
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch.testing import assert_close

from attentif.config import Document, Layer
from attentif.errors import AttentifError, ConfigError
from attentif.models import Batch, Input, Model, ModelConfig, build, preset_layer, resolve
from attentif.models.heads import pool_sequence
from attentif.nn.seq import Seq, pack

VOCAB = 13


def tiny(base: str, **values: Any) -> ModelConfig:
    return resolve({"base": base, "width": 16, **values}).with_sizes(vocab=VOCAB, classes=3)


def ids(*lengths: int) -> Input:
    torch.manual_seed(0)
    return Input(torch.randint(VOCAB, (len(lengths), max(lengths))), Seq.from_padded(lengths))


def test_sizes_that_the_data_decide_are_filled_in_once() -> None:
    config = resolve({"base": "transformer-tiny", "shared": False}).with_sizes(vocab=5, target_vocab=7)
    assert (getattr(config.frontend, "vocab", 0), getattr(config.target, "vocab", 0)) == (5, 7)
    again = config.with_sizes(vocab=99, target_vocab=99, classes=4)
    assert again == config
    assert resolve({"base": "transformer-tiny"}).with_sizes(vocab=5).target == config.frontend


def test_another_head_can_be_put_on() -> None:
    config = tiny("encoder-tiny")
    language = resolve({"base": "decoder-tiny"}).head
    model = build(config.with_head(language))
    assert model(Batch(ids(4)))[0].shape == (1, 4, VOCAB)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"encoder": None}, "an encoder, a decoder, or both"),
        ({"target": {"kind": "tokens"}}, "`target` .* only with both"),
        ({"shared": True}, "`shared` needs a source and a target"),
        ({"dropout": 1.0}, "dropout: must be less than 1"),
    ],
)
def test_contradictions_are_refused_before_anything_is_built(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve({key: value for key, value in (_plain("encoder-tiny") | values).items() if value is not None})


def _plain(base: str) -> dict[str, Any]:
    """A preset's values without its name."""
    return {key: value for key, value in preset_layer(base).values.items() if key != "base"}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (lambda: resolve({"base": "encoder-tiny"}), r"^frontend.vocab: the size of the vocabulary is not known yet"),
        (lambda: resolve({"base": "encoder-tiny"}).with_sizes(vocab=5), r"^head.classes: the number of classes is not known yet"),
        (lambda: resolve({"base": "transformer-tiny", "target": {"vocab": 6}}).with_sizes(vocab=5), "vocabularies of different sizes"),
    ],
)
def test_what_cannot_be_built_says_where(config: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(config(), device="meta")


def test_what_a_mixer_refuses_is_refused_before_anything_is_built_with_its_line() -> None:
    text = '[encoder.block.attn]\nmixer = { kind = "attention", heads = 3 }\n'
    layers = [preset_layer("encoder-tiny"), Layer(tomllib.loads(text), "my.toml", text)]
    with pytest.raises(ConfigError, match=r"^my.toml:2: encoder.block.attn.mixer:.*= 128.*= 3"):
        Document(layers).build(ModelConfig)
    blocks = [{"sublayers": {"attn": {"mixer": {"kind": "attention", "heads": heads}}}} for heads in (4, 5)]
    with pytest.raises(ConfigError, match=r"encoder.blocks.1.sublayers.attn.mixer:.*= 16.*= 5"):
        resolve({**_plain("encoder-tiny"), "width": 16, "encoder": {"blocks": blocks}})
    with pytest.raises(ValidationError, match=r"encoder.block.attn.mixer: width = 18"):
        tiny("encoder-tiny").replace(width=18)


def test_cross_attention_in_an_encoder_is_refused() -> None:
    cross = {"cross": {"mixer": {"kind": "cross-attention", "heads": 4}}}
    with pytest.raises(ConfigError, match=r"encoder.block.cross.mixer: cross-attention needs a memory"):
        resolve({"base": "encoder-tiny", "encoder": {"block": cross}})


def test_a_decoder_that_never_reads_its_encoder_is_refused() -> None:
    values = tiny("transformer-tiny").model_dump(exclude_none=True)
    del values["decoder"]["block"]["cross"]
    with pytest.raises(ConfigError, match=r"sublayer.*encoder's"):
        resolve(values | {"base": None})


def test_calls_that_make_no_sense_are_refused() -> None:
    encoder, decoder, both = (build(tiny(name)) for name in ("encoder-tiny", "decoder-tiny", "transformer-tiny"))
    with pytest.raises(ValueError, match="no encoder"):
        decoder.encode(ids(3))
    with pytest.raises(ValueError, match="no decoder"):
        encoder.decode(ids(3))
    with pytest.raises(ConfigError, match="no decoder"):
        encoder.init_state(1, 5)
    with pytest.raises(ValueError, match="needs a target"):
        both(Batch(ids(3)))
    with pytest.raises(ValueError, match="made from that memory"):
        both.init_state(1, 5)
    with pytest.raises(ValueError, match="takes no state"):
        encoder(Batch(ids(3)), decoder.init_state(1, 5))


def test_caps_of_a_model_are_those_of_its_weakest_part() -> None:
    assert build(tiny("encoder-tiny")).caps.streaming == "none"
    learned = build(tiny("gpt2", layers=1, decoder={"block": {"attn": {"mixer": {"heads": 2}}}}, frontend={"vocab": VOCAB}))
    assert (learned.caps.streaming, learned.caps.causal, learned.caps.max_len) == ("exact", True, 1024)
    assert (learned.config.max_len, learned.config.max_target_len) == (1024, None)


def gpt2(places: int) -> Model:
    frontend = {"vocab": VOCAB, "position": {"max_len": places}}
    return build(tiny("gpt2", layers=1, frontend=frontend, decoder={"block": {"attn": {"mixer": {"heads": 2}}}})).eval()


def test_learned_places_end_where_they_end_and_padding_needs_none() -> None:
    model = gpt2(5)
    wide = Input(torch.zeros(2, 9, dtype=torch.long), Seq.from_padded([5, 2], 9))
    assert_close(model(Batch(wide))[0][:, :2], model(Batch(Input(wide.data[:, :2], Seq.from_padded([2, 2]))))[0])
    with pytest.raises(AttentifError, match=r"sequence.*6.*5"):
        model(Batch(ids(6)))
    state = model.init_state(2, 9)
    with torch.no_grad():
        model(Batch(Input(wide.data[:, :4], Seq.from_padded([4, 2]))), state)
        rest = Seq.from_padded([1, 3], start=torch.tensor([4, 2]))  # the padding of the first row would be at places 5 and 6
        model(Batch(Input(wide.data[:, :3], rest)), state)


def test_tied_and_shared_embeddings_are_one_tensor() -> None:
    both = build(tiny("transformer-tiny"))
    tables = [name for name, tensor in both.named_parameters() if tensor.shape[0] == VOCAB]
    assert tables == ["frontend.tokens.weight"]
    assert both.sizes()["embedding"] == VOCAB * 16
    assert both.head.weight is both.frontend.tokens.weight
    assert both.target.tokens is both.frontend.tokens
    untied = build(tiny("transformer-tiny", shared=False, head={"tied": False}))
    assert [name for name, tensor in untied.named_parameters() if tensor.shape[0] == VOCAB] == [
        "frontend.tokens.weight",
        "target.tokens.weight",
        "head.linear.weight",
    ]


def test_without_sharing_the_head_is_tied_to_the_targets_embedding() -> None:
    model = build(tiny("transformer-tiny", shared=False))
    assert model.head.weight is model.target.tokens.weight


def test_embeddings_are_scaled_placed_segmented_and_normalised_in_this_order() -> None:
    frontend = {"scale": True, "position": {"kind": "learned", "max_len": 8}, "segments": 2, "norm": {"kind": "layer"}}
    model = build(tiny("encoder-tiny", frontend=frontend)).eval()
    source = ids(6, 4)
    segments = torch.tensor([[0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1]])
    x, seq = model.frontend(Input(source.data, source.seq, segments))
    parts = model.frontend
    summed = parts.tokens.weight[source.data] * 4 + parts.position.table.weight[torch.arange(6)] + parts.segments.weight[segments]
    assert_close(x[seq.valid], parts.norm(summed)[seq.valid])
    first, _ = model.frontend(source)
    summed = parts.tokens.weight[source.data] * 4 + parts.position.table.weight[torch.arange(6)] + parts.segments.weight[0]
    assert_close(first[seq.valid], parts.norm(summed)[seq.valid])


@pytest.mark.parametrize("how", ["first", "last", "mean", "max"])
def test_pooling_never_counts_padding(how: Any) -> None:
    torch.manual_seed(0)
    lengths = [5, 1, 3]
    x, seq = torch.randn(3, 5, 4), Seq.from_padded(lengths)
    x[~seq.valid] = 1e6
    rule = {"first": lambda v: v[0], "last": lambda v: v[-1], "mean": lambda v: v.mean(0), "max": lambda v: v.amax(0)}[how]
    expected = torch.stack([rule(x[row, :length]) for row, length in enumerate(lengths)])
    assert_close(pool_sequence(x, seq, how), expected)
    assert_close(pool_sequence(*pack(x, seq), how), expected)


def test_the_head_of_a_classifier_can_have_a_hidden_layer() -> None:
    model = build(tiny("encoder-tiny", head={"hidden": True, "pool": "first"})).eval()
    x, seq = model.hidden(Batch(ids(4)))
    assert_close(model.head(x, seq), model.head.out(torch.tanh(model.head.hidden(x[:, 0]))))


def test_a_batch_moves_whole() -> None:
    batch = Batch(ids(3), ids(2), labels=torch.tensor([1]), rows=(4,))
    moved = batch.to("cpu")
    assert torch.equal(moved.source.data, batch.source.data)
    assert moved.target is not None
    assert moved.labels is not None
    assert moved.rows == (4,)


def test_the_type_of_the_weights_can_be_chosen() -> None:
    model = build(tiny("decoder-tiny"), dtype=torch.float64)
    assert all(parameter.dtype == torch.float64 for parameter in model.parameters())
    assert model(Batch(ids(3)))[0].dtype == torch.float64
    assert model.init_state(1, 4)["blocks.0.attn"].k.dtype == torch.float64


def test_dropout_acts_in_training_only() -> None:
    model = build(tiny("encoder-tiny", dropout=0.5))
    batch = Batch(ids(5, 5))
    assert not torch.equal(model(batch)[0], model(batch)[0])
    model.eval()
    assert torch.equal(model(batch)[0], model(batch)[0])


def test_the_longest_source_is_the_shortest_limit_of_positions_and_mixers() -> None:
    config = resolve({"base": "linformer-tiny"})
    limit = config.encoder.block["attn"].mixer.max_len
    assert config.max_len == limit
    without = config.replace(frontend=config.frontend.replace(position=None))
    assert without.max_len == limit
    assert resolve({"base": "lstm-tiny"}).max_len is None
