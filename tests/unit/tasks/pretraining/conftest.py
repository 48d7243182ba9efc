"""A few texts, and tasks that are ready to read them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from attentif.data import DataConfig
from attentif.models import Model, build, resolve
from attentif.tasks import Prepared, Task
from attentif.tasks.base import TaskConfig
from attentif.text import TOKENIZERS

THINGS = ["film", "récit", "décor", "dialogue", "rôle", "jeu"]
ReadBy = Callable[[TaskConfig, dict[str, Any]], tuple[Task, Prepared, Model]]


@pytest.fixture(scope="session")
def read_by(tmp_path_factory: pytest.TempPathFactory) -> ReadBy:
    """A task with its data, and a model built for it."""
    file = tmp_path_factory.mktemp("texts") / "avis.csv"
    rows = [f"Le {a} est bon. Mais le {b} est {word}." for a in THINGS for b in THINGS for word in ("triste", "long", "beau")]
    file.write_text("\n".join(["text", *rows]))

    def ready(config: TaskConfig, model: dict[str, Any]) -> tuple[Task, Prepared, Model]:
        task = config.build()
        adapted = task.adapt(resolve(model))
        task.check(adapted)
        tokenizer = TOKENIZERS["wordpiece"].model_validate({"kind": "wordpiece", "vocab": 120, "min_count": 1})
        prepared = task.prepare(DataConfig(train=str(file)), tokenizer, adapted, lambda _: None)
        torch.manual_seed(0)
        return task, prepared, build(prepared.sizes.fill(adapted))

    return ready
