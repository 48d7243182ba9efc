"""Typed, closed configuration.

A configuration is a frozen pydantic model that lives beside the class it builds. Where several classes can stand in one place, the
`kind` key picks one from a registry, so that TOML and plug-ins can name it:

    mixer: Annotated[MixerConfig, OneOf(MIXERS)]      # [encoder.block.attn.mixer]  kind = "attention"

Values come in layers, the last one winning: a preset (`base`), a TOML file, `key=value` words of the command line. A `Document` keeps
the layers apart long enough to say in which file and on which line a wrong value stands.
"""

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, Self, TypeVar, Union

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, ValidationError
from pydantic_core import PydanticCustomError, core_schema

from attentif.errors import ConfigError
from attentif.renames import rename_keys
from attentif.toml import Keys, line_of

VERSION = 1  # of the configuration format
Ints = Annotated[tuple[int, ...], Field(strict=False)]  # TOML has lists, not tuples
Pair = Annotated[tuple[int, int], Field(strict=False)]
MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}  # version n -> a function to version n + 1


class Config(BaseModel):
    """Base of every configuration: frozen, strict about types, closed to unknown keys."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, validate_default=True, arbitrary_types_allowed=True, populate_by_name=True
    )

    def replace(self, **values: Any) -> Self:
        """A copy with some values changed, validated again."""
        return type(self).model_validate(self.model_dump() | values)


C = TypeVar("C", bound=Config)


def toml_keys(cls: type[BaseModel]) -> dict[str, str]:
    """The names of the fields by their spelling in TOML: `from`, which Python reserves, is `from_` here."""
    return {field.alias or name: name for name, field in cls.model_fields.items()}


class Registry(Generic[C]):
    """The classes of configuration that a `kind` may name."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.classes: dict[str, type[C]] = {}

    def register(self, cls: type[C]) -> type[C]:
        """Class decorator; the class says its own name: `kind: Literal["lstm"] = "lstm"`."""
        kind = cls.model_fields["kind"].default
        known = self.classes.get(kind)
        if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ConfigError(f"{self.what} {kind!r} is registered already by {known.__module__}.{known.__qualname__}")
        self.classes[kind] = cls
        return cls

    def __getitem__(self, kind: str) -> type[C]:
        if kind not in self.classes:
            guess = did_you_mean(kind, self.classes) or "; if it is a plug-in's, name its file first: attentif --plugin FILE.py"
            raise ConfigError(f"no {self.what} is called {kind!r}{guess}")
        return self.classes[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.classes))


class OneOf:
    """Annotation: this value is any configuration of the registry, picked by its `kind`."""

    def __init__(self, registry: Registry[Any]) -> None:
        self.registry = registry

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        dump = core_schema.plain_serializer_function_ser_schema(lambda value: value.model_dump())
        return core_schema.no_info_plain_validator_function(self._validate, serialization=dump)

    def _validate(self, value: Any) -> Any:
        if isinstance(value, tuple(self.registry.classes.values())):
            return value
        if not isinstance(value, Mapping) or not isinstance(value.get("kind"), str):
            known = ", ".join(self.registry)
            raise PydanticCustomError(
                "kind", "a {what} is a table with a `kind`, one of: {known}", {"what": self.registry.what, "known": known}
            )
        try:
            cls = self.registry[value["kind"]]
        except ConfigError as error:
            raise PydanticCustomError("kind", "{message}", {"message": error.message}) from None
        try:
            return cls.model_validate(dict(value))
        except ValidationError as error:
            raise inside(problems_of(error, cls)) from None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(str(word), list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def inside(problems: list[tuple[Keys, str]]) -> PydanticCustomError:
    """Problems at places below this one. pydantic would fold them into one string, so they travel in the context."""
    summary = "; ".join(f"{join_keys(path)}: {message}" for path, message in problems)
    return PydanticCustomError("inside", "{summary}", {"summary": summary, "problems": problems})


def problems_of(error: ValidationError, cls: type[BaseModel]) -> list[tuple[Keys, str]]:
    """Every problem as (path, message), those of nested kinds included."""
    found: list[tuple[Keys, str]] = []
    for item in error.errors(include_url=False):
        path = tuple(item["loc"])
        match item["type"]:
            case "inside":
                found += [(path + tuple(inner), message) for inner, message in item["ctx"]["problems"]]
            case "extra_forbidden":
                owner = _class_at(cls, path[:-1])
                known = toml_keys(owner) if owner else ()
                found.append((path, f"unknown key{did_you_mean(str(path[-1]), known)}"))
            case "value_error":
                found.append((path, str(item["ctx"]["error"])))
            case "missing":
                found.append((path, "a value is required here"))
            case _:
                given = item["input"]
                shown = f", not {given!r}" if isinstance(given, str | int | float | bool) else ""
                message = item["msg"].replace("Input should be", "must be").replace("a valid integer", "a whole number")
                found.append((path, message + ("" if item["type"] == "kind" else shown)))
    return found


def _class_at(cls: type[BaseModel], path: Keys) -> type[BaseModel] | None:
    """The configuration class that a path leads to, as far as annotations tell (nested kinds report for themselves)."""
    current: Any = cls
    for step in path:
        if _is_config(current):
            field = current.model_fields.get(str(step))
            current = _without_none(field.annotation) if field else None
        else:  # an item of a list, or a value of a dictionary
            parts = [part for part in getattr(current, "__args__", ()) if part is not Ellipsis]
            current = _without_none(parts[-1]) if parts else None
    return current if _is_config(current) else None


def _is_config(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _without_none(annotation: Any) -> Any:
    """`X | None` is as good as X."""
    if isinstance(annotation, UnionType) or getattr(annotation, "__origin__", None) is Union:
        return next(part for part in annotation.__args__ if part is not NoneType)
    return annotation


# ---------------------------------------------------------------------------------------------------------------- layers


@dataclass(frozen=True)
class Layer:
    """Values from one place: a preset, a file, a word of the command line."""

    values: dict[str, Any]
    name: str
    text: str | None = None  # the TOML source, to find lines in

    def place(self, path: Keys) -> tuple[str, int | None]:
        return self.name, (line_of(self.text, path) if self.text is not None else None)

    @property
    def about(self) -> str:
        """The comment that the TOML source opens with: one line on what it is."""
        comment = takewhile(lambda line: line.startswith("#"), (self.text or "").splitlines())
        return " ".join(line.lstrip("# ").strip() for line in comment)


class Document:
    """Layers of values, and the way back from a path to the place that set it."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.layers = [replace(layer, values=rename_keys(layer.values)) for layer in layers]
        self.values: dict[str, Any] = {}
        for layer in self.layers:
            try:
                self.values = merge(self.values, layer.values)
            except ConfigError as error:
                raise ConfigError(error.message, file=layer.name) from None

    def place(self, path: Keys) -> tuple[str | None, int | None]:
        """File and line that set the value at `path`, or the nearest table above it."""
        for length in range(len(path), -1, -1):
            for layer in reversed(self.layers):
                if length and has(layer.values, path[:length]):
                    return layer.place(path[:length])
        return (self.layers[-1].name, None) if self.layers else (None, None)

    def error(self, path: Keys, message: str) -> ConfigError:
        file, line = self.place(path)
        return ConfigError(f"{join_keys(path)}: {message}" if path else message, file=file, line=line)

    def build(self, cls: type[C]) -> C:
        """The validated configuration; the first problem, with its place, as a ConfigError."""
        try:
            return cls.model_validate(self.values)
        except ValidationError as error:
            found = [self.error(path, message) for path, message in problems_of(error, cls)]
            raise (found[0] if len(found) == 1 else ConfigError(_with_rest(found), file=found[0].file, line=found[0].line)) from None
        except ConfigError as error:  # contradictions found while building nested parts
            file, line = self.place(())
            raise ConfigError(error.message, file=error.file or file, line=error.line or line) from None


def _with_rest(found: list[ConfigError]) -> str:
    more = len(found) - 1
    return f"{found[0].message} (and {more} more: {'; '.join(error.message for error in found[1:4])}{' ...' if more > 3 else ''})"


def read_toml(path: Path, name: str | None = None) -> Layer:
    """A TOML file as a layer, brought to the current version."""
    shown = name or str(path)
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors put a mark before the first character
        values = tomllib.loads(text)
    except FileNotFoundError:
        raise ConfigError("no such file", file=shown) from None
    except OSError as error:
        raise ConfigError(str(error.strerror).lower(), file=shown) from None
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise ConfigError("is not UTF-8 text", file=shown, line=line) from None
    except tomllib.TOMLDecodeError as error:
        place = int(match[1]) if (match := re.search(r"line (\d+)", str(error))) else None
        raise ConfigError(f"is not valid TOML: {str(error).split(' (at')[0].lower()}", file=shown, line=place) from None
    try:
        return Layer(rename_keys(migrate_values(values)), shown, text)
    except ConfigError as error:
        raise ConfigError(error.message, file=shown, line=line_of(text, ("version",))) from None


def migrate_values(values: dict[str, Any]) -> dict[str, Any]:
    """Migrate values of an older format version to the current one."""
    version = values.get("version", VERSION)
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise ConfigError(f"version: must be a whole number, not {version!r}")
    if version > VERSION:
        raise ConfigError(f"version {version} is newer than this Attentif understands ({VERSION}); update Attentif")
    while version < VERSION:
        if version not in MIGRATIONS:
            raise ConfigError(f"version {version} can no longer be read")
        values = MIGRATIONS[version](values)
        version += 1
    return values | {"version": VERSION} if "version" in values else values


def override(word: str) -> Layer:
    """`train.lr=3e-4` as a layer. The value is read as TOML, and as plain text where it is not."""
    key, equals, raw = word.partition("=")
    steps = key.strip().split(".")
    if not equals or not all(steps):
        raise ConfigError(f"{word!r} is not of the form key=value")
    try:
        read = tomllib.loads(f"value = {raw}")
    except tomllib.TOMLDecodeError:
        read = {}
    value: Any = read["value"] if len(read) == 1 else raw.strip()
    for step in reversed(steps):
        value = {step: value}
    return Layer(value, f"option {word!r}")


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` over `below`, table by table; a table that names another `kind` starts afresh."""
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        if isinstance(old, list) and isinstance(value, Mapping) and value and all(re.fullmatch(r"\d+", k) for k in value):
            result[key] = _merge_items(old, value, key)
        else:
            result[key] = _merge_value(old, value)
    return result


def _merge_value(old: Any, new: Any) -> Any:
    same_kind = isinstance(old, Mapping) and isinstance(new, Mapping) and new.get("kind", old.get("kind")) == old.get("kind")
    return merge(old, new) if same_kind else new


def _merge_items(items: list[Any], changes: Mapping[str, Any], key: str) -> list[Any]:
    """`blocks.0.repeat=2` changes one item of a list."""
    result = list(items)
    for index, value in changes.items():
        if int(index) >= len(result):
            raise ConfigError(f"{key}.{index}: there are only {len(result)} items")
        result[int(index)] = _merge_value(result[int(index)], value)
    return result


def has(values: Any, path: Keys) -> bool:
    for step in path:
        if isinstance(values, Mapping) and str(step) in values:
            values = values[str(step)]
        elif isinstance(values, list) and isinstance(step, int) and step < len(values):
            values = values[step]
        else:
            return False
    return True


def join_keys(path: Keys) -> str:
    return ".".join(str(step) for step in path)


# --------------------------------------------------------------------------------------------------------------- writing


def to_toml(config: Config, *, comments: bool = False, header: str = "") -> str:
    """The whole configuration as TOML; with `comments`, each key says what it means and what it is by default."""
    lines = [f"# {line}".rstrip() for line in header.splitlines()]
    _write_table(config, (), lines, comments)
    return "\n".join(lines).strip() + "\n"


def _write_table(config: Config, path: tuple[str, ...], lines: list[str], comments: bool) -> None:
    tables: list[tuple[str, Any]] = []
    for key, name in toml_keys(type(config)).items():
        field, value = type(config).model_fields[name], getattr(config, name)
        if _is_table(value):
            tables.append((key, value))
            continue
        note = _note(field, comments)
        if value is None:
            lines += [f"# {key} ={note}"] if comments else []
        else:
            lines.append(f"{key} = {toml_value(value)}{note}")
    for key, value in tables:
        _write_nested((*path, key), value, lines, comments)


def _write_nested(path: tuple[str, ...], value: Any, lines: list[str], comments: bool) -> None:
    name = ".".join(map(toml_key, path))
    if isinstance(value, Config):
        lines += ["", f"[{name}]"]
        _write_table(value, path, lines, comments)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _write_nested((*path, key), item, lines, comments)
    else:
        for item in value:
            lines += ["", f"[[{name}]]"]
            _write_table(item, path, lines, comments)


def _is_table(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value) and all(isinstance(item, Config) for item in value.values())
    return isinstance(value, Config) or (isinstance(value, list | tuple) and bool(value) and all(isinstance(v, Config) for v in value))


def _note(field: Any, comments: bool) -> str:
    if not comments:
        return ""
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    shown = "" if default is None or isinstance(default, Config) or _is_table(default) else f" (default: {toml_value(default)})"
    text = f"{field.description or ''}{shown}".strip()
    return f"  # {text}" if text else ""


def toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_value(key)


def toml_value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case list() | tuple():
            return "[" + ", ".join(toml_value(item) for item in value) + "]"
        case Mapping():
            return "{ " + ", ".join(f"{toml_key(key)} = {toml_value(item)}" for key, item in value.items()) + " }" if value else "{}"
        case Config():
            return toml_value({key: item for key, item in value.model_dump().items() if item is not None})
        case Path():
            return toml_value(str(value))
    raise TypeError(f"{type(value).__name__} cannot be written as TOML")
