"""Packed sequences around a kernel that wants rectangles."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attentif.nn.ragged import STEP, group_by_length
from attentif.nn.seq import Seq


@given(st.lists(st.integers(0, 3 * STEP), min_size=1, max_size=12).filter(any))
def test_every_token_is_padded_once_and_comes_back_to_its_place(lengths: list[int]) -> None:
    seq = Seq.from_packed(lengths)
    x = torch.arange(sum(lengths))[:, None] * 1.0
    groups = group_by_length(seq)
    parts = []
    for group in groups:
        rectangle = group.pad(x)
        assert rectangle.shape[:2] == group.seq.valid.shape
        assert group.seq.max_len - int(group.seq.lengths.min()) < STEP  # similar lengths only
        parts.append(group.pack(rectangle))
    assert torch.equal(groups.join(parts), x)


def test_marks_follow_their_tokens_into_the_groups() -> None:
    lengths = [3, 20, 5]
    marks = torch.rand(28) < 0.5
    for group in group_by_length(Seq.from_packed(lengths, marks=marks)):
        assert group.seq.marks is not None
        assert torch.equal(group.seq.marks, marks[group.index])


def test_the_same_batch_is_grouped_once_and_forgotten_with_it() -> None:
    seq = Seq.from_packed([3, 20])
    assert group_by_length(seq) is group_by_length(seq)
    assert group_by_length(Seq.from_packed([3, 20])) is not group_by_length(seq)


def test_only_packed_sequences_are_grouped() -> None:
    with pytest.raises(ValueError, match="packed"):
        group_by_length(Seq.from_padded([3]))
