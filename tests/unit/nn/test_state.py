"""What mixers remember between calls, as a tree that the caller owns."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attentif.nn.state import NoState, State, StateTree


@dataclass(slots=True)
class Counter(State):
    seen: Tensor
    memory: Tensor | None = None
    steps: int = 0


def tree() -> StateTree:
    inner = StateTree({"left": Counter(torch.arange(3.0), None, 2), "right": NoState()})
    return StateTree({"blocks.0.attn": Counter(torch.arange(6.0).view(3, 2), torch.ones(3, 1)), "blocks.1.both": inner})


def test_rows_are_kept_repeated_and_dropped_in_the_whole_tree() -> None:
    chosen = tree().select(torch.tensor([2, 0, 2, 2]))
    assert isinstance(chosen, StateTree)
    assert chosen["blocks.0.attn"].seen.tolist() == [[4, 5], [0, 1], [4, 5], [4, 5]]
    left = chosen["blocks.1.both"]["left"]
    assert left.seen.tolist() == [2, 0, 2, 2]
    assert left.memory is None
    assert left.steps == 2


def test_a_snapshot_is_not_touched_by_later_writing() -> None:
    state = tree()
    kept = state.snapshot()
    state["blocks.0.attn"].seen.add_(1)
    state["blocks.1.both"]["left"].seen.add_(1)
    assert kept["blocks.0.attn"].seen.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert kept["blocks.1.both"]["left"].seen.tolist() == [0, 1, 2]


def test_detaching_forgets_the_history_and_keeps_the_values() -> None:
    leaf = torch.ones(2, requires_grad=True)
    state = StateTree({"a": Counter(leaf * 2)})
    assert state["a"].seen.requires_grad
    assert not state.detach()["a"].seen.requires_grad
    assert state.detach()["a"].seen.tolist() == [2, 2]


def test_bytes_are_those_of_all_tensors() -> None:
    assert tree().bytes() == 4 * (6 + 3 + 3)
    assert NoState().bytes() == 0


def test_below_gives_the_states_of_one_block() -> None:
    assert set(tree().subtree("blocks.0.")) == {"attn"}
    both = StateTree({"blocks.1.a": NoState(), "blocks.10.a": NoState()})
    assert set(both.subtree("blocks.1.")) == {"a"}
