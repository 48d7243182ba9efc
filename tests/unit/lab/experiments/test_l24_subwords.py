"""Made-up words and sums in tokens: the class is asked at a word's end, and of a sum the whole answer."""

import numpy as np
import pytest

from attentif.lab.experiments.l24_subwords import IRREGULAR, SUFFIXES, as_text, in_pieces, lexicon, spell
from attentif.tasks.ragged import UNSCORED
from attentif.text.kinds import BPE, WordPiece


def test_the_suffix_tells_the_class_but_for_irregular_words() -> None:
    words, kinds = lexicon(200, np.random.default_rng(0))
    assert len(set(words)) == len(words)
    told = [word.endswith(SUFFIXES[kind]) for word, kind in zip(words, kinds.tolist(), strict=True)]
    assert np.mean(told) == pytest.approx(1 - IRREGULAR * (1 - 1 / len(SUFFIXES)), abs=0.03)


def test_the_class_is_asked_at_the_last_piece_of_each_word() -> None:
    words, kinds = lexicon(20, np.random.default_rng(0))
    tokenizer = WordPiece(vocab=80).fit(words)
    tokens, targets = in_pieces(tokenizer, words, kinds)
    assert (targets[:, -1] == kinds).all()
    assert (targets[:, :-1] == UNSCORED).all()
    for word, row in zip(words, tokens, strict=True):
        assert row[row != tokenizer.pad].tolist() == tokenizer.encode(word, wrap="none").ids
        assert row[-1] != tokenizer.pad


@pytest.mark.parametrize("split", [True, False])
def test_of_a_sum_the_whole_answer_is_asked_for_and_its_end(split: bool) -> None:
    sums = np.array([[12, 34], [56, 78], [10, 99]] * 3)
    tokenizer = BPE(split_digits=split).fit(spell(sums))
    tokens, targets = as_text(tokenizer, sums)
    for row, wanted, (a, b) in zip(tokens, targets, sums.tolist(), strict=True):
        asked = wanted[wanted != UNSCORED].tolist()
        assert tokenizer.decode(asked) == str(a + b)
        assert asked[-1] == tokenizer.eos
        assert len(asked) == (len(str(a + b)) if split else 1) + 1
        begin = row[: row.tolist().index(tokenizer.eos) - len(asked) + 1]
        assert tokenizer.decode(begin) == f"{a}+{b}="
