"""Tasks: what is predicted, how it is scored and shown. Importing this package registers them all."""

import pkgutil
from importlib import import_module

from attentif.tasks.classify import Classify, ClassifyConfig
from attentif.tasks.language import Language, LanguageConfig
from attentif.tasks.task import TASKS, Baseline, Dataset, Evaluation, Loss, Prediction, Prepared, Sizes, Task, TaskConfig
from attentif.tasks.translate import Translate, TranslateConfig

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "TASKS",
    "Baseline",
    "Classify",
    "ClassifyConfig",
    "Dataset",
    "Evaluation",
    "Language",
    "LanguageConfig",
    "Loss",
    "Prediction",
    "Prepared",
    "Sizes",
    "Task",
    "TaskConfig",
    "Translate",
    "TranslateConfig",
]
