import numpy as np
import pytest
import torch

from attentif.data.squad import ContextAnswer
from attentif.tasks.question_answering.spans import Cut, Place, Span, best_spans, cut_windows, token_span, trim_offsets
from attentif.text import TOKENIZERS, Tokenizer

CONTEXT = "Zoé habite à Sète. Paul, né à Sète en 1972, vit à l'Étang 🌊 d'à côté."


def tokenizer(kind: str = "bpe") -> Tokenizer:
    return TOKENIZERS[kind].model_validate({"kind": kind, "vocab": 400, "min_count": 1}).fit([CONTEXT, "Où habite Zoé ?"])


def cut(context: str, answer: tuple[str, int] | None, *, longest: int = 200, stride: int = 4, kind: str = "bpe") -> tuple[Cut, Tokenizer]:
    own = tokenizer(kind)
    answers = [] if answer is None else [ContextAnswer(*answer)]
    return cut_windows(own, ["Où ?"], [context], [answers], longest=longest, stride=stride, max_question=8), own


def text_of(found: Cut, row: int, context: str) -> str:
    window = found.windows[row]
    span = window.to_span(Place(window.first, window.last, 0.0, 0.0, 0.0))
    return context[span.start : span.end]


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram", "word", "char"])
@pytest.mark.parametrize("answer", ["Zoé", "Sète", "1972", "l'Étang", "Étang 🌊 d'à côté", "né à Sète en 1972"])
def test_an_answer_in_tokens_is_the_answer_in_characters(kind: str, answer: str) -> None:
    found, _ = cut(CONTEXT, (answer, CONTEXT.index(answer)), kind=kind)
    assert text_of(found, 0, CONTEXT) == answer


def test_of_a_text_that_is_there_twice_the_place_decides() -> None:
    first, second = CONTEXT.index("Sète"), CONTEXT.rindex("Sète")
    places = [cut(CONTEXT, ("Sète", start))[0].windows[0] for start in (first, second)]
    assert places[0].first < places[1].first
    assert [int(window.offsets[window.first - window.begin, 0]) for window in places] == [first, second]


def test_an_answer_inside_a_word_takes_the_tokens_it_touches() -> None:
    found, _ = cut("antiquaire", ("quai", 4), kind="word")
    assert text_of(found, 0, "antiquaire") == "antiquaire"


def test_windows_share_their_borders_and_leave_nothing_out() -> None:
    context = " ".join(f"mot{n}" for n in range(40))
    found, own = cut(context, ("mot20", context.index("mot20")), longest=40, stride=10, kind="char")
    whole = own.encode(context, wrap="none").ids
    begin, room = found.windows[0].begin, 40 - found.windows[0].begin - 1
    parts = [ids[begin:-1].tolist() for ids in found.ids]
    assert all(len(part) == room for part in parts[:-1])
    assert parts[0] + [token for part in parts[1:] for token in part[10:]] == whole
    assert len(parts[-1]) > 10
    assert found.several == 1


def test_tokens_that_question_and_window_both_have_are_marked_on_both_sides() -> None:
    own, context = tokenizer("word"), "Zoé habite à Sète . Paul vit à Sète ."
    found = cut_windows(own, ["Où habite Zoé ?"], [context], [[]], longest=12, stride=1, max_question=3)
    told = [[own.rust.id_to_token(token) for token in ids[mark == 1].tolist()] for ids, mark in zip(found.ids, found.shared, strict=True)]
    assert told[0] == ["habite", "Zoé", "Zoé", "habite"]
    assert told[-1] == []  # of the question, only what this window has too


def test_an_answer_cut_by_a_border_is_not_there_and_whole_in_the_next_window() -> None:
    context = "a" * 20 + "BCDE" + "a" * 20
    found, _ = cut(context, ("BCDE", 20), longest=30, stride=8, kind="char")
    room = 30 - found.windows[0].begin - 1
    starts = [place * (room - 8) for place in range(len(found.windows))]
    whole = [start <= 20 and start + room >= 24 for start in starts]
    in_part = [start < 24 and start + room > 20 for start in starts]
    assert in_part.count(True) > whole.count(True) > 0
    assert [window.first > 0 for window in found.windows] == whole
    assert found.lost == 0


def test_an_answer_longer_than_any_window_is_counted_as_lost() -> None:
    context = "a" * 60
    found, _ = cut(context, ("a" * 50, 2), longest=30, stride=8, kind="char")
    assert found.lost == 1
    assert all(window.first == window.last == 0 for window in found.windows)


def test_long_questions_are_cut_and_counted() -> None:
    own = tokenizer("char")
    found = cut_windows(own, ["mot " * 10], ["Zoé"], [[]], longest=60, stride=4, max_question=8)
    assert (found.windows[0].begin, found.long_questions) == (10, 1)


def test_a_passage_of_which_nothing_is_left_is_one_unknown_token() -> None:
    own = TOKENIZERS["word"].model_validate({"kind": "word", "vocab": 50, "strip_accents": True, "min_count": 1}).fit(["Zoé"])
    found = cut_windows(own, ["Zoé"], ["\u0301"], [[]], longest=60, stride=4, max_question=8)
    assert found.ids[0][found.windows[0].begin] == own.unk
    assert found.windows[0].offsets.tolist() == [[0, 1]]


def test_spaces_before_a_token_are_not_the_answers() -> None:
    assert trim_offsets([(0, 3), (3, 9), (9, 10)], "Zoé habite ") == [(0, 3), (4, 9), (9, 10)]
    assert token_span([(0, 3), (4, 9)], 3, 4) is None


def test_the_best_span_is_the_best_of_all_pairs() -> None:
    torch.manual_seed(0)
    scores = torch.randn(5, 2, 12)
    for longest in (1, 3, 12):
        for row, found in enumerate(best_spans(scores, longest)):
            first, last = scores[row]
            pairs = {(a, b): float(first[a] + last[b]) for a in range(1, 12) for b in range(a, min(a + longest, 12))}
            assert (found.first, found.last) == max(pairs, key=lambda pair: pairs[pair])
            assert found.nothing == pytest.approx(float(first[0] + last[0]))
            span = Span(0, 1, found.score, found.nothing, found.total)
            assert span.probability == pytest.approx(float(first.softmax(0)[found.first] * last.softmax(0)[found.last]), rel=1e-4)
            assert span.silence == pytest.approx(float(first.softmax(0)[0] * last.softmax(0)[0]), rel=1e-4)


def test_of_two_windows_the_surer_answers_and_the_less_silent_counts() -> None:
    near, far = Span(1, 2, 3.0, 5.0, 0.5), Span(7, 9, 4.0, 1.0, 0.9)
    assert near.better_of(far) == Span(7, 9, 4.0, 1.0, 0.9)
    assert far.better_of(near) == near.better_of(far)
    assert np.isclose(near.better_of(None).nothing, 5.0)
