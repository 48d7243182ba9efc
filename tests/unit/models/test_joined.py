"""A picture and a text in one sequence: the equation, ragged rows, packed rows, rows that share a picture."""

from typing import Any

import pytest
import torch

from attentif.errors import ConfigError
from attentif.models import Batch, Input, build, resolve
from attentif.models.frontends.joined import Joined, JoinedConfig
from attentif.models.frontends.patches import patches
from attentif.nn.seq import Seq

PATCHES = 6  # of 2 × 2 pixels in pictures of 4 × 6


def frontend(**values: Any) -> Joined:
    places = {"position": {"kind": "learned", "max_len": 8}, "patch_position": {"kind": "learned", "max_len": 16}}
    torch.manual_seed(0)
    return JoinedConfig(**{"vocab": 11, "size": 2, "channels": 1, "height": 4, "width": 6} | places | values).build(8, 0.0)


def given(lengths: list[int], *, packed: bool = False, pictures: int | None = None, index: torch.Tensor | None = None) -> Input:
    chance = torch.Generator().manual_seed(1)
    rows = [torch.randint(0, 11, (length,), generator=chance) for length in lengths]
    pixels = torch.randn(pictures or len(lengths), 1, 4, 6, generator=chance)
    beside = Input(pixels, Seq.from_padded([PATCHES] * len(pixels)), index=index)
    if packed:
        return Input(torch.cat(rows), Seq.from_packed(lengths), beside=beside)
    return Input(torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), Seq.from_padded(lengths), beside=beside)


def test_vectors_are_those_of_the_equation() -> None:
    module, source = frontend(), given([3])
    assert source.beside is not None
    x, seq = module(source)
    pixels = patches(source.beside.data, 2)[0]
    seen = module.picture.patch(pixels) + module.picture.position.table.weight[:PATCHES] + module.kinds.weight[0]
    read = module.text.tokens.weight[source.data[0]] + module.text.position.table.weight[:3] + module.kinds.weight[1]
    torch.testing.assert_close(x[0], torch.cat([seen, read]))
    assert seq.lengths.tolist() == [PATCHES + 3]


def test_each_row_of_a_ragged_batch_equals_the_row_alone_padded_or_packed() -> None:
    module, lengths = frontend(), [3, 1, 5]
    x, seq = module(given(lengths))
    flat, packed = module(given(lengths, packed=True))
    assert seq.lengths.tolist() == packed.lengths.tolist() == [PATCHES + length for length in lengths]
    assert not seq.valid[1, PATCHES + 1 :].any()
    torch.testing.assert_close(flat, x[seq.valid])
    whole = given(lengths)
    assert whole.beside is not None
    for row, length in enumerate(lengths):
        beside = Input(whole.beside.data[row : row + 1], Seq.from_padded([PATCHES]))
        alone, _ = module(Input(whole.data[row : row + 1, :length], Seq.from_padded([length]), beside=beside))
        torch.testing.assert_close(alone[0], x[row, : PATCHES + length])


def test_rows_may_share_a_picture() -> None:
    module, index = frontend(), torch.tensor([0, 0, 1])
    shared, twice = given([2, 4, 3], pictures=2, index=index), given([2, 4, 3], pictures=2)
    assert twice.beside is not None
    expected = Input(twice.data, twice.seq, beside=Input(twice.beside.data[index], Seq.from_padded([PATCHES] * 3)))
    torch.testing.assert_close(module(shared)[0], module(expected)[0])


def test_a_text_without_a_picture_is_read_alone() -> None:
    module, source = frontend(), given([3, 2])
    x, seq = module(Input(source.data, source.seq))
    assert x.shape == (2, 3, 8)
    assert seq.lengths.tolist() == [3, 2]


def test_the_kinds_tell_a_patch_from_a_word() -> None:
    module = frontend(position=None, patch_position=None)
    torch.nn.init.zeros_(module.picture.patch.weight)
    torch.nn.init.zeros_(module.picture.patch.bias)
    torch.nn.init.zeros_(module.text.tokens.weight)
    x, _ = module(given([2]))
    assert torch.equal(x[0, 0], module.kinds.weight[0])
    assert torch.equal(x[0, -1], module.kinds.weight[1])


def test_sizes_come_from_the_data_and_are_refused_where_they_do_not_fit() -> None:
    with pytest.raises(ConfigError, match="not known yet"):
        frontend(height=None)
    with pytest.raises(ConfigError, match=r"pictures'.*6"):
        frontend(size=4)
    config = resolve({"base": "one-encoder-tiny", "width": 16, "layers": 1})
    filled = config.with_sizes(vocab=11, classes=3, frontend={"channels": 1, "height": 16, "width": 16})
    model = build(filled).eval()
    pixels = Input(torch.randn(2, 1, 16, 16), Seq.from_padded([16, 16]))
    logits, _ = model(Batch(Input(torch.zeros(2, 4, dtype=torch.long), Seq.from_padded([4, 2]), beside=pixels)))
    assert logits.shape == (2, 3)


def test_a_shared_memory_equals_sources_that_are_repeated() -> None:
    config = resolve({"base": "vision-language-tiny", "width": 16, "layers": 1})
    model = build(config.with_sizes(vocab=11, target_vocab=11, frontend={"channels": 1, "height": 16, "width": 16})).eval()
    pixels, index = torch.randn(2, 1, 16, 16), torch.tensor([1, 0, 1])
    target = Input(torch.arange(6).reshape(3, 2), Seq.from_padded([2, 2, 2]))
    shared, _ = model(Batch(Input(pixels, Seq.from_padded([16, 16]), index=index), target))
    repeated, _ = model(Batch(Input(pixels[index], Seq.from_padded([16] * 3)), target))
    torch.testing.assert_close(shared, repeated)
