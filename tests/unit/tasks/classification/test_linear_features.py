"""Linear features: the contributions of tokens add up to the score of the text, and training texts are read out-of-fold."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attentif.data import DataConfig
from attentif.errors import RunError
from attentif.tasks import ClassifyConfig
from attentif.tasks.classification.classify import ClassifyState
from attentif.tasks.classification.corrections import find_corrections
from attentif.tasks.classification.data import encode_texts
from attentif.tasks.classification.linear import LinearModel, as_logits
from attentif.tasks.classification.linear_features import LinearFeatures, Spotter, count_features
from attentif.tasks.predictors import Stacked
from attentif.tasks.ragged import Ragged
from attentif.tasks.states import ARRAYS, load_state, save_state
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
    return tokenizer, Ragged.of(encode_texts(tokenizer, texts, None, longest)[0])


def fitted(labels: np.ndarray = LABELS, classes: int = 2) -> tuple[LinearFeatures, np.ndarray]:
    """And what each training text is told of its tokens, in log-odds."""
    made, told = LinearFeatures.fit(TEXTS, labels, classes, *tokens_of(TEXTS), say=lambda _: None)
    return made, told.tokens * made.scale


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_said_of_the_tokens_adds_up_to_what_is_said_of_the_text(kind: str) -> None:
    linear = LinearModel.fit(TEXTS, LABELS, 2)
    asked = ["Un beau film raté, quel ennui !", "😀", "jamais vu", "İ beau"]
    tokenizer, ids = tokens_of(asked, kind)
    told = LinearFeatures(linear, np.full(count_features(1, LABELS, 2), 1e3), several=False).of(asked, 2, tokenizer, ids)  # nothing is cut
    sums = [1e3 * told.tokens[start : start + length].sum() for start, length in zip(ids.starts, ids.lengths, strict=True)]
    expected = linear.log_odds(asked)[:, 0] - linear.bias[0]
    np.testing.assert_allclose(sums / np.sqrt(ids.lengths), expected, rtol=2e-4, atol=2e-4)  # what is kept is float32
    np.testing.assert_allclose(told.logits, linear.logits(asked, 2), rtol=1e-5, atol=1e-6)


def test_terms_are_counted_as_the_linear_model_counts_them() -> None:
    linear = LinearModel.fit(TEXTS, LABELS, 2)
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
    assert told.tokens.shape == (cut, count_features(len(TEXTS), LABELS, 2))
    assert not told.tokens[[0, -1]].any()  # [CLS] and [SEP]
    np.testing.assert_allclose(told.logits, made.linear.logits(whole, 2), rtol=1e-5)


@pytest.mark.parametrize(("labels", "classes", "numbers"), [(LABELS, 2, 4), (LABELS + np.arange(len(LABELS)) % 2, 3, 12)])
def test_there_are_four_numbers_a_class_and_two_classes_need_one(labels: np.ndarray, classes: int, numbers: int) -> None:
    made, tokens = fitted(labels, classes)
    assert tokens.shape[1] == numbers == count_features(len(TEXTS), labels, classes)
    assert made.of(["beau"], classes, *tokens_of(["beau"])).logits.shape == (1, classes)


def test_a_network_reads_it_beside_its_tokens_and_adds_to_the_answer(write_csv: Any, ready: Any) -> None:
    _, prepared, model = ready(ClassifyConfig(linear="stacked").build(), "encoder-tiny", {"train": write_csv("avis.csv", ROWS)})
    model.eval()
    assert model.config.frontend.features == 4
    batch = prepared.train.batch([0, 3, 8])
    padded, packed = Stacked(model)(batch)[0], Stacked(model)(prepared.train.batch([0, 3, 8], packed=True))[0]
    torch.testing.assert_close(padded, packed)
    torch.testing.assert_close(padded, model(batch)[0] + batch.linear)
    torch.testing.assert_close(Stacked(model, 0.5, 2.0)(batch)[0], 0.5 * model(batch)[0] + 2 * batch.linear)
    silent = replace(batch, source=replace(batch.source, beside=None))
    assert not torch.allclose(padded, Stacked(model)(silent)[0])


def test_what_is_kept_answers_the_same(write_csv: Any, ready: Any, tmp_path: Path) -> None:
    task = ClassifyConfig(linear="stacked").build()
    _, prepared, model = ready(task, "encoder-tiny", {"train": write_csv("avis.csv", ROWS)})
    state = task.finalize(model, prepared, budget=4096, say=print)
    texts = [*TEXTS[:5], "", "inconnu"]
    before = [answer.scores for answer in task.predict(model, state, prepared.tokenizers, texts)]
    save_state(tmp_path, state)
    again = load_state(tmp_path, ClassifyState)
    assert [answer.scores for answer in task.predict(model, again, prepared.tokenizers, texts)] == before
    assert "the network is stacked on a linear model" in task.caveat(model, again)
    (tmp_path / ARRAYS).unlink()
    with pytest.raises(RunError, match="damaged"):
        load_state(tmp_path, ClassifyState)


def test_a_run_of_an_earlier_version_is_still_read(write_csv: Any, ready: Any, tmp_path: Path) -> None:
    task = ClassifyConfig(linear="stacked").build()
    _, prepared, model = ready(task, "encoder-tiny", {"train": write_csv("avis.csv", ROWS)})
    state = task.finalize(model, prepared, budget=4096, say=print)
    state.answers.save(tmp_path)
    state.linear_features.save(tmp_path)
    again = task.migrate_state(tmp_path, {"kind": "classify", "labels": list(state.labels), "pairs": False})
    answers = lambda own: [answer.scores for answer in task.predict(model, own, prepared.tokenizers, TEXTS[:5])]
    assert answers(again) == answers(state)


def test_once_all_is_chosen_the_linear_model_learns_from_validation_too_and_never_tells_it(
    write_csv: Any, ready: Any, tmp_path: Path
) -> None:
    task, source = ClassifyConfig(linear="stacked").build(), {"train": write_csv("avis.csv", ROWS)}
    _, prepared, model = ready(task, "encoder-tiny", source)
    before = prepared.state.linear_features.linear
    said: list[str] = []
    state = task.finalize(model, prepared, budget=4096, say=said.append)
    both = [*prepared.train.joined_texts(), *prepared.valid.joined_texts()]
    labels = np.concatenate([prepared.train.labels, prepared.valid.labels])
    expected = LinearModel.fit(both, labels, 2).log_odds(TEXTS)
    assert any("once more, on training and validation texts" in line for line in said)
    own = task.prepare(DataConfig(**source), prepared.tokenizers, model.config, print, state)
    np.testing.assert_allclose(own.state.linear_features.linear.log_odds(TEXTS), expected, atol=1e-9)  # sums of floats, in float64
    np.testing.assert_allclose(
        own.test.reading().logits,
        as_logits(LinearModel.fit(both, labels, 2).log_odds(own.test.joined_texts()), 2, several=False),
        atol=1e-5,
    )
    for valid in (prepared.valid, own.valid):  # in float32
        np.testing.assert_allclose(valid.reading().logits, as_logits(before.log_odds(valid.joined_texts()), 2, several=False), atol=1e-5)


def test_what_is_read_is_read_in_the_same_way_however_many_texts_there_are(monkeypatch: Any) -> None:
    made, _ = fitted()
    monkeypatch.setattr("attentif.tasks.classification.linear.PLENTY", 10)
    assert [own.reads for own in made.refit(TEXTS, LABELS, 2).linear.terms] == [own.reads for own in made.linear.terms]


def test_an_opened_run_reads_its_own_data_without_fitting_again(write_csv: Any, ready: Any, tmp_path: Path, monkeypatch: Any) -> None:
    task, source = ClassifyConfig(linear="stacked").build(), {"train": write_csv("avis.csv", ROWS)}
    _, prepared, model = ready(task, "encoder-tiny", source)
    before = task.evaluate(model, prepared.state, prepared.test)
    own = task.prepare(DataConfig(**source), prepared.tokenizers, model.config, print, prepared.state)
    monkeypatch.setattr(LinearModel, "fits", lambda *_: pytest.fail("fitted again"))
    assert task.evaluate(model, prepared.state, own.test).scores == before.scores


def test_the_report_says_what_the_network_makes_of_the_linear_model(write_csv: Any, ready: Any) -> None:
    task = ClassifyConfig(linear="stacked").build()
    _, prepared, model = ready(task, "encoder-tiny", {"train": write_csv("avis.csv", ROWS)})
    test = prepared.test
    found = task.evaluate(model, prepared.state, test).details["overturned"]
    linear = prepared.state.linear_features.linear.logits(test.joined_texts(), 2).argmax(1)
    assert found["counts"]["both"] + found["counts"]["linear"] == (linear == test.labels).sum()
    assert sum(found["counts"].values()) == len(test)
    wrong = find_corrections(
        test, test.reading(), prepared.state.linear_features, 1 - linear, ["non", "oui"]
    )  # a network that says the contrary of all
    assert wrong["counts"]["both"] == wrong["counts"]["neither"] == 0
    flipped = replace(test, labels=1 - linear)
    shown = find_corrections(flipped, test.reading(), prepared.state.linear_features, 1 - linear, ["non", "oui"])["examples"]
    assert shown
    for one in shown:
        assert one["true"] != one["linear"]
        assert sum(one["values"]) > 0  # the words spoke for the linear model's answer, the share of the classes aside
        assert len(one["tokens"]) == len(one["values"])
    titles = [section.title.en for section in task.sections(task.evaluate(model, prepared.state, test))]
    assert "What the network makes of the linear model" in titles


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([row | {"text2": "oui"} for row in ROWS], "these are for single texts"),
        ([{"text": f"texte {n}", "label": f"classe {n % 20}"} for n in range(200)], "these are for at most 12 classes, and there are 20"),
    ],
)
def test_pairs_and_many_classes_are_stacked_on_logits_alone_and_it_is_said(
    write_csv: Any, ready: Any, rows: list[dict[str, str]], reason: str
) -> None:
    task = ClassifyConfig(linear="stacked").build()
    _, prepared, model = ready(task, "encoder-tiny", {"train": write_csv("avis.csv", rows)})
    assert any(reason in note for note in prepared.notes)
    assert model.config.frontend.features is None


def test_several_labels_at_once_have_evidence_each(write_csv: Any, ready: Any) -> None:
    rows = [
        {"text": text, "label": label}
        for n in range(20)
        for text, label in ((f"un beau film {n}", "beau"), (f"un long film {n}", "long;film"))
    ]
    _, prepared, model = ready(
        ClassifyConfig(several=True, linear="stacked").build(), "encoder-tiny", {"train": write_csv("plusieurs.csv", rows)}
    )
    batch = prepared.train.batch([0, 1])
    assert batch.linear.shape == model(batch)[0].shape == (2, 3)


def test_training_begins_with_the_answers_of_the_linear_model(write_csv: Any, ready: Any) -> None:
    task = ClassifyConfig(linear="stacked").build()
    _, prepared, model = ready(task, "encoder-tiny", {"train": write_csv("avis.csv", ROWS)})
    task.init_weights(model, prepared, print)
    batch = prepared.valid.batch([0, 1, 2])
    torch.testing.assert_close(Stacked(model.eval())(batch)[0], batch.linear)


def test_of_a_text_without_a_word_nothing_is_said() -> None:
    tokenizer, ids = tokens_of(["", " "])
    made, _ = fitted()
    told = made.of(["", " "], 2, tokenizer, ids)
    assert not told.tokens.any()
    assert told.logits[0].tolist() == told.logits[1].tolist()


def test_a_test_split_is_scored_by_the_linear_model_of_the_finished_state(write_csv: Any, ready: Any) -> None:
    """As `predict` answers it: the split was read before that model was fitted once more."""
    task, prepared, model = ready(ClassifyConfig(linear="stacked").build(), "encoder-tiny", {"train": write_csv("avis.csv", ROWS)})
    state = task.finalize(model, prepared, budget=4096, say=lambda _: None)
    test = prepared.test
    answers = task.predict(model, state, prepared.tokenizers, [test.example(row) for row in range(len(test))])
    truth = [answer.scores[state.labels[label]] for answer, label in zip(answers, test.labels, strict=True)]
    assert task.evaluate(model, state, test).scores["loss"] == pytest.approx(-float(np.log(truth).mean()), abs=1e-5)
