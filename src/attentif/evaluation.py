"""Score a run on rows of its own data or on other rows, and tell those that it was trained on from new ones."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from attentif.data import DataConfig
from attentif.data.in_memory import name_frames
from attentif.data.table import Table
from attentif.errors import AttentifError, RunError, UsageError
from attentif.tasks import Evaluation, Task, TaskState
from attentif.tasks.answers import BUDGET, RemoteMap
from attentif.tasks.base import AnyBaseTask, Dataset, Progress, Say, Split, Tokenizers
from attentif.tasks.batches import take_rows
from attentif.training.config import FitConfig, StoredConfig
from attentif.training.load import Given, check_split, other_rows
from attentif.training.overlap import add_unseen, find_unseen, save_rows
from attentif.training.stored_config import find_data


class Scorable(Protocol):
    """What scoring reads of an `attentif.Run`."""

    config: StoredConfig | FitConfig | None
    task: AnyBaseTask
    state: TaskState
    model: Any
    tokenizers: Tokenizers
    own_data: bool

    @property
    def path(self) -> Path: ...


def score_run(
    run: Scorable,
    data: Given | None,
    *,
    split: str,
    say: Say,
    progress: Progress | None = None,
    remote_map: RemoteMap | None = None,
) -> Evaluation:
    """Scores on a split of the run's own data, or on all rows of `data`, those that it was not trained on apart."""
    if remote_map is not None and not run.task.scores_by_batch:
        raise UsageError(f"--cluster: a run of {run.task.config.kind} is scored by one process; leave it out", file=run.path)
    dataset, config = open_split(run, data, split, say), run.config
    budget = config.train.batch_tokens if isinstance(config, StoredConfig) and config.train is not None else BUDGET
    how: dict[str, Any] = {"budget": budget, "progress": progress}
    found = run.task.evaluate(run.model, run.state, cast("Any", dataset), remote_map=remote_map, **how)
    return found if data is None else _score_unseen(run, found, cast("Any", dataset), say, remote_map, how)


def open_split(run: Scorable, data: Given | None, split: str, say: Say) -> Split:
    """What `score_run` scores: a split of the run's own data, or all rows of `data`."""
    check_split(split)
    config, own_data = run.config, _find_own_data(run)
    if data is not None:
        with name_frames():
            return run.task.read(run.state, other_rows(own_data, data), run.tokenizers, run.model.config, say)
    if config is None or own_data is None:
        raise UsageError(
            "was imported: the data that it was trained on are not known; name a file to score it on (--data FILE)", file=run.path
        )
    prepared = run.task.prepare(own_data, run.tokenizers, run.model.config, say, run.state)
    if run.own_data and config.made is not None and prepared.digest != config.made.data:
        raise RunError("its data have changed since it was trained: score other rows by naming their file (--data)", file=run.path)
    return cast("Split", getattr(prepared, split))


def read_training_table(run: Scorable, say: Say) -> Table | None:
    """The rows that a run was trained on; None, and a line that says why, where they cannot be read."""
    data = _find_own_data(run)
    if data is None:
        return None
    try:
        prepared = run.task.prepare(data, run.tokenizers, run.model.config, say, run.state)
    except AttentifError as error:
        say(f"neighbours in training are not shown, for its data cannot be read: {error}")
        return None
    return getattr(prepared.train, "table", None)


def _find_own_data(run: Scorable) -> DataConfig | None:
    return None if run.config is None else find_data(run.config)


def _score_unseen(
    run: Scorable, found: Evaluation, dataset: Dataset, say: Say, remote_map: RemoteMap | None, how: Mapping[str, Any]
) -> Evaluation:
    """Report how many rows were trained on or chosen by, and score the others separately."""
    own_data = _find_own_data(run)
    if own_data is None or not isinstance(run.task, Task) or getattr(dataset, "table", None) is None:
        return found
    try:
        prepared = run.task.prepare(own_data, run.tokenizers, run.model.config, lambda _: None, run.state)
    except AttentifError as error:
        say(f"whether rows were trained on cannot be told: {error}")
        return found
    unseen = find_unseen(dataset, prepared.train, prepared.valid)  # a stacked linear model is fitted again on both
    if unseen is None or len(unseen) == len(dataset):
        return found
    seen = len(dataset) - len(unseen)
    say(f"warning: {seen:,} of {len(dataset):,} rows were trained on or chosen by, and say nothing about new ones")
    if not unseen:
        return add_unseen(found, None, seen)
    others = run.task.read(run.state, other_rows(None, save_rows(dataset, unseen)), run.tokenizers, run.model.config, lambda _: None)
    if remote_map is not None:  # the workers know these rows by their numbers in the whole
        remote_map = take_rows(remote_map, np.array(unseen)) if np.array_equal(others.lengths, dataset.lengths[unseen]) else None
    return add_unseen(found, run.task.evaluate(run.model, run.state, others, remote_map=remote_map, **how), seen)
