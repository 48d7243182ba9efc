"""T5's span corruption: the counts of the authors' own code, its mask written out, and the statistics of many draws."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from attentif.errors import UsageError
from attentif.tasks.pretraining.corruption import Marks, corrupted_lengths, count_hidden, sample_spans, sentinel, split_randomly
from attentif.text import TOKENIZERS

MARKS = Marks(np.arange(900, 1000), pad=0, bos=1, eos=2)


def published_mask(length: int, density: float, mean: float, rng: np.random.Generator) -> Any:
    """`random_spans_noise_mask` of google-research/text-to-text-transfer-transformer, written out for numpy."""
    hidden = min(max(int(np.round(length * density)), 1), length - 1)
    spans = max(int(np.round(hidden / mean)), 1)

    def random_segmentation(items: int, segments: int) -> Any:
        first = np.pad(rng.permutation(np.arange(items - 1) < segments - 1), [[1, 0]])
        return np.bincount(np.cumsum(first), minlength=segments)

    parts = np.stack([random_segmentation(length - hidden, spans), random_segmentation(hidden, spans)], 1).reshape(2 * spans)
    starts = np.zeros(length, dtype=int)
    starts[np.cumsum(parts)[:-1]] = 1
    return np.cumsum(starts) % 2 == 1


def published_lengths(tokens: int, density: float, mean: float) -> tuple[int, int]:
    """`random_spans_helper` of the same: tokens read and written, an [EOS] each."""
    hidden = round(tokens * density)
    spans = round(hidden / mean)
    return tokens - hidden + spans + 1, hidden + spans + 1


@pytest.mark.parametrize("tokens", [16, 64, 128, 255, 512, 568])
def test_counts_are_the_published_ones(tokens: int) -> None:
    assert corrupted_lengths(tokens, 0.15, 3.0) == published_lengths(tokens, 0.15, 3.0)


def test_the_papers_setting_reads_512_tokens_and_writes_114() -> None:
    assert corrupted_lengths(568, 0.15, 3.0) == (512, 114)


@pytest.mark.parametrize("length", [2, 3, 5, 20, 128])
def test_every_draw_hides_as_many_tokens_in_as_many_spans_and_begins_with_a_visible_one(length: int) -> None:
    rng = np.random.default_rng(0)
    hidden, spans = count_hidden(length, 0.15, 3.0)
    for _ in range(50):
        found = sample_spans(length, 0.15, 3.0, rng)
        assert sum(b - a for a, b in found) == hidden
        assert len(found) == spans
        assert found[0][0] > 0
        assert found[-1][1] == length  # as in the authors' code
        assert all(a < b for a, b in found)
        assert all(b < a for (_, b), (a, _) in pairwise(found))


def test_draws_have_the_published_statistics() -> None:
    ours, theirs = np.random.default_rng(0), np.random.default_rng(1)
    length, draws = 128, 4000
    shares = np.zeros((2, length))
    sizes: list[list[int]] = [[], []]
    for _ in range(draws):
        found = sample_spans(length, 0.15, 3.0, ours)
        mask = published_mask(length, 0.15, 3.0, theirs)
        for a, b in found:
            shares[0, a:b] += 1
        shares[1] += mask
        sizes[0] += [b - a for a, b in found]
        edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
        sizes[1] += (edges[1::2] - edges[::2]).tolist()
    assert shares.sum(1).tolist() == [19 * draws] * 2  # exactly 19 of 128 in every draw
    assert np.mean(sizes[0]) == np.mean(sizes[1]) == pytest.approx(19 / 6)
    for size in range(1, 9):  # five standard deviations of a share of 24,000 spans
        assert abs(np.mean(np.array(sizes[0]) == size) - np.mean(np.array(sizes[1]) == size)) < 5 * np.sqrt(2 * 0.25 / len(sizes[0]))
    assert np.abs(shares[0] - shares[1]).max() / draws < 5 * np.sqrt(2 * 0.25 / draws)


def test_all_ways_to_cut_are_as_likely() -> None:
    rng = np.random.default_rng(0)
    seen = [tuple(split_randomly(5, 3, rng).tolist()) for _ in range(6000)]
    ways = {(a, b, 5 - a - b) for a in range(1, 4) for b in range(1, 5 - a)}
    assert set(seen) == ways
    assert all(abs(seen.count(way) / 6000 - 1 / 6) < 0.03 for way in ways)


def test_what_is_read_and_what_is_written_hold_every_token_once() -> None:
    tokens = np.arange(100, 120)
    read, written = MARKS.corrupt(tokens, [(3, 5), (10, 14), (18, 20)])
    assert read.tolist() == [100, 101, 102, 900, *range(105, 110), 901, *range(114, 118), 902, 2]
    assert written.tolist() == [1, 900, 103, 104, 901, 110, 111, 112, 113, 902, 118, 119, 2]
    assert MARKS.parse_fills(written.tolist()[1:])[:4] == [[103, 104], [110, 111, 112, 113], [118, 119], []]


def test_what_a_model_writes_is_read_generously() -> None:
    assert MARKS.parse_fills([7, 901, 5, 900, 6, 901, 8, 2, 9])[:2] == [[6], [8]]  # before a sentinel, again, after the end


def test_sentinels_are_found_by_their_names_and_their_lack_is_said() -> None:
    names = [sentinel(n) for n in range(3)]
    with_them = TOKENIZERS["char"].model_validate({"kind": "char", "special": names}).fit(["aabb"])
    assert Marks.of(with_them).sentinels.tolist() == [with_them.rust.token_to_id(name) for name in names]
    with pytest.raises(UsageError, match="has no sentinels"):
        Marks.of(TOKENIZERS["char"].model_validate({"kind": "char"}).fit(["aabb"]))
    with pytest.raises(UsageError, match=r"4.*tokenizer.*3"):
        Marks.of(with_them).corrupt(np.arange(20), [(1, 2), (3, 4), (5, 6), (7, 8)])
