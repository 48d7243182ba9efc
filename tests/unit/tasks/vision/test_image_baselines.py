"""Simple systems for pictures: on an easy set they are right, the same each time, and leave torch's generator alone."""

import numpy as np
import pytest
import torch

from attentif.tasks.vision import image_baselines
from attentif.tasks.vision.image_baselines import convolutional, network, picture_baselines, vectors


def corners(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise with a bright square in one of four corners."""
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 90, (count, 1, 8, 8), dtype=np.uint8)
    labels = random.integers(0, 4, count)
    for row, label in enumerate(labels):
        y, x = 5 * (label // 2), 5 * (label % 2)
        pixels[row, 0, y : y + 3, x : x + 3] += 120
    return pixels, labels


def test_each_system_is_scored_on_the_test_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_baselines, "MOST_EPOCHS", 6)
    said: list[str] = []
    found = picture_baselines(*corners(160, 0), *corners(80, 1), 4, said.append)
    scores = {baseline.name.en: baseline.scores["accuracy"] for baseline in found}  # type: ignore[union-attr]
    assert scores["majority class"] < 0.5
    assert scores["logistic regression"] > 0.95
    assert scores["3 nearest neighbours"] > 0.95
    assert scores["small convolutional network"] > 0.9
    assert said[-1].startswith("baseline small convolutional network: accuracy ")


def test_the_network_answers_the_same_each_time_and_leaves_the_generator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_baselines, "MOST_EPOCHS", 1)
    (train, labels), (test, _) = corners(64, 0), corners(32, 1)
    torch.manual_seed(5)
    first = convolutional(train, labels, test)
    drawn = torch.rand(())
    torch.manual_seed(5)
    torch.testing.assert_close(torch.rand(()), drawn, rtol=0, atol=0)
    assert np.array_equal(convolutional(train, labels, test), first)


@pytest.mark.parametrize("side", [8, 28, 64])
def test_the_network_reads_pictures_of_any_size(side: int) -> None:
    assert network(3, side, 5)(torch.randn(2, 3, side, side)).shape == (2, 5)


def test_large_pictures_are_seen_by_the_means_of_squares() -> None:
    pixels = np.zeros((1, 1, 64, 64), np.uint8)
    pixels[0, 0, :2, :2] = [[255, 255], [0, 0]]
    assert vectors(pixels).shape == (1, 32 * 32)
    assert vectors(pixels)[0, 0] == pytest.approx(0.5)
