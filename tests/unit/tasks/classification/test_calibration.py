from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attentif.errors import RunError
from attentif.tasks.classification.calibration import Answers, best_thresholds, log_loss, probabilities
from attentif.tasks.classification.linear import STRENGTH, LinearModel

GOOD, BAD = ["bon film", "très bon", "bon jeu", "un bon moment"], ["film nul", "très nul", "jeu nul", "un moment nul"]
TEXTS = [f"{text} {n}" for n in range(8) for text in (*GOOD, *BAD)]
LABELS = np.array([text in GOOD for _ in range(8) for text in (*GOOD, *BAD)], dtype=np.int64)


def too_sure(seed: int = 0, factor: float = 6.0) -> tuple[np.ndarray, np.ndarray]:
    """Logits that are right about three times in four and far too sure."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, 400)
    logits = random.normal(size=(400, 3)) + 1.2 * np.eye(3)[labels]
    return factor * logits, labels


def test_calibration_lowers_the_loss_on_validation_and_changes_no_answer() -> None:
    logits, labels = too_sure()
    answers = Answers.fit(logits, [""] * len(labels), labels, calibrate=True, linear=None)
    assert answers.temperature > 2
    assert log_loss(answers.network(logits), labels) < log_loss(probabilities(logits), labels)
    assert (answers.network(logits).argmax(1) == logits.argmax(1)).all()


def test_the_temperature_is_where_the_loss_has_no_slope() -> None:
    logits, labels = too_sure()
    found = Answers.fit(logits, [""] * len(labels), labels, calibrate=True, linear=None).temperature
    at = lambda temperature: log_loss(probabilities(logits, temperature), labels)
    assert at(found) <= min(at(0.98 * found), at(1.02 * found))


@pytest.mark.parametrize("several", [False, True])
def test_a_split_without_an_error_makes_nobody_certain(several: bool) -> None:
    labels = np.arange(30) % 2
    logits = 3.0 * (2 * np.eye(2)[labels] - 1)
    truth = np.eye(2, dtype=np.int64)[labels] if several else labels
    answers = Answers.fit(logits, [""] * 30, truth, calibrate=True, linear=None)
    assert answers.network(logits).max() == pytest.approx(1 - 1 / 32, abs=1e-3)


def test_too_few_examples_to_choose_by_choose_nothing() -> None:
    logits, labels = too_sure()
    answers = Answers.fit(logits[:10], [""] * 10, labels[:10], calibrate=True, linear=None)
    assert (answers.temperature, answers.weight) == (1.0, 1.0)


def test_the_weight_goes_to_the_part_that_knows_more() -> None:
    linear = LinearModel.fit(TEXTS, LABELS, 2)
    random = np.random.default_rng(0)
    chance, knowing = random.normal(size=(len(TEXTS), 2)), 9.0 * np.eye(2)[LABELS]
    assert Answers.fit(chance, TEXTS, LABELS, calibrate=True, linear=linear).weight < 0.1
    blind = LinearModel(linear.terms, 0 * linear.weights, 0 * linear.bias)
    assert Answers.fit(knowing, TEXTS, LABELS, calibrate=False, linear=blind).weight > 0.9


def test_the_average_is_of_probabilities() -> None:
    linear = LinearModel.fit(TEXTS, LABELS, 2)
    logits = np.random.default_rng(0).normal(size=(len(TEXTS), 2))
    answers = Answers(linear=linear, weight=0.3)
    theirs = np.exp(linear.logits(TEXTS, 2))
    assert np.allclose(answers.probabilities(logits, TEXTS), 0.3 * probabilities(logits) + 0.7 * theirs)
    assert np.allclose(answers.probabilities(logits, TEXTS).sum(1), 1)
    assert "0.30 × the network + 0.70 × a linear model" in answers.note


def test_the_average_is_calibrated_as_a_whole_without_another_answer() -> None:
    linear = LinearModel.fit(TEXTS, LABELS, 2)
    logits = np.random.default_rng(0).normal(size=(len(TEXTS), 2)) + np.eye(2)[LABELS]
    answers = Answers.fit(logits, TEXTS, LABELS, calibrate=True, linear=linear)
    before = replace(answers, mixed_temperature=1.0)
    p, q = answers.probabilities(logits, TEXTS), before.probabilities(logits, TEXTS)
    assert log_loss(p, LABELS) <= log_loss(q, LABELS)
    assert (p.argmax(1) == q.argmax(1)).all()


def test_what_is_saved_and_loaded_answers_the_same_to_the_last_bit(tmp_path: Path) -> None:
    labels = np.stack([LABELS, 1 - LABELS, np.arange(len(LABELS)) % 2], axis=1)
    logits = np.random.default_rng(0).normal(size=labels.shape)
    answers = Answers.fit(logits, TEXTS, labels, calibrate=True, linear=LinearModel.fit(TEXTS, labels, 3))
    answers.save(tmp_path)
    again = Answers.load(tmp_path, several=True)
    asked = ["un film ni bon ni nul", "Ça ! C'est l'été…", ""]
    assert (again.probabilities(logits[:3], asked) == answers.probabilities(logits[:3], asked)).all()
    assert again.thresholds == answers.thresholds
    assert {path.name for path in tmp_path.iterdir()} == {"answers.json", "linear.safetensors"}


def test_a_run_without_answers_has_the_network_s_own(tmp_path: Path) -> None:
    assert Answers.load(tmp_path, several=False) == Answers()
    assert not Answers().note


def test_damaged_files_are_named(tmp_path: Path) -> None:
    Answers(linear=LinearModel.fit(TEXTS, LABELS, 2)).save(tmp_path)
    whole = (tmp_path / "linear.safetensors").read_bytes()
    (tmp_path / "linear.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RunError, match=r"linear\.safetensors"):
        Answers.load(tmp_path, several=False)
    (tmp_path / "linear.safetensors").unlink()
    with pytest.raises(RunError, match=r"linear.*missing"):
        Answers.load(tmp_path, several=False)
    (tmp_path / "answers.json").write_text('{"weight": 1')
    with pytest.raises(RunError, match=r"answers\.json: is damaged"):
        Answers.load(tmp_path, several=False)


def test_thresholds_are_where_f1_is_best() -> None:
    random = np.random.default_rng(0)
    labels = (random.random((300, 4)) < [0.05, 0.3, 0.7, 0.0]).astype(np.int64)
    p = np.clip(0.3 * labels + 0.6 * random.random(labels.shape), 0, 1)
    f1 = lambda c, threshold: 2 * (labels[:, c] & (p[:, c] >= threshold)).sum() / (labels[:, c].sum() + (p[:, c] >= threshold).sum())
    found = best_thresholds(p, labels)
    for c in range(3):
        assert f1(c, found[c]) == pytest.approx(max(f1(c, threshold) for threshold in p[:, c]))
    assert found[3] == 0.5  # nobody has it


def test_equal_probabilities_stay_together() -> None:
    p, labels = np.array([[0.9], [0.5], [0.5], [0.1]]), np.array([[1], [1], [0], [0]])
    assert best_thresholds(p, labels) == [pytest.approx(0.3)]  # 0.5 can only be taken whole


# -------------------------------------------------------------------------------------------------------- the linear model


def test_log_odds_are_the_equation_written_out() -> None:
    from sklearn.linear_model import LogisticRegression

    texts, labels = ["a bon", "a a c", "bon bien c", "c"], np.array([1, 1, 0, 0])
    found = LinearModel.fit(texts, labels, 2)
    split = [text.split() for text in texts]
    runs = [[" ".join(words[i : i + n]) for n in (1, 2, 3) for i in range(len(words) - n + 1)] for words in split]
    padded = [[f" {word} " for word in words] for words in split]
    letters = [[word[i : i + n] for word in words for n in (3, 4, 5) for i in range(len(word) - n + 1)] for words in padded]
    features, ratios = [], []
    for own, read in zip(found.terms, (runs, letters), strict=True):
        assert own.names == sorted({term for text in read for term in text})
        counts = np.array([[text.count(term) for term in own.names] for text in read])
        idf = 1 + np.log((1 + len(texts)) / (1 + (counts > 0).sum(0)))
        f = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * idf
        features.append(f / np.linalg.norm(f, axis=1, keepdims=True))
        p, q = (1 + (counts[labels == side] > 0).sum(0) for side in (1, 0))
        ratios.append(np.log(p / p.sum()) - np.log(q / q.sum()))
    f, r = np.concatenate(features, axis=1), np.concatenate(ratios)
    model = LogisticRegression(C=STRENGTH, solver="liblinear", random_state=0).fit(f * r, labels)
    assert np.allclose(found.log_odds(texts)[:, 0], f @ (r * model.coef_[0]) + model.intercept_[0], atol=1e-6)


def test_words_that_training_never_had_are_known_by_their_letters() -> None:
    texts = [f"un film {word}" for word in ("magnifique", "magnifiques", "horrible", "horribles") for _ in range(9)]
    found = LinearModel.fit(texts, np.repeat([1, 1, 0, 0], 9), 2)
    magnificent, horrible = found.log_odds(["magnifiquement", "horriblement"])[:, 0]
    assert magnificent > 0.5 > -0.5 > horrible


def test_texts_of_one_long_word_each_are_read_by_their_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNA: among many texts only terms of two of them count, and no whole sequence stands twice."""
    monkeypatch.setattr("attentif.tasks.classification.linear.ENOUGH", 20)
    random = np.random.default_rng(0)
    drawn = lambda: "".join(random.choice(list("ACGT"), 30))
    texts = [drawn() + ("TATAAT" if label else "") + drawn() for label in (0, 1) for _ in range(40)]
    found = LinearModel.fit(texts, np.repeat([0, 1], 40), 2)
    assert (found.log_odds([drawn() + "TATAAT" + drawn(), drawn() + drawn()])[:, 0] > 0).tolist() == [True, False]


def test_letters_are_left_out_where_texts_are_plenty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("attentif.tasks.classification.linear.PLENTY", len(TEXTS))
    found = LinearModel.fit(TEXTS, LABELS, 2)
    assert [own.reads for own in found.terms] == ["words"]
    found.save(tmp_path / "linear.safetensors")
    assert np.allclose(LinearModel.load(tmp_path / "linear.safetensors").log_odds(TEXTS), found.log_odds(TEXTS))


def test_probabilities_of_more_than_two_classes_add_up_to_one() -> None:
    labels = np.arange(len(TEXTS)) % 3
    log_p = LinearModel.fit(TEXTS, labels, 3).logits(TEXTS, 3)
    assert np.allclose(np.exp(log_p).sum(1), 1)


def test_a_label_that_nobody_has_or_everybody_is_answered_by_its_share() -> None:
    labels = np.stack([np.zeros_like(LABELS), np.ones_like(LABELS), LABELS], axis=1)
    p = probabilities(LinearModel.fit(TEXTS, labels, 3).log_odds(["bon", "inconnu"]), several=True)
    assert (p[:, 0] < 0.02).all()
    assert (p[:, 1] > 0.98).all()
