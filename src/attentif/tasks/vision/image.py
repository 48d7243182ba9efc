"""Classification of pictures: a label for each, read as patches by any backbone (Dosovitskiy et al. 2021)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from attentif.data import DataConfig
from attentif.data.images import (
    DATA_URI,
    Pictures,
    as_shown,
    data_uri,
    load_picture_rows,
    load_pictures,
    open_picture,
    picture_inputs,
)
from attentif.errors import ConfigError, within
from attentif.models import Batch, Input, Model, ModelConfig
from attentif.models.frontends.pictures import PictureConfig
from attentif.models.heads import ClassifyHeadConfig
from attentif.nn.seq import Seq
from attentif.tasks.answers import Baseline, EvalOptions, Evaluation, Prediction
from attentif.tasks.attention import attention_maps
from attentif.tasks.base import BUDGET, TASKS, Example, Inputs, Loss, Prepared, Say, Sizes, Task, TaskState, Tokenizers
from attentif.tasks.batches import as_examples, build_meta, check_one_stack, say_all
from attentif.tasks.classification.data import log_probabilities
from attentif.tasks.classification.report import ClassDetails, classify_sections
from attentif.tasks.classification.scores import check_pooling, first_of_each_class, number_labels, score_classes, surest_errors
from attentif.tasks.details import details_of
from attentif.tasks.metrics import never_answered
from attentif.tasks.narrow import labels_of, narrow
from attentif.tasks.ragged import Ints, Rows
from attentif.tasks.report import WORST_ERRORS
from attentif.tasks.tokenizers import TokenizerSource
from attentif.tasks.vision.augment import AugmentConfig, augment, mix_pairs
from attentif.tasks.vision.frame import StandardisedConfig
from attentif.tasks.vision.image_baselines import picture_baselines
from attentif.view.blocks import AttentionMaps, FigureBlock, Picture, Section
from attentif.view.words import Text

WORST = 24  # errors shown in the report
PLACE = 4  # pixels of which a frontend without patches has the sides multiples, where a size is chosen
SHOWN_SIDE = 96  # pixels of an error's longer side: a report stays light


@TASKS.register
class ImageConfig(StandardisedConfig):
    """A label for a picture."""

    kind: Literal["image"] = Field("image", description="image classification")
    labels: list[str] = Field([], description="class names in the order of the logits; by default those of the training data")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="label smoothing")
    augment: AugmentConfig = Field(AugmentConfig(), description="data augmentation")

    def build(self) -> "Image":
        return Image(self)


class PictureError(TypedDict):
    picture: str  # a data URI
    true: str
    predicted: str
    probability: float
    place: str


class PictureDetails(ClassDetails):
    worst_pictures: list[PictureError]


@dataclass(frozen=True)
class ImageState(TaskState):
    """The classes, and the mean and deviation of each channel."""

    labels: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


@dataclass(frozen=True)
class LabelledPictures:
    """One split, as numbers of mean 0 and deviation 1."""

    pictures: Pictures
    labels: Ints
    tokens: int  # that each picture becomes
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def name(self) -> str:
        return self.pictures.name

    @cached_property
    def lengths(self) -> Ints:
        return np.full(len(self.pictures), self.tokens, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.pictures)

    def batch(self, rows: Rows, *, packed: bool = False) -> Batch:
        """Packed or not: pictures all have as many patches, and the frontend says how many."""
        chosen = np.asarray(rows, dtype=np.int64)
        source = Input(standardise(self.pictures.pixels[chosen], self.mean, self.std), Seq.from_padded([self.tokens] * len(chosen)))
        return Batch(source, labels=torch.from_numpy(self.labels[chosen]), rows=tuple(chosen.tolist()))

    def place(self, row: int) -> str:
        return self.pictures.place(row)


def standardise(pixels: NDArray[np.uint8], mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Bytes (B, C, H, W) as (x / 255 - mean) / std."""
    times = pixels.shape[1] // len(mean)  # frames of a film
    centre, spread = (torch.tensor(values, dtype=torch.float32).repeat(times)[:, None, None] * 255 for values in (mean, std))
    return (torch.from_numpy(pixels).float() - centre) / spread


class Image(Task[ImageState, LabelledPictures]):
    config: ImageConfig
    state_type = ImageState
    offers = ("describe",)
    metric = "accuracy"
    reads = "image"
    scores_by_batch = True
    needs_tokenizer = False
    frames = 1

    @property
    def averages(self) -> bool:
        return True

    def adapt(self, model: ModelConfig) -> ModelConfig:
        """A head of classes where the preset has another: at the class token where there is one, else over all patches."""
        if isinstance(model.head, ClassifyHeadConfig):
            return model
        if model.encoder is None:
            return model.with_head(ClassifyHeadConfig(pool="last"))
        return model.with_head(ClassifyHeadConfig(pool="first" if getattr(model.frontend, "class_token", False) else "mean"))

    def check(self, model: ModelConfig) -> None:
        frontend = model.frontend
        if not isinstance(frontend, PictureConfig):
            raise ConfigError(
                'model.frontend: image reads pictures, by a frontend of kind "patches" or "convolutions"; use for example vit-tiny'
            )
        check_one_stack(model, "image", "vit-tiny")
        self.config.check_frame()
        for key in ("channels", "height", "width"):
            ours, theirs = getattr(self.config, key), getattr(frontend, key)
            if ours is not None and theirs is not None and ours != theirs:
                raise ConfigError(f"task.{key}: {ours}, and model.frontend.{key} is {theirs}; leave one of them out")
        if len(self.config.mean) != len(self.config.std):
            raise ConfigError("task: mean and std go together, one number a channel each")
        frame = self.config.frame(model.frontend)
        if frame.height and frame.width:
            build_meta(model.with_sizes(frontend={"channels": frame.channels or 1, "height": frame.height, "width": frame.width}))
        check_pooling(model, build_meta(model), "patch")

    def prepare(
        self, data: DataConfig, text: TokenizerSource, model: ModelConfig, say: Say, state: ImageState | None = None
    ) -> Prepared[ImageState, LabelledPictures]:
        splits = load_pictures(data, self.config.frame(model.frontend), say, step=getattr(model.frontend, "step", PLACE))
        say_all(splits.notes, say)
        channels, height, width = splits.train.shape
        channels //= self.frames
        mean, std = self.config.mean, self.config.std
        if not mean:
            mean, std = channel_scale(splits.train.pixels, self.frames)
        elif len(mean) != channels:
            raise ConfigError(f"task.mean: {len(mean)} numbers for pictures of {channels} channels")
        state = state or ImageState(tuple(self.config.labels or splits.labels), mean, std)
        frontend = {"channels": channels, "height": height, "width": width} | ({"frames": self.frames} if self.frames > 1 else {})
        tokens = count_patches(model.with_sizes(frontend=frontend))
        train, valid, test = (self._label_pictures(state, part, tokens) for part in (splits.train, splits.valid, splits.test))
        sizes = Sizes(classes=len(state.labels), max_len=tokens, frontend=frontend)
        return Prepared(state, train, valid, test, {}, sizes, splits.digest, splits.notes)

    def read(self, state: ImageState, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> LabelledPictures:
        pictures, notes = load_picture_rows(data, self.config.frame(model.frontend), say)
        say_all(notes, say)
        return self._label_pictures(state, pictures, count_patches(model))

    def _label_pictures(self, state: ImageState, pictures: Pictures, tokens: int) -> LabelledPictures:
        return LabelledPictures(pictures, number_labels(pictures.table, state.labels), tokens, state.mean, state.std)

    def step(self, model: Model, batch: Batch) -> Loss:
        order, share, pixels = None, 1.0, batch.source.data
        if model.training:
            pixels = augment(pixels, self.config.augment)
            if self.config.augment.mixup:
                pixels, order, share = mix_pairs(pixels, self.config.augment.mixup)
        logits, _ = model(replace(batch, source=replace(batch.source, data=pixels)))
        loss = lambda labels: F.cross_entropy(logits, labels, reduction="sum", label_smoothing=self.config.label_smoothing)
        total = loss(labels_of(batch)) if order is None else share * loss(labels_of(batch)) + (1 - share) * loss(labels_of(batch)[order])
        right = (logits.detach().argmax(-1) == labels_of(batch)).sum()
        return Loss(total, len(labels_of(batch)), {"accuracy": right})

    def score(self, model: Model, state: ImageState, dataset: LabelledPictures, options: EvalOptions) -> Evaluation:
        log_p = log_probabilities(model, dataset, options)
        found = score_classes(log_p, dataset.labels, state.labels, dataset.name, quick=options.quick)
        if not options.quick:
            found = replace(found, details={**found.details, "worst_pictures": self._worst(state, dataset, log_p)})
        return found

    def _worst(self, state: ImageState, dataset: LabelledPictures, log_p: NDArray[np.float64]) -> list[PictureError]:
        """The errors that the model was surest of, as small pictures."""
        return [
            {
                "picture": data_uri(make_thumbnail(dataset.pictures.to_image(row), SHOWN_SIDE * self.frames)),
                "true": state.labels[int(dataset.labels[row])],
                "predicted": state.labels[int(log_p[row].argmax())],
                "probability": float(np.exp(log_p[row].max())),
                "place": dataset.place(row),
            }
            for row in surest_errors(log_p, dataset.labels, WORST)
        ]

    def baselines(self, prepared: Prepared[ImageState, LabelledPictures], say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        return picture_baselines(train.pictures.pixels, train.labels, test.pictures.pixels, test.labels, len(prepared.state.labels), say)

    def inputs(self, file: Path, column: str | None) -> list[str | Example] | None:
        return list(picture_inputs(file))

    def predict(
        self, model: Model, state: ImageState, tokenizers: Tokenizers, inputs: Inputs, *, budget: int = BUDGET, **options: Any
    ) -> list[Prediction]:
        """A label for each picture (a path, or a data URI), with the probability of every class."""
        examples = as_examples(inputs, "image")
        p = np.exp(log_probabilities(model, self._read_inputs(model, state, examples), EvalOptions(budget)))
        names = (name_input(example, number) for number, example in enumerate(examples, 1))
        return [Prediction.of_classes(name, state.labels, row) for name, row in zip(names, p, strict=True)]

    def _read_inputs(self, model: Model, state: ImageState, examples: Sequence[Example]) -> LabelledPictures:
        """New pictures as a split without labels (all of class 0)."""
        from attentif.data.table import Table

        frame = self.config.frame(model.config.frontend)
        pixels = np.stack([open_picture(example["image"], frame) for example in examples])
        table = Table.of_files({}, [name_input(example, number) for number, example in enumerate(examples, 1)])
        labels = np.zeros(len(examples), np.int64)
        return LabelledPictures(Pictures(table, pixels, self.frames), labels, count_patches(model.config), state.mean, state.std)

    def warnings(self, evaluation: Evaluation) -> list[Text]:
        return never_answered(evaluation.details)

    def sections(self, evaluation: Evaluation) -> list[Section]:
        sections = classify_sections(evaluation)
        if (details := details_of(evaluation, PictureDetails)) and (worst := details["worst_pictures"]):
            sections.append(Section(WORST_ERRORS, [_gallery(worst)]))
        return sections

    def examples(self, prepared: Prepared[ImageState, LabelledPictures], count: int = 3) -> list[Example]:
        """Test pictures, the first of each class in turn."""
        test = prepared.test
        firsts = first_of_each_class(test.labels, len(prepared.state.labels))
        return [{"image": test.pictures.to_uri(row), "place": test.place(row)} for row in firsts[:count]]

    def maps(self, model: Model, state: ImageState, tokenizers: Tokenizers, inputs: Inputs) -> list[AttentionMaps]:
        """By layer and head, and over the picture itself."""
        examples = as_examples(inputs, "image")
        asked = self._read_inputs(model, state, examples)
        frontend = narrow(model.config.frontend, PictureConfig)
        rows, columns = frontend.grid
        first = len(frontend.names_before)
        tokens = frontend.names_before + [f"{r}·{c}" for r in range(1, rows + 1) for c in range(1, columns + 1)]
        found = []
        for row, answer in enumerate(self.predict(model, state, tokenizers, examples)):
            title = f"{answer.input} → {answer.output} ({100 * (answer.probability or 0):.0f} %)"
            shown = as_shown(self.lay_out(asked.pictures.pixels[row], model.config))
            picture = Picture(shown, frontend.grid, first=first)
            found += [replace(maps, picture=picture) for maps in attention_maps(model, asked.batch([row]), tokens, title=title)]
        return found

    def lay_out(self, pixels: NDArray[np.uint8], model: ModelConfig) -> NDArray[np.uint8]:
        """The picture (C, H, W) over which the model's grid of tokens lies."""
        return pixels


def count_patches(model: ModelConfig) -> int:
    frontend = narrow(model.frontend, PictureConfig)
    with within("model.frontend."):
        frontend.check()
    return frontend.tokens_per_picture


def channel_scale(pixels: NDArray[np.uint8], frames: int = 1) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of each channel, over all frames, white being 1; from counts of the 256 values, exact for millions of pixels."""
    means, deviations = [], []
    for channel in range(channels := pixels.shape[1] // frames):
        own = pixels[:, channel::channels]
        counts = np.bincount(own.ravel(), minlength=256) / own.size
        values = np.arange(256) / 255
        mean = float(counts @ values)
        means.append(round(mean, 6))
        deviations.append(round(max(float(np.sqrt(counts @ (values - mean) ** 2)), 1 / 255), 6))  # a constant channel stays finite
    return tuple(means), tuple(deviations)


def make_thumbnail(pixels: NDArray[np.uint8], side: int = SHOWN_SIDE) -> NDArray[np.uint8]:
    """Every so many pixels of a large picture; each pixel of a tiny one several times, or browsers blur it."""
    longest = max(pixels.shape[:2])
    step, times = -(-longest // side), max(1, side // longest)
    return pixels[::step, ::step].repeat(times, 0).repeat(times, 1)


def name_input(example: Example, number: int) -> str:
    """How a picture is named in an answer: its place, its path, or its number where it came as data."""
    name = example.get("place") or example["image"]
    return f"picture {number}" if name.startswith(DATA_URI) else name


def _gallery(worst: list[PictureError]) -> FigureBlock:
    from functools import partial

    from attentif.view.figures.pictures import Shown, gallery

    about = Text(
        "Les erreurs dont le modèle était le plus sûr : vraie classe → réponse, et sa probabilité. Certaines étiquettes sont peut-être "
        "fausses : c’est ici qu’on les voit.",
        "The errors that the model was surest of: true class → answer, and its probability. Some labels may be wrong themselves: this is "
        "where one sees them.",
    )
    shown = [Shown(e["picture"], f"{e['true']} → {e['predicted']}", e["probability"], e["place"]) for e in worst]
    return FigureBlock(Text("Vraie classe → réponse", "True class → answer"), partial(gallery, shown), about)
