"""Word vectors that an embedding begins with, and an embedding looked at as word vectors."""

import numpy as np
import pytest
import torch

from attentif.errors import UsageError
from attentif.models import build
from attentif.text import TOKENIZERS
from attentif.training.load import load_run_config
from attentif.training.vectors import copy_rows, embedding_vectors, word_of

TEXT = ["le roi aime la reine , le roi rit"]


def config(kind: str):
    values = {
        "data": {"train": "texte.txt"},
        "task": {"kind": "language"},
        "tokenizer": {"kind": kind},
        "model": {"base": "decoder-tiny", "width": 16, "layers": 1},
        "train": {"steps": 1},
    }
    return load_run_config(values)


def test_given_rows_take_the_scale_of_the_drawn_ones_and_the_others_stay() -> None:
    torch.manual_seed(0)
    table = torch.randn(50, 8) * 0.1
    before, given = table.clone(), torch.randn(4, 8) * 30
    copy_rows(table, torch.tensor([[7, 0], [9, 3]]), given)
    assert table[[7, 9]].pow(2).mean().sqrt() == pytest.approx(before.pow(2).mean().sqrt().item(), rel=1e-5)
    assert torch.nn.functional.cosine_similarity(table[9], given[3], dim=0) == pytest.approx(1.0)
    kept = [row for row in range(50) if row not in (7, 9)]
    assert torch.equal(table[kept], before[kept])


@pytest.mark.parametrize("kind", ["word", "bpe", "wordpiece"])
def test_a_token_that_is_a_word_is_known_by_it_and_pieces_and_marks_are_not(kind: str) -> None:
    tokenizer = TOKENIZERS[kind](kind=kind, vocab=400, min_count=1).fit(TEXT)
    words = {word for token in range(tokenizer.vocab) if (word := word_of(tokenizer, token))}
    assert {"roi", "reine", "le"} <= words
    assert not {",", "", "[PAD]", "##i"} & words
    assert not any("\ufffd" in word for word in words)


def test_an_embedding_of_words_is_word_vectors_and_one_of_pieces_is_refused() -> None:
    tokenizer = TOKENIZERS["word"](kind="word", min_count=1).fit(TEXT)
    run = config("word")
    model = build(run.model.with_sizes(vocab=tokenizer.vocab))
    vectors = embedding_vectors(model, run, {"tokenizer": tokenizer})
    assert set(vectors.words) == {"le", "roi", "aime", "la", "reine", "rit"}
    assert np.array_equal(vectors["roi"], model.frontend.tokens.weight[tokenizer.rust.token_to_id("roi")].detach().numpy())
    with pytest.raises(UsageError, match=r"pieces of words \(bpe\)"):
        embedding_vectors(model, config("bpe"), {"tokenizer": tokenizer})
