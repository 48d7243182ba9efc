"""Dates that stand in several columns, found together, named, and every impossible one refused with its line."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attentif.data import DataConfig
from attentif.data.series import Series, load_series
from attentif.data.series_rows import Wanted
from attentif.data.steps import TimeStep
from attentif.errors import DataError
from attentif.tasks.series.forecast import ForecastConfig

FRENCH = "jour,mois,annee,valeur"


def table(folder: Path, header: str, *rows: str) -> str:
    path = folder / "dmy.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return str(path)


def load(file: str, by_role: dict[str, str] | None = None, **wanted: Any) -> tuple[Series, list[str]]:
    return load_series(DataConfig(train=file, columns=by_role or {}), Wanted(**wanted))


def refused(file: str, by_role: dict[str, str] | None = None, **wanted: Any) -> str:
    with pytest.raises(DataError) as error:
        load(file, by_role, **wanted)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("header", "rows", "step", "last"),
    [
        (FRENCH, ["30,12,2023,1", "31,12,2023,2", "1,1,2024,3"], TimeStep(seconds=86_400), "2024-01-01T00:00:00"),
        ("Day,Month,Year,value", ["30,12,2023,1", "31,12,2023,2", "1,1,2024,3"], TimeStep(seconds=86_400), "2024-01-01T00:00:00"),
        ("valeur,Année,Mois", ["1,2023,11", "2,2023,12", "3,2024,01"], TimeStep(months=1), "2024-01-01T00:00:00"),
        ("mois,annee,v", ["Novembre,2023,1", "déc.,2023,2", "janv,2024,3"], TimeStep(months=1), "2024-01-01T00:00:00"),
        ("an,v", ["2021,1", "2022,2", "2023,3"], TimeStep(months=12), "2023-01-01T00:00:00"),
        ("année,v", ["2021,1", "2022,2", "2023,3"], TimeStep(months=12), "2023-01-01T00:00:00"),
        ("year,month,day,hour,v", ["2024,2,29,22,1", "2024,2,29,23,2", "2024,3,1,0,3"], TimeStep(seconds=3600), "2024-03-01T00:00:00"),
        (
            "jour,mois,an,heure,minute,v",
            ["1,1,2024,0,0,1", "1,1,2024,0,15,2", "1,1,2024,0,30,3"],
            TimeStep(seconds=900),
            "2024-01-01T00:30:00",
        ),
    ],
)
def test_the_parts_of_a_date_are_found_together(tmp_path: Path, header: str, rows: list[str], step: TimeStep, last: str) -> None:
    series, _ = load(table(tmp_path, header, *rows))
    assert series.step == step
    assert str(series.dates[-1]) == last
    assert series.values.tolist() == [[1], [2], [3]]


def test_where_a_date_comes_from_is_said_also_where_columns_were_named(tmp_path: Path) -> None:
    file = table(tmp_path, FRENCH, "30,12,2023,1", "31,12,2023,2")
    for columns in ([], ["valeur"]):
        _, notes = load(file, columns=columns)
        assert "date from columns 'jour', 'mois', 'annee', numbers from 'valeur'" in notes[0]


def test_the_columns_of_the_parts_can_be_named_some_or_all(tmp_path: Path) -> None:
    file = table(tmp_path, "j,m,a,v", "30,12,2023,1", "31,12,2023,2")
    assert ", or the columns of its parts: data.columns.year=NAME" in refused(file)
    named = {"year": "a", "month": "m", "day": "j"}
    series, _ = load(file, named)
    assert series.columns == ["v"]
    assert series.date == named
    assert "a date with its day needs its month too" in refused(file, {"year": "a", "day": "j"})
    assert "no column is called 'z'" in refused(file, named | {"day": "z"})
    assert "names both a date and parts of a date" in refused(file, named | {"date": "j"})
    partly, _ = load(table(tmp_path, "jour,mois,a,v", "30,12,2023,1", "31,12,2023,2"), {"year": "a"})
    assert partly.date == {"year": "a", "month": "mois", "day": "jour"}


def test_the_order_in_which_parts_are_named_does_not_matter(tmp_path: Path) -> None:
    series, _ = load(table(tmp_path, "j,m,a,v", "2,12,2023,1", "3,12,2023,2"), date={"day": "j", "year": "a", "month": "m"})
    assert str(series.dates[0]) == "2023-12-02T00:00:00"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("31,2,2024,1", "dmy.csv:3: annee 2024, mois 2, jour 31 is not a date; correct it"),
        ("1,13,2024,1", "dmy.csv:3: annee 2024, mois 13, jour 1 is not a date"),
        ("1,,2024,1", "dmy.csv:3: mois: the month is missing"),
        ("1,brumaire,2024,1", "dmy.csv:3: mois: 'brumaire' is no month in digits; where dates stand in one column, name it: "),
        ("-1,1,2024,1", "dmy.csv:3: jour: '-1' is no day in digits"),
        ("1,1,24,1", "dmy.csv:3: annee: 24 is not a year of four digits; write it in full"),
        ("1,1,99999,1", "dmy.csv:3: annee 99999, mois 1, jour 1 is not a date"),
    ],
)
def test_an_impossible_date_is_one_line_with_its_place(tmp_path: Path, row: str, said: str) -> None:
    assert said in refused(table(tmp_path, FRENCH, "30,1,2024,5", row))


@pytest.mark.parametrize("header", ["date,jour,mois,annee,v", "jour,mois,v", "jour,mois,month,year,v", "jour,annee,v"])
def test_columns_that_may_be_read_in_two_ways_are_not_guessed(tmp_path: Path, header: str) -> None:
    message = refused(table(tmp_path, header, ",".join("1" * (header.count(",") + 1))))
    assert "could each be the date; name one: data.columns.date=NAME (and data.columns.time=NAME" in message


def test_a_whole_date_beside_a_year_of_another_meaning_is_read_as_before(tmp_path: Path) -> None:
    series, _ = load(table(tmp_path, "date,an", "2024-01-01,3", "2024-01-02,4"))
    assert series.date == "date"
    assert series.columns == ["an"]


def test_a_format_goes_with_written_dates(tmp_path: Path) -> None:
    file = table(tmp_path, FRENCH, "30,12,2023,1", "31,12,2023,2")
    assert "task.date_format goes with written dates, not date from columns" in refused(file, date_format="%d/%m/%Y")


def test_parts_may_be_the_numbers_of_a_parquet_file(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"year": [2023, 2024], "month": [12.0, 1.0], "v": [1.0, 2.0]}), path)
    series, _ = load(str(path))
    assert [str(date) for date in series.dates] == ["2023-12-01T00:00:00", "2024-01-01T00:00:00"]


def test_parts_that_make_no_date_are_refused_in_the_task_too() -> None:
    for date, said in (({"day": "j"}, "needs its year too"), ({"years": "a"}, "'years' is not a part of a date: parts are year, month")):
        with pytest.raises(ValueError, match=said):
            ForecastConfig(date=date)


@pytest.mark.parametrize(
    ("header", "rows", "step", "last"),
    [
        ("Date,Heures,v", ["2022-01-01,23:30,1", "2022-01-02,00:00,2", "2022-01-02,00:30,3"], 1800, "2022-01-02T00:30:00"),
        ("date,heure,v", ["2022-01-01,8,1", "2022-01-01,9,2", "2022-01-01,10,3"], 3600, "2022-01-01T10:00:00"),
        ("Time,Date,v", ["7:45,2022-01-01,1", "7:50,2022-01-01,2", "7:55,2022-01-01,3"], 300, "2022-01-01T07:55:00"),
        ("day,hr,v", ["2022-01-01 00:00:00,5,1", "2022-01-01 00:00:00,6,2", "2022-01-01 00:00:00,7,3"], 3600, "2022-01-01T07:00:00"),
    ],
)
def test_hours_may_stand_apart_from_their_day(tmp_path: Path, header: str, rows: list[str], step: int, last: str) -> None:
    series, notes = load(table(tmp_path, header, *rows))
    assert series.step == TimeStep(seconds=step)
    assert str(series.dates[-1]) == last
    assert series.values.tolist() == [[1], [2], [3]]
    assert "date from columns " in notes[0]


def test_a_day_and_its_time_are_written_as_one_date(tmp_path: Path) -> None:
    file = table(tmp_path, "Date,Time,v", "10/03/2004,18.00.00,1", "10/03/2004,19.00.00,2")
    assert "dmy.csv:2: '10/03/2004 18.00.00' is not a date such as" in refused(file)
    series, _ = load(file, date_format="%d/%m/%Y %H.%M.%S")
    assert str(series.dates[-1]) == "2004-03-10T19:00:00"


def test_the_column_of_hours_can_be_named(tmp_path: Path) -> None:
    file = table(tmp_path, "quand,h,v", "2024-01-01,5,1", "2024-01-01,6,2")
    for by_role in ({"date": "quand", "time": "h"}, {"time": "h", "date": "quand"}):
        series, _ = load(file, by_role)
        assert series.date == {"date": "quand", "time": "h"}
        assert series.columns == ["v"]
    assert "no column looks like the date" in refused(file, {"time": "h"})
    assert "no column is called 'heures'" in refused(file, {"date": "quand", "time": "heures"})
    assert "names both a date and parts of a date" in refused(file, {"date": "quand", "year": "h"})
    assert ForecastConfig(date={"date": "quand", "time": "h"}).date == {"date": "quand", "time": "h"}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("2024-01-01,,1", "dmy.csv:4: heure: the time is missing"),
        (",7:00,1", "dmy.csv:4: date: the date is missing"),
        ("2024-01-01,25:00,1", "dmy.csv:4: '2024-01-01 25:00' is not a date such as"),
    ],
)
def test_an_impossible_time_is_one_line_with_its_place(tmp_path: Path, row: str, said: str) -> None:
    assert said in refused(table(tmp_path, "date,heure,v", "2024-01-01,5:00,1", "2024-01-01,6:00,1", row), {"time": "heure"})


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("date,hour,v", ["2024-01-01 05:00,5,1", "2024-01-01 06:00,6,2"]),  # the hour again, as a number
        ("date,hour,v", ["2024-01-01,18,1", "2024-01-02,19,2"]),  # an hour of each day
    ],
)
def test_an_hour_that_is_a_measurement_stays_one(tmp_path: Path, header: str, rows: list[str]) -> None:
    series, _ = load(table(tmp_path, header, *rows))
    assert series.columns == ["hour", "v"]


def test_an_empty_table_with_hours_is_said_to_be_empty(tmp_path: Path) -> None:
    assert "has no rows" in refused(table(tmp_path, "date,hour,v"))
