"""Windows of series: how splits are cut, what is read back, what cannot be learned from."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_series import PATCHES, make, table, write
from torch.testing import assert_close

from attentif.data import DataConfig
from attentif.errors import DataError
from attentif.tasks.series.windows import Windows


def test_splits_follow_one_another_and_windows_read_back_into_the_split_before(tmp_path: Path) -> None:
    _, prepared, _ = make(tmp_path, model=PATCHES, split=[200, 50, 40])
    train, valid, test = prepared.train, prepared.valid, prepared.test
    assert isinstance(train, Windows)
    assert isinstance(valid, Windows)
    assert isinstance(test, Windows)
    assert [len(split) for split in (train, valid, test)] == [200 - 32 - 6 + 1, 50 - 6 + 1, 40 - 6 + 1]
    assert train.starts[0] == 0
    assert train.starts[-1] + 32 + 6 == 200
    assert valid.starts[0] + 32 == 200
    assert test.starts[-1] + 32 + 6 == 290
    assert "the last 10 rows are not used" in " ".join(prepared.notes)
    assert test.place(0).endswith("serie.csv:252 (2024-01-11 10:00)")


def test_numbers_are_standardised_by_the_training_split_alone(tmp_path: Path) -> None:
    _task, prepared, _ = make(tmp_path, model=PATCHES, split=[200, 50, 50])
    train = prepared.train
    assert isinstance(train, Windows)
    raw = np.array([row[1:] for row in table()])
    assert prepared.state.mean.tolist() == [pytest.approx(raw[:200].mean(0).tolist())]
    assert prepared.state.deviation.tolist() == [pytest.approx(raw[:200].std(0).tolist())]
    batch = prepared.test.batch([3])
    expected = (raw[253 - 32 : 253 + 6] - raw[:200].mean(0)) / raw[:200].std(0)
    assert batch.labels is not None
    assert_close(torch.cat([batch.source.data, batch.labels], 1)[0], torch.tensor(expected, dtype=torch.float32), rtol=1e-4, atol=1e-5)


def test_windows_are_cut_out_when_asked_for_and_the_values_held_once(tmp_path: Path) -> None:
    _, prepared, _ = make(tmp_path, model=PATCHES)
    assert isinstance(prepared.train, Windows)
    assert isinstance(prepared.test, Windows)
    assert prepared.train.scaled.values is prepared.test.scaled.values
    assert prepared.train.scaled.values.shape == (300, 2)
    assert prepared.train.lengths.tolist() == [2 * 7] * len(prepared.train)  # two channels of seven patches


def test_a_long_table_makes_windows_that_never_cross_from_one_series_to_the_next(tmp_path: Path) -> None:
    rows = [[date, name, a * size] for name, size in (("est", 1), ("ouest", 50)) for date, a, _ in table()]
    file = write(tmp_path / "long.csv", rows, ("date", "poste", "mw"))
    task, prepared, model = make(tmp_path, model=PATCHES, data={"train": file, "columns": {"series": "poste"}})
    for split in (prepared.train, prepared.valid, prepared.test):
        assert isinstance(split, Windows)
        first, last = split.starts // 300, (split.starts + 37) // 300
        assert (first == last).all()
        assert set(first.tolist()) == {0, 1}
    one, other = prepared.test.batch([0]), prepared.test.batch([len(prepared.test) // 2])
    assert_close(one.source.data, other.source.data, rtol=1e-3, atol=1e-3)  # the same series on two scales
    answers = task.predict(model, prepared.state, {}, [file])
    assert [answer.details["table"][0]["series"] for answer in answers] == ["est", "ouest"]
    with pytest.raises(DataError, match="'nord' was not in training"):
        task.predict(
            model,
            prepared.state,
            {},
            [write(tmp_path / "nord.csv", [[*row[:1], "nord", row[1]] for row in table(40)], ("date", "poste", "mw"))],
        )


def test_series_of_a_long_table_that_cannot_be_learned_are_left_out_where_that_is_allowed(tmp_path: Path) -> None:
    rows = [[date, "est", a] for date, a, _ in table()]
    rows += [[date, "neuf", a] for date, a, _ in table(20)] + [[date, "nul", 0] for date, _, _ in table()]
    file = write(tmp_path / "long.csv", rows, ("date", "poste", "mw"))
    data = {"train": file, "columns": {"series": "poste"}}
    with pytest.raises(DataError, match=r"'neuf':.*16.*20.*; --skip-bad 2.*2.*3"):
        make(tmp_path, model=PATCHES, data=data | {"skip_bad": 1})
    task, prepared, model = make(tmp_path, model=PATCHES, data=data | {"skip_bad": 2})
    assert (prepared.state.names, prepared.state.left_out) == (("est",), ("neuf", "nul"))
    assert any(note.startswith("2 of 3 series left out, the first for this: ") for note in prepared.notes)
    said: list[str] = []
    read = task.read(prepared.state, DataConfig(train=file), {}, prepared.sizes.fill(model.config), said.append)
    assert len(read) == 300 - 32 - 6 + 1
    assert "2 of 3 series left out, as in training" in said
    assert [answer.details["table"][0]["series"] for answer in task.predict(model, prepared.state, {}, [file])] == ["est"]
    with pytest.raises(DataError, match="'nul'"):
        task.predict(model, prepared.state, {}, [write(tmp_path / "nul.csv", rows[320:], ("date", "poste", "mw"))])


def test_days_are_not_forecast_by_what_was_learned_from_hours(tmp_path: Path) -> None:
    task, prepared, model = make(tmp_path, model=PATCHES)
    days = [[str(np.datetime64("2024-01-01") + place), *row[1:]] for place, row in enumerate(table(40))]
    file = write(tmp_path / "jours.csv", days)
    with pytest.raises(DataError, match=r"apart,.*training"):
        task.predict(model, prepared.state, {}, [file])
    with pytest.raises(DataError, match=r"apart,.*training"):
        task.read(prepared.state, DataConfig(train=file), {}, model.config, lambda line: None)


def test_files_of_their_own_are_the_splits(tmp_path: Path) -> None:
    rows = table()
    files = {name: write(tmp_path / f"{name}.csv", rows[part]) for name, part in
             (("train", slice(0, 200)), ("valid", slice(200, 240)), ("test", slice(240, 300)))}  # fmt: skip
    _, prepared, _ = make(tmp_path, model=PATCHES, data=files)
    assert [len(split) for split in (prepared.train, prepared.valid, prepared.test)] == [163, 35, 55]
    _, prepared, _ = make(tmp_path, model=PATCHES, data={"train": write(tmp_path / "a.csv", rows[:240]), "test": files["test"]})
    assert [len(split) for split in (prepared.train, prepared.valid, prepared.test)] == [240 - 24 - 37, 24 - 5, 55]
    with pytest.raises(DataError, match="its splits already"):
        make(tmp_path, model=PATCHES, data=files, split=[100, 50, 50])
    with pytest.raises(DataError, match=r"one.*score"):
        make(tmp_path, model=PATCHES, data={"train": files["train"], "valid": files["valid"]})


def test_the_season_is_the_one_that_repeats_best_in_training(tmp_path: Path) -> None:
    """Weeks in which one day is unlike the others, read by windows that hold a week."""
    rows = [[date, a + 30 * (place // 24 % 7 == 0), b] for place, (date, a, b) in enumerate(table(900))]
    file = write(tmp_path / "semaines.csv", rows)
    for look_back, period in ((168, 168), (100, 24)):
        _task, prepared, _ = make(tmp_path, model=PATCHES, data={"train": file}, look_back=look_back)
        assert prepared.state.period == period
    assert any(note.startswith("season: 24 steps, as the step suggests") for note in prepared.notes)


def test_a_season_that_training_does_not_hold_is_no_measure_and_that_is_said(tmp_path: Path) -> None:
    said = "training is no longer than a season: MASE is the error over that of the value before"
    for period, short in ((239, False), (240, True)):
        _task, prepared, _ = make(tmp_path, model=PATCHES, period=period)
        assert (said in prepared.notes) == short
    raw = np.array([row[1:] for row in table()])[:240]
    assert prepared.state.naive[0] == pytest.approx((np.abs(np.diff(raw, axis=0)).mean(0) / raw.std(0)).tolist(), rel=1e-4)


def test_limit_takes_windows_from_the_whole_of_training(tmp_path: Path) -> None:
    _, prepared, _ = make(tmp_path, model=PATCHES, data={"train": write(tmp_path / "s.csv", table()), "limit": 5})
    assert isinstance(prepared.train, Windows)
    assert len(prepared.train) == 5
    assert prepared.train.starts[-1] > 150


@pytest.mark.parametrize(
    ("rows", "task", "said"),
    [
        (table(2), {}, "too few rows: train has 2 of 2 and a window takes 32 \\+ 6; shorten"),
        (table(40), {}, "too few rows: train has 32 of 40 and a window takes 32 \\+ 6; shorten"),
        (table(100), {"split": [50, 40, 30]}, "task.split asks for 120 rows and there are 100"),
        (table(100), {"split": [80, 4, 10]}, "valid has 4 of 100 and a window takes a horizon of 6"),
        ([[date, a, 7] for date, a, _ in table(100)], {}, "s.csv:2: b: is constant \\(7 in all 80 training rows\\)"),
    ],
)  # fmt: skip
def test_data_that_nothing_can_be_learned_from_are_refused(tmp_path: Path, rows: Any, task: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        make(tmp_path, model=PATCHES, data={"train": write(tmp_path / "s.csv", rows)}, **task)
