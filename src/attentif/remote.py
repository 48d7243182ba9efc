"""What the workers of a cluster do with a run: each opens it once, by its path, and answers chunks of rows or of texts."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentif.bulk import Ahead, Answer
from attentif.cluster import Cluster
from attentif.data.input_rows import AskedRow
from attentif.run import Run
from attentif.tasks.base import Prediction

TEXTS = 2048  # embedded together


@dataclass(frozen=True)
class RemoteRun:
    """A run as it is opened on each worker. `version` tells it from one that stood at the same place before."""

    path: str
    changes: tuple[str, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    device: str = "auto"
    version: float = 0.0

    @classmethod
    def of(cls, run: Path, changes: Sequence[str] = (), *, device: str = "auto", **options: Any) -> "RemoteRun":
        manifest = run / "manifest.json"
        version = manifest.stat().st_mtime if manifest.is_file() else 0.0
        return cls(str(run.resolve() if run.exists() else run), tuple(changes), tuple(options.items()), device, version)


@lru_cache(maxsize=1)
def open_remote(remote: RemoteRun) -> Run:
    from attentif.api import reopen
    from attentif.config import override

    return reopen(
        remote.path, [override(word) for word in remote.changes], device=remote.device, threads=int(os.environ.get("OMP_NUM_THREADS", "1"))
    )


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


def embed_on(cluster: Cluster, remote: RemoteRun, texts: Sequence[str]) -> NDArray[np.float32]:
    """(N, D): the vectors of all texts, as `Run.embed` gives them."""
    parts = (list(texts[start : start + TEXTS]) for start in range(0, len(texts), TEXTS))
    return np.concatenate([outcome.get() for _, outcome in cluster.map_ordered(partial(embed_texts, remote), parts)])
