"""Who is next to whom, padded and packed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from attentif.nn.seq import Seq, pack, unpack

lengths_lists = st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(any)


def test_a_padded_batch_counts_places_within_each_row() -> None:
    seq = Seq.from_padded([3, 1], 4)
    assert seq.pos.tolist() == [[0, 1, 2, 3]] * 2
    assert seq.valid.tolist() == [[True, True, True, False], [True, False, False, False]]
    assert (seq.batch, seq.tokens, seq.max_len, seq.end, seq.dense, seq.is_packed) == (2, 4, 3, 3, False, False)
    assert seq.start is None
    assert seq.offset == 0


def test_a_full_batch_knows_that_it_holds_no_padding() -> None:
    assert Seq.from_padded([3, 3]).dense
    assert not Seq.from_padded([3, 3], 4).dense
    assert Seq.from_padded([3, 3]).tokens == 6


@pytest.mark.parametrize(
    ("start", "offset", "end"),
    [(0, 0, 3), (5, 5, 8), (torch.tensor([5, 5]), 5, 8), (torch.tensor([2, 6]), None, 7), (torch.tensor([0, 0]), 0, 3)],
)
def test_places_go_on_from_where_each_row_stopped(start: int | torch.Tensor, offset: int | None, end: int) -> None:
    seq = Seq.from_padded([3, 1], start=start)
    before = torch.as_tensor(start).expand(2)
    assert torch.equal(seq.pos, torch.arange(3) + before[:, None])
    assert (seq.offset, seq.end) == (offset, end)
    assert seq.shared_pos.shape == ((2, 3) if offset is None else (1, 3))
    assert seq.lengths.tolist() == [3, 1]  # of this call, what came before not counted


def test_a_packed_batch_counts_places_within_each_sequence() -> None:
    seq = Seq.from_packed([3, 1, 2])
    assert seq.pos.tolist() == [0, 1, 2, 0, 0, 1]
    assert seq.row.tolist() == [0, 0, 0, 1, 2, 2]
    assert seq.cu is not None
    assert seq.cu.tolist() == [0, 3, 4, 6]
    assert (seq.batch, seq.tokens, seq.max_len, seq.end, seq.dense) == (3, 6, 3, 3, True)
    assert torch.equal(seq.padded_mask(), Seq.from_padded([3, 1, 2]).valid)


@given(lengths_lists)
def test_packing_and_unpacking_are_inverse(lengths: list[int]) -> None:
    padded = Seq.from_padded(lengths)
    x = torch.rand(*padded.pos.shape, 2) * padded.valid[..., None]
    packed, seq = pack(x, padded)
    assert packed.shape == (sum(lengths), 2)
    assert torch.equal(seq.lengths, padded.lengths)
    assert torch.equal(unpack(packed, seq), x)
    assert torch.equal(unpack(packed, seq, padded.max_len + 2)[:, : padded.max_len], x)


@given(lengths_lists)
def test_first_and_last_point_at_each_sequences_ends(lengths: list[int]) -> None:
    lengths = [length for length in lengths if length]
    marker = [torch.arange(length) + 100 * row for row, length in enumerate(lengths)]
    packed, seq = torch.cat(marker), Seq.from_packed(lengths)
    padded = torch.nn.utils.rnn.pad_sequence(marker, batch_first=True).flatten()
    for values, layout in ((packed, seq), (padded, Seq.from_padded(lengths))):
        assert values[layout.first()].tolist() == [100 * row for row in range(len(lengths))]
        assert values[layout.last()].tolist() == [100 * row + length - 1 for row, length in enumerate(lengths)]


def test_marks_travel_with_their_tokens() -> None:
    marks = torch.tensor([[True, False, True], [False, True, False]])
    _, seq = pack(torch.rand(2, 3, 1), Seq.from_padded([3, 2], marks=marks))
    assert seq.marks is not None
    assert seq.marks.tolist() == [True, False, True, False, True]
    assert unpack(seq.marks, seq).tolist() == marks.tolist()
    moved = seq.to("cpu")
    assert moved.marks is not None


def test_gradients_go_through_packing_and_unpacking() -> None:
    x = torch.rand(2, 3, 4, dtype=torch.float64, requires_grad=True)
    padded = Seq.from_padded([3, 2])
    packed, seq = pack(x, padded)
    (gradient,) = torch.autograd.grad(unpack(packed, seq).square().sum(), x)
    assert_close(gradient, 2 * x.detach() * padded.valid[..., None])


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match=r"5 tokens.*4"):
        Seq.from_padded([5], 4)
    with pytest.raises(ValueError, match="only a packed"):
        unpack(torch.rand(3, 1), Seq.from_padded([3]))
    with pytest.raises(ValueError, match="without earlier tokens"):
        pack(torch.rand(1, 3, 1), Seq.from_padded([3], start=2))
    with pytest.raises(AttributeError):
        Seq.from_padded([3]).offset = 3  # type: ignore[misc]


def test_mirrored_reads_each_sequence_from_its_end_and_twice_gives_it_back() -> None:
    seq = Seq.from_padded([3, 0, 2], 4)
    x = torch.arange(12).view(3, 4, 1)
    assert seq.reverse(x)[..., 0].tolist() == [[2, 1, 0, 3], [4, 5, 6, 7], [9, 8, 10, 11]]
    assert torch.equal(seq.reverse(seq.reverse(x)), x)
    packed = Seq.from_packed([3, 0, 2])
    assert packed.reverse(torch.arange(5)[:, None])[:, 0].tolist() == [2, 1, 0, 4, 3]
