"""Pictures as tokens and back."""

from pathlib import Path

import numpy as np
import pytest

from attentif.errors import RunError
from attentif.tasks.vision.codebook import FILE, Codebook, cut_patches


def pictures(count: int = 60, channels: int = 1, side: int = 8) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, channels, side, side)).astype(np.uint8)


def test_patches_run_row_by_row() -> None:
    numbers = np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)
    assert cut_patches(numbers, 2)[0].tolist() == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_patch_becomes_its_nearest_code_and_comes_back_as_it(size: int, channels: int) -> None:
    pixels = pictures(channels=channels)
    book = Codebook.fit(pixels, size, 20)
    tokens = book.encode(pixels)
    assert tokens.shape == (60, (8 // size) ** 2)
    cut = cut_patches(pixels, size).astype(np.float64)
    nearest = ((cut[:, :, None] - book.codes) ** 2).sum(-1).argmin(-1)
    assert (tokens == nearest).mean() > 0.999  # ties, and sums in float32
    back = book.decode(tokens)
    assert back.shape == pixels.shape
    assert np.array_equal(cut_patches(back, size), np.rint(book.codes[tokens]))


def test_as_many_codes_as_grey_levels_lose_nothing() -> None:
    pixels = (pictures() // 16) * 16
    book = Codebook.fit(pixels, 1, 16)
    assert len(book) == 16
    assert np.array_equal(book.decode(book.encode(pixels)), pixels)


def test_codes_run_from_dark_to_light_and_depend_on_the_data_alone() -> None:
    book, again = (Codebook.fit(pictures(), 2, 10) for _ in range(2))
    assert np.array_equal(book.codes, again.codes)
    assert (np.diff(book.codes.sum(1)) >= 0).all()


def test_a_codebook_is_kept_with_its_run(tmp_path: Path) -> None:
    book = Codebook.fit(pictures(), 2, 10)
    book.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    same = Codebook.load(tmp_path)
    assert np.array_equal(same.codes, book.codes)
    assert (same.size, same.shape) == (book.size, book.shape)


def test_a_missing_or_damaged_codebook_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"without.*codebook"):
        Codebook.load(tmp_path)
    (tmp_path / FILE).write_bytes(b"\0" * 40)
    with pytest.raises(RunError, match="cannot be used"):
        Codebook.load(tmp_path)
