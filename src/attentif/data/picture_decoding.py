"""One picture: from a file, its bytes, an address that holds it, or an array, to bytes (C, H, W) in a frame."""

import base64
import io
import struct
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attentif.data.picture_files import Bytes
from attentif.errors import DataError
from attentif.extras import require_extra

Fit = Literal["crop", "pad", "stretch"]
Resample = Literal["bilinear", "bicubic", "nearest", "lanczos", "box", "hamming"]
GREY = ("1", "L", "LA", "La", "I;16", "I;16L", "I;16B")
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")  # no other: Pillow hands some (EPS) to programs outside
DATA_URI = "data:image/"
FILM_PIXELS = 1_000_000_000  # of all frames of one animation
DAMAGES = (OSError, SyntaxError, EOFError, LookupError, TypeError, ArithmeticError, MemoryError)  # by what is damaged, and where


@dataclass(frozen=True, slots=True)
class Frame:
    """The size that pictures are converted to; None: as they are, equal for all."""

    channels: int | None = None  # 1: grey, 3: colour
    height: int | None = None
    width: int | None = None
    fit: Fit = "crop"  # where the sides have another ratio: cut the longer one, pad the shorter one, or stretch
    resize: tuple[int, ...] = ()  # the shorter side, or both, before the middle is cut out; the others are then not fitted
    resample: Resample = "bilinear"
    frames: int = 1  # of an animation, from its beginning to its end at even distances; more than 1: a film, (frames · C, H, W)

    @property
    def sized(self) -> bool:
        return self.height is not None and self.width is not None


def open_picture(source: str | Path | bytes, frame: Frame) -> Bytes:
    """Read one picture (C, H, W) from a file, bytes or a data URI; DataError says what is wrong."""
    if isinstance(source, str) and source.startswith(DATA_URI):
        try:
            return decode(base64.b64decode(source.partition(",")[2], validate=True), frame)
        except ValueError as error:
            raise DataError(f"a picture given as data: {error}") from None
    path = source if isinstance(source, bytes) else Path(source)
    try:
        return decode(path, frame)
    except ValueError as error:
        raise DataError(str(error), file=None if isinstance(path, bytes) else path) from None


def decode(source: Path | bytes | NDArray[Any], frame: Frame) -> Bytes:
    """Decode to (C, H, W); ValueError says why it is not a picture."""
    if isinstance(source, np.ndarray) and frame.frames > 1:
        if len(source) < frame.frames:
            raise ValueError(f"is a film of {len(source)} frames; {frame.frames} are expected")
        one = replace(frame, frames=1)
        return np.concatenate([decode(source[number], one) for number in _spread(len(source), frame.frames)])
    if isinstance(source, np.ndarray):
        pixels = source[..., 0] if source.ndim == 3 and source.shape[2] == 1 else source
        wanted = frame.channels in (None, 1 if pixels.ndim == 2 else pixels.shape[2])
        if wanted and (not frame.sized or (pixels.shape[:2] == (frame.height, frame.width) and not frame.resize)):
            return pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, 2, 0)
    require_extra("PIL")
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Pillow mends itself; a picture of too many pixels is refused below
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            if isinstance(source, np.ndarray):
                return _fit_frame(Image.fromarray(pixels), frame)
            with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=FORMATS) as opened:
                if frame.sized and not frame.resize:
                    opened.draft(None, (2 * (frame.width or 0), 2 * (frame.height or 0)))  # JPEG: decoded at a half, a quarter, an eighth
                return _fit_frame(opened, frame) if frame.frames == 1 else _fit_film(opened, frame)
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise ValueError("has more pixels than can be decoded safely; make it smaller first") from None
    except UnidentifiedImageError:
        raise ValueError("is not a readable picture, or its beginning is damaged") from None
    except FileNotFoundError:
        raise ValueError("no such file") from None
    except IsADirectoryError:
        raise ValueError("is a folder; name a picture, or a folder of them by --file") from None
    except (*DAMAGES, struct.error, zlib.error) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"is a damaged picture: {reason.lower()}") from None


def _fit_frame(image: Any, frame: Frame) -> Bytes:
    """A Pillow image as (C, H, W) bytes: upright, on white where it is transparent, in the frame."""
    require_extra("PIL")
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image).astype(np.uint32) // 257).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ValueError("has pixels of 32 bits; save it with 8 bits a channel")
    grey = image.mode in GREY
    if image.mode in ("LA", "RGBA", "PA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    channels = frame.channels or (1 if grey else 3)
    if channels not in (1, 3):
        raise ValueError(f"pictures have 1 channel (grey) or 3 (colour), not {channels}")
    image = image.convert("L" if channels == 1 else "RGB")
    size = (frame.width or 0, frame.height or 0)
    if frame.sized and (image.size != size or frame.resize):
        resample = Image.Resampling[frame.resample.upper()]
        fitted = {"crop": ImageOps.fit, "pad": ImageOps.pad}.get(frame.fit)
        if frame.resize:
            image = _cut_middle(image.resize(_size_after(image.size, frame.resize), resample), size)
        else:
            image = fitted(image, size, resample) if fitted else image.resize(size, resample)
    pixels = np.asarray(image, dtype=np.uint8)
    return pixels[None] if channels == 1 else np.moveaxis(pixels, 2, 0)


def _size_after(size: tuple[int, int], wanted: tuple[int, ...]) -> tuple[int, int]:
    """Width and height where the shorter side, or height and width, become `wanted`."""
    if len(wanted) == 2:
        return wanted[1], wanted[0]
    short, long = min(size), max(size)
    new = (wanted[0], wanted[0] * long // short)
    return new if size[0] <= size[1] else new[::-1]


def _cut_middle(image: Any, size: tuple[int, int]) -> Any:
    """A Pillow image's middle, of this width and height."""
    left, top = ((have - want) // 2 for have, want in zip(image.size, size, strict=True))
    return image.crop((left, top, left + size[0], top + size[1]))


def _fit_film(opened: Any, frame: Frame) -> Bytes:
    """The frames of an animation, below each other's channels."""
    count = getattr(opened, "n_frames", 1)
    if count < frame.frames:
        raise ValueError(f"is a film of {count} frames, fewer than {frame.frames}; task.frames says how many are read")
    if count * opened.size[0] * opened.size[1] > FILM_PIXELS:
        size = f"{opened.size[0]} × {opened.size[1]}"
        raise ValueError(f"has {count} frames of {size} pixels, more than can be decoded safely; make it smaller")
    frames = []
    for number in _spread(count, frame.frames):
        opened.seek(number)
        frames.append(_fit_frame(opened.copy(), replace(frame, channels=frame.channels or 3)))
    film = np.concatenate(frames)
    colours = film.reshape(frame.frames, 3, *film.shape[1:]) if frame.channels is None else None
    if colours is not None and (colours[:, :1] == colours).all():  # grey frames, stored in a palette
        return np.ascontiguousarray(colours[:, 0])
    return film


def _spread(count: int, wanted: int) -> list[int]:
    """`wanted` numbers of frames from the first of `count` to the last."""
    return np.linspace(0, count - 1, wanted).round().astype(int).tolist()


def stack_frames(pixels: Bytes, frames: int) -> Bytes:
    """A film (frames · C, H, W) as one wide picture (C, H, frames · W)."""
    return np.concatenate(np.split(pixels, frames), axis=2)


def film_uri(pixels: Bytes, frames: int) -> str:
    """A film (frames · C, H, W) as an animated PNG inside an address."""
    require_extra("PIL")
    from PIL import Image

    buffer = io.BytesIO()
    first, *others = (Image.fromarray(np.ascontiguousarray(as_shown(part))) for part in np.split(pixels, frames))
    first.save(buffer, "PNG", save_all=True, append_images=others, duration=100)
    return f"{DATA_URI}png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def usual_size(pictures: Iterable[Bytes]) -> tuple[int, int]:
    """Height and width of most pictures; the first ones' where several sizes are as frequent."""
    return Counter((picture.shape[1], picture.shape[2]) for picture in pictures).most_common(1)[0][0]


def as_shown(pixels: Bytes) -> Bytes:
    """(C, H, W) to (H, W), or (H, W, 3)."""
    return pixels[0] if len(pixels) == 1 else np.moveaxis(pixels[:3], 0, 2)


def data_uri(pixels: Bytes) -> str:
    """A picture (H, W) or (H, W, 3) as a PNG inside an address: any input that is a path may be this instead."""
    require_extra("PIL")
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "PNG", optimize=True)
    return f"{DATA_URI}png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
