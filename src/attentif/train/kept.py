"""The configuration that a folder keeps: a run's whole, or what an imported model has."""

from pathlib import Path

from attentif.config import Document, Layer, read_toml
from attentif.train.config import KeptConfig, RunConfig


def kept_config(folder: Path) -> KeptConfig:
    """`config.toml` of a run, as it was written; a `RunConfig` where the run was trained here."""
    layer = read_toml(folder / "config.toml")
    return Document([layer]).build(KeptConfig if is_imported(layer) else RunConfig)


def is_imported(layer: Layer) -> bool:
    """Whether a configuration is that of a model that was imported: a record of what it was made with, and no training."""
    return "made" in layer.values and "train" not in layer.values and "fit" not in layer.values
