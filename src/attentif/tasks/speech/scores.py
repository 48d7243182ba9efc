"""How far transcripts are from what was said, and what simple systems would have answered.

    WER = (S + D + I) / N over the words of all references, CER the same over characters; both aligned by jiwer

Nearest neighbours are found by dynamic time warping on mel-frequency cepstra (Davis & Mermelstein 1980): the cosine transform of
log-mel frames, its first coefficients without their mean.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentif.data import Table
from attentif.extras import require_extra
from attentif.kernels.dtw import nearest_by_dtw
from attentif.tasks.answers import Baseline
from attentif.tasks.base import Say
from attentif.tasks.batches import pick_evenly
from attentif.tasks.metrics import Interval, by_group, by_length, confusion, exactly, mean_interval, share
from attentif.tasks.ragged import Ints
from attentif.tasks.speech.data import Utterances
from attentif.tasks.speech.report import ShownTranscript, SpeechDetails
from attentif.view.words import Text

SHOWN = 12  # transcripts, and wrong ones, in the report
COEFFICIENTS = 13  # of the cepstrum
MOST_WORDS = 100  # different transcripts that a nearest neighbour may choose from: beyond, sounds are no single words
MOST_CELLS = 6e9  # of the tables of dynamic time warping: about a minute
MOST_CONFUSED = 30  # classes of a confusion matrix

Marked = tuple[list[str], list[float]]  # words, and 1 where one is wrong


@dataclass(frozen=True)
class SpeechScores:
    """Errors of each transcript, so that any part of a split can be scored."""

    references: Sequence[str]
    written: Sequence[str]
    words: Ints  # (rows, 2): errors, and words of the reference
    characters: Ints
    right: NDArray[np.bool_]
    alignments: Sequence[Any]

    @property
    def scores(self) -> dict[str, float]:
        return self.of(np.arange(len(self.right)))

    def of(self, rows: Ints) -> dict[str, float]:
        wer, cer = (float(counts[rows, 0].sum() / counts[rows, 1].sum()) for counts in (self.words, self.characters))
        return {"wer": wer, "cer": cer, "exact_match": float(self.right[rows].mean())}

    def intervals(self) -> dict[str, Interval]:
        wer, cer = (mean_interval(counts[:, 0], counts[:, 1]) for counts in (self.words, self.characters))
        return {"wer": wer, "cer": cer, "exact_match": share(int(self.right.sum()), len(self.right))[1]}

    def mark_errors(self, row: int) -> tuple[Marked, Marked]:
        """The words of the reference that were missed, and those of the transcript that were not said."""
        said, heard = self.references[row].split(), self.written[row].split()
        missed, wrong = [0.0] * len(said), [0.0] * len(heard)
        for chunk in self.alignments[row]:
            if chunk.type != "equal":
                missed[chunk.ref_start_idx : chunk.ref_end_idx] = [1.0] * (chunk.ref_end_idx - chunk.ref_start_idx)
                wrong[chunk.hyp_start_idx : chunk.hyp_end_idx] = [-1.0] * (chunk.hyp_end_idx - chunk.hyp_start_idx)
        return (said, missed), (heard, wrong)


def speech_scores(references: Sequence[str], written: Sequence[str]) -> SpeechScores:
    require_extra("jiwer")
    import jiwer

    words = jiwer.process_words(list(references), list(written))
    characters = jiwer.process_characters(list(references), list(written))
    counts = [
        np.array([[_errors(chunks), len(said)] for chunks, said in zip(found.alignments, found.references, strict=True)], dtype=np.int64)
        for found in (words, characters)
    ]
    right = np.array([exactly(a, b) for a, b in zip(written, references, strict=True)])
    return SpeechScores(references, written, counts[0], counts[1], right, words.alignments)


def _errors(chunks: Sequence[Any]) -> int:
    wrong = (chunk for chunk in chunks if chunk.type != "equal")
    return sum(max(chunk.ref_end_idx - chunk.ref_start_idx, chunk.hyp_end_idx - chunk.hyp_start_idx) for chunk in wrong)


def speech_details(found: SpeechScores, table: Table) -> SpeechDetails:
    """What the report draws: errors by length and by speaker, transcripts beside references."""

    def wer(rows: Ints) -> tuple[float, Interval]:
        return found.of(rows)["wer"], mean_interval(found.words[rows, 0], found.words[rows, 1], draws=200)

    wrong = np.flatnonzero(~found.right)
    worst = wrong[np.argsort(-found.words[wrong, 0], kind="stable")][:SHOWN]
    show = lambda rows: [_show_row(found, table, row) for row in rows.tolist()]
    details: SpeechDetails = {
        "by_length": by_length(found.words[:, 1], wer),
        "wrong": show(worst),
        "transcripts": show(pick_evenly(len(table), SHOWN)),
    }
    if groups := table.columns.get("group"):
        details["by_group"] = by_group(groups, lambda rows: {key: found.of(rows)[key] for key in ("wer", "exact_match")})
    classes = sorted(set(found.references) | set(found.written))
    if len(classes) <= MOST_CONFUSED and all(len(said) == 1 for said in map(str.split, found.references)):
        number = {label: place for place, label in enumerate(classes)}
        true, answered = ([number[text] for text in texts] for texts in (found.references, found.written))
        details["classes"], details["confusion"] = classes, confusion(true, answered, len(classes)).tolist()
    return details


def _show_row(found: SpeechScores, table: Table, row: int) -> ShownTranscript:
    (said, missed), (heard, wrong) = found.mark_errors(row)
    return {"said": said, "missed": missed, "heard": heard, "wrong": wrong, "audio": table["audio"][row]}


# ------------------------------------------------------------------------------------------------------------ baselines


def speech_baselines(train: Utterances, test: Utterances, say: Say) -> list[Baseline]:
    """The most frequent transcript; of single words, the training sound that is nearest."""
    often = Counter(train.texts).most_common(1)[0][0]
    found = [_baseline(Text("transcription la plus fréquente", "most frequent transcript"), test, [often] * len(test), 0.0, say)]
    halves = float(train.durations.sum()) / 2 * float(test.durations.sum()) / 2
    if len(set(train.texts)) <= min(MOST_WORDS, len(train) // 2):  # each stands there twice on average, at least
        name = Text("son le plus proche (déformation temporelle)", "nearest sound (dynamic time warping)")
        if halves > MOST_CELLS:
            say(f"baseline {name.en}: left out, it would take more than a minute")
            return found
        began = time.perf_counter()
        known, asked = ([cepstrum(split.features.spectrum(own).numpy()) for own in split.frames] for split in (train, test))
        written = [train.texts[row] for row in nearest_by_dtw(known, asked).tolist()]
        found.append(_baseline(name, test, written, time.perf_counter() - began, say))
    return found


def _baseline(name: Text, test: Utterances, written: list[str], seconds: float, say: Say) -> Baseline:
    scored = speech_scores(test.texts, written)
    say(f"baseline {name.en}: word error rate {scored.scores['wer']:.1%} ({seconds:.1f} s)")
    return Baseline(name, scored.scores, scored.intervals(), seconds)


def cepstrum(frames: NDArray[np.float32]) -> NDArray[np.float32]:
    """(T, mels) log-mel frames as (⌈T/2⌉, 13): neighbours averaged, the cosine transform, without the sound's mean, to unit variance."""
    even = frames if len(frames) % 2 == 0 else np.concatenate([frames, frames[-1:]])
    halved = even.reshape(-1, 2, frames.shape[1]).mean(1)
    mels = frames.shape[1]
    basis = np.cos(np.pi / mels * (np.arange(mels)[:, None] + 0.5) * np.arange(min(COEFFICIENTS, mels)))
    found = halved @ basis
    found = found - found.mean(0)
    return (found / np.sqrt((found**2).mean(0) + 1e-5)).astype(np.float32)
