"""How a run is trained, and the whole run: data, task, tokenizer, model, training, one TOML file."""

import math
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from attentif.config import VERSION, Config, OneOf, inside
from attentif.data.config import DataConfig
from attentif.models.config import ModelConfig
from attentif.nn.adapt import AdaptConfig, Names
from attentif.tasks.task import TASKS, TaskConfig
from attentif.text import TOKENIZERS, TokenizerConfig
from attentif.training.schedule import Schedule


class LearnConfig(Config):
    """How long to learn, in which batches, by which optimiser."""

    epochs: float = Field(0.0, ge=0, description="passes over the data (0: no limit); the first of epochs, steps, minutes ends the run")
    steps: int = Field(0, ge=0, description="optimiser steps (0: no limit)")
    min_steps: int = Field(
        0, ge=0, description="on small data, as many more passes than `epochs` as these steps take; evaluations keep their number"
    )
    minutes: float = Field(0.0, ge=0, description="time spent in training steps, evaluation not counted (0: no limit)")

    batch_tokens: int = Field(4096, gt=0, description="most tokens in one batch, padding included")
    accumulate: int = Field(1, gt=0, description="batches summed up for one step, shared out among the processes of torchrun")
    packed: bool = Field(False, description="sequences end to end instead of padded")

    optimizer: Literal["adamw", "adafactor", "muon"] = Field(
        "adamw", description="adamw, adafactor, or muon (adamw for what is not a matrix)"
    )
    lr: float = Field(1e-3, gt=0, description="learning rate after warm-up")
    weight_decay: float = Field(0.01, ge=0, description="decoupled; biases, norms and embeddings are left alone")
    betas: tuple[float, float] = Field((0.9, 0.98), strict=False, description="of adamw: memory of the gradient and of its square")
    clip: float = Field(1.0, gt=0, description="longest gradient, by its norm (inf: none is too long)")
    schedule: Schedule = Field("cosine", description="cosine, linear, inverse-sqrt or constant")
    warmup: int | float = Field(0.1, ge=0, description="steps that lead up to lr: a whole number, or a share of the run")
    lr_end: float = Field(0.0, ge=0, le=1, description="share of lr left at the end (cosine, linear)")
    ema: float = Field(0.0, ge=0, lt=1, description="average the weights: share kept at each step, such as 0.999 (0: no average)")
    layer_decay: float = Field(
        1.0,
        gt=0,
        le=1,
        description="each block learns at so much of the rate of the block above it, what reads the input slowest (1: all alike)",
    )
    freeze: Names = Field((), description='parts that learn nothing, such as "frontend", "encoder.0-5" (blocks count from 0)')

    eval_every: int | float = Field(1.0, gt=0, description="evaluate after so many steps (whole number) or epochs (1.0, 0.5)")
    patience: int = Field(0, ge=0, description="stop after so many evaluations without improvement and keep the best weights (0: never)")
    best_by: Literal["score", "loss"] = Field(
        "score", description="what patience judges by: the task's score, or the loss of validation, which fewer examples are enough for"
    )

    def stretch(self, steps_per_epoch: int) -> float:
        """How many times `epochs` the run is long, so that small data get `min_steps` too."""
        return max(1.0, self.min_steps / (self.epochs * steps_per_epoch)) if self.epochs else 1.0

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        if not (self.epochs or self.steps or self.minutes):
            raise ValueError("one of epochs, steps and minutes must say how long to train")
        if self.min_steps and not self.epochs:
            raise ValueError("min_steps lengthens `epochs`, and there are none: give min_steps = 0 too")
        if isinstance(self.warmup, float) and not self.warmup < 1:
            raise ValueError(f"warmup: a fraction is a share of the run and below 1; write {math.ceil(self.warmup)} for steps")
        if self.schedule == "inverse-sqrt" and self.warmup == 0:
            raise ValueError("warmup: inverse-sqrt needs one, as the rate falls from its end on")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError("betas: must lie between 0 and 1")
        return self


class TrainConfig(LearnConfig):
    """Length of the run, optimiser, batches, what is measured and kept on the way."""

    checkpoint_every: int = Field(200, gt=0, description="save after so many steps")
    keep: int = Field(2, gt=0, description="checkpoints kept")
    log_every: int = Field(10, gt=0, description="steps between lines of metrics.jsonl")
    baselines: bool = Field(True, description="measure simple systems on the same data at the end")
    tensorboard: bool = Field(False, description="write the same for TensorBoard (needs attentif[tensorboard])")

    seed: int = Field(0, ge=0, description="of the weights, the order of the data, dropout")
    device: str = Field("auto", description="auto, cpu, cuda, cuda:1, mps")
    threads: int = Field(0, ge=0, description="threads of a process (0: as many as torch finds)")
    gradient_checkpointing: bool = Field(False, description="recompute activations in the backward pass: slower, less memory")
    compile: bool = Field(False, description="torch.compile: slow to start")
    deterministic: bool = Field(False, description="refuse operations whose result may vary from run to run (GPU)")


class PretrainConfig(LearnConfig):
    """A first stage: the base model learns from texts without labels, then goes on under the task's head."""

    task: Annotated[TaskConfig, OneOf(TASKS)] = Field(description="what is learned from the texts: masked, replaced, language, ...")
    data: str | list[str] | None = Field(None, description="file or files of unlabelled texts, read beside those of the training split")
    dropout: float | None = Field(
        None, ge=0, lt=1, description="the model's in this stage, which has more to learn from; by default the same"
    )

    @property
    def files(self) -> list[Path]:
        return [Path(file) for file in ([self.data] if isinstance(self.data, str) else self.data or [])]

    def settings(self, train: TrainConfig) -> TrainConfig:
        """How this stage is trained: on the machine and with the seed of the run, all else its own."""
        return train.changed(**{name: getattr(self, name) for name in LearnConfig.model_fields})


FORMAT = 2  # of run folders


class MadeConfig(Config):
    """What a run was made with: written to its config.toml, replaced when the file is trained again."""

    recipe: str = Field(description="what the run was started from")
    attentif: str = Field(description="version")
    python: str = Field(description="version")
    torch: str = Field(description="version")
    format: int = Field(1, description="layout of the run's folder; from 2 on it has a manifest.json")
    data: str | None = Field(None, description="SHA-256 of the data; none where the run was imported")
    weights: str | None = Field(None, description="SHA-256 of the weights that `model.from` began with, or that were imported")
    family: str | None = Field(None, description="what Hugging Face calls models built like the one that was imported or begun with")


class KeptConfig(Config):
    """What a run's folder says for its model to be used. An imported model has no more: its data and its training are not known."""

    version: int = Field(VERSION, description="of this format")
    data: DataConfig | None = Field(None, description="where the examples come from")
    task: Annotated[TaskConfig, OneOf(TASKS)] = Field(description="what is predicted")
    tokenizer: Annotated[TokenizerConfig, OneOf(TOKENIZERS)] | None = Field(None, description="from text to tokens, where there is text")
    model: ModelConfig = Field(description="frontend, stacks, head")
    adapt: AdaptConfig | None = Field(None, description="small matrices that learn beside the frozen ones of `model.from` (LoRA)")
    pretrain: PretrainConfig | None = Field(None, description="a first stage, on texts without labels")
    train: TrainConfig | None = Field(None, description="how it is trained")
    made: MadeConfig | None = Field(None, description="what a run was made with; a record, not a setting")


class RunConfig(KeptConfig):
    """A complete run."""

    data: DataConfig = Field(description="where the examples come from")
    train: TrainConfig = Field(description="how it is trained")

    @model_validator(mode="after")
    def _adaptable(self) -> Self:
        if self.adapt is None:
            return self
        if self.model.from_ is None:
            raise inside([(("adapt",), "adapters stand beside the weights of another model: name it with model.from, or leave them out")])
        if self.train.freeze:
            raise inside([(("train", "freeze"), "beside adapters all else is frozen already; adapt.also names what is not")])
        if self.pretrain is not None:
            raise inside(
                [(("adapt",), "a first stage trains the whole base model: train it as a run of its own and name that with model.from")]
            )
        return self
