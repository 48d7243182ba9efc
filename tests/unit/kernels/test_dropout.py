import pytest
import torch

from attentif.kernels.dropout import dropout


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_right_share_is_dropped_in_every_lane_and_the_mean_is_kept(p: float) -> None:
    torch.manual_seed(0)
    y = dropout(torch.ones(100_000, 4), p)
    kept = (y != 0).double().mean(0)
    assert (kept - (1 - p)).abs().max() < 5 * (p * (1 - p) / 100_000) ** 0.5
    torch.testing.assert_close(y.max(), torch.tensor(1 / (1 - p)), rtol=1e-3, atol=0)
    assert abs(float(y.double().mean()) - 1) < 5 * (p / (1 - p) / 400_000) ** 0.5


def test_neighbours_are_dropped_independently() -> None:
    torch.manual_seed(0)
    kept = (dropout(torch.ones(400_000), 0.5) != 0).double() - 0.5
    for distance in (1, 2, 3, 4):
        assert abs(float((kept[distance:] * kept[:-distance]).mean())) < 5 * 0.25 / 400_000**0.5


@pytest.mark.parametrize("shape", [(), (3,), (2, 5), (0, 4)])
def test_the_gradient_is_dropped_where_the_output_is(shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    x = torch.full(shape, 2.0, dtype=torch.float64, requires_grad=True)
    y = dropout(x, 0.3)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad * 2, y.detach())


def test_the_same_seed_drops_the_same() -> None:
    drawn = []
    for _ in range(2):
        torch.manual_seed(7)
        drawn.append(dropout(torch.ones(33), 0.4))
    assert torch.equal(*drawn)


def test_nothing_is_dropped_out_of_training_or_without_a_probability() -> None:
    x = torch.ones(5)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0) is x
