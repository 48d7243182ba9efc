"""The longest chain of operations, as L3 counts it."""

import torch

from attentif.lab.experiments.l03_sequential_training import chain


def test_only_operations_that_wait_for_each_other_are_in_the_chain() -> None:
    x = torch.ones(3, requires_grad=True)
    in_a_row = x
    for _ in range(10):
        in_a_row = in_a_row.sin()
    side_by_side = sum(x.sin() for _ in range(10))
    assert chain(in_a_row) == 10 + 1  # the last is x, which gathers its gradient
    assert chain(torch.stack([x.sin() for _ in range(10)])) == 2 + 1
    assert isinstance(side_by_side, torch.Tensor)
    assert chain(side_by_side) > chain(torch.stack([x.sin()]))  # adding one after the other is a chain too
