"""Films: tubes in order, frames read from animations, and a movement that no single frame tells."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from attentif.data.builtin.moving_digits import FRAMES, SIDE, STEPS, MovingOptions, load
from attentif.data.images import Frame, open_picture
from attentif.data.picture_decoding import film_uri
from attentif.errors import ConfigError, DataError
from attentif.models import Input, resolve
from attentif.models.frontends.tubes import TubesConfig, cut_tubes
from attentif.nn.seq import Seq
from attentif.tasks import TASKS


def test_tubes_are_a_strided_convolution_over_time_and_space() -> None:
    frontend = TubesConfig(size=4, depth=2, channels=3, frames=4, height=8, width=12).build(5, 0.0)
    films = torch.randn(2, 4 * 3, 8, 12)
    x, seq = frontend(Input(films, Seq.from_padded([12, 12])))
    weight = frontend.tube.weight.view(5, 3, 2, 4, 4)
    expected = torch.nn.functional.conv3d(films.view(2, 4, 3, 8, 12).transpose(1, 2), weight, frontend.tube.bias, stride=(2, 4, 4))
    assert_close(x, expected.flatten(2).mT, rtol=1e-5, atol=1e-5)  # float32, sums of 96 products in another order
    assert seq.lengths.tolist() == [12, 12]


def test_tubes_run_frame_by_frame_then_row_by_row() -> None:
    films = torch.arange(4 * 4 * 6).view(1, 4, 4, 6)
    assert cut_tubes(films, 1, 2, 2)[0, :, 0].tolist() == [0, 2, 4, 12, 14, 16, 48, 50, 52, 60, 62, 64]


def test_frames_of_an_animation_are_read_at_even_distances(tmp_path: Path) -> None:
    frames = [Image.fromarray(np.full((4, 6), 20 * number, np.uint8)) for number in range(9)]
    for suffix in ("png", "gif"):
        file = tmp_path / f"film.{suffix}"
        frames[0].save(file, save_all=True, append_images=frames[1:], duration=100)
        film = open_picture(file, Frame(frames=3))
        assert film[:, 0, 0].tolist() == [0, 80, 160]  # grey, whatever the palette


def test_a_film_survives_its_address() -> None:
    film = np.random.default_rng(0).integers(0, 256, (6, 5, 4)).astype(np.uint8)
    assert (open_picture(film_uri(film, 6), Frame(frames=6)) == film).all()


def test_a_picture_is_no_film(tmp_path: Path) -> None:
    Image.new("L", (4, 4)).save(tmp_path / "still.png")
    with pytest.raises(DataError, match="fewer than"):
        open_picture(tmp_path / "still.png", Frame(frames=8))


def test_no_frame_tells_the_movement_and_two_do() -> None:
    """The mean brightness of each place is alike for all movements; what two frames have in common is not."""
    films = load(0, MovingOptions(train=1200, valid=6, test=6))["train"]
    pixels = np.stack(films["image"]).astype(float)
    labels = np.array(films["label"])
    assert pixels.shape == (1200, FRAMES, SIDE, SIDE)
    by_label = np.stack([pixels[labels == label, 4].mean((0, 1)) for label in STEPS])
    assert np.ptp(by_label, axis=0).max() < 4 * pixels[:, 4].mean(1).std() / np.sqrt(200)  # the spread of means over 200 films
    moved = lambda label: np.abs(pixels[labels == label, 0] - pixels[labels == label, 1]).mean()
    assert moved("still") < 0.7 * min(moved(label) for label in STEPS if label != "still")


def test_contradictions_are_refused() -> None:
    task = TASKS["video"](frames=8).build()
    with pytest.raises(ConfigError, match="tubes"):
        task.check(resolve({"base": "vit-tiny"}))
    with pytest.raises(ConfigError, match="frames"):
        task.check(resolve({"base": "video-tiny", "frontend": {"frames": 6}}))
