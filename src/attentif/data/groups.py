"""Rows that stay together when splits are cut: those of one author, one series, one speaker."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from attentif.data.columns import NoGroupError
from attentif.data.config import DataConfig

Opened = TypeVar("Opened")


def with_groups(
    files: Sequence[Path], config: DataConfig, notes: list[str], open_file: Callable[[Path, DataConfig], Opened]
) -> list[Opened]:
    """Every file opened; those without the group's column, where another has it, are opened without a group, and said."""
    opened: dict[int, Opened] = {}  # by the file's place: one may be given twice
    without: dict[int, NoGroupError] = {}
    for place, file in enumerate(files):
        try:
            opened[place] = open_file(file, config)
        except NoGroupError as error:
            without[place] = error
    if without and not opened:
        raise without[0]
    opened |= {place: open_file(files[place], ungrouped(config)) for place in without}
    if without:
        lacking = " and ".join(str(files[place]) for place in without)
        have, their = ("have", "their") if len(without) > 1 else ("has", "its")
        notes.append(f"{lacking} {have} no column {config.group!r}: each of {their} rows is a group of its own")
    return [opened[place] for place in range(len(files))]


def ungrouped(config: DataConfig) -> DataConfig:
    return config.changed(group="")
