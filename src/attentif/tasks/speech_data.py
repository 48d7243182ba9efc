"""Sounds as frames, with what is to be said about them: one split in memory, and how it is made."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attentif.config import Config
from attentif.data import Table
from attentif.data.audio import Sounds, Wave
from attentif.data.pulse import Pulse
from attentif.data.readers import Tolerance
from attentif.errors import ConfigError, DataError
from attentif.kernels.mel import log_mel, mel_filters
from attentif.models import Batch, Input
from attentif.models.frontends.frames import FramesConfig
from attentif.models.heads.ctc import frames_needed
from attentif.nn.seq import Seq
from attentif.tasks.feed import counted
from attentif.tasks.ragged import UNSCORED, Ints, Ragged, Rows
from attentif.tasks.task import Say
from attentif.text import Tokenizer

Objective = Literal["ctc", "seq2seq", "label"]


class FeaturesConfig(Config):
    """How sound becomes log-mel frames."""

    rate: int | None = Field(None, gt=0, description="samples a second; by default those of the first training file, 16,000 at most")
    mels: int = Field(40, gt=0, description="bands of frequencies (Whisper: 80)")
    window: float = Field(0.025, gt=0, description="seconds that a frame looks at")
    hop: float = Field(0.01, gt=0, description="seconds from one frame to the next")
    fft: int | None = Field(None, gt=0, description="points of the Fourier transform; by default the next power of two (Whisper: 400)")
    low: float = Field(0.0, ge=0, description="lowest frequency, in Hz")
    high: float | None = Field(None, gt=0, description="highest frequency; by default half the rate")
    scale: Literal["slaney", "htk"] = Field("slaney", description="of the bands: slaney (librosa, Whisper) or htk (Kaldi)")

    def sizes(self) -> dict[str, int]:
        """Window, hop and transform in samples."""
        assert self.rate is not None
        window = round(self.window * self.rate)
        return {"window": window, "hop": round(self.hop * self.rate), "fft": self.fft or 1 << (window - 1).bit_length()}

    def filters(self) -> Tensor:
        assert self.rate is not None
        fft = self.sizes()["fft"]
        if fft < self.sizes()["window"]:
            raise ConfigError(f"task.features.fft: {fft} points are fewer than the {self.sizes()['window']} samples of a window")
        if self.top > self.rate / 2 or self.top <= self.low:
            raise ConfigError(f"task.features.high: {self.top:g} Hz must lie between low and half the rate, {self.rate / 2:g} Hz")
        found = mel_filters(self.rate, fft, self.mels, self.low, self.top, self.scale)
        if empty := int((found.sum(1) == 0).sum()):
            raise ConfigError(
                f"task.features.mels: {empty} of {self.mels} bands hold no frequency of a transform of {fft} points; take fewer"
            )
        return found.float()

    @property
    def top(self) -> float:
        assert self.rate is not None
        return self.high or self.rate / 2

    def frames(self, waves: Sequence[Wave], say: Say | None = None) -> list[Tensor]:
        """(T, mels) of each sound."""
        filters, sizes, pulse = self.filters(), self.sizes(), Pulse(say)
        found = []
        for wave in waves:
            found.append(log_mel(torch.from_numpy(wave), filters, **sizes))
            pulse(lambda: f"log-mel frames: {len(found):,} of {len(waves):,} sounds")
        return found


@dataclass(frozen=True)
class Utterances:
    """One split: frames, and the transcript's tokens (CTC: plain; seq2seq: [BOS] y [EOS]) or the number of its label."""

    table: Table
    frames: list[Tensor]
    tokens: Ragged
    tokenizer: Tokenizer | None
    objective: Objective

    @property
    def name(self) -> str:
        return self.table.name

    @cached_property
    def durations(self) -> Ints:
        """In frames."""
        return np.array([len(own) for own in self.frames], dtype=np.int64)

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
        source, numbers = sound_input([self.frames[row] for row in chosen], packed=packed), tuple(chosen.tolist())
        if self.objective == "ctc":
            return Batch(source, labels=self.tokens.values(chosen, packed=False, fill=UNSCORED), rows=numbers)
        if self.objective == "label":
            return Batch(source, labels=self.tokens.values(chosen, packed=False, fill=UNSCORED)[:, 0], rows=numbers)
        assert self.tokenizer is not None
        target = self.tokens.trimmed(last=1).input(chosen, packed=packed, pad=self.tokenizer.pad)
        return Batch(source, target, self.tokens.trimmed(first=1).values(chosen, packed=packed, fill=UNSCORED), numbers)

    def place(self, row: int) -> str:
        return f"{self.table.place(row)} ({self.table['audio'][row]})"


def sound_input(frames: Sequence[Tensor], *, packed: bool = False) -> Input:
    lengths = torch.tensor([len(own) for own in frames])
    if packed:
        return Input(torch.cat(list(frames)), Seq.packed(lengths))
    return Input(pad_sequence(list(frames), batch_first=True), Seq.padded(lengths))


@dataclass(frozen=True)
class Encoder:
    """From sounds and texts to a split; what cannot be learned from is told, or left out where that is allowed."""

    features: FeaturesConfig
    objective: Objective
    frontend: FramesConfig
    tokenizer: Tokenizer | None
    labels: Sequence[str]
    longest: int | None  # frames that the model can read
    tolerance: Tolerance

    def __call__(self, sounds: Sounds, notes: list[str], say: Say) -> Utterances:
        table, frames = sounds.table, self.features.frames(sounds.waves, say)
        frames, kept = self._short_enough(table, frames, notes)
        tokens = self._tokens(table)
        if table.name == "train":
            kept = [row for row in kept if self._learnable(table, row, tokens[row], len(frames[row]))]
            if not kept:
                raise DataError("no sound is left to train on", file=table.files[0])
        elif self.tokenizer is not None:
            self._note_unknown(table, notes)
        if len(kept) < len(table):
            table, frames, tokens = table.take(kept), [frames[row] for row in kept], [tokens[row] for row in kept]
        return Utterances(table, frames, Ragged.of(tokens), self.tokenizer, self.objective)

    def _short_enough(self, table: Table, frames: list[Tensor], notes: list[str]) -> tuple[list[Tensor], list[int]]:
        """Sounds longer than the model reads are left out of training and cut elsewhere, where every row counts."""
        long = {row for row, own in enumerate(frames) if self.longest is not None and len(own) > self.longest}
        if not long or self.longest is None:
            return frames, list(range(len(frames)))
        how = "left out" if table.name == "train" else "cut"
        seconds = self.longest * self.features.hop
        notes.append(
            f"{table.name}: {counted(len(long), 'sound')} of {len(table):,} longer than {seconds:g} s, all that the model reads, {how}"
        )
        kept = [row for row in range(len(frames)) if row not in long or table.name != "train"]
        return [own[: self.longest] for own in frames], kept

    def _tokens(self, table: Table) -> list[NDArray[Any]]:
        if self.objective == "label":
            number = {label: place for place, label in enumerate(self.labels)}
            for row, text in enumerate(table["text"]):
                if text not in number:
                    raise DataError(
                        f"{table.place(row)}: {text!r} is none of the {len(number)} answers of training ({', '.join(self.labels[:10])})"
                    )
            return [np.array([number[text]], dtype=np.int32) for text in table["text"]]
        assert self.tokenizer is not None
        return list(self.tokenizer.ids_batch(table["text"], wrap="bos-eos" if self.objective == "seq2seq" else "none"))

    def _learnable(self, table: Table, row: int, tokens: NDArray[Any], frames: int) -> bool:
        problem = self._problem(table["text"][row], tokens, frames)
        if problem:
            file, line = table.places[row]
            self.tolerance.bad(problem, Path(table.files[file]), int(line))
        return not problem

    def _problem(self, text: str, tokens: NDArray[Any], frames: int) -> str:
        if self.tokenizer is not None and (unknown := unknown_pieces(self.tokenizer, text)):
            return f"the transcript has {unknown[0]!r}, too rare for the tokenizer to know; correct it, or say tokenizer.min_count=1"
        if self.objective == "ctc":
            needed, heard = frames_needed(tokens.tolist()), int(self.frontend.shortened(torch.tensor(frames)))
            if needed > heard:
                seconds = frames * self.features.hop
                said = counted(len(tokens), "token")
                return f"a transcript of {said} needs {needed} frames of the model, and {seconds:.2f} s of sound give {heard}"
        return ""

    def _note_unknown(self, table: Table, notes: list[str]) -> None:
        assert self.tokenizer is not None
        pieces = [unknown for text in table["text"] if (unknown := unknown_pieces(self.tokenizer, text))]
        if pieces:
            named = ", ".join(repr(piece) for piece in sorted({piece for row in pieces for piece in row})[:5])
            which = f"{table.name}: {counted(len(pieces), 'transcript')} of {len(table):,}"
            notes.append(f"{which} hold what training has not ({named}): errors, whatever is answered")


def unknown_pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    """What of a text the tokenizer does not know."""
    if tokenizer.unk is None:
        return []
    encoding = tokenizer.encode(text, wrap="none")
    return [text[start:end] for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True) if token == tokenizer.unk]
