"""Evidence: what a linear model says of each token adds up to what it says of the text, and no training text is told its own label."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attentif.errors import RunError
from attentif.tasks import ClassifyConfig
from attentif.tasks.labels.classify_data import encoded
from attentif.tasks.labels.evidence import FILE, Evidence, Spotter, numbers_beside
from attentif.tasks.labels.linear import Linear, as_logits
from attentif.tasks.labels.overturned import overturned
from attentif.tasks.ragged import Ragged
from attentif.text import Tokenizer
from attentif.text.kinds import BPE, Char, Word

GOOD = ["Quel beau film !", "Très beau jeu, et belle musique...", "un film  magnifique\tet drôle", "beau , beau , beau", "Ça m'a plu 😀 !"]
BAD = ["quel ennui", "Un film raté ; un jeu RATÉ.", "nul", "c'est long , trop long", "ŒUVRE ratée, İstanbul raté"]
TEXTS = [f"{text} {n}" for n in range(6) for text in GOOD + BAD]
LABELS = np.array([int(text in GOOD) for _ in range(6) for text in GOOD + BAD])
ROWS = [{"text": text, "label": ["non", "oui"][label]} for text, label in zip(TEXTS, LABELS, strict=True)]
KINDS = {"word": Word(vocab=60), "bpe": BPE(vocab=300), "char": Char(vocab=80), "lower": Word(vocab=60, lowercase=True)}


def tokens_of(texts: list[str], kind: str = "word", longest: int = 500) -> tuple[Tokenizer, Ragged]:
    tokenizer = KINDS[kind].fit(TEXTS)
    return tokenizer, Ragged.of(encoded(tokenizer, texts, None, longest)[0])


def fitted(labels: np.ndarray = LABELS, classes: int = 2) -> tuple[Evidence, np.ndarray]:
    """And what each training text is told of its tokens, in log-odds."""
    made, told = Evidence.fit(TEXTS, labels, classes, *tokens_of(TEXTS), say=lambda _: None)
    return made, told.tokens * made.scale


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_said_of_the_tokens_adds_up_to_what_is_said_of_the_text(kind: str) -> None:
    linear = Linear.fit(TEXTS, LABELS, 2)
    asked = ["Un beau film raté, quel ennui !", "😀", "jamais vu", "İ beau"]
    tokenizer, ids = tokens_of(asked, kind)
    told = Evidence(linear, np.full(numbers_beside(1, LABELS, 2), 1e3), several=False).of(asked, 2, tokenizer, ids)  # nothing is cut
    sums = [1e3 * told.tokens[start : start + length].sum() for start, length in zip(ids.starts, ids.lengths, strict=True)]
    expected = linear.log_odds(asked)[:, 0] - linear.bias[0]
    np.testing.assert_allclose(sums / np.sqrt(ids.lengths), expected, rtol=2e-4, atol=2e-4)  # what is kept is float32
    np.testing.assert_allclose(told.answers, linear.logits(asked, 2), rtol=1e-5, atol=1e-6)


def test_terms_are_counted_as_the_linear_model_counts_them() -> None:
    linear = Linear.fit(TEXTS, LABELS, 2)
    for terms in linear.terms:
        spotter = Spotter(terms)
        for text in TEXTS[:10]:
            found, _, _ = spotter.spots(text)
            features = np.bincount(found, weights=spotter.shares(found), minlength=len(terms.idf))
            np.testing.assert_allclose(features, terms.features([text]).toarray()[0], atol=1e-12)


def test_a_training_text_is_not_told_its_own_label() -> None:
    _, before = fitted()
    other = LABELS.copy()
    other[7] = 1 - other[7]
    _, after = fitted(other)
    _, ids = tokens_of(TEXTS)
    own = slice(ids.starts[7], ids.starts[7] + ids.lengths[7])
    np.testing.assert_allclose(after[own], before[own], rtol=1e-5, atol=1e-6)
    assert not np.allclose(after, before, rtol=1e-3)  # the others are told of it


def test_what_is_cut_away_is_still_part_of_the_answer_for_the_text() -> None:
    made, _ = fitted()
    whole, cut = ("un film magnifique et drôle mais raté",), 4
    tokenizer, ids = tokens_of(list(whole), longest=cut)
    told = made.of(whole, 2, tokenizer, ids)
    assert told.tokens.shape == (cut, numbers_beside(len(TEXTS), LABELS, 2))
    assert not told.tokens[[0, -1]].any()  # [CLS] and [SEP]
    np.testing.assert_allclose(told.answers, made.linear.logits(whole, 2), rtol=1e-5)


@pytest.mark.parametrize(("labels", "classes", "numbers"), [(LABELS, 2, 4), (LABELS + np.arange(len(LABELS)) % 2, 3, 12)])
def test_there_are_four_numbers_a_class_and_two_classes_need_one(labels: np.ndarray, classes: int, numbers: int) -> None:
    made, tokens = fitted(labels, classes)
    assert tokens.shape[1] == numbers == numbers_beside(len(TEXTS), labels, classes)
    assert made.of(["beau"], classes, *tokens_of(["beau"])).answers.shape == (1, classes)


def test_a_network_reads_it_beside_its_tokens_and_adds_to_the_answer(write_csv: Any, ready: Any) -> None:
    _, prepared, model = ready(ClassifyConfig(evidence=True).build(), "encoder-tiny", {"train": write_csv("avis.csv", ROWS)})
    model.eval()
    assert model.config.frontend.evidence == 4
    batch = prepared.train.batch([0, 3, 8])
    padded, packed = model(batch)[0], model(prepared.train.batch([0, 3, 8], packed=True))[0]
    torch.testing.assert_close(padded, packed)
    torch.testing.assert_close(padded, model(replace(batch, offset=None))[0] + batch.offset)
    silent = replace(batch, source=replace(batch.source, beside=None))
    assert not torch.allclose(padded, model(silent)[0])


def test_nothing_is_fitted_before_a_batch_is_asked_for(write_csv: Any, ready: Any) -> None:
    task = ClassifyConfig(evidence=True).build()
    _, prepared, _ = ready(task, "encoder-tiny", {"train": write_csv("avis.csv", ROWS)})
    assert task.evidence is None
    prepared.valid.batch([0])
    assert task.evidence is not None


@pytest.mark.parametrize("blend", [False, True])
def test_what_is_kept_answers_the_same(write_csv: Any, ready: Any, tmp_path: Path, blend: bool) -> None:
    task = ClassifyConfig(evidence=True, blend=blend).build()
    _, prepared, model = ready(task, "encoder-tiny", {"train": write_csv("avis.csv", ROWS)})
    task.keep(tmp_path)
    task.settle(model, prepared, tmp_path, budget=4096, say=print)
    texts = [*TEXTS[:5], "", "inconnu"]
    before = [answer.scores for answer in task.predict(model, prepared.tokenizers, texts)]
    again = prepared.task.build()
    again.recall(tmp_path)
    assert [answer.scores for answer in again.predict(model, prepared.tokenizers, texts)] == before
    assert "the network reads what a linear model of words says" in again.note
    (tmp_path / FILE).unlink()
    with pytest.raises(RunError, match="what this model reads beside its texts is missing"):
        prepared.task.build().recall(tmp_path)


def test_once_all_is_chosen_the_linear_model_learns_from_validation_too_and_never_tells_it(
    write_csv: Any, ready: Any, tmp_path: Path
) -> None:
    task, source = ClassifyConfig(evidence=True).build(), {"train": write_csv("avis.csv", ROWS)}
    _, prepared, model = ready(task, "encoder-tiny", source)
    task.keep(tmp_path)
    before = Evidence.load(tmp_path, several=False).linear
    said: list[str] = []
    task.settle(model, prepared, tmp_path, budget=4096, say=said.append)
    both = [*prepared.train.joined(), *prepared.valid.joined()]
    labels = np.concatenate([prepared.train.labels, prepared.valid.labels])
    expected = Linear.fit(both, labels, 2).log_odds(TEXTS)
    assert any("once more, on training and validation texts" in line for line in said)
    again = prepared.task.build()
    again.recall(tmp_path)
    _, own, _ = ready(again, "encoder-tiny", source)
    np.testing.assert_allclose(again.evidence.linear.log_odds(TEXTS), expected, atol=1e-9)  # sums of floats, in float64
    np.testing.assert_allclose(
        own.test.told().answers, as_logits(Linear.fit(both, labels, 2).log_odds(own.test.joined()), 2, several=False), atol=1e-5
    )
    for valid in (prepared.valid, own.valid):  # in float32
        np.testing.assert_allclose(valid.told().answers, as_logits(before.log_odds(valid.joined()), 2, several=False), atol=1e-5)
    np.testing.assert_allclose(again.evidence.linear.log_odds(TEXTS), expected, atol=1e-9)


def test_what_is_read_is_read_in_the_same_way_however_many_texts_there_are(monkeypatch: Any) -> None:
    made, _ = fitted()
    monkeypatch.setattr("attentif.tasks.labels.linear.PLENTY", 10)
    assert [own.reads for own in made.again(TEXTS, LABELS, 2).linear.terms] == [own.reads for own in made.linear.terms]


def test_an_opened_run_reads_its_own_data_without_fitting_again(write_csv: Any, ready: Any, tmp_path: Path, monkeypatch: Any) -> None:
    task, source = ClassifyConfig(evidence=True).build(), {"train": write_csv("avis.csv", ROWS)}
    _, prepared, model = ready(task, "encoder-tiny", source)
    task.keep(tmp_path)
    before = task.evaluate(model, prepared.test)
    again = prepared.task.build()
    again.recall(tmp_path)
    _, own, _ = ready(again, "encoder-tiny", source)
    monkeypatch.setattr(Linear, "fits", lambda *_: pytest.fail("fitted again"))
    assert again.evaluate(model, own.test).scores == before.scores


def test_the_report_says_what_the_network_makes_of_the_linear_model(write_csv: Any, ready: Any) -> None:
    task = ClassifyConfig(evidence=True).build()
    _, prepared, model = ready(task, "encoder-tiny", {"train": write_csv("avis.csv", ROWS)})
    test = prepared.test
    found = task.evaluate(model, test).details["overturned"]
    linear = task.evidence.linear.logits(test.joined(), 2).argmax(1)
    assert found["counts"]["both"] + found["counts"]["linear"] == (linear == test.labels).sum()
    assert sum(found["counts"].values()) == len(test)
    wrong = overturned(test, test.told(), task.evidence, 1 - linear, ["non", "oui"])  # a network that says the contrary of all
    assert wrong["counts"]["both"] == wrong["counts"]["neither"] == 0
    flipped = replace(test, labels=1 - linear)
    shown = overturned(flipped, test.told(), task.evidence, 1 - linear, ["non", "oui"])["examples"]
    assert shown
    for one in shown:
        assert one["true"] != one["linear"]
        assert sum(one["values"]) > 0  # the words spoke for the linear model's answer, the share of the classes aside
        assert len(one["tokens"]) == len(one["values"])
    titles = [section.title.en for section in task.sections(task.evaluate(model, test))]
    assert "What the network makes of the linear model" in titles


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([row | {"text2": "oui"} for row in ROWS], "that is about single texts, and these are pairs"),
        ([{"text": f"texte {n}", "label": f"classe {n % 20}"} for n in range(200)], "that is for at most 12 classes, and there are 20"),
    ],
)
def test_pairs_and_many_classes_have_none_and_it_is_said(write_csv: Any, ready: Any, rows: list[dict[str, str]], reason: str) -> None:
    task = ClassifyConfig(evidence=True).build()
    _, prepared, model = ready(task, "encoder-tiny", {"train": write_csv("avis.csv", rows)})
    assert f"the network reads no evidence of a linear model (task.evidence): {reason}" in prepared.notes
    assert not prepared.task.evidence  # as it is kept
    assert model.config.frontend.evidence is None


def test_several_labels_at_once_have_evidence_each(write_csv: Any, ready: Any) -> None:
    rows = [
        {"text": text, "label": label}
        for n in range(20)
        for text, label in ((f"un beau film {n}", "beau"), (f"un long film {n}", "long;film"))
    ]
    _, prepared, model = ready(
        ClassifyConfig(several=True, evidence=True).build(), "encoder-tiny", {"train": write_csv("plusieurs.csv", rows)}
    )
    batch = prepared.train.batch([0, 1])
    assert batch.offset is not None
    assert batch.offset.shape == model(batch)[0].shape == (2, 3)


def test_training_begins_with_the_answers_of_the_linear_model(write_csv: Any, ready: Any) -> None:
    task = ClassifyConfig(evidence=True).build()
    _, prepared, model = ready(task, "encoder-tiny", {"train": write_csv("avis.csv", ROWS)})
    task.begin(model, prepared, print)
    batch = prepared.valid.batch([0, 1, 2])
    torch.testing.assert_close(model.eval()(batch)[0], batch.offset)


def test_of_a_text_without_a_word_nothing_is_said() -> None:
    tokenizer, ids = tokens_of(["", " "])
    made, _ = fitted()
    told = made.of(["", " "], 2, tokenizer, ids)
    assert not told.tokens.any()
    assert told.answers[0].tolist() == told.answers[1].tolist()
