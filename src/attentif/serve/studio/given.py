"""What a page hands to a run: a text, a drawing, a sound or a table of its own, or an example of the test split."""

import base64
import binascii
import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from attentif.api import Run
from attentif.errors import UsageError
from attentif.models.frontends.pictures import PictureConfig
from attentif.serve.files import refuse_names, with_contents
from attentif.serve.studio.messages import MOST_EXAMPLES, ExampleRows, InputRequest
from attentif.serve.studio.reading import network_of, roles_of
from attentif.tasks.base import Example, Task
from attentif.tasks.capabilities import CAPABILITIES
from attentif.tasks.requests import PredictRequest
from attentif.training.config import StoredConfig
from attentif.training.stored_config import find_data

FILES = ("series", "audio")  # roles whose contents a page may send
LONGEST = 20_000  # characters of a value that is shown


@contextmanager
def open_input(run: Run, asked: InputRequest) -> Iterator[str | Example]:
    """The input of a request as the run's task takes it. Files exist as long as the block."""
    if asked.picture is not None:
        with write_temporary_picture(fit_picture(run, asked.picture)) as path:
            yield path
    elif asked.file is not None:
        with write_temporary_file(run, asked.file) as path:
            yield path
    elif asked.example is not None:
        found = examples_of(run)
        if asked.example >= len(found):
            raise UsageError(f"there are {len(found)} examples of this run's test split")
        yield found[asked.example]
    else:
        yield _text(run, asked)


def _text(run: Run, asked: InputRequest) -> str | Example:
    if not asked.text.strip() and not getattr(run.task, "begins_texts", False):
        raise UsageError("write something first")
    reads = getattr(run.task, "reads", "text")
    if reads in (*FILES, "image", "signal"):
        raise UsageError(f"this run reads no texts: give it its {reads}")
    beside = {role: value for role, value in asked.beside.items() if value.strip()}
    given = {reads: asked.text, **beside} if beside else asked.text
    refuse_names(given, {role for name in run.capabilities for role in CAPABILITIES[name].files})
    return given


@contextmanager
def write_temporary_file(run: Run, uri: str) -> Iterator[str]:
    """The contents of a sound or a table, as the path of a temporary file."""
    reads = getattr(run.task, "reads", "")
    capability = next((CAPABILITIES[name] for name in run.capabilities if reads in CAPABILITIES[name].files), None)
    if capability is None or reads not in FILES:
        raise UsageError("this run reads no files of its own")
    with tempfile.TemporaryDirectory(prefix="attentif-studio-") as folder:
        read = with_contents(capability, PredictRequest(inputs=[uri]), reads, Path(folder))
        (path,) = read.inputs  # type: ignore[attr-defined]
        yield str(path)


# ------------------------------------------------------------------------------------------------------------------ examples

_EXAMPLES: dict[tuple[Path, float], list[Example]] = {}


def examples_of(run: Run) -> list[Example]:
    """A few rows of the run's own test split; none where its data are not known."""
    task: Any = run.task
    key = (run.path, run.path.stat().st_mtime)
    if key not in _EXAMPLES:
        data = find_data(run.config) if isinstance(task, Task) and isinstance(run.config, StoredConfig) else None
        if data is None:
            return []
        prepared = task.prepare(data, run.tokenizers, run.model.config, lambda _: None, run.state)
        if len(_EXAMPLES) >= 16:
            _EXAMPLES.clear()
        _EXAMPLES[key] = list(task.examples(prepared, MOST_EXAMPLES))
    return _EXAMPLES[key]


def list_examples(run: Run) -> ExampleRows:
    """The same as a page shows them; the paths of files stay here."""
    rows = []
    for number, row in enumerate(examples_of(run)):
        shown = {role: value for role, value in row.items() if len(value) <= LONGEST and role not in ("frames", "place")}
        rows.append(shown | {role: f"{number + 1}" for role in ("audio",) if role in shown})
    return ExampleRows(**roles_of(run), rows=rows)


# ------------------------------------------------------------------------------------------------------------------ drawings


@contextmanager
def write_temporary_picture(png: str) -> Iterator[str]:
    """A picture that a page drew, as the path of a temporary file: tasks of pictures read files."""
    try:
        raw = base64.b64decode(png.partition(",")[2] or png, validate=True)
        with Image.open(io.BytesIO(raw), formats=["PNG"]) as picture:
            if max(picture.size) > 1024:
                raise UsageError("a drawing may have 1024 pixels each way at most")
            pixels = np.asarray(picture.convert("L"))
    except (binascii.Error, OSError, ValueError, Image.DecompressionBombError):
        raise UsageError("the drawing is no PNG") from None
    with tempfile.TemporaryDirectory(prefix="attentif-drawing-") as folder:
        path = Path(folder) / "drawing.png"
        Image.fromarray(pixels).save(path)
        yield str(path)


def fit_picture(run: Run, png: str) -> str:
    """A drawing brought to the size that the model reads, as the sets of digits are: cut to its ink, centred by mass."""
    frontend = network_of(run).config.frontend
    if not isinstance(frontend, PictureConfig) or frontend.height is None or frontend.width is None:
        raise UsageError("this run does not read pictures")
    with write_temporary_picture(png) as path, Image.open(path) as picture:
        ink = np.asarray(picture.convert("L"), dtype=np.float64)
    rows, columns = np.flatnonzero(ink.max(1) > 32), np.flatnonzero(ink.max(0) > 32)
    if not len(rows):
        raise UsageError("nothing is drawn yet")
    cut = ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    least = min(frontend.height, frontend.width)
    inner = least if least <= 12 else round(20 / 28 * least)  # digits of 8 pixels fill their frame; those of 28 stand in 20
    scale = inner / max(cut.shape)
    size = (max(1, round(cut.shape[1] * scale)), max(1, round(cut.shape[0] * scale)))
    small = np.asarray(Image.fromarray(cut.astype(np.uint8)).resize(size, Image.Resampling.BOX), dtype=np.float64)
    weight = max(small.sum(), 1.0)
    middle = (small.sum(1) @ np.arange(small.shape[0]) / weight, small.sum(0) @ np.arange(small.shape[1]) / weight)
    canvas = np.zeros((frontend.height, frontend.width), dtype=np.uint8)
    top, left = (
        int(np.clip(round(extent / 2 - 0.5 - at), 0, extent - own))
        for extent, at, own in zip(canvas.shape, middle, small.shape, strict=True)
    )
    canvas[top : top + small.shape[0], left : left + small.shape[1]] = small.clip(0, 255)
    file = io.BytesIO()
    Image.fromarray(canvas).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()
