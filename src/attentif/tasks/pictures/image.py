"""Classification of pictures: a label for each, read as patches by any body (Dosovitskiy et al. 2021)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

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
from attentif.errors import ConfigError, DataError, within
from attentif.models import Batch, Input, Model, ModelConfig
from attentif.models.frontends.patches import PatchesConfig
from attentif.models.heads import ClassifyHeadConfig
from attentif.nn.seq import Seq
from attentif.tasks.feed import as_examples, on_paper
from attentif.tasks.labels.classified import classified, surest_errors
from attentif.tasks.labels.classify_data import log_probabilities
from attentif.tasks.looking import attention_maps
from attentif.tasks.pictures.augment import AugmentConfig, augmented, mixed
from attentif.tasks.pictures.framed import StandardisedConfig
from attentif.tasks.pictures.image_baselines import picture_baselines
from attentif.tasks.ragged import Ints, Rows
from attentif.tasks.report import WORST_ERRORS, classify_sections
from attentif.tasks.task import (
    TASKS,
    Baseline,
    Dataset,
    Evaluation,
    Example,
    Loss,
    Prediction,
    Prepared,
    Progress,
    Say,
    Sizes,
    Task,
    Tokenizers,
)
from attentif.text import TokenizerConfig
from attentif.view.blocks import AttentionMaps, FigureBlock, Picture, Section
from attentif.view.words import Text

WORST = 24  # errors shown in the report
SHOWN_SIDE = 96  # pixels of an error's longer side: a report stays light


@TASKS.register
class ImageConfig(StandardisedConfig):
    """A label for a picture."""

    kind: Literal["image"] = Field("image", description="a label for a picture")
    labels: list[str] = Field([], description="the classes, in the model's order; by default those of the training data")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of the target given to the other classes")
    augment: AugmentConfig = Field(AugmentConfig(), description="small changes in training")

    def build(self) -> "Image":
        return Image(self)


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
        source = Input(standardised(self.pictures.pixels[chosen], self.mean, self.std), Seq.padded([self.tokens] * len(chosen)))
        return Batch(source, labels=torch.from_numpy(self.labels[chosen]), rows=tuple(chosen.tolist()))

    def place(self, row: int) -> str:
        return self.pictures.place(row)


def standardised(pixels: NDArray[np.uint8], mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Bytes (B, C, H, W) as (x / 255 - mean) / std."""
    centre, spread = (torch.tensor(values, dtype=torch.float32)[:, None, None] * 255 for values in (mean, std))
    return (torch.from_numpy(pixels).float() - centre) / spread


class Image(Task):
    config: ImageConfig
    offers = ("describe",)
    metric = "accuracy"
    reads = "image"
    needs_tokenizer = False

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
        if not isinstance(frontend, PatchesConfig):
            raise ConfigError('model.frontend: image reads pictures, cut by a frontend of kind "patches"; take vit-tiny, say')
        if model.encoder is not None and model.decoder is not None:
            raise ConfigError("model: image reads with one stack, and this model has an encoder and a decoder; take vit-tiny, say")
        self.config.check_frame()
        for key in ("channels", "height", "width"):
            ours, theirs = getattr(self.config, key), getattr(frontend, key)
            if ours is not None and theirs is not None and ours != theirs:
                raise ConfigError(f"task.{key}: {ours}, and model.frontend.{key} is {theirs}; leave one of them out")
        if len(self.config.mean) != len(self.config.std):
            raise ConfigError("task: mean and std go together, one number a channel each")
        frame = self.config.frame(model.frontend)
        if frame.height and frame.width:
            on_paper(model.with_sizes(frontend={"channels": frame.channels or 1, "height": frame.height, "width": frame.width}))
        built = on_paper(model)
        if isinstance(model.head, ClassifyHeadConfig) and model.head.pool == "first" and built.caps.causal:
            raise ConfigError('model.head.pool: the first patch of a causal model has seen nothing else; pool = "last" has seen it all')

    def prepare(self, data: DataConfig, text: TokenizerConfig | Tokenizers, model: ModelConfig, say: Say) -> Prepared:
        splits = load_pictures(data, self.config.frame(model.frontend), say)
        for note in splits.notes:
            say(note)
        channels, height, width = splits.train.shape
        mean, std = self.config.mean, self.config.std
        if not mean:
            mean, std = spread(splits.train.pixels)
        elif len(mean) != channels:
            raise ConfigError(f"task.mean: {len(mean)} numbers for pictures of {channels} channels")
        labels = self.config.labels or splits.labels
        frontend = {"channels": channels, "height": height, "width": width}
        tokens = tokens_of(model.with_sizes(frontend=frontend))
        self.config = self.config.changed(labels=labels, mean=mean, std=std)
        train, valid, test = (self._labelled(part, tokens) for part in (splits.train, splits.valid, splits.test))
        sizes = Sizes(classes=len(labels), max_len=tokens, frontend=frontend)
        return Prepared(self.config, train, valid, test, {}, sizes, splits.digest, splits.notes)

    def read(self, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> LabelledPictures:
        pictures, notes = load_picture_rows(data, self.config.frame(model.frontend), say)
        for note in notes:
            say(note)
        return self._labelled(pictures, tokens_of(model))

    def _labelled(self, pictures: Pictures, tokens: int) -> LabelledPictures:
        number = {label: place for place, label in enumerate(self.config.labels)}
        for row, label in enumerate(pictures.table["label"]):
            if label not in number:
                known = ", ".join(self.config.labels[:10])
                raise DataError(f"{pictures.place(row)}: the label {label!r} is none of the model's classes ({known})")
        labels = np.array([number[label] for label in pictures.table["label"]], dtype=np.int64)
        return LabelledPictures(pictures, labels, tokens, self.config.mean, self.config.std)

    def step(self, model: Model, batch: Batch) -> Loss:
        assert batch.labels is not None
        order, share, pixels = None, 1.0, batch.source.data
        if model.training:
            pixels = augmented(pixels, self.config.augment)
            if self.config.augment.mixup:
                pixels, order, share = mixed(pixels, self.config.augment.mixup)
        logits, _ = model(replace(batch, source=replace(batch.source, data=pixels)))
        loss = lambda labels: F.cross_entropy(logits, labels, reduction="sum", label_smoothing=self.config.label_smoothing)
        total = loss(batch.labels) if order is None else share * loss(batch.labels) + (1 - share) * loss(batch.labels[order])
        right = (logits.detach().argmax(-1) == batch.labels).sum()
        return Loss(total, len(batch.labels), {"accuracy": right})

    def evaluate(
        self, model: Model, dataset: Dataset, *, budget: int = 8192, quick: bool = False, progress: Progress | None = None
    ) -> Evaluation:
        assert isinstance(dataset, LabelledPictures)
        log_p = log_probabilities(model, dataset, budget, progress)
        found = classified(log_p, dataset.labels, self.config.labels, dataset.name, quick=quick)
        if not quick:
            found.details["worst_pictures"] = self._worst(dataset, log_p)
        return found

    def _worst(self, dataset: LabelledPictures, log_p: NDArray[np.float64]) -> list[dict[str, Any]]:
        """The errors that the model was surest of, as small pictures."""
        return [
            {
                "picture": data_uri(small(dataset.pictures.shown(row))),
                "true": self.config.labels[int(dataset.labels[row])],
                "predicted": self.config.labels[int(log_p[row].argmax())],
                "probability": float(np.exp(log_p[row].max())),
                "place": dataset.place(row),
            }
            for row in surest_errors(log_p, dataset.labels, WORST)
        ]

    def baselines(self, prepared: Prepared, say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        assert isinstance(train, LabelledPictures)
        assert isinstance(test, LabelledPictures)
        return picture_baselines(train.pictures.pixels, train.labels, test.pictures.pixels, test.labels, len(self.config.labels), say)

    def inputs(self, file: Path, column: str | None) -> list[str | Example] | None:
        return list(picture_inputs(file))

    def predict(
        self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example], *, budget: int = 8192, **options: Any
    ) -> list[Prediction]:
        """A label for each picture (a path, or a data URI), with the probability of every class."""
        examples = as_examples(inputs, "image")
        p = np.exp(log_probabilities(model, self._asked(model, examples), budget))
        found = []
        for number, (example, row) in enumerate(zip(examples, p, strict=True), 1):
            order = np.argsort(-row, kind="stable")
            scores = {self.config.labels[c]: float(row[c]) for c in order}
            found.append(Prediction(called(example, number), self.config.labels[order[0]], float(row[order[0]]), scores))
        return found

    def _asked(self, model: Model, examples: Sequence[Example]) -> LabelledPictures:
        """New pictures as a split without labels (all of class 0)."""
        from attentif.data.table import Table

        frame = self.config.frame(model.config.frontend)
        pixels = np.stack([open_picture(example["image"], frame) for example in examples])
        places = np.stack([np.arange(len(examples)), np.zeros(len(examples), np.int64)], axis=1)
        table = Table("input", {}, [called(example, number) for number, example in enumerate(examples, 1)], places)
        labels = np.zeros(len(examples), np.int64)
        return LabelledPictures(Pictures(table, pixels), labels, tokens_of(model.config), self.config.mean, self.config.std)

    def sections(self, evaluation: Evaluation) -> list[Section]:
        sections = classify_sections(evaluation)
        if worst := evaluation.details.get("worst_pictures"):
            sections.append(Section(WORST_ERRORS, [_gallery(worst)]))
        return sections

    def examples(self, prepared: Prepared, count: int = 3) -> list[Example]:
        """Test pictures, the first of each class in turn."""
        test = prepared.test
        assert isinstance(test, LabelledPictures)
        firsts = [int(np.flatnonzero(test.labels == c)[0]) for c in range(len(self.config.labels)) if (test.labels == c).any()]
        return [{"image": data_uri(test.pictures.shown(row)), "place": test.place(row)} for row in firsts[:count]]

    def maps(self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example]) -> list[AttentionMaps]:
        """By layer and head, and over the picture itself."""
        examples = as_examples(inputs, "image")
        asked = self._asked(model, examples)
        frontend = model.config.frontend
        assert isinstance(frontend, PatchesConfig)
        rows, columns = frontend.grid
        tokens = ["[CLS]"] * frontend.class_token + [f"{r}·{c}" for r in range(1, rows + 1) for c in range(1, columns + 1)]
        found = []
        for row, answer in enumerate(self.predict(model, tokenizers, examples)):
            title = f"{answer.input} → {answer.output} ({100 * (answer.probability or 0):.0f} %)"
            picture = Picture(as_shown(asked.pictures.pixels[row]), frontend.grid, first=int(frontend.class_token))
            found += [replace(maps, picture=picture) for maps in attention_maps(model, asked.batch([row]), tokens, title=title)]
        return found


def tokens_of(model: ModelConfig) -> int:
    assert isinstance(model.frontend, PatchesConfig)
    with within("model.frontend."):
        model.frontend.check()
    return model.frontend.tokens_per_picture


def spread(pixels: NDArray[np.uint8]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of each channel, white being 1; from counts of the 256 values, which no sum of millions can blur."""
    means, deviations = [], []
    for channel in range(pixels.shape[1]):
        counts = np.bincount(pixels[:, channel].ravel(), minlength=256) / pixels[:, channel].size
        values = np.arange(256) / 255
        mean = float(counts @ values)
        means.append(round(mean, 6))
        deviations.append(round(max(float(np.sqrt(counts @ (values - mean) ** 2)), 1 / 255), 6))  # a constant channel stays finite
    return tuple(means), tuple(deviations)


def small(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Every so many pixels of a large picture; each pixel of a tiny one several times, or browsers blur it."""
    longest = max(pixels.shape[:2])
    step, times = -(-longest // SHOWN_SIDE), max(1, SHOWN_SIDE // longest)
    return pixels[::step, ::step].repeat(times, 0).repeat(times, 1)


def called(example: Example, number: int) -> str:
    """How a picture is named in an answer: its place, its path, or its number where it came as data."""
    name = example.get("place") or example["image"]
    return f"picture {number}" if name.startswith(DATA_URI) else name


def _gallery(worst: list[dict[str, Any]]) -> FigureBlock:
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
