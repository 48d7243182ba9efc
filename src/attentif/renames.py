"""Keys of older configurations under their present names, so that old TOML files and run folders are still read."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

Path = tuple[str, ...]

RENAMED: Sequence[tuple[Path, Path]] = (
    (("model", "members"), ("train", "ensemble")),
    (("model", "frontend", "evidence"), ("model", "frontend", "features")),
    (("task", "hidden"), ("task", "word_dropout")),
)
LINEAR: Sequence[tuple[Path, str]] = ((("task", "evidence"), "stacked"), (("task", "blend"), "averaged"))  # two switches, now one choice
MIXERS = {"s4": "s4d"}  # kinds of mixers; "s4" was the diagonal one, before the original S4 was there


def rename_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of one layer with old keys renamed; a present name that is given too wins."""
    found = [(old, new) for old, new in RENAMED if _holds(values, old)]
    switches = [(old, choice) for old, choice in LINEAR if _holds(values, old)]
    result: dict[str, Any] = _rename_mixers(dict(values))
    if not found and not switches:
        return result
    result = deepcopy(result)
    for old, new in found:
        table = result
        for key in old[:-1]:
            table = table[key]
        value = table.pop(old[-1])
        table = result
        for key in new[:-1]:
            table = table.setdefault(key, {})
        table.setdefault(new[-1], value)
    if switches:
        chosen = [choice for (_, key), choice in switches if result["task"].pop(key)]
        result["task"].setdefault("linear", chosen[0] if chosen else "none")
    return result


def _rename_mixers(values: Any) -> Any:
    """A copy in which mixers go by their present kinds."""
    if isinstance(values, Mapping):
        changed = {key: _rename_mixers(value) for key, value in values.items()}
        if isinstance(mixer := changed.get("mixer"), Mapping) and (kind := MIXERS.get(str(mixer.get("kind")))):
            changed["mixer"] = {**mixer, "kind": kind}
        return changed
    return [_rename_mixers(value) for value in values] if isinstance(values, list) else values


def _holds(values: Any, path: Path) -> bool:
    for key in path:
        if not isinstance(values, Mapping) or key not in values:
            return False
        values = values[key]
    return True
