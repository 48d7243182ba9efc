"""Speech: what is said in a sound.

    ctc        an encoder scores every token, or none, at each frame; the transcript is read off it           (Graves et al. 2006)
    seq2seq    an encoder hears, a decoder writes, token after token: Whisper's shape                         (Radford et al. 2022)
    label      the whole sound is one of the training transcripts: single words, commands

Word and character error rates are jiwer's: (substitutions + deletions + insertions) / words of the reference, over the whole split.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from attentif.data import DataConfig
from attentif.data.audio import LABELLED, SPEECH, load_sound_rows, load_sounds, read_sound, sound_paths
from attentif.data.labels import refuse_one
from attentif.data.readers import Tolerance
from attentif.decode import GenerateOptions, generate
from attentif.decode.ctc import greedy, prefix_beam
from attentif.decode.limits import Limits
from attentif.errors import ConfigError, UsageError
from attentif.models import Batch, Input, Model, ModelConfig, eval_mode
from attentif.models.frontends.frames import FramesConfig
from attentif.models.frontends.waves import WavesConfig
from attentif.models.heads import ClassifyHeadConfig, LanguageHeadConfig
from attentif.models.heads.ctc import CTCHeadConfig, ctc_loss
from attentif.nn.seq import Seq
from attentif.tasks.answers import Baseline, EvalOptions, Evaluation, Prediction
from attentif.tasks.attention import attention_maps, readable_tokens
from attentif.tasks.base import TASKS, Example, Inputs, Loss, Prepared, Say, Sizes, Task, TaskConfig, TaskState, Tokenizers
from attentif.tasks.batches import as_examples, build_meta, device_of, map_batches, pick_evenly, say_all
from attentif.tasks.narrow import labels_of
from attentif.tasks.ragged import UNSCORED, Ints
from attentif.tasks.speech.augment import SoundAugment, SoundAugmentConfig, WaveAugment
from attentif.tasks.speech.data import (
    Encoder,
    FeaturesConfig,
    Utterances,
    fixed_length,
    pad_silence,
    parse_frames,
    sound_input,
    write_frames,
)
from attentif.tasks.speech.prompt import OpeningConfig, build_prompts, transcript_ids
from attentif.tasks.speech.report import SoundAlignment, align_transcript, speech_sections
from attentif.tasks.speech.scores import speech_baselines, speech_details, speech_scores
from attentif.tasks.token_loss import token_loss
from attentif.tasks.tokenizers import TokenizerSource, fit_tokenizer
from attentif.text import Tokenizer
from attentif.view.blocks import AttentionMaps, Section
from attentif.view.words import LANGS, Text, quote

ALIGNED = 3  # test sounds whose alignment the report shows
MOST_LABELS = 1000  # answers of `label`: beyond, transcripts are no closed set


@TASKS.register
class SpeechConfig(TaskConfig):
    """What is said in a sound."""

    kind: Literal["speech"] = Field("speech", description="speech recognition")
    objective: Literal["ctc", "seq2seq", "label"] = Field(
        "ctc",
        description="ctc (an encoder), seq2seq (an encoder and a decoder), label (the whole sound is one of the training transcripts)",
    )
    features: FeaturesConfig = Field(FeaturesConfig(), description="acoustic features")
    augment: SoundAugmentConfig = Field(SoundAugmentConfig(), description="data augmentation: speed, pitch, noise and masks")
    labels: list[str] = Field(
        [], description="transcripts that `label` chooses among, in the order of the logits; by default those of the training data"
    )
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="label smoothing of seq2seq and label")
    beams: int = Field(1, gt=0, description="beam size; 1: greedy")
    opening: OpeningConfig | None = Field(None, description="seq2seq only: prompt tokens of the decoder; by default [BOS]")
    limits: Limits = Field(Limits(), description="seq2seq only: constraints on the output")
    max_tokens: int | None = Field(None, gt=0, description="seq2seq only: maximum tokens of a transcript; by default one for four frames")
    eval_examples: int = Field(
        200, ge=0, description="seq2seq only: validation sounds transcribed during training (0: all); the whole split is scored at the end"
    )

    def build(self) -> "Speech":
        return Speech(self)


@dataclass(frozen=True)
class SpeechState(TaskState):
    """The rate that sounds are brought to, and the answers of `label`."""

    rate: int
    labels: tuple[str, ...] = ()


class Speech(Task[SpeechState, Utterances]):
    config: SpeechConfig
    state_type = SpeechState
    offers = ("transcribe",)
    optional_inputs = ("language",)
    reads = "audio"
    scores_by_batch = True

    def __init__(self, config: SpeechConfig) -> None:
        super().__init__(config)
        self.metric = "exact_match" if config.objective == "label" else "wer"
        self.needs_tokenizer = config.objective != "label"

    # ------------------------------------------------------------------------------------------------------------- the model

    def adapt(self, model: ModelConfig) -> ModelConfig:
        """The head that the objective asks for."""
        wanted: dict[str, Any] = {"ctc": CTCHeadConfig, "seq2seq": LanguageHeadConfig, "label": ClassifyHeadConfig}
        head = wanted[self.config.objective]
        return model if isinstance(model.head, head) else model.with_head(head())

    def check(self, model: ModelConfig) -> None:
        kind = self.config.features.kind
        if not isinstance(model.frontend, FramesConfig | WavesConfig):
            raise ConfigError("model.frontend: speech is read from frames of sound: use conformer-tiny or whisper-micro, for example")
        if isinstance(model.frontend, WavesConfig) != (kind == "samples"):
            other = "samples" if kind == "log-mel" else "log-mel"
            raise ConfigError(f"task.features.kind: {kind!r} with a model that reads {other}; say task.features.kind={other}")
        if self.config.features.frames_each is not None and self.config.objective != "label":
            raise ConfigError(
                'task.features.frames_each: stretched sounds are labelled as a whole (task.objective = "label"), not spelt out'
            )
        if model.encoder is None:
            raise ConfigError("model: speech needs an encoder; use for example conformer-tiny")
        writes = model.decoder is not None
        if writes != (self.config.objective == "seq2seq"):
            way_out = 'say task.objective = "seq2seq"' if writes else "for example whisper-micro"
            raise ConfigError(
                f"task.objective: {self.config.objective!r} with a model that has {'a' if writes else 'no'} decoder; {way_out}"
            )
        patches = isinstance(model.frontend, FramesConfig) and model.frontend.subsample == "patches"
        if self.config.objective == "ctc" and patches and model.frontend.with_any_size().rows > 1:  # type: ignore[union-attr]
            raise ConfigError("model.frontend.patch: CTC reads one vector a time; let a patch be as high as there are bands")
        built = build_meta(model)
        if writes and not built.caps.causal:
            raise ConfigError("model.decoder: a transcript is written one token after the other, and this decoder would see those to come")

    # -------------------------------------------------------------------------------------------------------------- the data

    def migrate_state(self, folder: Path, table: Mapping[str, Any]) -> SpeechState:
        assert self.config.features.rate is not None
        return SpeechState(self.config.features.rate, tuple(self.config.labels))

    def features(self, state: SpeechState) -> FeaturesConfig:
        """How sound becomes frames, at the rate of training."""
        return self.config.features.replace(rate=state.rate)

    def prepare(
        self, data: DataConfig, text: TokenizerSource, model: ModelConfig, say: Say, state: SpeechState | None = None
    ) -> Prepared[SpeechState, Utterances]:
        if self.config.opening is not None and self.config.opening.listens:
            known = ", ".join(self.config.opening.languages[:8])
            raise ConfigError(f"task.opening.language: say which language the transcripts are in ({known} ...)")
        splits = load_sounds(
            data, self.config.features.rate if state is None else state.rate, say, LABELLED if self.config.objective == "label" else SPEECH
        )
        read = f", a frame each {1000 * self.config.features.hop:g} ms" if self.config.features.kind == "log-mel" else ""
        notes = [*splits.notes, f"sounds at {splits.rate:,} samples a second{read}"]
        texts = splits.train.table["text"]
        labels = tuple(self.config.labels or sorted(set(texts))) if self.config.objective == "label" else ()
        if labels:
            refuse_one(splits.train.table, "text")
        if len(labels) > MOST_LABELS:
            raise ConfigError(f'task.objective: {len(labels):,} different transcripts are no closed set of labels; "ctc" spells them out')
        state = state or SpeechState(splits.rate, labels)
        tokenizers = {"tokenizer": fit_tokenizer(text, "tokenizer", texts, say)} if self.needs_tokenizer else {}
        tolerance = Tolerance(data.skip_bad)
        encode = self._encoder(state, model, tokenizers, tolerance)
        train, valid, test = (encode(sounds, notes, say) for sounds in (splits.train, splits.valid, splits.test))
        train = replace(train, augment=self._augment(state))
        notes += tolerance.notes
        say_all(notes, say)
        vocab = tokenizers["tokenizer"].vocab if tokenizers else None
        heads: dict[str, dict[str, Any]] = {"ctc": {"vocab": vocab}, "seq2seq": {}, "label": {"classes": len(state.labels)}}
        sizes = Sizes(
            target_vocab=vocab if self.config.objective == "seq2seq" else None,
            max_len=max(int(split.durations.max()) for split in (train, valid, test)),
            frontend={"mels": self.config.features.mels} if self.config.features.kind == "log-mel" else {},
            head=heads[self.config.objective],
        )
        return Prepared(state, train, valid, test, tokenizers, sizes, splits.digest, notes)

    def read(self, state: SpeechState, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> Utterances:
        sounds, notes = load_sound_rows(data, state.rate, say)
        heard = self._encoder(state, model, tokenizers, Tolerance(data.skip_bad))(sounds, notes, say)
        say_all(notes, say)
        return heard

    def _encoder(self, state: SpeechState, model: ModelConfig, tokenizers: Tokenizers, tolerance: Tolerance) -> Encoder:
        frontend, config = model.frontend, self.config
        assert isinstance(frontend, FramesConfig | WavesConfig)
        if isinstance(frontend, FramesConfig):
            frontend = frontend.replace(mels=config.features.mels)
        tokenizer = tokenizers.get("tokenizer")
        return Encoder(self.features(state), config.objective, frontend, tokenizer, state.labels, model.max_len, tolerance, config.opening)

    # ------------------------------------------------------------------------------------------------------------- training

    def _augment(self, state: SpeechState) -> Callable[[Tensor, Seq], Input]:
        """Changes of sounds in training; silence that makes all of them last as long is put after them anew."""
        features = self.features(state)
        change = (
            WaveAugment(self.config.augment)
            if features.kind == "samples"
            else SoundAugment(self.config.augment, features.mels, features.low, features.top, features.scale)
        )

        def augment(sounds: Tensor, seq: Seq) -> Input:
            if features.seconds is None:
                return Input(*change(sounds, seq))
            heard = torch.tensor([len(features.strip_padding(sound)) for sound in sounds])
            changed, seq = change(sounds[:, : int(heard.max())], Seq.from_padded(heard))
            whole = sounds.shape[1]
            return sound_input(
                [pad_silence(row[:length][:whole], whole) for row, length in zip(changed, seq.lengths.tolist(), strict=True)]
            )

        return augment

    def step(self, model: Model, batch: Batch) -> Loss:
        if self.config.objective == "seq2seq":
            return Loss(*token_loss(model, batch, self.config.label_smoothing))
        logits, seq = model(batch)
        if self.config.objective == "label":
            total = F.cross_entropy(logits, labels_of(batch), reduction="sum", label_smoothing=self.config.label_smoothing)
            return Loss(total, len(labels_of(batch)), {"exact_match": (logits.detach().argmax(-1) == labels_of(batch)).sum()})
        return Loss(*ctc_total(logits, seq, labels_of(batch)))

    # ----------------------------------------------------------------------------------------------------------- evaluation

    def score(self, model: Model, state: SpeechState, dataset: Utterances, options: EvalOptions) -> Evaluation:
        rows = np.arange(len(dataset))
        if options.quick and self.config.objective == "seq2seq" and 0 < self.config.eval_examples < len(dataset):
            rows = pick_evenly(len(dataset), self.config.eval_examples)
        written, loss = self._transcribe_rows(model, state, dataset, rows, options)
        references = [dataset.texts[row] for row in rows.tolist()]
        found = speech_scores(references, written)
        scores = found.scores | ({} if loss is None else {"loss": loss})
        if options.quick:
            return Evaluation(scores, examples=len(rows), split=dataset.name)
        details = speech_details(found, dataset.table)
        details["aligned"] = self._align(model, dataset, written)
        return Evaluation(scores, found.intervals(), len(rows), details, dataset.name)

    def _transcribe_rows(
        self, model: Model, state: SpeechState, dataset: Utterances, rows: Ints, options: EvalOptions
    ) -> tuple[list[str], float | None]:
        """Transcripts of some rows in their order, and the loss where it costs nothing more."""
        found: dict[int, str] = {}
        total, count = 0.0, 0
        for own, (texts, nats, asked) in map_batches(partial(self._transcribe_batch, state), model, dataset, options, rows):
            found |= zip(own, texts, strict=True)
            total, count = total + nats, count + asked
        return [found[row] for row in rows.tolist()], total / count if count else None

    def _transcribe_batch(self, state: SpeechState, model: Model, dataset: Utterances, batch: Batch) -> tuple[list[str], float, int]:
        texts, loss = self._transcribe(model, state, batch, dataset.tokenizer)
        return texts, float(loss.total), loss.count

    def _transcribe(
        self,
        model: Model,
        state: SpeechState,
        batch: Batch,
        tokenizer: Tokenizer | None,
        beams: int | None = None,
        opening: OpeningConfig | None = None,
    ) -> tuple[list[str], Loss]:
        """The transcript of every row of a batch, and the loss of the references that it brings."""
        beams = beams or self.config.beams
        if self.config.objective == "seq2seq":
            assert tokenizer is not None
            room = self.config.max_tokens or _room(batch.source.seq.max_len)
            options = GenerateOptions(max_tokens=room, beams=beams, **self.config.limits.model_dump())
            prompts = build_prompts(opening or self.config.opening, model, tokenizer, batch.source)
            written = generate(model, prompts, options, source=batch.source, stop_tokens=tokenizer.ends)
            texts = [text.strip() for text in tokenizer.decode_batch(answer.tokens for answer in written)]
            if batch.labels is None:
                return texts, Loss(torch.zeros(()), 0)
            with eval_mode(model):
                return texts, Loss(*token_loss(model, batch))
        with eval_mode(model):
            logits, seq = model(batch)
        if self.config.objective == "label":
            loss = Loss(torch.zeros(()), 0)
            if batch.labels is not None:
                loss = Loss(F.cross_entropy(logits, batch.labels, reduction="sum"), len(batch.labels))
            return [state.labels[place] for place in logits.argmax(-1).tolist()], loss
        assert tokenizer is not None
        log_p = logits.double().log_softmax(-1).cpu().numpy()
        spoken = [own[:length] for own, length in zip(log_p, seq.lengths.tolist(), strict=True)]
        tokens = [(greedy(own) if beams == 1 else prefix_beam(own, beams)[0]).tokens for own in spoken]
        loss = Loss(torch.zeros(()), 0) if batch.labels is None else Loss(*ctc_total(logits, seq, batch.labels))
        return [text.strip() for text in tokenizer.decode_batch(tokens)], loss

    def _align(self, model: Model, dataset: Utterances, written: list[str]) -> list[SoundAlignment]:
        """A few sounds with where in them the model heard what; short and long ones."""
        if self.config.objective == "label":
            return []
        order = np.argsort(dataset.durations, kind="stable")
        rows = [
            int(row) for row in order[np.linspace(0.2 * len(order), 0.9 * len(order), ALIGNED).astype(np.int64).clip(0, len(order) - 1)]
        ]
        rows = [row for row in dict.fromkeys(rows) if written[row].strip()]
        return [align_transcript(model, dataset, row, written[row]) for row in rows]

    def baselines(self, prepared: Prepared[SpeechState, Utterances], say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        return speech_baselines(train, test, say)

    # -------------------------------------------------------------------------------------------------------------- answers

    def inputs(self, file: Path, column: str | None) -> list[str | Example] | None:
        return [{"audio": path} for path in sound_paths(file, column)]

    def predict(self, model: Model, state: SpeechState, tokenizers: Tokenizers, inputs: Inputs, **options: Any) -> list[Prediction]:
        """What is said in each file. `beams` searches among several transcripts; `language` and `task` are those of the opening."""
        opening = self._prompt(options.get("language"), options.get("task"))
        found = []
        for example in as_examples(inputs, "audio"):
            name = example["audio"]
            parts = [Batch(sound_input([own])).to(device_of(model)) for own in self._windows(state, example, model)]
            if self.config.objective == "label":
                found.append(self._classify(model, state, parts[0], name))
                continue
            texts = [self._transcribe(model, state, part, tokenizers["tokenizer"], options.get("beams"), opening)[0][0] for part in parts]
            found.append(Prediction(name, " ".join(filter(None, texts))))
        return found

    def _prompt(self, language: str | None, task: str | None) -> OpeningConfig | None:
        """That of the configuration, with what is asked for now."""
        if self.config.opening is not None:
            return self.config.opening.override(language, task)
        if language or task:
            raise UsageError("this model is told no language and no task: it writes what it was trained on")
        return None

    def _classify(self, model: Model, state: SpeechState, batch: Batch, name: str) -> Prediction:
        with eval_mode(model):
            return Prediction.of_classes(name, state.labels, model(batch)[0][0].double().softmax(-1).cpu().numpy())

    def _windows(self, state: SpeechState, example: Example, model: Model) -> list[Tensor]:
        """What is read of a file: all at once, or one piece after the other where every sound is made to last as long."""
        features, longest = self.features(state), model.config.max_len
        if "frames" in example:
            sound, whole = parse_frames(example["frames"]), fixed_length(features, longest)
            return [sound if whole is None else pad_silence(sound[:whole], whole)]
        return [own[:longest] for own in features.frames(features.windows(read_sound(Path(example["audio"]), state.rate)))]

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return speech_sections(evaluation, self.config.objective)

    def examples(self, prepared: Prepared[SpeechState, Utterances], count: int = 3) -> list[Example]:
        """Short test sounds: maps of long ones are unreadable."""
        test = prepared.test
        order = np.argsort(test.durations, kind="stable")
        rows = [int(row) for row in order[: len(order) // 2 + 1][:: max(1, len(order) // (2 * count))][:count]]
        return [{"audio": test.table["audio"][row], "frames": write_frames(test.frames[row])} for row in rows]

    def maps(self, model: Model, state: SpeechState, tokenizers: Tokenizers, inputs: Inputs) -> list[AttentionMaps]:
        """The weights while a sound is heard, by the time of each frame, and while its transcript is written."""
        found = []
        for example in as_examples(inputs, "audio"):
            name = example["audio"]
            answer = self.predict(model, state, tokenizers, [example])[0].output
            source = sound_input(self._windows(state, example, model)[:1])
            frontend = model.config.frontend
            assert isinstance(frontend, FramesConfig | WavesConfig)
            vectors = int(frontend.output_lengths(source.seq.lengths)[0])
            seconds = source.seq.max_len * self.features(state).step / vectors
            times = [f"{1000 * place * seconds:.0f} ms" for place in range(vectors)]  # whole numbers: the same in both languages
            if self.config.features.frames_each is not None:
                times = [f"{place / vectors:.0%}" for place in range(vectors)]
            title = Text(*(f"{Path(name).name} → {quote(answer)[lang]}" for lang in LANGS))
            if self.config.objective != "seq2seq":
                found += attention_maps(model, Batch(source), times, title=title)
                continue
            tokenizer = tokenizers["tokenizer"]
            ids = transcript_ids(self.config.opening, tokenizer, [answer])[0]
            target = Input(torch.from_numpy(ids[None, :-1].astype(np.int64)), Seq.from_padded([len(ids) - 1]))
            written = readable_tokens(tokenizer, ids)
            found += attention_maps(model, Batch(source, target), written[:-1], source=times, writes=written[1:], title=title)
        return found


def ctc_total(logits: Tensor, seq: Seq, labels: Tensor) -> tuple[Tensor, int]:
    """The summed loss of a batch, and how many tokens it is of: those of transcripts that their frames can hold."""
    scored = labels != UNSCORED
    lengths = scored.sum(1)
    needed = lengths + (scored[:, 1:] & (labels[:, 1:] == labels[:, :-1])).sum(1)
    total = ctc_loss(logits, seq.lengths, labels.clamp(min=0), lengths).sum()
    return total, int(lengths[needed <= seq.lengths].sum())


def _room(frames: int) -> int:
    """Tokens that a transcript of so many frames may take: nobody speaks faster than twenty characters a second."""
    return frames // 4 + 16
