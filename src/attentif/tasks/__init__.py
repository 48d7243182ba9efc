"""Tasks: what is predicted, how it is scored and shown."""

from attentif.tasks.classify import Classify, ClassifyConfig
from attentif.tasks.language import Language, LanguageConfig
from attentif.tasks.task import TASKS, Baseline, Dataset, Evaluation, Loss, Prediction, Prepared, Sizes, Task, TaskConfig
from attentif.tasks.translate import Translate, TranslateConfig

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
