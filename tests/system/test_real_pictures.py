"""MNIST as it is published. `ATTENTIF_DATA` names the folder of real data."""

import os
from collections import Counter
from pathlib import Path

import pytest

from attentif.data import DataConfig
from attentif.data.images import Frame, load_picture_rows

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif("ATTENTIF_DATA" not in os.environ, reason="ATTENTIF_DATA does not name the folder of real data"),
]


def test_the_test_file_of_mnist_has_its_pictures_and_its_labels() -> None:
    file = Path(os.environ["ATTENTIF_DATA"]) / "mnist" / "t10k-images-idx3-ubyte.gz"
    pictures, notes = load_picture_rows(DataConfig(train=str(file)), Frame())
    assert pictures.pixels.shape == (10_000, 1, 28, 28)
    counts = Counter(pictures.table["label"])
    assert [counts[str(digit)] for digit in range(10)] == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert pictures.table["label"][:5] == ["7", "2", "1", "0", "4"]
    assert notes == [f"{file} (idx): labels from t10k-labels-idx1-ubyte.gz"]
