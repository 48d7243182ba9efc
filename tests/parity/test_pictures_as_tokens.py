"""Pictures as tokens: patches as torch cuts them, codes and nearest pictures as scikit-learn finds them."""

import numpy as np
import pytest
import torch
from sklearn.metrics import pairwise_distances_argmin
from sklearn.neighbors import NearestNeighbors

from attentif.tasks.vision.codebook import Codebook, cut_patches
from attentif.tasks.vision.paint_report import distances

pytestmark = pytest.mark.parity


def pictures(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 3, 8, 12)).astype(np.uint8)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_patches_are_those_that_torch_unfolds(size: int) -> None:
    pixels = pictures(5, 0)
    unfolded = torch.nn.functional.unfold(torch.from_numpy(pixels).double(), size, stride=size).mT
    assert np.array_equal(cut_patches(pixels, size), unfolded.numpy())


def test_codes_are_those_that_scikit_learn_finds_nearest() -> None:
    known, asked = pictures(40, 1), pictures(20, 2)
    book = Codebook.fit(known, 2, 30)
    patches = cut_patches(asked, 2)
    expected = pairwise_distances_argmin(patches.reshape(-1, 12).astype(np.float64), book.codes.astype(np.float64))
    assert np.array_equal(book.encode(asked).ravel(), expected)


def test_the_nearest_training_picture_is_that_of_scikit_learn() -> None:
    known, asked = pictures(50, 3), np.concatenate([pictures(10, 4), pictures(50, 3)[7:9]])
    near, which = distances(asked, known)
    flat = lambda pixels: pixels.reshape(len(pixels), -1) / 255.0
    expected, places = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(flat(known)).kneighbors(flat(asked))
    assert np.array_equal(which, places[:, 0])
    # ours is the root of a mean, theirs of a sum over 288 numbers; float32 squares against float64
    np.testing.assert_allclose(near, expected[:, 0] / np.sqrt(3 * 8 * 12), rtol=1e-5, atol=1e-7)
