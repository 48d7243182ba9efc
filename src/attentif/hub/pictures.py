"""How a folder's pictures become numbers: preprocessor_config.json, both ways.

theirs   resize, cut out the middle,  (v · rescale_factor - image_mean) / image_std     of v in 0 ... 255; each step may be off
ours     resize, cut out the middle,  (v / 255 - mean) / std
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attentif.errors import ConfigError
from attentif.files import write_json
from attentif.hub.files import read_json

FILE = "preprocessor_config.json"
SHOWN = "pictures"  # the key under which `shown_size` stands beside those of config.json
RESAMPLES = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")  # Pillow's numbers


@dataclass(frozen=True)
class Processor:
    """What a class of transformers takes where the file says nothing."""

    size: Any = field(default_factory=lambda: {"height": 224, "width": 224})
    crop: bool = False
    resample: int = 3
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
    square: bool = True  # what a size of one number means


CLIP = Processor({"shortest_edge": 224}, True, 3, (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711), square=False)
PROCESSORS = {
    "ViT": Processor(resample=2),
    "DeiT": Processor({"height": 256, "width": 256}, crop=True),
    "Beit": Processor(),
    "Bit": CLIP,
    "CLIP": CLIP,
    "Siglip": Processor(square=False),
}
OF_FAMILY = {
    "deit": "DeiT",
    "beit": "Beit",
    **dict.fromkeys(("dinov2", "dinov2_with_registers"), "Bit"),
    **dict.fromkeys(("clip", "clip_vision_model"), "CLIP"),
    **dict.fromkeys(("siglip", "siglip_vision_model"), "Siglip"),
}


def read_said(folder: Path, family: str) -> tuple[dict[str, Any], Processor]:
    """What the file says, and the defaults of its class."""
    said = read_json(folder / FILE) if (folder / FILE).is_file() else {}
    named = str(said.get("image_processor_type") or said.get("feature_extractor_type") or "")
    for ending in ("Pil", "Fast", "ImageProcessor", "FeatureExtractor"):
        named = named.removesuffix(ending)
    return said, PROCESSORS.get(named) or PROCESSORS[OF_FAMILY.get(family, "ViT")]


def read_pictures(folder: Path, channels: int, height: int, width: int, family: str = "vit") -> dict[str, Any]:
    """`mean`, `std`, `fit`, `resize` and `resample` of a task whose model reads pictures of this size."""
    said, usual = read_said(folder, family)
    found = _read_size(said, usual, height, width)
    rescale = float(said.get("rescale_factor") or 1 / 255) if said.get("do_rescale", True) else 1.0
    mean, std = (0.0,) * channels, (1.0,) * channels
    if said.get("do_normalize", True):
        mean, std = (_numbers(said, key, channels, own) for key, own in (("image_mean", usual.mean), ("image_std", usual.std)))
    asked = said.get("resample", usual.resample)
    if asked not in range(len(RESAMPLES)):
        raise ConfigError(f"resample: {asked!r} is not understood (0 to {len(RESAMPLES) - 1}, as Pillow counts)")
    scale = {"mean": tuple(value / (255 * rescale) for value in mean), "std": tuple(value / (255 * rescale) for value in std)}
    return scale | found | {"resample": RESAMPLES[asked]}


def shown_size(folder: Path, family: str) -> tuple[int, int] | None:
    """Height and width that pictures have in the end; None where the file does not say."""
    if not (folder / FILE).is_file():
        return None
    said, usual = read_said(folder, family)
    cut = said.get("do_center_crop", usual.crop)
    found = _sides(said, "crop_size" if cut else "size", {"height": 224, "width": 224} if cut else usual.size, square=cut or usual.square)
    return (found[0], found[1]) if len(found) == 2 else None


def _read_size(said: Mapping[str, Any], usual: Processor, height: int, width: int) -> dict[str, Any]:
    """How pictures come to the model's size."""
    for key, value in {"do_resize": False, "do_pad": True}.items():
        if said.get(key) is value:
            raise ConfigError(f"{key}: {str(value).lower()} is not understood: pictures are resized to the model's size")
    if not said:
        return {"fit": "stretch"}
    size = _sides(said, "size", usual.size, square=usual.square)
    if not said.get("do_center_crop", usual.crop):
        if len(size) == 1:
            raise ConfigError(
                "size: names the shorter side, and nothing is cut out of the picture (do_center_crop): pictures of one size are read"
            )
        return {"fit": "stretch"} if size == (height, width) or "size" not in said else _refuse_size("size", size, height, width)
    crop = _sides(said, "crop_size", {"height": height, "width": width}, square=True)
    if crop != (height, width):
        _refuse_size("crop_size", crop, height, width)
    if any(side < cut for side, cut in zip((size * 2)[:2], crop, strict=True)):
        raise ConfigError(f"size: {list(size)} is smaller than crop_size = {list(crop)}: black edges are not added")
    return {"resize": size}


def _refuse_size(key: str, found: tuple[int, ...], height: int, width: int) -> dict[str, Any]:
    raise ConfigError(f"{key}: gives pictures of {' × '.join(map(str, found))} pixels, and the model reads {height} × {width}")


def _sides(said: Mapping[str, Any], key: str, usual: Any, *, square: bool) -> tuple[int, ...]:
    """Height and width; or one number, of the shorter side."""
    value = said.get(key) or usual
    if isinstance(value, int):
        return (value, value) if square else (value,)
    if isinstance(value, Mapping) and set(value) == {"height", "width"}:
        return int(value["height"]), int(value["width"])
    if isinstance(value, Mapping) and set(value) == {"shortest_edge"}:
        return (int(value["shortest_edge"]),)
    raise ConfigError(f"{key}: {value!r} is not understood (a number, height and width, or shortest_edge)")


def _numbers(said: Mapping[str, Any], key: str, channels: int, usual: tuple[float, ...]) -> tuple[float, ...]:
    value = said.get(key, usual if channels == len(usual) else usual[0])
    numbers = tuple(map(float, value)) if isinstance(value, list | tuple) else (float(value),) * channels
    if len(numbers) != channels:
        raise ConfigError(f"{key}: has {len(numbers)} numbers for {channels} channels")
    return numbers


def write_pictures(folder: Path, task: Any, mean: Sequence[float], std: Sequence[float], height: int, width: int) -> None:
    """preprocessor_config.json of a task that standardises pictures, those of another shape being stretched."""
    size: dict[str, int] = dict(zip(("height", "width"), task.resize or (height, width), strict=False))
    values = {
        "image_processor_type": "CLIPImageProcessor" if task.resize else "ViTImageProcessor",
        "do_resize": True,
        "size": {"shortest_edge": task.resize[0]} if len(task.resize) == 1 else size,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(mean),
        "image_std": list(std),
        "resample": RESAMPLES.index(task.resample),
    }
    crop = {"do_center_crop": True, "crop_size": {"height": height, "width": width}} if task.resize else {}
    write_json(folder / FILE, values | crop)
