"""exp inside compiled loops."""

import numpy as np
import pytest

from attentif.kernels.exp import exp
from attentif.kernels.jit import jit


def _each(x: np.ndarray, y: np.ndarray) -> None:
    for i in range(len(x)):
        y[i] = exp(x[i])


each = jit(fastmath={"contract"})(_each)


def exponential(x: np.ndarray) -> np.ndarray:
    y = np.empty_like(x)
    each(x, y)
    return y


def test_float32_is_within_two_roundings_over_its_whole_range() -> None:
    x = np.linspace(-87, 88, 100_001, dtype=np.float32)
    exact = np.exp(x.astype(np.float64))
    assert np.abs(exponential(x) / exact - 1).max() < 1.2e-7  # a rounding of float32 is 6e-8


def test_float64_is_that_of_the_library() -> None:
    x = np.linspace(-700, 700, 10_001)
    np.testing.assert_allclose(exponential(x), np.exp(x), rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zero_gives_one_to_the_bit(dtype: type) -> None:
    assert exponential(np.zeros(9, dtype)).tolist() == [1] * 9


def test_beyond_its_range_it_is_tiny_or_infinite_and_nan_stays() -> None:
    y = exponential(np.array([-1e30, -np.inf, 100, np.inf, np.nan], np.float32))
    assert 0 <= y[0] == y[1] < 1.3e-38
    assert np.isposinf(y[2:4]).all()
    assert np.isnan(y[4])
