"""Documents as passages, and passages as pairs."""

import math

import numpy as np
import pytest
import torch

from attentif.data.corpus import Documents
from attentif.data.shards import token_stream
from attentif.errors import DataError
from attentif.tasks.pretraining.passages import PassagePairs, Passages, _outside
from attentif.text import TOKENIZERS

LETTERS = "abcdefghijklmnopqrst"


@pytest.fixture(scope="module")
def documents():
    """Each document is written in a letter of its own, with numbers, so that a token tells where it comes from."""
    return [
        " ".join(f"{letter}{number}{'.' if number % 5 == 4 else ''}" for number in range(8 + 5 * place))
        for place, letter in enumerate(LETTERS)
    ]


@pytest.fixture(scope="module")
def tokenizer(documents):
    return TOKENIZERS["word"].model_validate({"kind": "word", "vocab": 5000, "min_count": 1}).fit(documents)


def stream_of(documents, tokenizer, tmp_path_factory):
    return token_stream(Documents(documents), tokenizer, cache=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def stream(documents, tokenizer, tmp_path_factory):
    return stream_of(documents, tokenizer, tmp_path_factory)


def words(tokenizer, ids):
    return [tokenizer.rust.id_to_token(int(token)) for token in ids]


def test_passages_hold_every_token_once_and_never_two_documents(documents, tokenizer, stream):
    passages = Passages.of("train", stream, tokenizer, 32)
    assert passages.lengths.max() <= 32
    text = [word for row in range(len(passages)) for word in words(tokenizer, passages.text(row))]
    assert text == [word for document in documents for word in words(tokenizer, tokenizer.ids_batch([document], wrap="none")[0])]
    for row in range(len(passages)):
        assert len({word[0] for word in words(tokenizer, passages.text(row)) if word[0].isalpha()}) == 1
    first = passages.batch([0]).source.data[0].tolist()
    assert (first[0], first[-1]) == (tokenizer.cls, tokenizer.sep)
    parts = passages.sizes[passages.documents == len(LETTERS) - 1]
    assert len(parts) > 1
    assert parts.max() - parts.min() <= 1  # a long document is cut into equal parts


def test_a_packed_batch_holds_the_same_tokens(tokenizer, stream):
    passages = Passages.of("train", stream, tokenizer, 32)
    padded, packed = (passages.batch([0, 5, 2], packed=packed).source for packed in (False, True))
    assert packed.data.tolist() == padded.data[padded.seq.valid].tolist()


def pairs_of(pairs, draws):
    """(first text, second text, whether it is said to follow), over and over."""
    generator = torch.Generator().manual_seed(5)
    own = pairs.with_generator(generator)
    for _ in range(draws):
        batch = own.batch(np.arange(len(pairs)))
        for ids, segments, valid, strange in zip(
            batch.source.data, batch.source.segments, batch.source.seq.valid, batch.labels.tolist(), strict=True
        ):
            ids, segments = ids[valid], segments[valid]
            sides = [words(pairs.tokenizer, ids[segments == side]) for side in (0, 1)]
            assert (sides[0][0], sides[0][-1], sides[1][-1]) == ("[CLS]", "[SEP]", "[SEP]")
            yield sides[0][1:-1], sides[1][:-1], not strange


def test_half_of_the_pairs_follow_and_the_others_come_from_another_document(documents, tokenizer, stream):
    pairs = PassagePairs.of("train", stream, tokenizer, 40)
    seen = total = 0
    for first, second, follows in pairs_of(pairs, 60):
        letters = [next((word[0] for word in side if word[0].isalpha()), None) for side in (first, second)]
        if None in letters:  # a full stop alone, of a document that was cut before it
            continue
        assert (letters[0] == letters[1]) == bool(follows)
        assert len(first) + len(second) + 3 <= 40
        assert first
        assert second
        total, seen = total + 1, seen + follows
        if follows:
            document = words(tokenizer, tokenizer.ids_batch([documents[LETTERS.index(letters[0])]], wrap="none")[0])
            joined = first + second
            assert any(document[start : start + len(joined)] == joined for start in range(len(document)))
    assert abs(seen - total / 2) < 4.5 * math.sqrt(total / 4)


def test_texts_are_cut_where_sentences_end(tokenizer, stream):
    pairs = PassagePairs.of("train", stream, tokenizer, 40)
    ends = [first[-1] == "." for first, _, _ in pairs_of(pairs, 3)]
    assert np.mean(ends) == 1.0  # every passage of these documents has a sentence that ends inside it


def test_every_passage_of_another_document_is_as_likely():
    draws = (np.arange(1700) + 0.5) / 1700
    found = np.bincount([_outside(4, 7, 20, draw) for draw in draws], minlength=20)
    assert found[4:7].sum() == 0
    assert set(np.delete(found, [4, 5, 6])) == {100}


def test_one_document_alone_makes_no_pairs(tokenizer, tmp_path_factory):
    stream = stream_of(["a1 a2 a3 a4"], tokenizer, tmp_path_factory)
    with pytest.raises(DataError, match=r"valid: .* one document only"):
        PassagePairs.of("valid", stream, tokenizer, 40)
