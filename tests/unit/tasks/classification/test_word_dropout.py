"""Word dropout: what is hidden, and what it is hidden by."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from attentif.models import Input
from attentif.nn.seq import Seq
from attentif.tasks.classification.word_dropout import drop_words

CLS, SEP = 5, 6


@pytest.mark.parametrize(("special", "hidden"), [({"unk": 1, "mask": 2, "pad": 0}, 1), ({"mask": 2, "pad": 0}, 2), ({"pad": 0}, 0)])
def test_words_are_replaced_by_what_the_tokenizer_has_and_special_tokens_stay(special: dict[str, int], hidden: int) -> None:
    frame = SimpleNamespace(around=lambda pair: ((CLS,), (SEP,), (SEP,)))
    tokenizer: Any = SimpleNamespace(special=special, pad=special["pad"], frame_for=lambda kind: frame)
    ids = torch.tensor([[CLS, *range(10, 200), SEP]])
    found = drop_words(Input(ids, Seq.from_padded([ids.shape[1]])), 0.5, tokenizer).data[0]
    changed = found != ids[0]
    assert (found[changed] == hidden).all()
    assert 60 < int(changed.sum()) < 130
    assert (found[0], found[-1]) == (CLS, SEP)
