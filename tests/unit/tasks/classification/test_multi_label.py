import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attentif.data.multi_label import labels_of
from attentif.errors import DataError
from attentif.tasks import ClassifyConfig, Evaluation
from attentif.tasks.classification.classify import ClassifyState
from attentif.tasks.metrics import label_scores, share
from attentif.tasks.states import load_state, save_state
from attentif.view.page import Page, render

TOPICS = {"sport": "le match", "cuisine": "la recette", "vélo": "le guidon"}
SETS = [["sport"], ["cuisine"], ["sport", "vélo"], [], ["cuisine", "vélo"], ["sport", "cuisine", "vélo"]]


def rows_of(separator: str = ";", copies: int = 12) -> list[dict[str, str]]:
    return [
        {"text": f"{' et '.join(TOPICS[label] for label in own)} numéro {n} {place}", "labels": separator.join(own)}
        for n in range(copies)
        for place, own in enumerate(SETS)
    ]


@pytest.fixture
def topics(write_csv: Any, ready: Any) -> Any:
    data = {"train": write_csv("sujets.csv", rows_of()), "valid_fraction": 0.35}
    return ready(ClassifyConfig(several=True, linear="averaged").build(), "encoder-tiny", data)


def prepared_rows(config: ClassifyConfig, train: str, ready: Any, **more: Any) -> Any:
    return ready(config.build(), "encoder-tiny", {"train": train, **more})[1]


# ----------------------------------------------------------------------------------------------------------------- reading


def test_labels_are_split_at_the_separator_and_may_be_none(topics: Any) -> None:
    task, prepared, _ = topics
    assert prepared.state.labels == ("cuisine", "sport", "vélo")
    assert task.metric == "micro_f1"
    for row in range(len(prepared.train)):
        own = [prepared.state.labels[c] for c in np.flatnonzero(prepared.train.labels[row])]
        assert own == labels_of(prepared.train.table["labels"][row])
    assert any("rows have none" in note for note in prepared.notes)
    assert (prepared.train.labels.sum(1) == 0).any()


def test_lists_and_another_separator_say_the_same(write_csv: Any, ready: Any, tmp_path: Path) -> None:
    texts = [(row["text"], row["labels"].split(";") if row["labels"] else []) for row in rows_of()]
    lines = tmp_path / "sujets.jsonl"
    lines.write_text("".join(json.dumps({"text": text, "labels": labels}) + "\n" for text, labels in texts))
    lists = write_csv("listes.csv", [{"text": text, "labels": json.dumps(labels)} for text, labels in texts])
    piped = write_csv("barres.csv", rows_of(separator=" | "))
    own = prepared_rows(ClassifyConfig(several=True), write_csv("sujets.csv", rows_of()), ready)
    for config, file in (
        (ClassifyConfig(several=True), str(lines)),
        (ClassifyConfig(several=True), lists),
        (ClassifyConfig(several=True, separator="|"), piped),
    ):
        other = prepared_rows(config, file, ready)
        assert other.digest == own.digest
        assert (other.test.labels == own.test.labels).all()


def test_a_column_of_another_name_can_be_asked_for(write_csv: Any, ready: Any) -> None:
    rows = [{"text": row["text"], "thème": row["labels"]} for row in rows_of()]
    assert prepared_rows(ClassifyConfig(several=True), write_csv("a.csv", rows), ready, label="thème").state.labels


def test_a_label_of_the_test_that_training_never_saw_is_refused_with_its_place(write_csv: Any, ready: Any) -> None:
    train = write_csv("train.csv", rows_of())
    test = write_csv("test.csv", [*rows_of(copies=1), {"text": "la voile", "labels": "sport;voile"}])
    with pytest.raises(DataError, match=r"test\.csv:8:.*'voile' \(test\)"):
        prepared_rows(ClassifyConfig(several=True), train, ready, test=test)


def test_a_label_spelled_otherwise_is_pointed_out_and_can_be_taken_as_one(write_csv: Any, ready: Any) -> None:
    train, test = write_csv("train.csv", rows_of()), write_csv("test.csv", [{"text": "le match", "labels": "Sport"}])
    with pytest.raises(DataError, match=r"'sport'.*data\.normalise_labels=true"):
        prepared_rows(ClassifyConfig(several=True), train, ready, test=test)
    assert prepared_rows(ClassifyConfig(several=True), train, ready, test=test, normalise_labels=True).test.labels.tolist() == [[0, 1, 0]]


def test_rows_without_any_label_are_nothing_to_learn_from(write_csv: Any, ready: Any) -> None:
    rows = [{"text": f"texte {n}", "labels": ""} for n in range(40)]
    with pytest.raises(DataError, match=r"vide\.csv"):
        prepared_rows(ClassifyConfig(several=True), write_csv("vide.csv", rows), ready)


def test_one_label_that_all_rows_have_is_refused_and_one_that_some_have_is_learned(write_csv: Any, ready: Any) -> None:
    everywhere = [{"text": f"texte {n}", "labels": "a"} for n in range(40)]
    with pytest.raises(DataError, match=r"nothing.*apart"):
        prepared_rows(ClassifyConfig(several=True), write_csv("a.csv", everywhere), ready)
    some = [{"text": f"texte {n}", "labels": "a" if n % 2 else ""} for n in range(80)]
    task, prepared, model = ready(ClassifyConfig(several=True).build(), "encoder-tiny", {"train": write_csv("b.csv", some)})
    assert set(task.evaluate(model, prepared.state, prepared.test).scores) >= {"micro_f1", "f1", "exact_match"}


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ('["sport", 3.5]', r"a label is 3\.5"),
        ('["sport"', "begin as a JSON list and are none"),
        ('["sport", ""]', "a label is ''"),
    ],
)
def test_labels_that_are_none_are_named_with_their_line(write_csv: Any, ready: Any, labels: str, said: str) -> None:
    rows = [*rows_of(copies=2), {"text": "faux", "labels": labels}]
    with pytest.raises(DataError, match=rf"a\.csv:14: .*{said}"):
        prepared_rows(ClassifyConfig(several=True), write_csv("a.csv", rows), ready)


# ------------------------------------------------------------------------------------------------------ loss, scores, answers


def test_the_loss_is_the_equation_summed_over_labels(topics: Any) -> None:
    task, prepared, model = topics
    batch = prepared.train.batch(range(6))
    p, y = model(batch)[0].sigmoid(), batch.labels
    by_hand = -(y * p.log() + (1 - y) * (1 - p).log()).sum()
    loss = task.step(model, batch)
    assert loss.count == 6
    assert loss.total.item() == pytest.approx(by_hand.item(), rel=1e-5)


def test_scores_are_scikit_learn_s() -> None:
    from sklearn.metrics import f1_score

    random = np.random.default_rng(0)
    true, predicted = (random.random((200, 5)) < 0.3).astype(np.int64), (random.random((200, 5)) < 0.4).astype(np.int64)
    scores, intervals = label_scores(true, predicted)
    assert scores["micro_f1"] == pytest.approx(f1_score(true, predicted, average="micro"))
    assert scores["f1"] == pytest.approx(f1_score(true, predicted, average="macro"))
    assert scores["exact_match"] == pytest.approx((true == predicted).all(1).mean())
    assert all(low < scores[key] < high for key, (low, high) in intervals.items())
    assert {*label_scores(true, true)[1].values()} == {share(200, 200)[1]}  # all right is not certain


def test_what_is_learned_settled_and_loaded_again_is_answered_and_shown(topics: Any, teach: Any, tmp_path: Path) -> None:
    task, prepared, model = topics
    teach(task, prepared, model, steps=40)
    said: list[str] = []
    state = task.finalize(model, prepared, budget=4096, say=said.append)
    assert any("answers are averages" in line for line in said)
    found = task.evaluate(model, state, prepared.test)
    assert found.scores["micro_f1"] > 0.9
    save_state(tmp_path, state)
    state = load_state(tmp_path, ClassifyState)
    assert task.evaluate(model, state, prepared.test).scores == found.scores
    for answer, true in zip(
        task.predict(model, state, prepared.tokenizers, prepared.test.table["text"]), prepared.test.labels, strict=True
    ):
        chosen = [label for label in answer.output.split(", ") if label]
        assert chosen == [label for label in answer.scores if label in chosen]  # the likeliest first
        assert len(true) == len(answer.scores)
    stored = json.loads(json.dumps(found.details, allow_nan=False))
    page = render(Page("essai", task.sections(Evaluation(found.scores, found.intervals, details=stored))))
    assert "Étiquette par étiquette" in page
    assert "An average of two models" in page


def test_baselines_are_scored_with_thresholds_of_their_own(topics: Any) -> None:
    task, prepared, _ = topics
    usual, tfidf, weighted = task.baselines(prepared, lambda line: None)
    assert {"micro_f1", "f1", "exact_match"} <= set(usual.scores)
    assert tfidf.scores["micro_f1"] > 0.9
    assert weighted.scores["micro_f1"] > 0.9
    assert usual.scores["micro_f1"] < 0.9
