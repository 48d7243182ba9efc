"""Task states on disk: `task.json`, and `task.safetensors` for the arrays in it.

A state is a frozen dataclass of plain values, arrays and other such dataclasses. In JSON an array is `{"array": "its.path"}`, the name of
a tensor. What is read is validated against the types of the dataclass.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from attentif.errors import RunError
from attentif.files import replace_atomically, write_json

RENAMED = {"evidence": "linear_features"}  # keys of `task.json` in older runs
JSON, ARRAYS = "task.json", "task.safetensors"
T = TypeVar("T")


def save_state(folder: Path, state: Any) -> None:
    """Write a task's state to a run's folder; the arrays first, so that `task.json` never names one that is not there."""
    from safetensors.numpy import save_file

    arrays: dict[str, NDArray[Any]] = {}
    values = _dump(state, "", arrays)
    if arrays:
        with replace_atomically(folder / ARRAYS) as temporary:
            save_file(arrays, temporary)
            temporary.chmod(0o644)  # the library makes files that only their owner reads
    write_json(folder / JSON, values)


def load_state(folder: Path, kind: type[T]) -> T:
    """Read the state of a run; RunError where a file is missing or damaged."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        values = json.loads((folder / JSON).read_text(encoding="utf-8"))
        arrays = load_file(folder / ARRAYS) if (folder / ARRAYS).is_file() else {}
        values = {RENAMED.get(key, key): own for key, own in values.items()}
        return build_state(kind, _restore(values, arrays))
    except FileNotFoundError:
        raise RunError("no such file: the run is incomplete", file=folder / JSON) from None
    except (ValueError, KeyError, TypeError, OSError, SafetensorError) as error:
        raise RunError(f"is damaged: {' '.join(str(error).split())[:200]}", file=folder / JSON) from None


def build_state(kind: type[T], values: Mapping[str, Any]) -> T:
    """Build a state from plain values; ValueError if they do not match its types."""
    try:
        return TypeAdapter(kind).validate_python(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _dump(value: Any, path: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """Convert to plain data; arrays go to `arrays` by their path."""
    inside = lambda key: f"{path}.{key}" if path else str(key)
    match value:
        case np.ndarray():
            arrays[path] = np.ascontiguousarray(value)
            return {"array": path}
        case dict():
            return {key: _dump(own, inside(key), arrays) for key, own in value.items()}
        case list() | tuple():
            return [_dump(own, inside(place), arrays) for place, own in enumerate(value)]
    if is_dataclass(value):
        return {one.name: _dump(getattr(value, one.name), inside(one.name), arrays) for one in fields(value)}
    return value


def _restore(value: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    match value:
        case {"array": str(name)} if len(value) == 1:
            return arrays[name]
        case dict():
            return {key: _restore(own, arrays) for key, own in value.items()}
        case list():
            return [_restore(own, arrays) for own in value]
    return value
