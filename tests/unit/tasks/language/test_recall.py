"""Answers at the places that ask for them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from attentif.data import DataConfig
from attentif.errors import ConfigError, DataError
from attentif.models import ModelConfig, build, resolve
from attentif.tasks.base import Prepared
from attentif.tasks.language.recall import Recall, RecallConfig
from attentif.tasks.ragged import UNSCORED
from attentif.tasks.rows import LabelledTokens
from attentif.text import TOKENIZERS

quiet = lambda line: None
WORDS = TOKENIZERS["word"].model_validate({"kind": "word", "min_count": 1})


def model(base: str = "decoder-tiny") -> ModelConfig:
    return resolve({"base": base, "width": 16, "layers": 1})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text("text,answers\n" + "k1 v1 k2 v2 k2 k1,_ _ _ _ v2 v1\nk1 v2 k1,_ _ v2\n" * 10)
    return path


def prepared(task: Recall, file: Path, base: str = "decoder-tiny") -> Prepared:
    return task.prepare(DataConfig(train=str(file), valid=str(file), test=str(file)), WORDS, task.adapt(model(base)), quiet)


def test_only_the_places_that_ask_are_scored(file: Path) -> None:
    task = Recall(RecallConfig())
    ready = prepared(task, file)
    assert isinstance(ready.train, LabelledTokens)
    row = next(row for row in range(len(ready.train)) if ready.train.lengths[row] == 6)
    labels = ready.train.labels[row]
    assert (labels[:4] == UNSCORED).all()
    assert [ready.tokenizers["tokenizer"].rust.id_to_token(int(token)) for token in labels[4:]] == ["v2", "v1"]
    assert ready.tokenizers["tokenizer"].rust.token_to_id("_") is None  # where nothing is asked there is nothing to say


@pytest.mark.parametrize("base", ["decoder-tiny", "mamba-tiny", "s4d-tiny", "lstm-tiny", "encoder-tiny"])
def test_every_kind_of_memory_can_be_asked(base: str, file: Path) -> None:
    task = Recall(RecallConfig())
    ready = prepared(task, file, base)
    config = ready.sizes.fill(task.adapt(model(base)))
    task.check(config)
    torch.manual_seed(0)
    built = build(config)
    loss = task.step(built, ready.train.batch([0, 1]))
    loss.total.backward()
    assert loss.count == int((ready.train.batch([0, 1]).labels != UNSCORED).sum())
    found = task.evaluate(built, ready.state, ready.test)
    assert set(found.scores) == {"accuracy", "exact_match", "loss"}
    assert task.sections(found) is not None


def test_the_scores_are_those_of_answers_and_of_whole_rows(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Recall(RecallConfig())
    ready = prepared(task, file)
    assert isinstance(ready.test, LabelledTokens)
    truth = [labels[labels != UNSCORED].copy() for labels in (ready.test.labels[row] for row in range(len(ready.test)))]
    truth[0][-1] += 1
    monkeypatch.setattr(Recall, "_answers", lambda *_: (truth, 0.0))
    found = task.evaluate(None, ready.state, ready.test)  # type: ignore[arg-type]
    asked = sum(map(len, truth))
    assert found.scores["accuracy"] == pytest.approx(1 - 1 / asked)
    assert found.scores["exact_match"] == pytest.approx(1 - 1 / len(truth))
    assert len(found.details["errors"]) == 1


def test_packed_and_padded_batches_ask_the_same(file: Path) -> None:
    task = Recall(RecallConfig())
    train = prepared(task, file).train
    padded, packed = train.batch([0, 1, 2]), train.batch([0, 1, 2], packed=True)
    assert padded.labels is not None
    assert packed.labels is not None
    assert padded.labels[padded.labels != UNSCORED].tolist() == packed.labels[packed.labels != UNSCORED].tolist()


def test_answers_to_new_texts_are_given_at_the_places_that_ask(file: Path) -> None:
    task = Recall(RecallConfig())
    ready = prepared(task, file)
    built = build(ready.sizes.fill(task.adapt(model()))).eval()
    one, whole = task.predict(built, ready.state, ready.tokenizers, [{"text": "k1 v2 k1", "answers": "_ _ v2"}, "k1 v2 k1"])
    assert len(one.output.split()) == 1
    assert len(whole.output.split()) == 3
    assert whole.output.split()[-1] == one.output


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("k1 v1 k1,_ v1", "3 words and 2 answers"),
        ("k1 v1 k1,_ _ _", "nothing is asked"),
        ("k-1 v1 k1,_ _ v1", "keeps words whole"),
    ],
)
def test_bad_rows_are_refused_with_their_place(line: str, message: str, file: Path) -> None:
    file.write_text(file.read_text() + line + "\n")
    with pytest.raises(DataError, match=message) as error:
        prepared(Recall(RecallConfig()), file)
    assert error.value.line == 22


def test_an_answer_that_training_never_saw_counts_as_wrong(tmp_path: Path, file: Path) -> None:
    test = tmp_path / "test.csv"
    test.write_text("text,answers\nk1 v1 k1,_ _ v9\n")
    task = Recall(RecallConfig())
    ready = task.prepare(DataConfig(train=str(file), valid=str(file), test=str(test)), WORDS, model(), quiet)
    assert isinstance(ready.test, LabelledTokens)
    assert ready.test.labels[0][-1] == ready.tokenizers["tokenizer"].pad
    assert np.count_nonzero(ready.test.labels.flat != UNSCORED) == 1


def test_models_that_read_and_write_apart_are_refused() -> None:
    with pytest.raises(ConfigError, match="decoder-tiny"):
        Recall(RecallConfig()).check(resolve({"base": "transformer-tiny"}))
