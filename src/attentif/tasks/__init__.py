"""Tasks: what is predicted, how it is scored and shown. Importing this package registers them all.

A folder holds the tasks of one kind, a file each with what it needs beside it (data, baselines, report); the files here are what all share.
"""

import pkgutil
from importlib import import_module

from attentif.tasks.answers import Baseline, Evaluation, Prediction
from attentif.tasks.base import TASKS, Dataset, Loss, Prepared, Sizes, Task, TaskConfig, TaskState
from attentif.tasks.classification.classify import Classify, ClassifyConfig
from attentif.tasks.language.language import Language, LanguageConfig
from attentif.tasks.seq2seq.translate import Translate, TranslateConfig

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    import_module(_module.name)

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
    "TaskState",
    "Translate",
    "TranslateConfig",
]
