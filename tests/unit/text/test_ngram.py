"""n-grams: probabilities by the definition, by hand, and as a distribution."""

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from attentif.errors import RunError
from attentif.text.ngram import NGram, NGramConfig, TokenText

VOCAB = 7


def text(length: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).choice(VOCAB - 1, length, p=[0.4, 0.25, 0.15, 0.1, 0.06, 0.04])  # the last token is never seen


def fitted(ids: np.ndarray, **options: object) -> NGram:
    model = NGramConfig(**options).build()  # type: ignore[arg-type]
    model.fit(TokenText(ids, VOCAB, 0))
    return model


def by_definition(ids: list[int], order: int, smoothing: str):
    """P(w | h) straight from the equations, with dictionaries."""
    stream = [0] * (order - 1) + ids
    grams = {k: Counter(tuple(stream[t : t + k]) for t in range(len(stream) - k + 1)) for k in range(1, order + 2)}
    counts = {order: grams[order]}
    for k in range(1, order):
        counts[k] = Counter(gram[1:] for gram in grams[k + 1])
    discounts = {}
    for k, found in counts.items():
        n = Counter(found.values())
        y = n[1] / (n[1] + 2 * n[2]) if n[1] else 0.5
        d = [0, y, y, y]
        if smoothing == "modified" and all(n[i] for i in (1, 2, 3, 4)):
            three = [0, 1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2], 3 - 4 * y * n[4] / n[3]]
            d = three if min(three[1:]) > 0 else d
        discounts[k] = d
    followers = defaultdict(dict)
    for found in counts.values():
        for gram, count in found.items():
            followers[gram[:-1]][gram[-1]] = count

    def p(word: int, before: tuple[int, ...]) -> float:
        k = len(before) + 1
        lower = 1 / VOCAB if k == 1 else p(word, before[1:])
        own = followers.get(before, {})
        total = sum(own.values())
        if not total:
            return lower
        d = discounts[k]
        freed = sum(d[min(count, 3)] for count in own.values())
        count = own.get(word, 0)
        return (max(count - d[min(count, 3)], 0) + freed * lower) / total

    return p


@pytest.mark.parametrize("smoothing", ["modified", "plain"])
@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_probabilities_are_those_of_the_definition(order: int, smoothing: str) -> None:
    ids, others = text(300), np.append(text(40, seed=1), [VOCAB - 1, 2])
    p = by_definition(ids.tolist(), order, smoothing)
    before = [0] * (order - 1) + others.tolist()
    expected = [p(int(word), tuple(before[t : t + order - 1])) for t, word in enumerate(others)]
    assert np.allclose(fitted(ids, order=order, smoothing=smoothing).probabilities(others), expected, rtol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_probabilities_of_all_tokens_sum_to_one_after_any_context(order: int) -> None:
    model = fitted(text(200), order=order)
    for context in ([], [1, 2], [5, 5, 5], [6, 6, 6], [0, 1, 0, 2, 6]):
        p = model.next(context)
        assert p.sum() == pytest.approx(1.0, abs=1e-12)
        assert p.min() > 0  # the unseen token too
        for word in (0, 3, VOCAB - 1):
            assert p[word] == pytest.approx(model.probabilities(np.array([*context, word]))[-1], rel=1e-12)


def test_a_bigram_by_hand() -> None:
    """The stream "0 1 2 1 2 1 3" after one document end (0); V = 4; pairs 00 01 12(2) 21(2) 13, continuations of 0 1 2 3: 1 2 1 1.

    Plain: of pairs n₁ = 3, n₂ = 2, so D = 3/7; of single tokens n₁ = 3, n₂ = 1, so D = 3/5.
    P(1) = (2 − 3/5) / 5 + (4 · 3/5) / 5 / 4 = 0.28 + 0.12 = 0.4
    P(2) = (1 − 3/5) / 5 + 0.12 = 0.2
    P(2 | 1) = (2 − 3/7) / 3 + (2 · 3/7) / 3 · 0.2      P(1 | 3) = P(1): nothing follows 3
    """
    model = NGramConfig(order=2, smoothing="plain").build()
    model.fit(TokenText(np.array([0, 1, 2, 1, 2, 1, 3]), 4, 0))
    assert model.next([])[1] != model.single[1]
    assert model.single.tolist() == pytest.approx([0.2, 0.4, 0.2, 0.2])
    assert model.next([1])[2] == pytest.approx((2 - 3 / 7) / 3 + (2 * 3 / 7) / 3 * 0.2)
    assert model.next([3]).tolist() == pytest.approx(model.single.tolist())


def test_longer_contexts_help_where_the_text_has_them() -> None:
    ids, others = np.tile([1, 1, 2, 1, 3, 0], 80), np.tile([1, 1, 2, 1, 3, 0], 5)
    losses = [fitted(ids, order=order).score(TokenText(others, VOCAB, 0))["loss"] for order in (1, 2, 3)]
    assert losses[0] > losses[1] > losses[2]


def test_a_text_in_pieces_has_the_probabilities_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    model, others = fitted(text(300), order=4), text(90, seed=2)
    whole = model.probabilities(others)
    monkeypatch.setattr("attentif.text.ngram.PIECE", 7)
    assert np.array_equal(model.probabilities(others), whole)


def test_what_is_saved_answers_the_same(tmp_path: Path) -> None:
    model, others = fitted(text(300), order=3), text(50, seed=3)
    model.save(tmp_path)
    again = NGramConfig(order=3).build().load(tmp_path)
    assert np.array_equal(again.probabilities(others), model.probabilities(others))
    assert again.sizes() == model.sizes()


def test_a_damaged_file_is_a_run_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="incomplete"):
        NGramConfig().build().load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(RunError, match="damaged"):
        NGramConfig().build().load(tmp_path)
    fitted(text(100), order=2).save(tmp_path)
    with pytest.raises(RunError, match=r"no 'keys\.3'"):
        NGramConfig(order=3).build().load(tmp_path)
