"""Small data and small models, shared by the tests of all tasks."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from attentif.data import DataConfig
from attentif.models import Model, ModelConfig, build, resolve
from attentif.tasks import Prepared, Task
from attentif.text import TOKENIZERS

WORDS = {"kind": "word", "vocab": 500, "min_count": 1}
SMALL = {"width": 32, "layers": 1, "dropout": 0.0}

Ready = tuple[Task, Prepared, Model]
Make = Callable[..., Ready]


@pytest.fixture(autouse=True)
def _quiet_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One thread, fixed weights, and a token cache of its own."""
    monkeypatch.setenv("ATTENTIF_CACHE", str(tmp_path / "cache"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def write_csv(tmp_path: Path) -> Callable[[str, Sequence[Mapping[str, str]]], str]:
    def write(name: str, rows: Sequence[Mapping[str, str]]) -> str:
        path = tmp_path / name
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        return str(path)

    return write


@pytest.fixture
def small() -> Callable[..., ModelConfig]:
    return lambda base, **changes: resolve({"base": base} | SMALL | changes)


@pytest.fixture
def ready(small: Callable[..., ModelConfig]) -> Make:
    """A task with its data and an untrained model in eval mode."""

    def make(task: Task, base: str, data: Mapping[str, Any], tokenizer: Mapping[str, Any] = WORDS, **changes: Any) -> Ready:
        model = task.adapt(small(base, **changes))
        task.check(model)
        text = TOKENIZERS[tokenizer["kind"]].model_validate(tokenizer)
        prepared = task.prepare(DataConfig.model_validate(data), text, model, lambda line: None)
        return task, prepared, build(prepared.sizes.fill(model)).eval()

    return make


@pytest.fixture
def teach() -> Callable[..., None]:
    """Steps on all of the training split at once."""

    def learn(task: Task, prepared: Prepared, model: Model, *, steps: int, lr: float = 1e-2) -> None:
        optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        for _ in range(steps):
            loss = task.step(model, prepared.train.batch(range(len(prepared.train))))
            (loss.total / loss.count).backward()
            optimizer.step()
            optimizer.zero_grad()

    return learn
