"""Two stages in one command: pre-training on unlabelled texts, then fine-tuning with the task's head.

    [pretrain]
    task.kind = "masked"
    epochs = 10
    data = "unlabelled.txt"          # more texts, if there are any

The first stage reads the texts of the training split alone (validation and test texts are never among them) and the files of
`pretrain.data`. It is a run of its own, in `RUN/pretrain`, with the same tokenizer, which has read the same texts; like every run it can
be stopped anywhere and goes on. The texts lie in `RUN/pretrain.jsonl`, so that the stage does not depend on how the task reads its data.
"""

import json
from pathlib import Path
from typing import Any

from attentif.data import DataConfig, file_corpus
from attentif.errors import ConfigError
from attentif.models import ModelConfig
from attentif.models.heads import TokensHeadConfig
from attentif.tasks.batches import format_count
from attentif.tasks.tokenizers import Again, TextRecorder, Tokenizers
from attentif.text import TokenizerConfig
from attentif.training.config import PretrainConfig, RunConfig
from attentif.training.rundir import RunFolder

STAGE, TEXTS = "pretrain", "pretrain.jsonl"  # inside the run's folder
HELD_OUT = 0.05  # of the texts, to choose by, and as many to score: most must be left to learn from


def record_texts(config: RunConfig, text: TokenizerConfig | Tokenizers) -> TextRecorder:
    """Record the texts of the training split; a new tokenizer is trained on the unlabelled ones too."""
    files = config.pretrain.files if config.pretrain else []
    return TextRecorder(text, Again(file_corpus(files, config.data.text, config.data.skip_bad).texts) if files else ())


def write_texts(recorder: TextRecorder, path: Path, column: str | None) -> None:
    """The texts of the training split, a row each."""
    if len(recorder.texts) != 1:
        raise ConfigError("pretrain: a first stage reads what one tokenizer reads, and this task has one for each side")
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for text in recorder.texts[0]:
            file.write(json.dumps({column or "text": text}, ensure_ascii=False) + "\n")


def stage_model(config: PretrainConfig, model: ModelConfig) -> ModelConfig:
    """The model of the first stage: the base model under the head of that stage's task, which may ask more of the base model (segments)."""
    adapted = config.task.build().adapt(model.with_head(TokensHeadConfig()))
    return adapted if config.dropout is None else adapted.replace(dropout=config.dropout)


def stage_config(config: RunConfig, folder: Path) -> RunConfig:
    """The first stage as a run, its texts in `folder`."""
    assert config.pretrain is not None
    files = [str(folder / TEXTS), *map(str, config.pretrain.files)]
    data = DataConfig(
        train=files,
        text=config.data.text,
        seed=config.data.seed,
        skip_bad=config.data.skip_bad,
        valid_fraction=HELD_OUT,
        test_fraction=HELD_OUT,
    )
    return config.replace(
        data=data,
        task=config.pretrain.task,
        model=stage_model(config.pretrain, config.model),
        train=config.pretrain.settings(config.train),
        pretrain=None,
        made=None,
    )


def describe_texts(folder: Path, config: PretrainConfig) -> str:
    """Description of what pre-training read."""
    with (folder / TEXTS).open("rb") as file:
        number = sum(1 for _ in file)
    more = f" and on {', '.join(map(str, config.files))}" if config.files else ""
    words = f"pre-trained ({config.task.kind}) on {format_count(number, 'text')} of the training split{more}, none of validation or test"
    return f"{words}: see {STAGE}/report.html"


def stage_results(folder: Path) -> dict[str, Any]:
    """Results of the first stage, for those of the whole run."""
    results = RunFolder(folder / STAGE).results
    if not results.is_file():
        return {}
    found = json.loads(results.read_text(encoding="utf-8"))
    return {STAGE: {key: found[key] for key in ("task", "metric", "scores", "steps", "cost")}}
