"""Data in memory written to files, so that there is one way of reading and runs can be resumed.

| given | becomes |
|---|---|
| pandas or polars DataFrame, `datasets.Dataset`, pyarrow Table, list of dicts | a Parquet file; a named index is a column |
| Series or one-dimensional array, list of texts | a Parquet file of one column |
| dict of columns | the same; a dict with a key of `[data]` (`train`) is not one |
| (X, y) | the columns of X, or one of texts, and a column of labels |
| array (N, H, W) or (N, H, W, 3), alone or with labels | an .npz file of pictures |

Files are named by their content and kept in the cache folder, `frames/`. Libraries are recognised by their names: none is imported here.
"""

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from attentif.data.config import SPLITS
from attentif.errors import AttentifError, DataError, UsageError
from attentif.files import cache_folder, replace_atomically

IN_MEMORY = "the table in memory"
SPLIT_NAMES = {"validation": "valid"}  # as a datasets.DatasetDict has them


def is_in_memory(data: Any) -> bool:
    """Whether this is a table or an array rather than a file name, a list of names, or options."""
    if data is None or isinstance(data, str | Path):
        return False
    if isinstance(data, Mapping):
        return bool(data) and not {*data} & {*SPLITS, *SPLIT_NAMES} and all(map(_is_column, data.values()))
    if isinstance(data, list | tuple):
        return not all(isinstance(item, str | Path) for item in data)
    return True


def _is_column(values: Any) -> bool:
    return (isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)) or hasattr(values, "to_list")


def replace_frames(data: Mapping[str, Any]) -> dict[str, Any]:
    """Values of `[data]` in which tables in memory stand as the files that they were written to."""
    named = {SPLIT_NAMES.get(key, key): value for key, value in data.items()}
    return {key: str(save_frame(value)) if key in SPLITS and is_in_memory(value) else value for key, value in named.items()}


def save_frame(data: Any, role: str = "text") -> Path:
    """Write a table in memory to the cache folder; the same content has the same name. A lone column is called `role`."""
    content, suffix = _encode(data, role)
    path = _frames_folder() / f"{hashlib.sha256(content).hexdigest()[:24]}{suffix}"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_atomically(path) as temporary:
            temporary.write_bytes(content)
    return path


def is_frame(file: str | Path) -> bool:
    """Whether this file stands for a table in memory."""
    return Path(file).parent == _frames_folder()


def name_file(file: str | Path) -> str:
    """A file as messages name it: its path, or "the table in memory"."""
    return IN_MEMORY if is_frame(file) else str(file)


def _frames_folder() -> Path:
    return cache_folder() / "frames"


@contextmanager
def name_frames() -> Iterator[None]:
    """Errors inside name the row of the table that was given, not the file that stands for it."""
    try:
        yield
    except AttentifError as error:
        if error.file is None or not is_frame(error.file):
            raise
        row = f"row {error.line}: " if error.line else ""
        raise type(error)(f"{row}{error.message}", file=IN_MEMORY, code=error.code) from None


def _encode(data: Any, role: str) -> tuple[bytes, str]:
    features, labels = data if isinstance(data, tuple) and len(data) == 2 else (data, None)
    array = _as_array(features)
    if array is not None and array.ndim >= 3:
        return _encode_pictures(array, labels), ".npz"
    import pyarrow as pa
    import pyarrow.parquet

    try:
        table = _as_table(features, role)
        if labels is not None:
            table = table.append_column(_free_name("label", table.column_names), _as_column(labels))
    except (pa.ArrowException, ValueError, TypeError) as error:
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DataError(f"the table in memory cannot be used: {said}", code="frame") from None
    if not len(table):
        raise DataError("the table in memory has no rows", code="no-rows")
    written = io.BytesIO()
    pyarrow.parquet.write_table(table.replace_schema_metadata(None), written)
    return written.getvalue(), ".parquet"


def _as_table(data: Any, role: str) -> Any:
    """A pyarrow Table of anything that has rows and columns."""
    import pyarrow as pa

    library, name = type(data).__module__.split(".")[0], type(data).__name__
    if isinstance(data, pa.Table):
        return data
    if library == "pandas" and name == "DataFrame":
        return _from_pandas(data)
    if library == "polars" and name in ("DataFrame", "LazyFrame"):
        return data.lazy().collect().to_arrow()
    if library == "datasets" and name == "Dataset":
        return data.with_format("arrow")[:]
    if isinstance(data, list) and data and isinstance(data[0], Mapping):
        return pa.Table.from_pylist(data)
    if isinstance(data, Mapping):
        return pa.table({str(name): _as_column(values) for name, values in data.items()})
    array = _as_array(data)
    if array is not None and array.ndim == 2:
        return pa.table({f"column{number}": _as_column(array[:, number]) for number in range(array.shape[1])})
    if not hasattr(data, "__len__"):
        raise TypeError(f"{type(data).__name__} is no table, no column and no list of texts")
    return pa.table({getattr(data, "name", None) or role: _as_column(data)})


def _from_pandas(frame: Any) -> Any:
    """Columns, and a meaningful index: a date, a name."""
    import pyarrow as pa

    named = any(name is not None for name in frame.index.names)
    dated = type(frame.index).__name__ in ("DatetimeIndex", "PeriodIndex")
    if dated and not named:
        frame = frame.rename_axis("date")
    frame = frame.reset_index() if named or dated else frame
    for column in frame.columns:
        if type(frame[column].dtype).__name__ == "PeriodDtype":
            frame = frame.assign(**{column: frame[column].dt.to_timestamp()})
    frame.columns = [str(name) for name in frame.columns]
    return pa.Table.from_pandas(frame, preserve_index=False)


def _as_column(values: Any) -> Any:
    import pyarrow as pa

    if type(values).__module__.split(".")[0] == "polars":
        return values.to_arrow()
    if isinstance(values, np.ndarray) and values.dtype.kind in "US":
        values = values.astype(str).tolist()
    elif isinstance(values, np.ndarray) and values.dtype.kind == "O":
        values = values.tolist()
    return pa.array(values, from_pandas=True)


def _as_array(data: Any) -> "np.ndarray[Any, Any] | None":
    return data if isinstance(data, np.ndarray) else None


def _encode_pictures(pixels: "np.ndarray[Any, Any]", labels: Any) -> bytes:
    written = io.BytesIO()
    arrays = {"x": pixels} | ({} if labels is None else {"y": np.asarray(labels)})
    np.savez(written, allow_pickle=False, **arrays)
    return written.getvalue()


def _free_name(name: str, taken: Sequence[str]) -> str:
    if name in taken:
        raise UsageError(f"labels are given twice: as y, and as the column {name!r}", code="frame")
    return name
