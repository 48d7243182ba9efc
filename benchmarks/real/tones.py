"""Dialled numbers over a noisy line, spelt out by CTC and written by a decoder."""

from collections.abc import Iterator

from benchmarks.real.trial import Trial, section

TITLE = "Built-in sounds: dialled numbers"
ABOUT = "With 95 % bootstrap intervals; baselines are fitted and scored on the same splits by the same command."
LONG = False
TRIALS = [
    Trial("tones", "tones", "A small Conformer with CTC. Goal: below 2 % word error."),
    Trial("tones, written by a decoder", "tones-seq2seq", "Whisper's shape, small: the decoder must learn where to listen."),
]


def run(quick: bool) -> Iterator[str]:
    for trial in TRIALS:
        yield section(trial, quick=quick)
