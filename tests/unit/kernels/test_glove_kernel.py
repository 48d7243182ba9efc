"""GloVe: the table of co-occurrence by its definition, the update by the gradient of the equation."""

import numpy as np
import pytest
import torch

from attentif.kernels.glove import Cooccurrence, Entries, GloveParameters, begin, cooccurrence_naive, glove_pass, weights


@pytest.mark.parametrize(("window", "slots"), [(1, 1 << 10), (4, 1 << 4), (9, 1 << 6)])
def test_co_occurrences_are_those_of_the_definition_however_small_the_table_begins(window: int, slots: int) -> None:
    rng = np.random.default_rng(0)
    pieces = [rng.integers(-1, 12, length).astype(np.int32) for length in (200, 1, 0, 77)]  # -1 ends a sentence
    table = Cooccurrence(12, window, slots)
    for piece in pieces:
        table.count(piece)
    entries = table.entries()
    found = {(int(i), int(j)): x for i, j, x in zip(*entries, strict=True)}
    expected = cooccurrence_naive([piece.tolist() for piece in pieces], window)
    assert len(found) == len(entries.counts)  # no pair twice
    assert found.keys() == expected.keys()
    assert all(found[pair] == pytest.approx(expected[pair]) for pair in expected)


def cost(parameters: list[torch.Tensor], entries: Entries, x_max: float, alpha: float) -> torch.Tensor:
    """J, as the paper writes it."""
    w, c = parameters
    i, j, x = (torch.from_numpy(np.asarray(part)) for part in entries)
    f = (x / x_max).clamp(max=1) ** alpha
    product = (w[i.long(), :-1] * c[j.long(), :-1]).sum(1) + w[i.long(), -1] + c[j.long(), -1]
    return 0.5 * (f * (product - x.log()) ** 2).sum()


def test_an_update_is_the_gradient_of_the_equation() -> None:
    """AdaGrad's sums begin at 1, so that the first step of an entry is η times the gradient, and the sums then hold its square."""
    rng, lr = np.random.default_rng(1), 0.05
    entries = Entries(np.array([2], np.int32), np.array([3], np.int32), np.array([7.5]))
    start = GloveParameters(
        *(rng.normal(size=(5, 9)).astype(np.float32) for _ in range(2)), *(np.ones((5, 9), np.float32) for _ in range(2))
    )
    wanted = [
        torch.tensor(start.words, dtype=torch.float64).requires_grad_(),
        torch.tensor(start.contexts, dtype=torch.float64).requires_grad_(),
    ]
    loss = cost(wanted, entries, 10.0, 0.75)
    loss.backward()
    moved = GloveParameters(*(array.copy() for array in start))
    met = glove_pass(entries, weights(entries.counts, 10.0, 0.75), np.array([0]), moved, lr)
    assert met == pytest.approx(loss.item(), rel=1e-5)
    for before, after, squares, own in zip(start[:2], moved[:2], moved[2:], wanted, strict=True):
        assert np.allclose((before - after) / lr, own.grad, atol=2e-5)  # float32: 24 bits of numbers near 1, divided by 0.05
        assert np.allclose(squares, 1 + own.grad.numpy() ** 2, rtol=1e-5)


def test_passes_bring_the_cost_down_and_are_the_same_each_time() -> None:
    rng = np.random.default_rng(0)
    entries = Entries(*(rng.integers(0, 30, 200).astype(np.int32) for _ in range(2)), rng.random(200) * 20 + 0.1)
    f = weights(entries.counts, 10.0, 0.75)

    def passes() -> tuple[list[float], np.ndarray]:
        parameters, order = begin(30, 8, seed=3), np.random.default_rng(4)
        return [glove_pass(entries, f, order.permutation(200), parameters, 0.1) for _ in range(20)], parameters.words

    costs, words = passes()
    assert costs[-1] < 0.3 * costs[0]
    again, same = passes()
    assert costs == again
    assert np.array_equal(words, same)
