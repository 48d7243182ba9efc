"""Tables in memory train, are scored and are answered as the same rows of a file."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from small_reviews import ROWS, SMALL

import attentif
from attentif.data.in_memory import is_in_memory, save_frame
from attentif.errors import AttentifError, DataError
from attentif.training.run_list import list_runs


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATTENTIF_CACHE", str(tmp_path / "cache"))


def dataset(rows):
    from datasets import Dataset

    return Dataset.from_list(rows)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, list, dataset])
def test_a_table_in_memory_is_read_as_a_file(kind):
    run = attentif.train(SMALL, kind(ROWS))
    texts = [row["avis"] for row in ROWS[:4]]
    expected = run.predict(texts)
    table = kind(ROWS[:4])
    found = run.predict([{"text": text} for text in texts] if kind is list else table)
    assert [one.output for one in found] == [one.output for one in expected]
    assert run.evaluate(kind(ROWS)).examples == len(ROWS)


def test_columns_alone_are_texts_and_a_pair_of_arrays_is_texts_and_labels():
    frame = pd.DataFrame(ROWS)
    run = attentif.train(SMALL, (frame.avis.to_numpy(), frame.sentiment.to_numpy()))
    expected = [one.output for one in run.predict(list(frame.avis[:5]))]
    for given in (frame.avis[:5], frame.avis[:5].to_numpy(), pl.Series(frame.avis[:5].tolist())):
        assert [one.output for one in run.predict(given)] == expected
    again = attentif.load(run.path)  # the file that stands for the table is still there
    assert again.evaluate(split="valid").examples > 0


def test_splits_are_given_as_tables_of_their_own():
    frame = pd.DataFrame(ROWS).rename(columns={"avis": "quoi"})
    run = attentif.train(SMALL, {"train": frame[:50], "valid": frame[50:60], "test": frame[60:], "text": "quoi"})
    assert run.results["examples"] == 12


@pytest.mark.parametrize(
    ("column", "value", "words"), [("sentiment", None, "missing"), ("avis", "", "empty"), ("sentiment", float("nan"), "missing")]
)
def test_a_missing_value_is_refused_with_its_row(column, value, words):
    frame = pd.DataFrame(ROWS)
    frame.loc[6, column] = value
    with pytest.raises(DataError, match="row 7") as error:
        attentif.train(SMALL, frame)
    assert words in error.value.message


def test_what_holds_no_rows_is_refused():
    with pytest.raises(DataError) as error:
        attentif.train(SMALL, pd.DataFrame({"avis": [], "sentiment": []}))
    assert error.value.code == "no-rows"


def test_a_dictionary_of_data_sets_is_the_splits_of_one():
    from datasets import DatasetDict

    given = DatasetDict({"train": dataset(ROWS[:50]), "validation": dataset(ROWS[50:60]), "test": dataset(ROWS[60:])})
    assert attentif.train(SMALL, given).results["examples"] == 12


def test_an_index_of_dates_is_a_column_of_dates():
    frame = pd.DataFrame({"valeur": [1.0, 2.0]}, index=pd.date_range("2024-01-01", periods=2))
    back = pd.read_parquet(save_frame(frame))
    assert list(back.columns) == ["date", "valeur"]
    assert "date" not in frame.columns  # the caller's table is left alone


def test_the_same_table_is_written_once_and_files_are_left_alone(tmp_path):
    assert save_frame(pd.DataFrame(ROWS)) == save_frame(pd.DataFrame(ROWS))
    assert not is_in_memory("avis.csv")
    assert not is_in_memory(["a.csv", tmp_path / "b.csv"])
    assert is_in_memory([{"text": "a"}])


def test_arrays_of_pictures_are_pictures():
    with np.load(save_frame((np.zeros((3, 8, 8), np.uint8), [0, 1, 0])), allow_pickle=False) as found:
        assert found["x"].shape == (3, 8, 8)
        assert found["y"].tolist() == [0, 1, 0]


def test_columns_by_name_and_a_lazy_frame_are_tables_too():
    frame = pl.DataFrame(ROWS)
    expected = save_frame(frame)
    assert save_frame(frame.lazy()) == expected
    assert pl.read_parquet(save_frame(frame.to_dict(as_series=False))).equals(frame)
    assert is_in_memory({"avis": frame["avis"], "sentiment": np.array(frame["sentiment"])})
    assert not is_in_memory({"train": frame, "text": "avis"})
    assert not is_in_memory({"train": ["a.csv", "b.csv"]})


def test_a_table_in_memory_is_not_called_by_the_file_that_stands_for_it(tmp_path, capsys):
    run = attentif.train(SMALL, pd.DataFrame(ROWS), out=tmp_path / "run")
    said = capsys.readouterr().err
    assert f"({len(ROWS)} rows): text from column 'avis'" in said
    frames = str(tmp_path / "cache" / "frames")
    assert frames not in said
    page = (run.path / "report.html").read_text()
    assert page.count(frames) == 1  # in the configuration, which trains it again
    assert [one.data for one in list_runs(tmp_path)] == ["the table in memory"]


@pytest.mark.parametrize("given", [[None], [float("nan")], [{"text": None}], 3, None])
def test_what_is_no_text_is_refused(given):
    run = attentif.train(SMALL, pd.DataFrame(ROWS))
    with pytest.raises(AttentifError) as error:
        run.predict(given)
    assert error.value.code in ("no-text", "frame")
