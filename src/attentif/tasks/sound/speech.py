"""Speech: what is said in a sound.

    ctc        an encoder scores every token, or none, at each frame; the transcript is read off it           (Graves et al. 2006)
    seq2seq    an encoder hears, a decoder writes, token after token: Whisper's shape                         (Radford et al. 2022)
    label      the whole sound is one of the training transcripts: single words, commands

Word and character error rates are jiwer's: (substitutions + deletions + insertions) / words of the reference, over the whole split.
"""

from collections.abc import Sequence
from functools import cached_property
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
from attentif.models import Batch, Input, Model, ModelConfig, evaluating
from attentif.models.frontends.frames import FramesConfig
from attentif.models.frontends.waves import WavesConfig
from attentif.models.heads import ClassifyHeadConfig, LanguageHeadConfig
from attentif.models.heads.ctc import CTCHeadConfig, ctc_loss
from attentif.nn.seq import Seq, unpack
from attentif.tasks.feed import as_examples, device_of, each_batch, fitted, on_paper
from attentif.tasks.looking import attention_maps, shown_tokens
from attentif.tasks.ragged import UNSCORED, Ints
from attentif.tasks.sound.speech_augment import SoundAugment, SoundAugmentConfig, WaveAugment
from attentif.tasks.sound.speech_data import Encoder, FeaturesConfig, Utterances, silenced, sound_input, whole_within
from attentif.tasks.sound.speech_opening import OpeningConfig, openings, transcript_ids
from attentif.tasks.sound.speech_report import alignment_of, speech_sections
from attentif.tasks.sound.speech_scores import speech_baselines, speech_details, speech_scores
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
    TaskConfig,
    Tokenizers,
)
from attentif.tasks.tokens import token_loss
from attentif.text import Tokenizer, TokenizerConfig
from attentif.view.blocks import AttentionMaps, Section

ALIGNED = 3  # test sounds whose alignment the report shows
MOST_LABELS = 1000  # answers of `label`: beyond, transcripts are no closed set


@TASKS.register
class SpeechConfig(TaskConfig):
    """What is said in a sound."""

    kind: Literal["speech"] = Field("speech", description="what is said in a sound")
    objective: Literal["ctc", "seq2seq", "label"] = Field(
        "ctc",
        description="ctc (an encoder), seq2seq (an encoder and a decoder), label (the whole sound is one of the training transcripts)",
    )
    features: FeaturesConfig = Field(FeaturesConfig(), description="how sound becomes frames")
    augment: SoundAugmentConfig = Field(SoundAugmentConfig(), description="speed, pitch, noise and masks in training")
    labels: list[str] = Field([], description="the answers of `label`, in the model's order; by default the training transcripts")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="of seq2seq and label: share of the target given to other tokens")
    beams: int = Field(1, gt=0, description="transcripts searched side by side; 1: greedy")
    opening: OpeningConfig | None = Field(None, description="of seq2seq: what stands before a transcript; by default [BOS]")
    limits: Limits = Field(Limits(), description="of seq2seq: what may not be written")
    max_tokens: int | None = Field(None, gt=0, description="of seq2seq: most tokens of a transcript; by default four frames' worth each")
    eval_examples: int = Field(200, ge=0, description="of seq2seq: validation sounds written down during training (0: all); all at the end")

    def build(self) -> "Speech":
        return Speech(self)


class Speech(Task):
    config: SpeechConfig
    offers = ("transcribe",)
    optional_inputs = ("language",)
    reads = "audio"

    def __init__(self, config: SpeechConfig) -> None:
        super().__init__(config)
        self.metric = "exact_match" if config.objective == "label" else "wer"
        self.needs_tokenizer = config.objective != "label"
        self._sounds: dict[str, Tensor] = {}  # frames of sounds that have no file, by name

    # ------------------------------------------------------------------------------------------------------------- the model

    def adapt(self, model: ModelConfig) -> ModelConfig:
        """The head that the objective asks for."""
        wanted: dict[str, Any] = {"ctc": CTCHeadConfig, "seq2seq": LanguageHeadConfig, "label": ClassifyHeadConfig}
        head = wanted[self.config.objective]
        return model if isinstance(model.head, head) else model.with_head(head())

    def check(self, model: ModelConfig) -> None:
        kind = self.config.features.kind
        if not isinstance(model.frontend, FramesConfig | WavesConfig):
            raise ConfigError("model.frontend: speech is read from frames of sound; take conformer-tiny or whisper-micro, say")
        if isinstance(model.frontend, WavesConfig) != (kind == "samples"):
            other = "samples" if kind == "log-mel" else "log-mel"
            raise ConfigError(f"task.features.kind: {kind!r} with a model that reads {other}; say task.features.kind={other}")
        if self.config.features.frames_each is not None and self.config.objective != "label":
            raise ConfigError(
                'task.features.frames_each: stretched sounds are labelled as a whole (task.objective = "label"), not spelt out'
            )
        if model.encoder is None:
            raise ConfigError("model: speech is heard by an encoder; take conformer-tiny, say")
        writes = model.decoder is not None
        if writes != (self.config.objective == "seq2seq"):
            way_out = 'say task.objective = "seq2seq"' if writes else "take whisper-micro, say"
            raise ConfigError(
                f"task.objective: {self.config.objective!r} with a model that has {'a' if writes else 'no'} decoder; {way_out}"
            )
        patches = isinstance(model.frontend, FramesConfig) and model.frontend.subsample == "patches"
        if self.config.objective == "ctc" and patches and model.frontend.with_any_size().rows > 1:  # type: ignore[union-attr]
            raise ConfigError("model.frontend.patch: CTC reads one vector a time; let a patch be as high as there are bands")
        built = on_paper(model)
        if writes and not built.caps.causal:
            raise ConfigError("model.decoder: a transcript is written one token after the other, and this decoder would see those to come")

    # -------------------------------------------------------------------------------------------------------------- the data

    def prepare(self, data: DataConfig, text: TokenizerConfig | Tokenizers, model: ModelConfig, say: Say) -> Prepared:
        if self.config.opening is not None and self.config.opening.listens:
            known = ", ".join(self.config.opening.languages[:8])
            raise ConfigError(f"task.opening.language: say which language the transcripts are in ({known} ...)")
        splits = load_sounds(data, self.config.features.rate, say, LABELLED if self.config.objective == "label" else SPEECH)
        read = f", a frame each {1000 * self.config.features.hop:g} ms" if self.config.features.kind == "log-mel" else ""
        notes = [*splits.notes, f"sounds at {splits.rate:,} samples a second{read}"]
        texts = splits.train.table["text"]
        labels = (self.config.labels or sorted(set(texts))) if self.config.objective == "label" else []
        if labels:
            refuse_one(splits.train.table, "text")
        if len(labels) > MOST_LABELS:
            raise ConfigError(f'task.objective: {len(labels):,} different transcripts are no closed set of labels; "ctc" spells them out')
        task = self.config.changed(features=self.config.features.changed(rate=splits.rate), labels=labels)
        self.config = task
        tokenizers = {"tokenizer": fitted(text, "tokenizer", texts, say)} if self.needs_tokenizer else {}
        tolerance = Tolerance(data.skip_bad)
        encode = self._encoder(model, tokenizers, tolerance)
        train, valid, test = (encode(sounds, notes, say) for sounds in (splits.train, splits.valid, splits.test))
        notes += tolerance.notes
        for note in notes:
            say(note)
        vocab = tokenizers["tokenizer"].vocab if tokenizers else None
        heads: dict[str, dict[str, Any]] = {"ctc": {"vocab": vocab}, "seq2seq": {}, "label": {"classes": len(labels)}}
        sizes = Sizes(
            target_vocab=vocab if task.objective == "seq2seq" else None,
            max_len=max(int(split.durations.max()) for split in (train, valid, test)),
            frontend={"mels": task.features.mels} if task.features.kind == "log-mel" else {},
            head=heads[task.objective],
        )
        return Prepared(task, train, valid, test, tokenizers, sizes, splits.digest, notes)

    def read(self, data: DataConfig, tokenizers: Tokenizers, model: ModelConfig, say: Say) -> Utterances:
        assert self.config.features.rate is not None
        sounds, notes = load_sound_rows(data, self.config.features.rate, say)
        heard = self._encoder(model, tokenizers, Tolerance(data.skip_bad))(sounds, notes, say)
        for note in notes:
            say(note)
        return heard

    def _encoder(self, model: ModelConfig, tokenizers: Tokenizers, tolerance: Tolerance) -> Encoder:
        frontend, config = model.frontend, self.config
        assert isinstance(frontend, FramesConfig | WavesConfig)
        if isinstance(frontend, FramesConfig):
            frontend = frontend.changed(mels=config.features.mels)
        tokenizer = tokenizers.get("tokenizer")
        return Encoder(config.features, config.objective, frontend, tokenizer, config.labels, model.max_len, tolerance, config.opening)

    # ------------------------------------------------------------------------------------------------------------- training

    @cached_property
    def _augment(self) -> SoundAugment | WaveAugment:
        features = self.config.features
        if features.kind == "samples":
            return WaveAugment(self.config.augment)
        return SoundAugment(self.config.augment, features.mels, features.low, features.top, features.scale)

    def step(self, model: Model, batch: Batch) -> Loss:
        source = batch.source
        if model.training:
            frames, seq = source.data, source.seq
            if seq.is_packed:
                frames, seq = unpack(frames, seq), Seq.padded(seq.lengths)
            source = self._augmented(frames, seq)
        batch = Batch(source, batch.target, batch.labels, batch.rows)
        if self.config.objective == "seq2seq":
            return Loss(*token_loss(model, batch, self.config.label_smoothing))
        logits, seq = model(batch)
        assert batch.labels is not None
        if self.config.objective == "label":
            total = F.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=self.config.label_smoothing)
            return Loss(total, len(batch.labels), {"exact_match": (logits.detach().argmax(-1) == batch.labels).sum()})
        return Loss(*ctc_total(logits, seq, batch.labels))

    def _augmented(self, sounds: Tensor, seq: Seq) -> Input:
        """Sounds changed; silence that makes all of them last as long is put after them anew."""
        features = self.config.features
        if features.seconds is None:
            return Input(*self._augment(sounds, seq))
        heard = torch.tensor([len(features.heard(sound)) for sound in sounds], device=sounds.device)
        changed, seq = self._augment(sounds[:, : int(heard.max())], Seq.padded(heard))
        rows = [
            silenced(row[:length][: sounds.shape[1]], sounds.shape[1]) for row, length in zip(changed, seq.lengths.tolist(), strict=True)
        ]
        return sound_input(rows)

    # ----------------------------------------------------------------------------------------------------------- evaluation

    def evaluate(
        self, model: Model, dataset: Dataset, *, budget: int = 8192, quick: bool = False, progress: Progress | None = None
    ) -> Evaluation:
        assert isinstance(dataset, Utterances)
        rows = np.arange(len(dataset))
        if quick and self.config.objective == "seq2seq" and 0 < self.config.eval_examples < len(dataset):
            rows = np.linspace(0, len(dataset) - 1, self.config.eval_examples).astype(np.int64)
        written, loss = self._written(model, dataset, rows, budget, progress)
        references = [dataset.texts[row] for row in rows.tolist()]
        found = speech_scores(references, written)
        scores = found.scores | ({} if loss is None else {"loss": loss})
        if quick:
            return Evaluation(scores, examples=len(rows), split=dataset.name)
        details = speech_details(found, dataset.table) | {"aligned": self._aligned(model, dataset, written)}
        return Evaluation(scores, found.intervals(), len(rows), details, dataset.name)

    def _written(
        self, model: Model, dataset: Utterances, rows: Ints, budget: int, progress: Progress | None
    ) -> tuple[list[str], float | None]:
        """Transcripts of some rows in their order, and the loss where it costs nothing more."""
        found: dict[int, str] = {}
        total, count = 0.0, 0
        for batch in each_batch(model, dataset, budget, progress, rows):
            texts, loss = self._heard(model, batch, dataset.tokenizer)
            found |= dict(zip(batch.rows, texts, strict=True))
            total, count = total + float(loss.total), count + loss.count
        return [found[row] for row in rows.tolist()], total / count if count else None

    def _heard(
        self, model: Model, batch: Batch, tokenizer: Tokenizer | None, beams: int | None = None, opening: OpeningConfig | None = None
    ) -> tuple[list[str], Loss]:
        """The transcript of every row of a batch, and the loss of the references that it brings."""
        beams = beams or self.config.beams
        if self.config.objective == "seq2seq":
            assert tokenizer is not None
            room = self.config.max_tokens or _room(batch.source.seq.max_len)
            options = GenerateOptions(max_tokens=room, beams=beams, **self.config.limits.model_dump())
            prompts = openings(opening or self.config.opening, model, tokenizer, batch.source)
            written = generate(model, prompts, options, source=batch.source, stop_tokens=tokenizer.ends)
            texts = [text.strip() for text in tokenizer.decode_batch(answer.tokens for answer in written)]
            if batch.labels is None:
                return texts, Loss(torch.zeros(()), 0)
            with evaluating(model):
                return texts, Loss(*token_loss(model, batch))
        with evaluating(model):
            logits, seq = model(batch)
        if self.config.objective == "label":
            loss = Loss(torch.zeros(()), 0)
            if batch.labels is not None:
                loss = Loss(F.cross_entropy(logits, batch.labels, reduction="sum"), len(batch.labels))
            return [self.config.labels[place] for place in logits.argmax(-1).tolist()], loss
        assert tokenizer is not None
        log_p = logits.double().log_softmax(-1).cpu().numpy()
        spoken = [own[:length] for own, length in zip(log_p, seq.lengths.tolist(), strict=True)]
        tokens = [(greedy(own) if beams == 1 else prefix_beam(own, beams)[0]).tokens for own in spoken]
        loss = Loss(torch.zeros(()), 0) if batch.labels is None else Loss(*ctc_total(logits, seq, batch.labels))
        return [text.strip() for text in tokenizer.decode_batch(tokens)], loss

    def _aligned(self, model: Model, dataset: Utterances, written: list[str]) -> list[dict[str, Any]]:
        """A few sounds with where in them the model heard what; short and long ones."""
        if self.config.objective == "label":
            return []
        order = np.argsort(dataset.durations, kind="stable")
        rows = [
            int(row) for row in order[np.linspace(0.2 * len(order), 0.9 * len(order), ALIGNED).astype(np.int64).clip(0, len(order) - 1)]
        ]
        rows = [row for row in dict.fromkeys(rows) if written[row].strip()]
        return [alignment_of(model, dataset, row, written[row]) for row in rows]

    def baselines(self, prepared: Prepared, say: Say) -> list[Baseline]:
        train, test = prepared.train, prepared.test
        assert isinstance(train, Utterances)
        assert isinstance(test, Utterances)
        return speech_baselines(train, test, say)

    # -------------------------------------------------------------------------------------------------------------- answers

    def inputs(self, file: Path, column: str | None) -> list[str | Example] | None:
        return [{"audio": path} for path in sound_paths(file, column)]

    def predict(self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example], **options: Any) -> list[Prediction]:
        """What is said in each file. `beams` searches among several transcripts; `language` and `task` are those of the opening."""
        names = [example["audio"] for example in as_examples(inputs, "audio")]
        opening = self._opening(options.get("language"), options.get("task"))
        found = []
        for name in names:
            parts = [Batch(sound_input([own])).to(device_of(model)) for own in self._windows(name, model)]
            if self.config.objective == "label":
                found.append(self._labelled(model, parts[0], name))
                continue
            texts = [self._heard(model, part, tokenizers["tokenizer"], options.get("beams"), opening)[0][0] for part in parts]
            found.append(Prediction(name, " ".join(filter(None, texts))))
        return found

    def _opening(self, language: str | None, task: str | None) -> OpeningConfig | None:
        """That of the configuration, with what is asked for now."""
        if self.config.opening is not None:
            return self.config.opening.told(language, task)
        if language or task:
            raise UsageError("this model is told no language and no task: it writes what it was trained on")
        return None

    def _labelled(self, model: Model, batch: Batch, name: str) -> Prediction:
        with evaluating(model):
            p = model(batch)[0][0].double().softmax(-1).tolist()
        order = sorted(range(len(p)), key=lambda place: -p[place])
        return Prediction(name, self.config.labels[order[0]], p[order[0]], {self.config.labels[place]: p[place] for place in order})

    def _windows(self, name: str, model: Model) -> list[Tensor]:
        """What is read of a file: all at once, or one piece after the other where every sound is made to last as long."""
        features, longest = self.config.features, model.config.max_len
        if name in self._sounds:
            sound, whole = self._sounds[name], whole_within(features, longest)
            return [sound if whole is None else silenced(sound[:whole], whole)]
        assert features.rate is not None
        return [own[:longest] for own in features.frames(features.windows(read_sound(Path(name), features.rate)))]

    def sections(self, evaluation: Evaluation) -> list[Section]:
        return speech_sections(evaluation, self.config.objective)

    def examples(self, prepared: Prepared, count: int = 3) -> list[Example]:
        """Short test sounds: long ones make maps that nobody can read."""
        test = prepared.test
        assert isinstance(test, Utterances)
        order = np.argsort(test.durations, kind="stable")
        rows = [int(row) for row in order[: len(order) // 2 + 1][:: max(1, len(order) // (2 * count))][:count]]
        self._sounds = {test.table["audio"][row]: test.frames[row] for row in rows}
        return [{"audio": name} for name in self._sounds]

    def maps(self, model: Model, tokenizers: Tokenizers, inputs: Sequence[str | Example]) -> list[AttentionMaps]:
        """The weights while a sound is heard, by the time of each frame, and while its transcript is written."""
        found = []
        for name in [example["audio"] for example in as_examples(inputs, "audio")]:
            answer = self.predict(model, tokenizers, [name])[0].output
            source = sound_input(self._windows(name, model)[:1])
            frontend = model.config.frontend
            assert isinstance(frontend, FramesConfig | WavesConfig)
            vectors = int(frontend.shortened(source.seq.lengths)[0])
            seconds = source.seq.max_len * self.config.features.step / vectors
            times = [f"{1000 * place * seconds:.0f} ms" for place in range(vectors)]  # whole numbers: the same in both languages
            if self.config.features.frames_each is not None:
                times = [f"{place / vectors:.0%}" for place in range(vectors)]
            title = f"{Path(name).name} → « {answer} »"
            if self.config.objective != "seq2seq":
                found += attention_maps(model, Batch(source), times, title=title)
                continue
            tokenizer = tokenizers["tokenizer"]
            ids = transcript_ids(self.config.opening, tokenizer, [answer])[0]
            target = Input(torch.from_numpy(ids[None, :-1].astype(np.int64)), Seq.padded([len(ids) - 1]))
            written = shown_tokens(tokenizer, ids)
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
