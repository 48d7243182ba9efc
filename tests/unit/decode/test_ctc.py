"""CTC decoding against every alignment written out."""

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest

from attentif.decode.ctc import Heard, align, collapse, greedy, prefix_beam
from attentif.errors import DataError


def log_probabilities(frames: int, tokens: int, seed: int, sharp: float = 1.0) -> np.ndarray:
    logits = sharp * np.random.default_rng(seed).normal(size=(frames, tokens))
    return logits - np.log(np.exp(logits).sum(1, keepdims=True))


def all_alignments(log_p: np.ndarray) -> dict[tuple[int, ...], float]:
    """The probability of each alignment."""
    paths = itertools.product(range(log_p.shape[1]), repeat=len(log_p))
    return {path: math.exp(sum(log_p[t, token] for t, token in enumerate(path))) for path in paths}


def transcripts(log_p: np.ndarray) -> dict[tuple[int, ...], float]:
    total: dict[tuple[int, ...], float] = defaultdict(float)
    for path, p in all_alignments(log_p).items():
        total[collapse(path)] += p
    return total


def test_repeats_are_one_unless_a_blank_stands_between() -> None:
    assert collapse([0, 7, 7, 0, 7, 3, 3, 0]) == (7, 7, 3)
    assert collapse([0, 0]) == ()
    assert collapse([]) == ()


@pytest.mark.parametrize("seed", range(5))
def test_greedy_takes_the_likeliest_alignment(seed: int) -> None:
    log_p = log_probabilities(5, 4, seed)
    path, p = max(all_alignments(log_p).items(), key=lambda entry: entry[1])
    found = greedy(log_p)
    assert found.tokens == collapse(path)
    assert math.exp(found.log_p) == pytest.approx(p)


@pytest.mark.parametrize("seed", range(6))
def test_a_beam_as_wide_as_all_prefixes_is_the_sum_over_all_alignments(seed: int) -> None:
    log_p = log_probabilities(6, 3, seed, sharp=0.7)
    expected = sorted(transcripts(log_p).items(), key=lambda entry: -entry[1])
    found = prefix_beam(log_p, beams=10_000, least=0.0)
    assert sum(math.exp(entry.log_p) for entry in found) == pytest.approx(1.0)
    for (tokens, p), entry in zip(expected[:8], found, strict=False):
        assert entry.tokens == tokens
        assert math.exp(entry.log_p) == pytest.approx(p)


def test_a_beam_finds_a_transcript_that_no_single_alignment_shows() -> None:
    """Two frames of blank .4, a .35, b .25: the alignment "blank blank" is likeliest, the transcript "a" is likelier than nothing."""
    log_p = np.log([[0.4, 0.35, 0.25]] * 2)
    assert greedy(log_p).tokens == ()
    best = prefix_beam(log_p, beams=4)[0]
    assert best.tokens == (1,)
    assert math.exp(best.log_p) == pytest.approx(0.35 * 0.35 + 2 * 0.4 * 0.35)


def test_a_narrow_beam_finds_what_is_clear() -> None:
    log_p = np.log(np.array([[0.02, 0.96, 0.02], [0.96, 0.02, 0.02], [0.02, 0.96, 0.02], [0.02, 0.02, 0.96]]))
    assert prefix_beam(log_p, beams=2)[0].tokens == greedy(log_p).tokens == (1, 1, 2)


@pytest.mark.parametrize(("tokens", "seed"), [((1,), 0), ((1, 2), 1), ((2, 2), 2), ((1, 2, 1), 3), ((), 4)])
def test_a_forced_alignment_is_the_likeliest_that_collapses_to_its_transcript(tokens: tuple[int, ...], seed: int) -> None:
    log_p = log_probabilities(6, 3, seed)
    paths = {path: p for path, p in all_alignments(log_p).items() if collapse(path) == tokens}
    best = max(paths, key=lambda path: paths[path])
    expected, place = [], 0
    for token, run in itertools.groupby(best):
        length = len(list(run))
        if token:
            expected.append(Heard(token, place, place + length))
        place += length
    assert align(log_p, tokens) == expected


def test_a_transcript_longer_than_its_sound_cannot_be_aligned() -> None:
    with pytest.raises(DataError, match=r"2 tokens.*3.*2"):
        align(log_probabilities(2, 3, 0), [1, 1])
