"""Sounds as frames or samples, with what is to be said about them: one split in memory, and how it is made."""

import base64
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attentif.config import Config
from attentif.data import Table
from attentif.data.audio import Sounds, Wave
from attentif.data.progress import Pulse
from attentif.data.readers import Tolerance
from attentif.errors import ConfigError, DataError
from attentif.kernels.mel import FLOOR, log_mel, mel_filters
from attentif.models import Batch, Input
from attentif.models.frontends.frames import FramesConfig
from attentif.models.frontends.waves import WavesConfig
from attentif.models.heads.ctc import min_frames
from attentif.nn.seq import Seq
from attentif.tasks.base import Say
from attentif.tasks.batches import format_count
from attentif.tasks.narrow import narrow
from attentif.tasks.ragged import UNSCORED, Ints, Ragged, Rows
from attentif.tasks.speech.prompt import OpeningConfig, transcript_ids
from attentif.text import Tokenizer

Objective = Literal["ctc", "seq2seq", "label"]
SILENCE = float(torch.tensor(FLOOR).log())  # of a log-mel frame


class FeaturesConfig(Config):
    """What of a sound is read: log-mel frames, or its samples."""

    kind: Literal["log-mel", "samples"] = Field(
        "log-mel", description="log-mel (frames) or samples (raw waveform, for model.frontend `waves`)"
    )
    normalise: bool = Field(False, description="samples only: normalise each sound to mean 0 and variance 1 (wav2vec 2.0)")
    rate: int | None = Field(None, gt=0, description="sampling rate in Hz; by default that of the first training file, at most 16,000")
    mels: int = Field(40, gt=0, description="number of mel bands (Whisper: 80)")
    window: float = Field(0.025, gt=0, description="window of a frame, in seconds")
    hop: float = Field(0.01, gt=0, description="hop between frames, in seconds")
    fft: int | None = Field(None, gt=0, description="FFT size; by default the next power of two (Whisper: 400)")
    low: float = Field(0.0, ge=0, description="lowest frequency, in Hz")
    high: float | None = Field(None, gt=0, description="highest frequency; by default half the rate")
    scale: Literal["slaney", "htk"] = Field("slaney", description="mel scale: slaney (librosa, Whisper) or htk (Kaldi)")
    seconds: float | None = Field(
        None, gt=0, description="fixed duration in seconds: sounds are padded with silence or truncated (Whisper: 30)"
    )
    trim: float = Field(0.0, ge=0, description="log-mel only: trim both ends below the peak by this many decibels (0: off)")
    range: float = Field(0.0, ge=0, description="log-mel only: clip frames at this many decibels below the peak (0: off)")
    frames_each: int | None = Field(
        None, gt=1, description="log-mel only: stretch every sound to this many frames, for `objective = label`"
    )

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        if self.kind == "samples" and (wrong := next((key for key in ("trim", "range", "frames_each") if getattr(self, key)), None)):
            raise ValueError(f"{wrong}: is for log-mel frames, and samples are read as they are")
        if self.frames_each is not None and self.seconds is not None:
            raise ValueError("frames_each: a sound cannot be both stretched and followed by silence (seconds); take one of them")
        return self

    @property
    def sample_rate(self) -> int:
        """The rate in Hz, given or that of the training files."""
        return narrow(self.rate, int)

    def sizes(self) -> dict[str, int]:
        """Window, hop and transform in samples."""
        window = round(self.window * self.sample_rate)
        return {"window": window, "hop": round(self.hop * self.sample_rate), "fft": self.fft or 1 << (window - 1).bit_length()}

    def filters(self) -> Tensor:
        fft = self.sizes()["fft"]
        if fft < self.sizes()["window"]:
            raise ConfigError(f"task.features.fft: {fft} points are fewer than the {self.sizes()['window']} samples of a window")
        if self.top > self.sample_rate / 2 or self.top <= self.low:
            raise ConfigError(f"task.features.high: {self.top:g} Hz must lie between low and half the rate, {self.sample_rate / 2:g} Hz")
        found = mel_filters(self.sample_rate, fft, self.mels, self.low, self.top, self.scale)
        if empty := int((found.sum(1) == 0).sum()):
            raise ConfigError(
                f"task.features.mels: {empty} of {self.mels} bands hold no frequency of a transform of {fft} points; take fewer"
            )
        return found.float()

    @property
    def top(self) -> float:
        return self.high or self.sample_rate / 2

    @property
    def step(self) -> float:
        """Seconds from what is read to the next."""
        return self.hop if self.kind == "log-mel" else 1 / self.sample_rate

    @property
    def whole(self) -> int | None:
        """Frames or samples of every sound, where all are made to last as long."""
        return None if self.seconds is None else round(self.seconds / self.step)

    def windows(self, wave: Wave) -> list[Wave]:
        """A long sound in pieces, none of which lasts longer than all are made to."""
        size = len(wave) if self.seconds is None else round(self.seconds * self.sample_rate)
        return [wave[start : start + size] for start in range(0, max(len(wave), 1), size or 1)]

    def fit_length(self, wave: Tensor) -> Tensor:
        """(samples,): the sound with silence after it, or without its end, so that all last as long."""
        if self.seconds is None:
            return wave
        samples = round(self.seconds * self.sample_rate)
        return F.pad(wave[:samples], (0, samples - len(wave[:samples])))

    def frames(self, waves: Sequence[Wave], say: Say | None = None) -> list[Tensor]:
        """(T, mels) of each sound, or its samples (T,)."""
        if self.kind == "samples":
            return [self.fit_length(self._normalise(torch.from_numpy(wave))) for wave in waves]
        pulse = Pulse(say)
        found: list[Tensor] = []
        for wave in waves:
            found.append(self._stretch(self._limit_range(self._log_mel(self.fit_length(self._trim(torch.from_numpy(wave)))))))
            pulse(lambda: f"log-mel frames: {len(found):,} of {len(waves):,} sounds")
        return found

    def spectrum(self, sound: Tensor) -> Tensor:
        """(T, mels) of what `frames` gave, to be looked at."""
        return sound if self.kind == "log-mel" else self._log_mel(sound)

    def strip_padding(self, sound: Tensor) -> Tensor:
        """What `frames` gave without the silence that was put after it, which `sound_input` puts there again."""
        if self.seconds is None:
            return sound
        loud = (sound > SILENCE + 1e-4).any(1) if self.kind == "log-mel" else sound != 0
        places = loud.nonzero()
        return sound[: int(places[-1]) + 1 if len(places) else 1]

    def _log_mel(self, wave: Tensor) -> Tensor:
        return log_mel(wave, self.filters(), **self.sizes())

    def _trim(self, wave: Tensor) -> Tensor:
        """(samples,) from the first hop that is loud enough to the last."""
        hop = self.sizes()["hop"]
        if not self.trim or len(wave) < hop:
            return wave
        power = wave[: len(wave) // hop * hop].view(-1, hop).square().mean(1)
        loud = (power >= power.max() * 10 ** (-self.trim / 10)).nonzero()[:, 0]
        return wave[int(loud[0]) * hop : (int(loud[-1]) + 1) * hop]

    def _limit_range(self, frames: Tensor) -> Tensor:
        return frames if not self.range else frames.clamp(min=float(frames.max()) - self.range * math.log(10) / 10)

    def _stretch(self, frames: Tensor) -> Tensor:
        """(T, mels) to (frames_each, mels), between neighbours linearly."""
        if self.frames_each is None:
            return frames
        return F.interpolate(frames.T[None], size=self.frames_each, mode="linear", align_corners=False)[0].T.contiguous()

    def _normalise(self, wave: Tensor) -> Tensor:
        if not self.normalise:
            return wave
        return (wave - wave.mean()) / torch.sqrt(wave.var(correction=0) + 1e-7)


@dataclass(frozen=True)
class Utterances:
    """One split: frames, and the transcript's tokens (CTC: plain; seq2seq: [BOS] y [EOS]) or the number of its label."""

    table: Table
    frames: list[Tensor]  # or samples, without the silence that makes all last as long
    tokens: Ragged
    tokenizer: Tokenizer | None
    objective: Objective
    features: FeaturesConfig
    whole: int | None = None  # what all of them are made to last
    opening: OpeningConfig | None = None
    unit: int = 1  # samples that weigh as much in a batch as a frame does
    augment: Callable[[Tensor, Seq], Input] | None = None  # of the training split: sounds are changed anew in every batch

    @property
    def name(self) -> str:
        return self.table.name

    @cached_property
    def durations(self) -> Ints:
        """In frames, or what weighs as much."""
        return np.array([-(-(self.whole or len(own)) // self.unit) for own in self.frames], dtype=np.int64)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        return np.stack([self.durations, self.tokens.lengths - 1], 1) if self.objective == "seq2seq" else self.durations

    @property
    def texts(self) -> list[str]:
        return self.table["text"]

    def __len__(self) -> int:
        return len(self.frames)

    def batch(self, rows: Rows, *, packed: bool = False) -> Batch:
        chosen = np.asarray(rows, dtype=np.int64)
        source = sound_input([self.frames[row] for row in chosen], packed=packed and self.augment is None, whole=self.whole)
        if self.augment is not None:
            source = self.augment(source.data, source.seq)
        numbers = tuple(chosen.tolist())
        if self.objective == "ctc":
            return Batch(source, labels=self.tokens.values(chosen, packed=False, fill=UNSCORED), rows=numbers)
        if self.objective == "label":
            return Batch(source, labels=self.tokens.values(chosen, packed=False, fill=UNSCORED)[:, 0], rows=numbers)
        target = self.tokens.trim(last=1).input(chosen, packed=packed, pad=narrow(self.tokenizer, Tokenizer).pad)
        return Batch(source, target, self.tokens.trim(first=1).values(chosen, packed=packed, fill=UNSCORED), numbers)

    def place(self, row: int) -> str:
        return f"{self.table.place(row)} ({self.table['audio'][row]})"


def sound_input(frames: Sequence[Tensor], *, packed: bool = False, whole: int | None = None) -> Input:
    """Sounds side by side, with silence after each where all are to last as long."""
    if whole is not None:
        frames = [pad_silence(own[:whole], whole) for own in frames]
    lengths = torch.tensor([len(own) for own in frames])
    if packed:
        return Input(torch.cat(list(frames)), Seq.from_packed(lengths))
    return Input(pad_sequence(list(frames), batch_first=True), Seq.from_padded(lengths))


def write_frames(sound: Tensor) -> str:
    """The frames of a sound as a text, which `parse_frames` reads."""
    file = io.BytesIO()
    np.save(file, sound.numpy(), allow_pickle=False)
    return base64.b64encode(file.getvalue()).decode()


def parse_frames(text: str) -> Tensor:
    return torch.from_numpy(np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False))


def pad_silence(sound: Tensor, whole: int) -> Tensor:
    """(T, ...) with silence up to `whole`."""
    missing = whole - len(sound)
    return F.pad(sound, (0, missing)) if sound.ndim == 1 else F.pad(sound, (0, 0, 0, missing), value=SILENCE)


@dataclass(frozen=True)
class Encoder:
    """From sounds and texts to a split; what cannot be learned from is told, or left out where that is allowed."""

    features: FeaturesConfig
    objective: Objective
    frontend: FramesConfig | WavesConfig
    tokenizer: Tokenizer | None
    labels: Sequence[str]
    longest: int | None  # frames that the model can read
    tolerance: Tolerance
    opening: OpeningConfig | None = None

    def __call__(self, sounds: Sounds, notes: list[str], say: Say) -> Utterances:
        table, frames = sounds.table, self.features.frames(sounds.waves, say)
        frames, kept = self._limit_lengths(sounds, [self.features.strip_padding(own) for own in frames], notes)
        tokens = self._tokens(table)
        if table.name == "train":
            kept = [row for row in kept if self._is_learnable(table, row, tokens[row], len(frames[row]))]
            if not kept:
                raise DataError("no sound is left to train on", file=table.files[0])
        elif self.tokenizer is not None:
            self._note_unknown(table, notes)
            self._note_too_long(table, tokens, frames, notes)
        if len(kept) < len(table):
            table, frames, tokens = table.take(kept), [frames[row] for row in kept], [tokens[row] for row in kept]
        unit = math.prod(self.frontend.strides) if isinstance(self.frontend, WavesConfig) else 1
        whole = fixed_length(self.features, self.longest)
        return Utterances(table, frames, Ragged.of(tokens), self.tokenizer, self.objective, self.features, whole, self.opening, unit)

    def _limit_lengths(self, sounds: Sounds, frames: list[Tensor], notes: list[str]) -> tuple[list[Tensor], list[int]]:
        """Sounds longer than the model reads are left out of training and cut elsewhere, where every row counts."""
        table, step = sounds.table, self.features.step
        whole = self.features.whole
        most = min((limit for limit in (self.longest, whole) if limit is not None), default=None)
        if most is None:
            return frames, list(range(len(frames)))
        lasting = (len(wave) / self.features.sample_rate for wave in sounds.waves)  # `frames` may be cut already
        long = {row for row, seconds in enumerate(lasting) if int(seconds / step) > most}
        if not long:
            return frames, list(range(len(frames)))
        how = "left out" if table.name == "train" else "cut"
        seconds = most * step
        notes.append(
            f"{table.name}: {format_count(len(long), 'sound')} of {len(table):,} longer than {seconds:g} s, all that the model reads, {how}"
        )
        kept = [row for row in range(len(frames)) if row not in long or table.name != "train"]
        return [own[:most] for own in frames], kept

    def _tokens(self, table: Table) -> list[NDArray[Any]]:
        if self.objective == "label":
            number = {label: place for place, label in enumerate(self.labels)}
            for row, text in enumerate(table["text"]):
                if text not in number:
                    raise DataError(
                        f"{table.place(row)}: {text!r} is none of the {len(number)} answers of training ({', '.join(self.labels[:10])})"
                    )
            return [np.array([number[text]], dtype=np.int32) for text in table["text"]]
        if self.objective == "seq2seq":
            return list(transcript_ids(self.opening, narrow(self.tokenizer, Tokenizer), table["text"]))
        return list(narrow(self.tokenizer, Tokenizer).ids_batch(table["text"], wrap="none"))

    def _is_learnable(self, table: Table, row: int, tokens: NDArray[Any], frames: int) -> bool:
        problem = self._problem(table["text"][row], tokens, frames)
        if problem:
            file, line = table.places[row]
            self.tolerance.bad(problem, Path(table.files[file]), int(line))
        return not problem

    def _problem(self, text: str, tokens: NDArray[Any], frames: int) -> str:
        if self.tokenizer is not None and (unknown := unknown_pieces(self.tokenizer, text)):
            return f"the transcript has {unknown[0]!r}, too rare for the tokenizer to know; correct it, or say tokenizer.min_count=1"
        return self._too_long(tokens, frames)

    def _too_long(self, tokens: NDArray[Any], frames: int) -> str:
        """Why CTC cannot write a transcript in the frames of its sound; nothing where it can."""
        frames = fixed_length(self.features, self.longest) or frames
        needed, heard = min_frames(tokens.tolist()), int(self.frontend.output_lengths(torch.tensor(frames)))
        if self.objective != "ctc" or needed <= heard:
            return ""
        seconds, said = frames * self.features.step, format_count(len(tokens), "token")
        return f"a transcript of {said} needs {needed} frames of the model, and {seconds:.2f} s of sound give {heard}"

    def _note_too_long(self, table: Table, tokens: Sequence[NDArray[Any]], frames: Sequence[Tensor], notes: list[str]) -> None:
        """Rows that are scored are kept, whatever they are: what nobody could answer is said."""
        problems = {row: problem for row, own in enumerate(tokens) if (problem := self._too_long(own, len(frames[row])))}
        if problems:
            row, problem = next(iter(problems.items()))
            which = f"{table.name}: {format_count(len(problems), 'transcript')} of {len(table):,}"
            notes.append(f"{which} cannot be written by CTC ({table.place(row)}: {problem}): errors, whatever is answered, and no loss")

    def _note_unknown(self, table: Table, notes: list[str]) -> None:
        tokenizer = narrow(self.tokenizer, Tokenizer)
        pieces = [unknown for text in table["text"] if (unknown := unknown_pieces(tokenizer, text))]
        if pieces:
            named = ", ".join(repr(piece) for piece in sorted({piece for row in pieces for piece in row})[:5])
            which = f"{table.name}: {format_count(len(pieces), 'transcript')} of {len(table):,}"
            notes.append(f"{which} hold what training has not ({named}): errors, whatever is answered")


def fixed_length(features: FeaturesConfig, longest: int | None) -> int | None:
    """Frames of every sound, where all are made to last as long and the model reads so many."""
    return features.whole if features.whole is None or longest is None else min(features.whole, longest)


def unknown_pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    """What of a text the tokenizer does not know."""
    if tokenizer.unk is None:
        return []
    encoding = tokenizer.encode(text, wrap="none")
    return [text[start:end] for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True) if token == tokenizer.unk]
