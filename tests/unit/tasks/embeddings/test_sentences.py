"""Vectors of texts and of words: any stack, in any order, and what is refused."""

import numpy as np
import pytest
import torch

from attentif.errors import UsageError
from attentif.models import Model, build, resolve
from attentif.tasks.base import Tokenizers
from attentif.tasks.classification.classify import ClassifyConfig
from attentif.tasks.embeddings.senses import find_senses, group_senses, token_states, word_pattern
from attentif.tasks.embeddings.sentences import cosines, embed, frame_of, nearest, parse_pooling
from attentif.tasks.language.language import LanguageConfig
from attentif.tasks.seq2seq.translate import TranslateConfig
from attentif.text.kinds import WordPiece

TEXTS = ["le chat dort sur le canapé", "un roi", "le roi aime les chats et les chats aiment le roi", "le chat", "été"]
STACKS = [
    "encoder-tiny",
    "decoder-tiny",
    "gru-tiny",
    "mamba-tiny",
    "transformer-tiny",
    "reformer-tiny",
    "bi-lstm-tiny",
    "sutskever-2014-tiny",
]

WITH_TARGETS = ("transformer-tiny", "sutskever-2014-tiny")


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    return {"tokenizer": WordPiece(vocab=120).fit(TEXTS * 4)}


def model_of(base: str, tokenizers: Tokenizers) -> Model:
    torch.manual_seed(0)
    size = {"vocab": tokenizers["tokenizer"].vocab}
    values = {"base": base, "frontend": size} | ({"target": size} if base in WITH_TARGETS else {})
    return build(resolve(values).with_any_size()).eval()


def task_of(base: str):
    return {**dict.fromkeys(WITH_TARGETS, TranslateConfig), "encoder-tiny": ClassifyConfig, "bi-lstm-tiny": ClassifyConfig}.get(
        base, LanguageConfig
    )().build()


@pytest.mark.parametrize("base", STACKS)
@pytest.mark.parametrize("pooling", ["mean", "first", "last", "max"])
def test_texts_read_together_have_the_vectors_they_have_alone(base, pooling, tokenizers):
    task, model = task_of(base), model_of(base, tokenizers)
    together = embed(task, model, tokenizers, TEXTS, pooling=pooling)
    alone = np.concatenate([embed(task, model, tokenizers, [text], pooling=pooling) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=2e-6)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)


def test_a_text_that_is_too_long_is_cut_and_it_is_said(tokenizers):
    said = []
    task, model = ClassifyConfig(max_len=6).build(), model_of("encoder-tiny", tokenizers)
    found = embed(task, model, tokenizers, ["roi " * 50, "roi roi roi roi"], say=said.append)
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    assert said == ["1 text cut to the 6 tokens that the model reads"]


def test_a_text_of_which_nothing_is_read_has_no_vector(tokenizers):
    task, model = LanguageConfig(prompt="frame").build(), model_of("decoder-tiny", tokenizers)
    tokenizers = {"tokenizer": tokenizers["tokenizer"]}
    tokenizers["tokenizer"].__dict__["frame"] = type(tokenizers["tokenizer"].frame_for("none"))((), (), ((), (), ()))
    try:
        with pytest.raises(UsageError, match="text 2 is empty"):
            embed(task, model, tokenizers, ["roi", ""])
    finally:
        del tokenizers["tokenizer"].__dict__["frame"]


def test_a_model_of_pictures_has_no_vectors_of_texts():
    model = build(resolve({"base": "vit-tiny"}).with_any_size())
    with pytest.raises(UsageError, match="reads no texts"):
        embed(ClassifyConfig().build(), model, {}, ["a"])


def test_poolings_are_known_by_name():
    assert parse_pooling("cls") == "first"
    with pytest.raises(UsageError, match="'sum'"):
        parse_pooling("sum")


def test_cosines_and_neighbours_do_not_depend_on_lengths():
    vectors = np.array([[1, 0], [0, 3], [2, 2], [0, 0]], np.float32)
    expected = [[1, 0, 0.5**0.5, 0], [0, 1, 0.5**0.5, 0], [0.5**0.5, 0.5**0.5, 1, 0], [0, 0, 0, 0]]
    np.testing.assert_allclose(cosines(vectors), expected, atol=1e-12)
    assert [row for row, _ in nearest(np.array([9, 0], np.float32), vectors, 2)] == [0, 2]


# ----------------------------------------------------------------------------------------------------------------- one word


def test_the_table_of_words_gives_every_use_the_same_vector_and_context_does_not(tokenizers):
    found = find_senses(task_of("encoder-tiny"), model_of("encoder-tiny", tokenizers), tokenizers, "roi", TEXTS[1:3])
    assert [str(use) for use in found.uses] == ["un «roi»", "le «roi» aime les chats et les chats aiment le roi", TEXTS[2][:-3] + "«roi»"]
    np.testing.assert_allclose(found.static_cosines, 1, atol=1e-7)
    assert len(found.by_layer()) == 1 + len(found.layers)
    assert found.cosines[0, 1] < 0.9999
    assert found.groups == (0, 0, 0)


@pytest.mark.parametrize("base", STACKS)
def test_the_last_layer_is_what_vectors_of_texts_are_made_of(base, tokenizers):
    task, model = task_of(base), model_of(base, tokenizers)
    frame = frame_of(task, tokenizers["tokenizer"])
    ids = [*frame.before, *tokenizers["tokenizer"].encode("le chat dort", wrap="none").ids, *frame.after]
    states = token_states(model, ids)
    np.testing.assert_allclose(states[-1].mean(0), embed(task, model, tokenizers, ["le chat dort"], normalise=False)[0], atol=2e-6)
    assert len(find_senses(task, model, tokenizers, "chat", ["le chat", "chat chat"]).uses) == 3


def test_a_word_is_found_by_itself_whatever_its_case_or_accents():
    assert [m.group() for m in word_pattern("été").finditer("L'Été, l'e\u0301te\u0301, étés, été.")] == ["Été", "e\u0301te\u0301", "été"]
    assert not word_pattern("C++").search("C+")
    assert word_pattern("C++").search("en C++, oui")


@pytest.mark.parametrize(
    ("word", "sentences", "message"),
    [
        ("roi", ["le roi", "le chat"], "'roi' .* sentence 2: .*le chat"),
        ("roi", ["le roi"], "two uses of the word at least"),
        (" ", ["le roi"], "the word is empty"),
        ("roi", ["le roi", "roi " * 300], "sentence 2 has .* tokens, and this model reads 256"),
    ],
)
def test_what_cannot_be_compared_is_said_in_one_line(word, sentences, message, tokenizers):
    with pytest.raises(UsageError, match=message):
        find_senses(ClassifyConfig().build(), model_of("encoder-tiny", tokenizers), tokenizers, word, sentences)


def apart(*groups: int) -> np.ndarray:
    """Cosines of uses that are near within a group."""
    return np.array([[1.0 if a == b else 0.9 if groups[a] == groups[b] else 0.2 for b in range(len(groups))] for a in range(len(groups))])


def test_uses_fall_into_the_senses_that_stand_apart():
    assert group_senses(apart(0, 1, 0, 1, 2, 2))[0] == (0, 1, 0, 1, 2, 2)
    found, silhouette = group_senses(apart(1, 0, 0, 1))
    assert found == (0, 1, 1, 0)
    assert silhouette == pytest.approx((0.8 - 0.1) / 0.8)


def test_too_few_uses_or_uses_all_alike_are_one_sense():
    assert group_senses(apart(0, 1, 1)) == ((0, 0, 0), None)
    assert group_senses(apart(0, 0, 0, 0, 0)) == ((0,) * 5, None)


def test_the_number_of_senses_can_be_asked_for():
    assert group_senses(apart(0, 1, 1), 2)[0] == (0, 1, 1)
    assert group_senses(apart(0, 1, 1), 3) == ((0, 1, 2), None)
    with pytest.raises(UsageError, match=r"3.*grouped.*4"):
        group_senses(apart(0, 1, 1), 4)


def test_a_page_shows_the_uses_in_both_languages(tokenizers, tmp_path):
    task, model = task_of("encoder-tiny"), model_of("encoder-tiny", tokenizers)
    found = find_senses(task, model, tokenizers, "roi", ["le roi <b>", "un roi dort", "les chats du roi", "roi"], groups=2)
    page = found.save(tmp_path / "roi.html").read_text()
    assert "Carte des emplois" in page
    assert "Map of the uses" in page
    assert "<b>" not in page.split("</style>")[1].split("<script")[0]
    assert "Who is near to whom" in found._repr_html_()
    table = found.table()
    assert [use["sense"] for use in table["uses"]] == [group + 1 for group in found.groups]
    assert np.array(table["layers"]).shape == (len(found.layers), 4, 4)
