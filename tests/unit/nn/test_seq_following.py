"""The layout of a decoding step."""

import torch

from attentif.nn.seq import Seq


def same(found: Seq, expected: Seq) -> None:
    for name in ("pos", "valid", "lengths", "start"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
    for name in ("max_len", "end", "dense", "offset", "cu", "marks"):
        assert getattr(found, name) == getattr(expected, name), name


def test_steps_follow_a_ragged_prompt_each_row_at_its_own_place() -> None:
    seq = Seq.from_padded([3, 1, 5])
    for step in range(4):
        seq = seq.next_step()
        same(seq, Seq.from_padded([1, 1, 1], 1, torch.tensor([3, 1, 5]) + step))


def test_steps_follow_rows_of_equal_length_at_a_common_place() -> None:
    seq = Seq.from_padded([4, 4])
    for step in range(4):
        seq = seq.next_step()
        assert seq.offset == 4 + step
        same(seq, Seq.from_padded([1, 1], 1, torch.tensor([4, 4]) + step))


def test_a_piece_read_later_is_followed_from_its_own_beginning() -> None:
    same(Seq.from_padded([2, 3], 3, torch.tensor([5, 1])).next_step(), Seq.from_padded([1, 1], 1, torch.tensor([7, 4])))


def test_a_prompt_of_one_token_is_followed_too() -> None:
    same(Seq.from_padded([1, 1]).next_step(), Seq.from_padded([1, 1], 1, 1))
