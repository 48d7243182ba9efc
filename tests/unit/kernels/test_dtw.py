import numpy as np

from attentif.kernels.dtw import dtw_naive, nearest_by_dtw


def sequences(count: int, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.normal(size=(random.integers(1, 9), 3)).astype(np.float32) for _ in range(count)]


def test_a_stretched_sequence_is_no_further_than_itself() -> None:
    a = sequences(1, 0)[0]
    assert dtw_naive(a, np.repeat(a, 3, axis=0)) == 0
    assert dtw_naive(np.array([[0.0], [1.0]]), np.array([[0.0], [3.0]])) == 2 / 4


def test_the_nearest_is_the_one_of_the_definition() -> None:
    known, asked = sequences(40, 1), sequences(30, 2)
    expected = [int(np.argmin([dtw_naive(own, other) for other in known])) for own in asked]
    assert nearest_by_dtw(known, asked).tolist() == expected
