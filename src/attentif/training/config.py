"""How a run is trained, and the whole run: data, task, tokenizer, model, training, one TOML file."""

import math
import platform
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import Field, model_validator

from attentif.config import VERSION, Config, OneOf, inside
from attentif.data.config import DataConfig
from attentif.models.config import ModelConfig
from attentif.nn.adapt import AdaptConfig, Names
from attentif.tasks.base import TASKS, TaskConfig
from attentif.text import TOKENIZERS, TokenizerConfig
from attentif.text.fitted import FITTED, FittedConfig
from attentif.training.schedule import Schedule
from attentif.version import __version__


class LearnConfig(Config):
    """Length of training, batches, optimiser."""

    epochs: float = Field(
        0.0, ge=0, description="passes over the data (0: no limit); the first limit reached of epochs, steps and minutes ends the run"
    )
    steps: int = Field(0, ge=0, description="optimiser steps (0: no limit)")
    min_steps: int = Field(
        0, ge=0, description="on small data, extend `epochs` until this many steps are made; the number of evaluations stays the same"
    )
    minutes: float = Field(0.0, ge=0, description="time in training steps, without evaluation (0: no limit)")

    batch_tokens: int = Field(4096, gt=0, description="maximum tokens per batch, padding included")
    accumulate: int = Field(1, gt=0, description="batches per step (gradient accumulation), split among the processes of torchrun")
    packed: bool = Field(False, description="pack sequences end to end instead of padding them")

    optimizer: Literal["adamw", "adafactor", "muon"] = Field(
        "adamw", description="adamw, adafactor, or muon (with adamw for parameters that are no matrices)"
    )
    lr: float = Field(1e-3, gt=0, description="learning rate after warm-up")
    weight_decay: float = Field(0.01, ge=0, description="decoupled weight decay; biases, norms and embeddings are excluded")
    betas: tuple[float, float] = Field((0.9, 0.98), strict=False, description="β₁ and β₂ of adamw")
    clip: float = Field(1.0, gt=0, description="maximum gradient norm (inf: no clipping)")
    schedule: Schedule = Field("cosine", description="cosine, linear, inverse-sqrt or constant")
    warmup: int | float = Field(0.1, ge=0, description="warm-up steps: a whole number, or a fraction of the run")
    lr_end: float = Field(0.0, ge=0, le=1, description="fraction of lr at the end (cosine, linear)")
    ema: float = Field(0.0, ge=0, lt=1, description="decay of the exponential moving average of the weights, such as 0.999 (0: none)")
    layer_decay: float = Field(
        1.0,
        gt=0,
        le=1,
        description="layer-wise learning-rate decay: factor from each block to the one below it (1: none)",
    )
    freeze: Names = Field((), description='frozen parts, such as "frontend", "encoder.0-5" (blocks count from 0)')

    eval_every: int | float = Field(1.0, gt=0, description="evaluation interval in steps (whole number) or epochs (1.0, 0.5)")
    patience: int = Field(
        0, ge=0, description="early stopping: evaluations without improvement before training ends with the best weights (0: off)"
    )
    best_by: Literal["score", "loss"] = Field(
        "score", description="criterion of early stopping: the task's score, or the validation loss, which is less noisy on few examples"
    )

    def stretch(self, steps_per_epoch: int) -> float:
        """Factor on `epochs` that gives small data `min_steps` too."""
        return max(1.0, self.min_steps / (self.epochs * steps_per_epoch)) if self.epochs else 1.0

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        if not (self.epochs or self.steps or self.minutes):
            raise ValueError("one of epochs, steps and minutes must say how long to train")
        if self.min_steps and not self.epochs:
            raise ValueError("min_steps extends `epochs`, and none are given: set min_steps = 0 too")
        if isinstance(self.warmup, float) and not self.warmup < 1:
            raise ValueError(f"warmup: a fraction is a share of the run and below 1; write {math.ceil(self.warmup)} for steps")
        if self.schedule == "inverse-sqrt" and self.warmup == 0:
            raise ValueError("warmup: inverse-sqrt needs one, as the rate falls from its end on")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError("betas: must lie between 0 and 1")
        return self


class TrainConfig(LearnConfig):
    """Length of training, optimiser, batches, evaluation, checkpoints."""

    checkpoint_every: int = Field(200, gt=0, description="steps between checkpoints")
    keep: int = Field(2, gt=0, description="checkpoints kept")
    follow: bool = Field(False, description="also keep the weights after steps 0, 1, 3, 10, 30, 100, ..., to look at what was learned when")
    log_every: int = Field(10, gt=0, description="steps between lines of metrics.jsonl")
    baselines: bool = Field(True, description="score simple baselines on the same data at the end")
    tensorboard: bool = Field(False, description="write metrics for TensorBoard (needs attentif[tensorboard])")

    seed: int = Field(0, ge=0, description="random seed")
    ensemble: int = Field(
        1, ge=1, le=100, description="size of the ensemble: networks with different initial weights, whose logits are averaged"
    )
    device: str = Field("auto", description="auto, cpu, cuda, cuda:1, mps")
    precision: Literal["auto", "float32", "bf16", "fp16"] = Field(
        "float32",
        description="type that linear maps are multiplied in: float32, bf16, fp16 (GPUs), or auto, which measures once and tells",
    )
    threads: int = Field(0, ge=0, description="threads per process (0: chosen by torch)")
    gradient_checkpointing: bool = Field(False, description="recompute activations in the backward pass: slower, less memory")
    shard: Literal["none", "full"] = Field(
        "none", description="under torchrun, what a process holds: none (all weights: DDP) or full (its part of them: FSDP2, less memory)"
    )
    stall: float = Field(10.0, ge=0, description="minutes after which one of several processes that is behind the others hangs (0: never)")
    compile: bool = Field(False, description="use torch.compile (slow to start)")
    deterministic: bool = Field(False, description="use deterministic algorithms only (GPU)")


class PretrainConfig(LearnConfig):
    """Pre-training of the backbone on unlabelled texts, before fine-tuning with the task's head."""

    task: Annotated[TaskConfig, OneOf(TASKS)] = Field(description="pre-training objective: masked, replaced, language, ...")
    data: str | list[str] | None = Field(None, description="files of unlabelled texts, in addition to the training split")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropout of this stage; by default the model's")

    @property
    def files(self) -> list[Path]:
        return [Path(file) for file in ([self.data] if isinstance(self.data, str) else self.data or [])]

    def settings(self, train: TrainConfig) -> TrainConfig:
        """Training settings of this stage: machine and seed of the run, all else its own."""
        return train.replace(**{name: getattr(self, name) for name in LearnConfig.model_fields}, ensemble=1)


FORMAT = 3  # of run folders


class OriginConfig(Config):
    """Metadata of an imported checkpoint beyond model and task, written back by exports."""

    architecture: str = Field(description="transformers class")
    limits: dict[str, int] = Field({}, description="limits on paper of config.json: max_position_embeddings")
    model_max_length: int | None = Field(None, description="longest text, of tokenizer_config.json")
    padding_side: Literal["left", "right"] | None = Field(None, description="where its tokenizer pads")
    truncation_side: Literal["left", "right"] | None = Field(None, description="where its tokenizer cuts")


class MadeConfig(Config):
    """Provenance of a run, written to its config.toml."""

    recipe: str = Field(description="what the run was started from")
    attentif: str = Field(description="version")
    python: str = Field(description="version")
    torch: str = Field(description="version")
    format: int = Field(1, description="layout of the run's folder; from 2 on it has a manifest.json, from 3 on a task.json")
    data: str | None = Field(None, description="SHA-256 of the data; none where the run was imported")
    folder: str | None = Field(None, description="where it was started: relative names of data files are looked for there too")
    weights: str | None = Field(None, description="SHA-256 of the weights that `model.from` began with, or that were imported")
    family: str | None = Field(None, description="what Hugging Face calls models built like the one that was imported or begun with")
    origin: OriginConfig | None = Field(None, description="what the files of that model say beside")

    @classmethod
    def of(cls, recipe: str, **rest: Any) -> Self:
        """With the versions of the current environment."""
        versions: dict[str, Any] = {"attentif": __version__, "python": platform.python_version(), "torch": torch.__version__}
        return cls(recipe=recipe, format=FORMAT, **versions, **rest)


class StoredConfig(Config):
    """Configuration of a run folder, as needed for inference. Imported models have no `data` and no `train`."""

    version: int = Field(VERSION, description="of this format")
    data: DataConfig | None = Field(None, description="where the examples come from")
    task: Annotated[TaskConfig, OneOf(TASKS)] = Field(description="what is predicted")
    tokenizer: Annotated[TokenizerConfig, OneOf(TOKENIZERS)] | None = Field(None, description="from text to tokens, where there is text")
    model: ModelConfig = Field(description="frontend, stacks, head")
    adapt: AdaptConfig | None = Field(None, description="LoRA adapters on the frozen weights of `model.from`")
    pretrain: PretrainConfig | None = Field(None, description="pre-training on unlabelled texts")
    train: TrainConfig | None = Field(None, description="how it is trained")
    made: MadeConfig | None = Field(None, description="provenance of the run; a record, not a setting")


class RunConfig(StoredConfig):
    """Configuration of a complete training run."""

    data: DataConfig = Field(description="where the examples come from")
    train: TrainConfig = Field(description="how it is trained")

    @model_validator(mode="after")
    def _adaptable(self) -> Self:
        if self.adapt is None:
            return self
        if self.model.from_ is None:
            raise inside([(("adapt",), "adapters need a base model: name it with model.from, or leave them out")])
        if self.train.freeze:
            raise inside([(("train", "freeze"), "with adapters all other weights are frozen already; adapt.also names exceptions")])
        if self.pretrain is not None:
            raise inside(
                [(("adapt",), "pre-training trains the whole backbone: train it as a run of its own and name that with model.from")]
            )
        return self


class FitConfig(Config):
    """Configuration of a fitted run."""

    version: int = Field(VERSION, description="of this format")
    data: DataConfig = Field(description="where the examples come from")
    tokenizer: Annotated[TokenizerConfig, OneOf(TOKENIZERS)] = Field(description="from text to tokens")
    fit: Annotated[FittedConfig, OneOf(FITTED)] = Field(description="what is fitted")
    made: MadeConfig | None = Field(None, description="provenance of the run; a record, not a setting")
