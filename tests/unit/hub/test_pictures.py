"""What preprocessor_config.json asks for, as the mean and the deviation of our task."""

import json
from pathlib import Path
from typing import Any

import pytest

from attentif.errors import ConfigError
from attentif.hub.pictures import read_pictures


def scale(folder: Path, pixel: float, **said: Any) -> float:
    """What a pixel of 0 ... 255 becomes."""
    (folder / "preprocessor_config.json").write_text(json.dumps(said))
    found = read_pictures(folder, 1, 8, 8)
    return (pixel / 255 - found["mean"][0]) / found["std"][0]


def test_pixels_are_scaled_as_the_file_says(tmp_path: Path) -> None:
    near = lambda value: pytest.approx(value, abs=1e-9)
    assert scale(tmp_path, 51) == near((51 / 255 - 0.5) / 0.5)
    assert scale(tmp_path, 51, image_mean=[0.4], image_std=[0.2]) == near((51 / 255 - 0.4) / 0.2)
    assert scale(tmp_path, 51, do_normalize=False) == near(51 / 255)
    assert scale(tmp_path, 51, do_rescale=False, image_mean=[100], image_std=[50]) == near((51 - 100) / 50)
    assert scale(tmp_path, 51, rescale_factor=1 / 127.5) == near((51 / 127.5 - 0.5) / 0.5)
    assert scale(tmp_path, 51, do_rescale=False, do_normalize=False) == near(51)


def test_how_pictures_are_resized_and_cut_is_read(tmp_path: Path) -> None:
    scale(tmp_path, 51, resample=3)
    assert read_pictures(tmp_path, 3, 8, 8)["resample"] == "bicubic"
    said = {"do_center_crop": True, "size": {"shortest_edge": 10}, "crop_size": {"height": 8, "width": 6}}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(said))
    assert read_pictures(tmp_path, 3, 8, 6)["resize"] == (10,)


def test_what_is_not_understood_is_refused(tmp_path: Path) -> None:
    for said, key in (
        ({"do_resize": False}, "do_resize"),
        ({"image_mean": [0.5]}, "1 numbers for 3 channels"),
        ({"resample": 9}, "resample"),
    ):
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(said))
        with pytest.raises(ConfigError, match=key):
            read_pictures(tmp_path, 3, 8, 8)
