"""One size for pictures that have several: near their own, small enough to train on, and one that patches divide."""

import io
import struct
import warnings
import zlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentif.data.picture_decoding import DAMAGES, FORMATS, Frame
from attentif.data.picture_files import PictureEntry
from attentif.extras import require_extra

MOST_STEPS = 16  # patches along the longer side
TURNED = (5, 6, 7, 8)  # values of EXIF's orientation where height and width are exchanged
ORIENTATION = 0x0112

Size = tuple[int, int]  # height and width


def choose_size(frame: Frame, entries: Iterable[PictureEntry], step: int, notes: list[str]) -> Frame:
    """The frame with a height and a width that `step` divides, where none is asked for and pictures are of several sizes."""
    if frame.height is not None or frame.width is not None or frame.resize:
        return frame
    sizes = [size for entry in entries if (size := measure(entry.picture)) is not None]
    if len(different := {*sizes}) < 2:
        return frame
    usual = [median_low(side) for side in zip(*sizes, strict=True)]
    scale = min(1.0, MOST_STEPS * step / max(usual))
    height, width = (max(step, round(side * scale / step) * step) for side in usual)
    notes.append(
        f"pictures of {len(different):,} sizes: all are brought to {height} × {width} pixels (task.height, task.width), "
        f"by task.fit={frame.fit}"
    )
    return replace(frame, height=height, width=width)


def measure(picture: Path | bytes | NDArray[Any]) -> Size | None:
    """Height and width as the header has them; None of what is no picture, which decoding explains."""
    if isinstance(picture, np.ndarray):
        rows, columns = picture.shape[-3:-1] if picture.ndim > 2 and picture.shape[-1] in (1, 3, 4) else picture.shape[-2:]
        return rows, columns
    require_extra("PIL")
    from PIL import Image

    try:
        with (
            warnings.catch_warnings(),
            Image.open(io.BytesIO(picture) if isinstance(picture, bytes) else picture, formats=FORMATS) as opened,
        ):
            warnings.simplefilter("ignore")
            width, height = opened.size
            return (width, height) if opened.getexif().get(ORIENTATION) in TURNED else (height, width)
    except (*DAMAGES, struct.error, zlib.error, Image.DecompressionBombError):
        return None
