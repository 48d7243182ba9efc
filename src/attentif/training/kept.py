"""The configuration that a folder keeps: a run's whole, or what an imported model has."""

from collections.abc import Sequence
from pathlib import Path

from attentif.config import Document, Layer, has, read_toml
from attentif.errors import ConfigError
from attentif.training.config import KeptConfig, RunConfig

CHANGEABLE = ("data", "task")  # what is read, and how; the rest is what the weights were trained as


def kept_config(folder: Path, changes: Sequence[Layer] = ()) -> KeptConfig:
    """`config.toml` of a run, as it was written, a `RunConfig` where the run was trained here; `changes` are of what it reads."""
    for layer in changes:
        if not {*layer.values} <= {*CHANGEABLE} or has(layer.values, ("task", "kind")):
            raise ConfigError("a trained run takes changes of its data.* and task.* alone, not of the task's kind", file=layer.name)
    layer = read_toml(folder / "config.toml")
    return Document([layer, *changes]).build(KeptConfig if is_imported(layer) else RunConfig)


def is_imported(layer: Layer) -> bool:
    """Whether a configuration is that of a model that was imported: a record of what it was made with, and no training."""
    return "made" in layer.values and "train" not in layer.values and "fit" not in layer.values
