"""Pictures, texts and sounds of the same things in one space, and retrieval across kinds (CLIP, VATT, LIMoE).

One encoder reads each kind by itself; its vectors have length 1. Of a batch of things, each vector must be nearer to those of its own thing
than to those of all others, for every pair of kinds (`kernels/contrastive.py`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, permutations
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from attentif.data import DataConfig
from attentif.data.audio import read_sound
from attentif.data.images import as_shown, data_uri, open_picture
from attentif.data.modalities import Things, load_thing_rows, load_things, read_things
from attentif.errors import ConfigError, UsageError, within
from attentif.kernels.contrastive import contrastive_loss
from attentif.models import Batch, Input, Model, ModelConfig, eval_mode
from attentif.models.frontends.modalities import ModalitiesConfig
from attentif.models.heads.match import MatchHead, MatchHeadConfig
from attentif.nn.seq import Seq
from attentif.tasks.answers import Baseline, EvalOptions, Evaluation, Prediction
from attentif.tasks.attention import attention_maps, readable_tokens
from attentif.tasks.base import TASKS, Example, Inputs, Loss, Prepared, Say, Sizes, Task, TaskState, Tokenizers
from attentif.tasks.batches import build_meta, device_of, format_count, iterate_batches, min_limit, say_all
from attentif.tasks.classification.data import encode_texts
from attentif.tasks.matching.contrastive_report import Directions, linear_baselines, recall_at, retrieval_sections
from attentif.tasks.metrics import mean_interval
from attentif.tasks.narrow import labels_of, narrow
from attentif.tasks.ragged import Ints, Ragged, Rows
from attentif.tasks.speech.data import FeaturesConfig, sound_input
from attentif.tasks.tokenizers import TokenizerSource, fit_tokenizer
from attentif.tasks.vision.augment import AugmentConfig, augment
from attentif.tasks.vision.frame import StandardisedConfig
from attentif.tasks.vision.image import channel_scale, name_input, standardise
from attentif.tasks.vision.vision_language import LIGHTLY
from attentif.text import Tokenizer
from attentif.view.blocks import AttentionMaps, Picture, Section

KINDS = ("text", "image", "audio")
GROUP = 256  # rows among which the loss of a split is worked out
KNOWN = 10_000  # texts of training, at most, that a picture or a sound can be answered with


@TASKS.register
class ContrastiveConfig(StandardisedConfig):
    """One space for pictures, texts and sounds of the same things."""

    kind: Literal["contrastive"] = Field("contrastive", description="contrastive learning of pictures, texts and sounds in one space")
    max_len: int = Field(64, gt=2, description="maximum tokens of a text; longer ones are truncated")
    features: FeaturesConfig = Field(FeaturesConfig(), description="frames of sounds")
    augment: AugmentConfig = Field(LIGHTLY, description="data augmentation of pictures")

    def build(self) -> "Contrastive":
        return Contrastive(self)


@dataclass(frozen=True)
class ContrastiveState(TaskState):
    """The mean and deviation of each channel, the rate of sounds, and the texts of training."""

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    rate: int | None = None
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class EncodedThings:
    """One split: the token ids, pixels and frames of each thing."""

    things: Things
    ids: Ragged
    frames: list[Tensor] | None
    same: Ints  # the number of a row's text: rows that say the same have the same
    pad: int
    patches: int  # tokens that a picture becomes
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def name(self) -> str:
        return self.things.table.name

    @property
    def kinds(self) -> tuple[str, ...]:
        return KINDS if self.frames is not None else KINDS[:2]

    def __len__(self) -> int:
        return len(self.same)

    @cached_property
    def lengths(self) -> Ints:
        """What a thing costs: its tokens, its patches and its frames."""
        sides = [self.ids.lengths, np.full(len(self), self.patches)]
        if self.frames is not None:
            sides.append(np.array([len(own) for own in self.frames], dtype=np.int64))
        return np.stack(sides, 1)

    def batch(self, rows: Rows, *, packed: bool = False) -> Batch:
        """The text, the picture beside it and the sound beside that, padded."""
        chosen = np.asarray(rows, dtype=np.int64)
        sound = None if self.frames is None else sound_input([self.frames[row] for row in chosen])
        data = standardise(self.things.pixels[self.things.picture[chosen]], self.mean, self.std)
        picture = Input(data, Seq.from_padded([self.patches] * len(chosen)), beside=sound)
        text = self.ids.input(chosen, packed=False, pad=self.pad)
        return Batch(replace(text, beside=picture), labels=torch.from_numpy(self.same[chosen]), rows=tuple(chosen.tolist()))

    def place(self, row: int) -> str:
        return self.things.table.place(row)


def split_kinds(batch: Batch) -> dict[str, Input]:
    """The inputs of a batch by kind."""
    found, source = {}, batch.source
    for kind in KINDS:
        found[kind] = replace(source, beside=None)
        if source.beside is None:
            return found
        source = source.beside
    return found


class Contrastive(Task[ContrastiveState, EncodedThings]):
    config: ContrastiveConfig
    state_type = ContrastiveState
    offers = ("match",)
    metric = "recall_at_1"
    optional_inputs = ("image", "audio")

    # ------------------------------------------------------------------------------------------------------------- model

    def adapt(self, model: ModelConfig) -> ModelConfig:
        return model if isinstance(model.head, MatchHeadConfig) else model.with_head(MatchHeadConfig())

    def check(self, model: ModelConfig) -> None:
        self.config.check_frame()
        if self.config.augment.mixup:
            raise ConfigError("task.augment.mixup: two pictures at once belong to no text")
        if model.encoder is None or model.decoder is not None or not isinstance(model.frontend, ModalitiesConfig):
            raise ConfigError('model: contrastive needs one encoder behind a frontend of kind "modalities"; take limoe-tiny, say')
        if self.config.features.kind != "log-mel":
            raise ConfigError("task.features.kind: the frontend `modalities` reads log-mel frames")
        frame = self.config.frame(model.frontend)
        if frame.sized:
            model = model.with_sizes(frontend={"channels": frame.channels or 1, "height": frame.height, "width": frame.width})
        build_meta(model)

    # -------------------------------------------------------------------------------------------------------------- data

    def prepare(
        self, data: DataConfig, text: TokenizerSource, model: ModelConfig, say: Say, state: ContrastiveState | None = None
    ) -> Prepared[ContrastiveState, EncodedThings]:
        splits = load_things(data, self.config.frame(model.frontend), self.config.features.rate, say)
        train, notes = splits.train, list(splits.notes)
        tokenizer = fit_tokenizer(text, "tokenizer", train.table["text"], say)
        frontend: dict[str, int] = dict(zip(("channels", "height", "width"), train.pixels.shape[1:], strict=True))
        mean, std = (self.config.mean, self.config.std) if self.config.mean else channel_scale(train.pixels)
        state = state or ContrastiveState(mean, std, splits.rate, tuple(dict.fromkeys(train.table["text"]))[:KNOWN])
        filled = model.with_sizes(frontend=frontend)
        first, valid, test = (self._encode(state, part, tokenizer, filled, notes, say) for part in splits.parts)
        kinds = " and ".join(", ".join(first.kinds).rsplit(", ", 1))
        notes.append(f"each row is a {kinds}; {format_count(len(set(train.table['text'])), 'different text')} in train")
        say_all(notes, say)
        longest = max(int(part.ids.lengths.max()) for part in (first, valid, test))
        sizes = Sizes(tokenizer.vocab, max_len=longest, frontend=frontend | {"mels": self.config.features.mels})
        return Prepared(state, first, valid, test, {"tokenizer": tokenizer}, sizes, splits.digest, notes)

    def read(self, state: ContrastiveState, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> EncodedThings:
        things, notes = load_thing_rows(data, self.config.frame(model.frontend), state.rate, say)
        encoded = self._encode(state, things, tokenizers["tokenizer"], model, notes, say)
        say_all(notes, say)
        return encoded

    def _encode(
        self, state: ContrastiveState, things: Things, tokenizer: Tokenizer, model: ModelConfig, notes: list[str], say: Say
    ) -> EncodedThings:
        texts = things.table["text"]
        ids, cut = encode_texts(tokenizer, texts, None, min_limit(self.config.max_len, model.max_len))
        if cut:
            notes.append(f"{things.table.name}: {format_count(cut, 'text')} cut to the longest that is read (task.max_len)")
        number = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        same = np.array([number[text] for text in texts], dtype=np.int64)
        patches = narrow(model.frontend, ModalitiesConfig).patches
        with within("model.frontend."):
            patches.check()
        frames = None if things.waves is None else self._features(state).frames(things.waves, say)
        return EncodedThings(things, Ragged.of(ids), frames, same, tokenizer.pad, patches.tokens_per_picture, state.mean, state.std)

    def _features(self, state: ContrastiveState) -> FeaturesConfig:
        return self.config.features.replace(rate=state.rate)

    # ---------------------------------------------------------------------------------------------------- training, scores

    def step(self, model: Model, batch: Batch) -> Loss:
        inputs, same = split_kinds(batch), labels_of(batch)
        if model.training:
            inputs["image"] = replace(inputs["image"], data=augment(inputs["image"].data, self.config.augment))
        vectors = {kind: encode_kind(model, source) for kind, source in inputs.items()}
        found = [contrastive_loss(vectors[a], vectors[b], scale_of(model), same) for a, b in combinations(vectors, 2)]
        total, right = (torch.stack(own).sum(0) / len(found) for own in zip(*found, strict=True))
        return Loss(total, len(same), {"recall_at_1": right})

    def score(self, model: Model, state: ContrastiveState, dataset: EncodedThings, options: EvalOptions) -> Evaluation:
        """How often the nearest of another kind, among all rows of the split, is of the same thing."""
        vectors = self._vectors(model, dataset, options)
        scale = scale_of(model).detach().cpu()
        groups = np.array_split(np.arange(len(dataset)), -(-len(dataset) // GROUP))
        nats = 0.0
        for rows in groups:
            own = {kind: torch.from_numpy(vectors[kind][rows]) for kind in dataset.kinds}
            same = torch.from_numpy(dataset.same[rows])
            nats += sum(float(contrastive_loss(own[a], own[b], scale, same)[0]) for a, b in combinations(own, 2))
        pairs = [*permutations(dataset.kinds, 2)]
        first, fifth = (
            np.stack([recall_at(count, vectors[a], vectors[b], dataset.same) for a, b in pairs], 1) for count in (1, 5)
        )  # (rows, directions)
        loss = nats / (len(dataset) * len(pairs) / 2)
        scores = {"recall_at_1": float(first.mean()), "recall_at_5": float(fifth.mean()), "loss": loss}
        if options.quick:
            return Evaluation(scores, examples=len(dataset), split=dataset.name)
        interval = lambda own: mean_interval(own, np.ones(len(own)))
        intervals = {"recall_at_1": interval(first.mean(1)), "recall_at_5": interval(fifth.mean(1))}
        directions: Directions = [
            {"asks": a, "finds": b, "first": float(one.mean()), "interval": [*interval(one)], "fifth": float(five.mean())}
            for (a, b), one, five in zip(pairs, first.T, fifth.T, strict=True)
        ]
        return Evaluation(scores, intervals, len(dataset), {"directions": directions}, dataset.name)

    def _vectors(self, model: Model, dataset: EncodedThings, options: EvalOptions) -> dict[str, NDArray[np.float32]]:
        """The vectors of every row, by kind."""
        found: dict[str, NDArray[np.float32]] = {}
        with eval_mode(model):
            for batch in iterate_batches(model, dataset, options):
                for kind, source in split_kinds(batch).items():
                    own = encode_kind(model, source).float().cpu().numpy()
                    if kind not in found:
                        found[kind] = np.empty((len(dataset), own.shape[1]), np.float32)
                    found[kind][list(batch.rows)] = own
        return found

    def baselines(self, prepared: Prepared[ContrastiveState, EncodedThings], say: Say) -> list[Baseline]:
        return linear_baselines(prepared.train, prepared.test, say)

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return retrieval_sections(evaluation)

    # ------------------------------------------------------------------------------------------------------------- answers

    def inputs(self, file: Path, column: str | None) -> list[str | Example] | None:
        """The pictures, sounds and texts of a table, each an input; None for lines of text."""
        found = read_things(file)
        return None if found is None else [*found]

    def predict(self, model: Model, state: ContrastiveState, tokenizers: Tokenizers, inputs: Inputs, **options: Any) -> list[Prediction]:
        """Inputs of several kinds are matched with each other: of each, the nearest of another kind. Of one kind, with the known texts."""
        examples = [one_kind(given, number) for number, given in enumerate(inputs, 1)]
        names = [name_example(example, number) for number, example in enumerate(examples, 1)]
        kinds = [next(iter(example)) for example in examples]
        with eval_mode(model):
            vectors = torch.cat([encode_kind(model, self._input(model, state, tokenizers, example)) for example in examples])
            if len({*kinds}) > 1:
                gallery, titles = vectors, names
                apart = torch.tensor([[a == b for b in kinds] for a in kinds], device=vectors.device)
            else:
                titles = [*state.texts]
                parts = [titles[at : at + GROUP] for at in range(0, len(titles), GROUP)]
                gallery = torch.cat([encode_kind(model, self._texts(model, tokenizers, part)) for part in parts])
                apart = torch.zeros(len(vectors), len(gallery), dtype=torch.bool, device=vectors.device)
            p = (scale_of(model) * (vectors @ gallery.mT)).masked_fill(apart, float("-inf")).double().softmax(-1).cpu().numpy()
        hidden = apart.cpu().numpy()
        found = []
        for name, row, skip in zip(names, p, hidden, strict=True):
            shown = np.flatnonzero(~skip)
            found.append(Prediction.of_classes(name, [titles[one] for one in shown], row[shown]))
        return found

    def _texts(self, model: Model, tokenizers: Tokenizers, texts: Sequence[str]) -> Input:
        tokenizer = tokenizers["tokenizer"]
        ids, _ = encode_texts(tokenizer, texts, None, min_limit(self.config.max_len, model.config.max_len))
        return Ragged.of(ids).input(range(len(ids)), packed=False, pad=tokenizer.pad).to(device_of(model))

    def _input(self, model: Model, state: ContrastiveState, tokenizers: Tokenizers, example: Example) -> Input:
        """One input of one kind."""
        if "image" in example:
            pixels = np.stack([open_picture(example["image"], self.config.frame(model.config.frontend))])
            tokens = narrow(model.config.frontend, ModalitiesConfig).patches.tokens_per_picture
            return Input(standardise(pixels, state.mean, state.std), Seq.from_padded([tokens])).to(device_of(model))
        if "audio" in example:
            if state.rate is None:
                raise UsageError("this run has learned no sounds: its training rows had none")
            features = self._features(state)
            return sound_input(features.frames([read_sound(Path(example["audio"]), features.sample_rate)])).to(device_of(model))
        return self._texts(model, tokenizers, [example["text"]])

    def examples(self, prepared: Prepared[ContrastiveState, EncodedThings], count: int = 3) -> list[Example]:
        """Test pictures."""
        test = prepared.test.things
        rows = range(min(count, len(test.table)))
        return [{"image": data_uri(as_shown(test.pixels[test.picture[row]]))} for row in rows]

    def maps(self, model: Model, state: ContrastiveState, tokenizers: Tokenizers, inputs: Inputs) -> list[AttentionMaps]:
        """What one encoder looks at in a picture, a text or a sound."""
        found = []
        for number, given in enumerate(inputs, 1):
            example = one_kind(given, number)
            source = self._input(model, state, tokenizers, example)
            title, picture = name_example(example, number), None
            if "image" in example:
                patches = narrow(model.config.frontend, ModalitiesConfig).patches
                tokens = [f"{row}·{column}" for row in range(1, patches.grid[0] + 1) for column in range(1, patches.grid[1] + 1)]
                picture = Picture(as_shown(open_picture(example["image"], self.config.frame(model.config.frontend))), patches.grid)
            elif "audio" in example:
                frames = narrow(model.config.frontend, ModalitiesConfig).frames
                step = self._features(state).hop * 2**frames.halvings
                tokens = [f"{place * step:.2f} s" for place in range(int(frames.output_lengths(source.seq.lengths)[0]))]
            else:
                tokens = readable_tokens(tokenizers["tokenizer"], source.data[0].tolist())
            found += [replace(own, picture=picture) for own in attention_maps(model, Batch(source), tokens, title=title)]
        return found


def encode_kind(model: Model, source: Input) -> Tensor:
    """The vectors (B, D), of length 1, of inputs of one kind."""
    encoded = model.encode(source)
    return model.head(encoded.x, encoded.seq)


def scale_of(model: Model) -> Tensor:
    return narrow(model.head, MatchHead).scale


def one_kind(given: str | Mapping[str, str], number: int) -> Example:
    """The kind of an input with its value; one given as text may be JSON: {"image": path}."""
    example: Mapping[str, Any] = _parse(given) if isinstance(given, str) else given
    kinds = [kind for kind in KINDS if isinstance(example.get(kind), str) and example[kind].strip()]
    if len(kinds) != 1:
        wanted = '{"text": "..."}, {"image": "a.png"} or {"audio": "a.wav"}'
        raise UsageError(f"input {number}: one text, one picture or one sound is wanted: {wanted}")
    return {kinds[0]: example[kinds[0]]}


def _parse(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {"text": text}
    return found if isinstance(found, dict) else {"text": text}


def name_example(example: Example, number: int) -> str:
    """How an input is named in an answer."""
    return example.get("text") or example.get("audio") or name_input(example, number)
