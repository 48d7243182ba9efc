"""How a folder's pictures become numbers: preprocessor_config.json, as the mean and the deviation of pixels between 0 and 1.

theirs   (v · rescale_factor - image_mean) / image_std     of v in 0 ... 255; each of the two steps may be off
ours     (v / 255 - mean) / std
"""

from pathlib import Path
from typing import Any

from attentif.errors import ConfigError
from attentif.hub.files import read_json

FILE = "preprocessor_config.json"
BILINEAR = 2


def read_pictures(folder: Path, channels: int) -> tuple[dict[str, tuple[float, ...]], list[str]]:
    """`mean` and `std` of the task, and notes about what the file asks for and is not done."""
    said = read_json(folder / FILE) if (folder / FILE).is_file() else {}
    for key, value in {"do_center_crop": True, "do_resize": False, "do_pad": True}.items():
        if said.get(key) is value:
            raise ConfigError(
                f"{key}: {str(value).lower()} is not understood: pictures are resized to the model's size", file=folder / FILE
            )
    rescale = float(said.get("rescale_factor") or 1 / 255) if said.get("do_rescale", True) else 1.0
    normal = said.get("do_normalize", True)
    mean, std = (_numbers(said, key, channels, usual) if normal else (usual,) * channels for key, usual in USUAL.items())
    if not normal:
        mean, std = (0.0,) * channels, (1.0,) * channels
    scaled = {"mean": tuple(value / (255 * rescale) for value in mean), "std": tuple(value / (255 * rescale) for value in std)}
    asked = said.get("resample", BILINEAR)
    return scaled, [] if asked == BILINEAR else [f"{FILE}: resample = {asked} is not applied; pictures are resized bilinearly"]


USUAL = {"image_mean": 0.5, "image_std": 0.5}  # ViT's


def _numbers(said: dict[str, Any], key: str, channels: int, usual: float) -> tuple[float, ...]:
    value = said.get(key, usual)
    numbers = tuple(map(float, value)) if isinstance(value, list) else (float(value),) * channels
    if len(numbers) != channels:
        raise ConfigError(f"{key}: has {len(numbers)} numbers for {channels} channels")
    return numbers
