"""The configuration and the task state stored in a run folder."""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import cast

from attentif.config import Document, Layer, has, read_toml
from attentif.data.config import DataConfig
from attentif.errors import ConfigError, RunError
from attentif.tasks.base import TASKS, AnyTask, TaskState
from attentif.tasks.states import JSON, load_state
from attentif.training.config import FitConfig, RunConfig, StoredConfig

CHANGEABLE = ("data", "task")  # data and task; all else is what the weights were trained with


def read_run_config(folder: Path, changes: Sequence[Layer] = ()) -> StoredConfig:
    """The configuration of a run with `changes` of data and task; a `RunConfig` where the run was trained here."""
    for layer in changes:
        if not {*layer.values} <= {*CHANGEABLE} or has(layer.values, ("task", "kind")):
            raise ConfigError("only data.* and task.* of a trained run can be changed, and not task.kind", file=layer.name)
    layer = read_config_layer(folder / "config.toml")
    return Document([layer, *changes]).build(StoredConfig if is_imported(layer) else RunConfig)


def find_data(config: StoredConfig | FitConfig) -> DataConfig | None:
    """The data of a run; relative paths are resolved here, then in the folder that the run was started from."""
    if config.data is None or config.made is None or config.made.folder is None:
        return config.data
    origin = Path(config.made.folder)

    def find(name: str) -> str:
        return name if Path(name).exists() or not (origin / name).exists() else str(origin / name)

    found: dict[str, str | list[str]] = {}
    for key in ("train", "valid", "test", "target", "valid_target", "test_target"):
        if given := getattr(config.data, key):
            found[key] = find(given) if isinstance(given, str) else [find(name) for name in given]
    return config.data.replace(**found)


def is_imported(layer: Layer) -> bool:
    """Whether a configuration is that of an imported model: it has provenance, and no training."""
    return "made" in layer.values and "train" not in layer.values and "fit" not in layer.values


def read_config_layer(file: Path) -> Layer:
    """The configuration that a run wrote. Before format 3 its [task] also held what the data taught: that is left out (`read_state`)."""
    layer = read_toml(file)
    task = layer.values.get("task")
    if not isinstance(task, dict) or "made" not in layer.values or task.get("kind") not in [*TASKS]:
        return layer
    kind = TASKS[task["kind"]]
    learned = {one.name for one in fields(kind.model_construct(kind=task["kind"]).build().state_type)} - {*kind.model_fields}
    return replace(layer, values=layer.values | {"task": {key: value for key, value in task.items() if key not in learned}})


def read_state(folder: Path, task: AnyTask, layer: Layer | None = None) -> TaskState:
    """What the training data taught a task: `task.json` of a run, or what the configuration of an older or an imported one says."""
    if (folder / JSON).is_file():
        return load_state(folder, task.state_type)
    file = folder / "config.toml"
    values = (read_toml(file) if file.is_file() or layer is None else layer).values
    if values.get("made", {}).get("format", 1) >= 3 and "train" in values:
        raise RunError("no such file: the run is incomplete", file=folder / JSON)
    try:
        return cast("TaskState", task.migrate_state(folder, task.config.model_dump() | values["task"]))
    except (KeyError, ValueError) as error:
        raise RunError(f"[task] does not say what the data taught: {error}", file=file) from None
