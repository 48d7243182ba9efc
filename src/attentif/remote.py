"""What the workers of a cluster do with a run: each opens it once, by its path, and answers chunks of rows or of texts."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from attentif.bulk import Ahead, Answer
from attentif.cluster import Cluster
from attentif.data.input_rows import AskedRow
from attentif.evaluation import open_split
from attentif.models.model import eval_mode
from attentif.models.precision import Precision
from attentif.run import Run
from attentif.tasks.answers import Prediction, RemoteMap
from attentif.tasks.batches import device_of
from attentif.tasks.predictors import networks_of

TEXTS = 2048  # embedded together
BATCHES = 16  # scored together, at most

Rows = NDArray[np.int64]
Work = Callable[[Any, Any, Any], Any]  # of a model, a split and a batch of it


@dataclass(frozen=True)
class RemoteRun:
    """A run as it is opened on each worker. `version` tells it from one that stood at the same place before."""

    path: str
    changes: tuple[str, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    device: str = "auto"
    precision: Precision = "float32"
    version: float = 0.0

    @classmethod
    def of(
        cls, run: Path, changes: Sequence[str] = (), *, device: str = "auto", precision: Precision = "float32", **options: Any
    ) -> "RemoteRun":
        manifest = run / "manifest.json"
        version = manifest.stat().st_mtime if manifest.is_file() else 0.0
        return cls(str(run.resolve() if run.exists() else run), tuple(changes), tuple(options.items()), device, precision, version)


@lru_cache(maxsize=1)
def open_remote(remote: RemoteRun) -> Run:
    from attentif.api import reopen
    from attentif.config import override

    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    changes = [override(word) for word in remote.changes]
    return reopen(remote.path, changes, device=remote.device, threads=threads, precision=remote.precision)


def predict_rows(remote: RemoteRun, rows: Sequence[Any]) -> list[Prediction]:
    return open_remote(remote).predict(rows, **dict(remote.options))


def predict_chunk(remote: RemoteRun, chunk: Sequence[AskedRow]) -> list[Prediction]:
    return predict_rows(remote, [row.asked for row in chunk])


def embed_texts(remote: RemoteRun, texts: Sequence[str]) -> NDArray[np.float32]:
    return open_remote(remote).embed(texts, **dict(remote.options))


def answer_ahead(cluster: Cluster, remote: RemoteRun) -> Ahead:
    """Chunks in order, answered by the workers while the next ones are read."""

    def ahead(chunks: Iterator[list[AskedRow]]) -> Iterator[tuple[list[AskedRow], Answer]]:
        for chunk, outcome in cluster.map_ordered(partial(predict_chunk, remote), chunks):

            def answer(rows: Sequence[Any], size: int = len(chunk), whole: Any = outcome) -> list[Prediction]:
                if len(rows) == size:
                    return whole.get()
                return cluster.wait_for(cluster.submit(predict_rows, remote, rows)).get()  # a part, to find the row that cannot be answered

            yield chunk, answer

    return ahead


@dataclass(frozen=True)
class RemoteSplit:
    """The examples that are scored, as each worker reads them."""

    run: RemoteRun
    data: str  # JSON of the files and columns given to `Run.evaluate`; "null": the run's own
    split: str


def score_on(cluster: Cluster, split: RemoteSplit) -> RemoteMap:
    """For `Run.evaluate(remote_map=...)`: batches go to the workers, which read the same files and answer in order."""

    def remote_map(work: Work, batches: Sequence[Rows]) -> Iterator[Any]:
        size = max(1, min(BATCHES, len(batches) // (4 * cluster.workers)))
        parts = (list(batches[start : start + size]) for start in range(0, len(batches), size))
        for _, outcome in cluster.map_ordered(partial(score_batches, split, work), parts):
            yield from outcome.get()

    return remote_map


def score_batches(split: RemoteSplit, work: Work, batches: Sequence[Rows]) -> list[Any]:
    run, rows = open_remote(split.run), open_remote_split(split)
    networks = nn.ModuleList(networks_of(run.model))
    with eval_mode(networks):
        return [work(run.model, rows, rows.batch(chosen).to(device_of(networks))) for chosen in batches]


@lru_cache(maxsize=1)
def open_remote_split(split: RemoteSplit) -> Any:
    return open_split(open_remote(split.run), json.loads(split.data), split.split, lambda _: None)


def embed_on(cluster: Cluster, remote: RemoteRun, texts: Sequence[str]) -> NDArray[np.float32]:
    """(N, D): the vectors of all texts, as `Run.embed` gives them."""
    parts = (list(texts[start : start + TEXTS]) for start in range(0, len(texts), TEXTS))
    return np.concatenate([outcome.get() for _, outcome in cluster.map_ordered(partial(embed_texts, remote), parts)])
