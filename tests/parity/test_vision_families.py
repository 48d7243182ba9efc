"""What pictures become before a vision model reads them, and at other sizes than it was trained on: as transformers does both."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hub_cases import CASES
from PIL import Image
from torch.testing import assert_close
from transformers.utils import logging

from attentif.data.images import open_picture
from attentif.errors import ConfigError
from attentif.hub import read_folder, write_folder
from attentif.hub.pictures import read_pictures, write_pictures
from attentif.models import Batch, Input
from attentif.nn.position import LearnedPlaneConfig
from attentif.nn.seq import Seq
from attentif.tasks.vision.image import ImageConfig, standardise

pytestmark = pytest.mark.parity
logging.disable_progress_bar()

PROCESSORS: list[tuple[str, str, dict[str, Any]]] = [
    ("vit", "ViTImageProcessorPil", {"size": {"height": 20, "width": 24}}),
    ("vit", "ViTImageProcessorPil", {"size": {"height": 20, "width": 24}, "resample": 0, "do_normalize": False}),
    ("deit", "DeiTImageProcessorPil", {"size": {"height": 30, "width": 28}, "crop_size": {"height": 20, "width": 24}}),
    ("beit", "BeitImageProcessorPil", {"size": {"height": 20, "width": 24}, "resample": 1, "image_mean": [0.1, 0.2, 0.3]}),
    ("dinov2", "BitImageProcessorPil", {"size": {"shortest_edge": 27}, "crop_size": {"height": 20, "width": 24}}),
    ("clip", "CLIPImageProcessorPil", {"size": {"shortest_edge": 24}, "crop_size": {"height": 20, "width": 24}, "rescale_factor": 0.01}),
    ("siglip", "SiglipImageProcessorPil", {"size": {"height": 20, "width": 24}}),
]


def make_picture(path: Path, width: int, height: int) -> Path:
    pixels = np.random.default_rng(width).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def read_as_ours(folder: Path, family: str, picture: Path) -> torch.Tensor:
    read = read_pictures(folder, 3, 20, 24, family)
    task = ImageConfig(channels=3, height=20, width=24, **read)
    return standardise(np.stack([open_picture(picture, task.frame())]), read["mean"], read["std"])


@pytest.mark.parametrize(("family", "name", "said"), PROCESSORS)
@pytest.mark.parametrize("size", [(50, 33), (31, 64)])
def test_a_picture_becomes_the_same_numbers(family: str, name: str, said: dict[str, Any], size: tuple[int, int], tmp_path: Path) -> None:
    processor = getattr(transformers, name)(**said)
    processor.save_pretrained(tmp_path)
    picture = make_picture(tmp_path / "picture.png", *size)
    expected = processor(Image.open(picture), return_tensors="pt")["pixel_values"]
    assert_close(read_as_ours(tmp_path, family, picture), expected, rtol=1e-5, atol=1e-5)
    read = read_pictures(tmp_path, 3, 20, 24, family)
    back = tmp_path / "back"
    back.mkdir()
    write_pictures(back, ImageConfig(channels=3, height=20, width=24, **read), read["mean"], read["std"], 20, 24)
    kind = json.loads((back / "preprocessor_config.json").read_text())["image_processor_type"]
    again = getattr(transformers, f"{kind}Pil").from_pretrained(back)(Image.open(picture), return_tensors="pt")["pixel_values"]
    assert_close(again, expected, rtol=1e-5, atol=1e-5)


def test_the_defaults_are_those_of_each_class(tmp_path: Path) -> None:
    """A file that names the class alone."""
    for family, name, _ in PROCESSORS:
        processor = getattr(transformers, name)()
        (tmp_path / "preprocessor_config.json").write_text(json.dumps({"image_processor_type": name.removesuffix("Pil")}))
        read = read_pictures(tmp_path, 3, 224, 224, family)
        assert read["mean"] == pytest.approx(tuple(processor.image_mean))
        assert read["std"] == pytest.approx(tuple(processor.image_std))
        assert read["resample"] == Image.Resampling(processor.resample).name.lower()
        assert bool(read.get("resize")) == bool(processor.do_center_crop)


@pytest.mark.parametrize("name", ["dinov2", "dinov2 registers", "dinov2 gated"])
@pytest.mark.parametrize("size", [(12, 12), (20, 20), (8, 8), (8, 20)])
@torch.no_grad()
def test_positions_are_interpolated_to_the_size_of_the_pictures(name: str, size: tuple[int, int], tmp_path: Path) -> None:
    case = CASES[name]
    theirs = case.build(tmp_path, torch.float32)
    crop = {"do_center_crop": True, "size": {"shortest_edge": 20}, "crop_size": dict(zip(("height", "width"), size, strict=True))}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"image_processor_type": "BitImageProcessor"} | crop))
    found = read_folder(tmp_path)
    pictures = torch.randn(2, 3, *size)
    mine, _ = found.model(Batch(Input(pictures, Seq.from_padded([1] * 2))))
    expected = theirs(pictures)
    expected = expected.logits if "logits" in expected else expected.last_hidden_state[:, 0]
    assert_close(mine, expected, rtol=1e-4, atol=1e-4)
    write_folder(tmp_path / "back", found.model, family=found.family.kind, architecture=case.architecture, labels=found.labels)
    again = getattr(transformers, case.architecture).from_pretrained(tmp_path / "back")
    assert again.config.image_size == theirs.config.image_size
    again = again(pictures)
    assert_close(again.logits if "logits" in again else again.last_hidden_state[:, 0], expected, rtol=1e-4, atol=1e-4)


def test_interpolated_positions_are_the_bicubic_equation() -> None:
    """Four weighted neighbours each way, w(t) of Keys (1981) with a = −0.75, as torch's own `interpolate` has it."""
    config = LearnedPlaneConfig(rows=4, columns=5, first=1, shown=(3, 7))
    positions = config.build(2).double()
    table, (rows, columns) = positions.table.weight.detach(), (3, 7)

    def weight(t: float, a: float = -0.75) -> float:
        t = abs(t)
        return (a + 2) * t**3 - (a + 3) * t**2 + 1 if t <= 1 else a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0

    def row_of(place: float, length: int) -> torch.Tensor:
        whole, found = int(np.floor(place)), torch.zeros(length, dtype=torch.float64)
        for near in range(whole - 1, whole + 3):
            found[min(max(near, 0), length - 1)] += weight(place - near)
        return found

    down = torch.stack([row_of((r + 0.5) * 4 / rows - 0.5, 4) for r in range(rows)])
    across = torch.stack([row_of((c + 0.5) * 5 / columns - 0.5, 5) for c in range(columns)])
    plane = torch.einsum("ra,cb,abd->rcd", down, across, table[1:].reshape(4, 5, 2)).reshape(-1, 2)
    found = positions(torch.arange(1 + rows * columns), torch.float64).detach()
    assert_close(found[0], table[0])
    assert_close(found[1:], plane, rtol=1e-5, atol=1e-6)  # it is worked out in float32


def test_what_cannot_be_the_same_is_refused(tmp_path: Path) -> None:
    said = lambda **values: (tmp_path / "preprocessor_config.json").write_text(json.dumps(values))
    said(image_processor_type="CLIPImageProcessor", size={"shortest_edge": 16}, crop_size=20)
    with pytest.raises(ConfigError, match="smaller than crop_size"):
        read_pictures(tmp_path, 3, 20, 20, "clip")
    said(image_processor_type="ViTImageProcessor", size=24)
    with pytest.raises(ConfigError, match="24 × 24"):
        read_pictures(tmp_path, 3, 20, 20, "vit")
    said(image_processor_type="CLIPImageProcessor", size={"longest_edge": 16})
    with pytest.raises(ConfigError, match="longest_edge"):
        read_pictures(tmp_path, 3, 20, 20, "clip")
