"""Series: dates and numbers of a file, every fault named with its line."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from attentif.data import DataConfig
from attentif.data.series import load_series
from attentif.data.series_rows import Wanted
from attentif.data.steps import TimeStep, calendar, format_date, have_time, parse_date, step_of
from attentif.errors import ConfigError, DataError

Write = Callable[..., str]
HOURS = [f"2024-03-01 {hour:02d}:00" for hour in range(12)]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def table(rows: Sequence[Sequence[Any]], header: Sequence[str] = ("date", "a", "b"), name: str = "serie.csv") -> str:
        path = tmp_path / name
        path.write_text("\n".join(",".join(map(str, row)) for row in [header, *rows]) + "\n")
        return str(path)

    return table


def rows_of(dates: Sequence[str]) -> list[list[Any]]:
    return [[date, place, 10 * place] for place, date in enumerate(dates)]


def load(file: str, **wanted: Any) -> Any:
    return load_series(DataConfig(train=file), Wanted(**wanted))


def refused(file: str, **wanted: Any) -> str:
    with pytest.raises(DataError) as error:
        load(file, **wanted)
    return str(error.value)


def test_all_columns_of_numbers_are_read_and_the_others_said(write: Write) -> None:
    series, notes = load(write([[date, n, f"ville {n}", 2 * n] for n, date in enumerate(HOURS)], ("Horodatage", "a", "lieu", "b")))
    assert series.columns == ["a", "b"]
    assert series.date == "Horodatage"
    assert series.values.tolist() == [[n, 2 * n] for n in range(12)]
    assert series.step == TimeStep(seconds=3600)
    assert any("left out" in note and "'lieu'" in note for note in notes)
    assert any("an hour apart" in note for note in notes)


def test_columns_can_be_named(write: Write) -> None:
    series, _ = load(write(rows_of(HOURS)), columns=["b"])
    assert series.columns == ["b"]
    assert "no column is called 'c'" in refused(write(rows_of(HOURS)), columns=["c"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: [*rows[:4], rows[5], rows[4], *rows[6:]], "serie.csv:7: dates go back: 2024-03-01 04:00 after 2024-03-01 05:00"),
        (lambda rows: [*rows[:4], rows[3], *rows[4:]], "serie.csv:6: the date 2024-03-01 03:00 stands twice (also at "),
        (lambda rows: [*rows[:4], *rows[7:]], "serie.csv:6: 3 rows are missing between 2024-03-01 03:00 and 2024-03-01 07:00; fill"),
        (lambda rows: [*rows[:4], ["2024-03-01 03:20", 1, 2], *rows[4:]], "serie.csv:6: rows are an hour apart, but 2024-03-01 03:20 f"),
        (lambda rows: [*rows[:4], [HOURS[4], "", 2], *rows[5:]], "serie.csv:6: a: is missing; fill in what is missing: task.fill=linear"),
        (lambda rows: [*rows[:4], [HOURS[4], 1, "nan"], *rows[5:]], "serie.csv:6: b: is missing"),
        (lambda rows: [*rows[:4], [HOURS[4], "douze", 2], *rows[5:]], "serie.csv:6: a: 'douze' is not a number"),
        (lambda rows: [*rows[:4], [HOURS[4], "inf", 2], *rows[5:]], "serie.csv:6: a: is infinite"),
        (lambda rows: [*rows[:4], [HOURS[4], "1e300", 2], *rows[5:]], "serie.csv:6: a: 1e300 is too large"),
        (lambda rows: [*rows[:4], ["04/03/2024", 1, 2], *rows[5:]], "serie.csv:6: '04/03/2024' is not a date such as 2024-02-01"),
        (lambda rows: rows[:1], "serie.csv:2: has one row: a series needs more"),
        (lambda rows: [], "has no rows, only a header"),
        (lambda rows: [[row[0], "x", "y"] for row in rows], "has no column of numbers beside 'date'"),
    ],
)  # fmt: skip
def test_every_fault_is_one_line_with_its_place(write: Write, change: Any, said: str) -> None:
    message = refused(write(change(rows_of(HOURS))))
    assert said in message
    assert "\n" not in message


def test_a_decimal_comma_is_recognised(write: Write) -> None:
    path = Path(write([]))
    path.write_text('date;a\n2024-01-01;"1,5"\n2024-01-02;2\n')
    assert f"{path}:2: a: '1,5' is not a number; decimals are written with a point, or else task.decimal=comma" in refused(str(path))


def test_decimal_commas_are_read_where_that_is_asked(write: Write) -> None:
    path = Path(write([]))
    path.write_text("date;a;b;lieu\n01/02/2024;1,5;-2;Sète\n02/02/2024;2;3,25;Nice\n03/02/2024; 2,75;;Lyon\n")
    wanted: dict[str, Any] = {"date_format": "%d/%m/%Y", "decimal": "comma", "fill": "previous"}
    series, notes = load(str(path), **wanted)
    assert series.columns == ["a", "b"]
    assert series.values.tolist() == [[1.5, -2], [2, 3.25], [2.75, 3.25]]
    assert any("'lieu'" in note for note in notes)
    path.write_text(path.read_text().replace("3,25", "1.234,5"))
    assert f"{path}:3: b: '1.234,5' has a point, and task.decimal=comma asks for commas" in refused(str(path), **wanted)


@pytest.mark.parametrize("space", [" ", "\u00a0", "\u202f"])
def test_spaces_between_thousands_go_with_a_decimal_comma(write: Write, space: str) -> None:
    path = Path(write([]))
    path.write_text("date;a\n2024-01-01;1 234,5\n2024-01-02;-12 345 678\n2024-01-03;999,25\n".replace(" ", space))
    series, _ = load(str(path), decimal="comma")
    assert series.values[:, 0].tolist() == [1234.5, -12345678, 999.25]
    assert "is not a number; decimals are written with a point, or else task.decimal=comma" in refused(str(path))
    path.write_text(path.read_text().replace("999,25", "12 34"))
    assert f"{path}:4: a: '12 34' is not a number" in refused(str(path), decimal="comma")


def test_a_table_without_numbers_is_told_with_what_it_holds_instead(write: Write) -> None:
    rows = [[date, "12 €", "Nice"] for date in HOURS]
    assert "has no column of numbers beside 'date': 'a' holds '12 €', 'b' holds 'Nice'" in refused(write(rows))


@pytest.mark.parametrize("fill", ["none", "linear", "zero"])
def test_rows_that_wait_for_their_numbers_at_the_end_are_the_future(write: Write, fill: str) -> None:
    rows = rows_of(HOURS)
    rows[-3:] = [[date, "", "nan"] for date in HOURS[-3:]]
    series, notes = load(write(rows), fill=fill)
    assert series.values.tolist() == [[n, 10 * n] for n in range(9)]
    assert "rows without any number at the end, left out as they are still to come: 3" in notes
    rows[-1][2] = 7
    assert "serie.csv:11: a: is missing (the first of 5 such cells)" in refused(write(rows))


@pytest.mark.parametrize(("fill", "expected"), [("linear", [3, 4, 5, 6, 7]), ("previous", [3, 3, 3, 3, 7]), ("zero", [3, 0, 0, 0, 7])])
def test_what_is_missing_is_filled_in_where_that_is_asked(write: Write, fill: str, expected: list[float]) -> None:
    rows = rows_of(HOURS)
    rows[5][1] = ""
    series, notes = load(write([*rows[:4], rows[5], *rows[7:]]), fill=fill)
    assert series.values[3:8, 0].tolist() == expected
    assert len(series) == 12
    assert np.diff(series.dates).astype(int).tolist() == [3600] * 11
    assert f"filled in ({fill}): 2 missing rows and 1 missing cells" in notes
    assert series.place(5).endswith("serie.csv:6")


def test_a_column_without_any_number_cannot_be_filled(write: Write) -> None:
    assert "b: has no number at all" in refused(write([[date, 1, ""] for date in HOURS]), columns=["a", "b"], fill="linear")


def test_a_wrong_date_does_not_fill_in_a_thousand_years(write: Write) -> None:
    rows = rows_of([*HOURS, "2999-03-01 12:00"])
    message = refused(write(rows), fill="linear")
    assert "serie.csv:14: 8,546,664 rows are missing before 2999-03-01 12:00, after 2024-03-01 11:00: is the date right?" in message


def test_uneven_rows_are_taken_as_they_stand_where_that_is_asked(write: Write) -> None:
    series, _ = load(write(rows_of([f"2024-03-{day:02d}" for day in (1, 4, 5, 6, 7, 8, 11, 12)])), uneven=True)
    assert len(series) == 8
    assert series.step == TimeStep(seconds=86400)


def test_a_long_table_is_several_series(write: Write) -> None:
    rows = [[date, name, place] for place, date in enumerate(HOURS) for name in ("est", "ouest")]
    file = write(rows, ("date", "poste", "mw"))
    assert 'where rows belong to several series, name their column: data.columns.series="poste"' in refused(file)
    series, notes = load(file, series="poste")
    assert series.names == ["est", "ouest"]
    assert series.borders.tolist() == [0, 12, 24]
    assert series.values[:12].tolist() == series.values[12:].tolist()
    assert notes[-1].startswith("2 series, 24 rows")
    message = refused(write([*rows[:-1], [HOURS[0], "ouest", 1]], ("date", "poste", "mw")), series="poste")
    assert "dates go back of series 'ouest'" in message
    assert message.endswith("; sort the rows by date")


@pytest.mark.parametrize(
    ("header", "named"), [(("date", "poste", "mw"), "poste"), (("date", "poste", "ville", "mw"), "NAME"), (("date", "mw"), "NAME")]
)
def test_dates_that_start_again_may_be_those_of_another_series(write: Write, header: Sequence[str], named: str) -> None:
    rows = [[date, *[name] * (len(header) - 2), place] for name in ("est", "ouest") for place, date in enumerate(HOURS)]
    message = refused(write(rows, header))
    assert "serie.csv:14: dates go back: 2024-03-01 00:00 after 2024-03-01 11:00; sort the rows by date" in message
    assert message.endswith(f'name their column: data.columns.series="{named}"')
    if named in header:
        assert load(write(rows, header), series=named)[0].names == ["est", "ouest"]


def test_a_file_with_the_newest_rows_first_is_turned_round_and_said(write: Write) -> None:
    series, notes = load(write(rows_of(HOURS)[::-1]))
    assert series.values.tolist() == [[n, 10 * n] for n in range(12)]
    assert series.step == TimeStep(seconds=3600)
    assert series.place(0).endswith(":13")
    assert any("serie.csv goes back in time: its rows are read from the last to the first" in note for note in notes)
    long = [[date, name, place] for place, date in enumerate(HOURS) for name in ("est", "ouest")]
    series, _ = load(write(long[::-1], ("date", "poste", "mw")), series="poste")
    assert series.values[:12].tolist() == series.values[12:].tolist() == [[n] for n in range(12)]
    files = [write(rows_of(HOURS)[part][::-1], name=f"{part.start}.csv") for part in (slice(0, 6), slice(6, 9), slice(9, 12))]
    series, _ = load_series(DataConfig(train=files[0], valid=files[1], test=files[2]), Wanted())
    assert series.values[:, 0].tolist() == [*range(12)]
    zoned, _ = load(write(rows_of([f"{date}+0{n % 2}:00" for n, date in enumerate(HOURS)])[10::-2]))
    assert zoned.utc
    assert zoned.values[:, 0].tolist() == [0, 2, 4, 6, 8, 10]


def test_groups_are_refused_as_series_are_cut_by_time(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^data.group:.*data.columns.series$"):
        load_series(DataConfig(train=str(tmp_path / "a.csv"), group="town"), Wanted())


def test_files_of_valid_and_test_go_on_where_train_ends(write: Write) -> None:
    files = [write(rows_of(HOURS)[part], name=f"{part.start}.csv") for part in (slice(0, 6), slice(6, 9), slice(9, 12))]
    series, _ = load_series(DataConfig(train=files[0], valid=files[1], test=files[2]), Wanted())
    assert series.parts.tolist() == [0] * 6 + [1] * 3 + [2] * 3
    assert series.place(7).endswith("6.csv:3")
    with pytest.raises(DataError, match="dates go back"):
        load_series(DataConfig(train=files[0], valid=files[2], test=files[1]), Wanted())


def test_parquet_has_dates_and_missing_numbers_of_its_own(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    days = [datetime(2024, 1, day) for day in range(1, 6)]
    path = tmp_path / "serie.parquet"
    parquet.write_table(pa.table({"date": days, "a": [1.0, None, 3.0, 4.0, 5.0]}), path)
    assert "serie.parquet:2: a: is missing" in refused(str(path))
    series, _ = load(str(path), fill="linear")
    assert series.values[:, 0].tolist() == [1, 2, 3, 4, 5]


def test_other_ways_to_write_a_date_are_said(write: Write) -> None:
    series, _ = load(write(rows_of([f"{day:02d}/02/2024" for day in range(1, 9)])), date_format="%d/%m/%Y")
    assert series.when(series.dates[-1]) == "2024-02-08"


def test_the_same_rows_have_the_same_digest(write: Write) -> None:
    rows = rows_of(HOURS)
    one, other = (load(write(rows, name=name))[0].digest for name in ("a.csv", "b.csv"))
    rows[3][1] = 99
    assert one == other != load(write(rows))[0].digest


@pytest.mark.parametrize(
    ("dates", "step", "period", "name", "next_ones"),
    [
        (["2024-01-01 00:15", "2024-01-01 00:30"], TimeStep(900), 96, "15 minutes", ["2024-01-01 00:45", "2024-01-01 01:00"]),
        (["2024-02-27", "2024-02-28"], TimeStep(86400), 7, "a day", ["2024-02-29", "2024-03-01"]),
        (["2024-01-01", "2024-01-08"], TimeStep(7 * 86400), 52, "a week", ["2024-01-15", "2024-01-22"]),
        (["2023-11", "2023-12", "2024-01"], TimeStep(0, 1), 12, "a month", ["2024-02-01", "2024-03-01"]),
        (["2023-11-30", "2023-12-31", "2024-01-31"], TimeStep(0, 1), 12, "a month", ["2024-02-29", "2024-03-31"]),
        (["2023-07-01", "2023-10-01"], TimeStep(0, 3), 4, "3 months", ["2024-01-01", "2024-04-01"]),
        (["1949", "1950", "1951"], TimeStep(0, 12), 1, "a year", ["1952-01-01", "1953-01-01"]),
    ],
)  # fmt: skip
def test_the_step_its_season_and_the_dates_that_follow(
    dates: list[str], step: TimeStep, period: int, name: str, next_ones: list[str]
) -> None:
    moments = np.array([parse_date(date, None)[0] for date in dates]).astype("datetime64[s]")
    found = step_of(moments)
    assert (found, found.period, found.name) == (step, period, name)
    timed = have_time(moments)
    assert [format_date(date, timed=timed) for date in found.after(moments[-1], 2)] == next_ones
    assert found.between(moments).tolist() == [1] * (len(dates) - 1)


def test_the_calendar_of_a_date() -> None:
    moments = ["2024-02-29 23:10", "1969-12-31 00:00", "2023-01-01 05:00"]
    for moment, found in zip(moments, calendar(np.array(moments, dtype="datetime64[s]")).tolist(), strict=True):
        own = datetime.fromisoformat(moment)
        assert found == [own.hour, own.weekday(), own.day - 1, own.month - 1]


# ------------------------------------------------------------------------------------------------ time zones, summer time

PARIS = ZoneInfo("Europe/Paris")


def local(first: datetime, count: int, minutes: int = 60) -> list[datetime]:
    """Instants an even time apart, as clocks in Paris show them."""
    return [(first.replace(tzinfo=UTC) + timedelta(minutes=place * minutes)).astimezone(PARIS) for place in range(count)]


def without_zone(dates: Sequence[datetime]) -> list[str]:
    return [date.replace(tzinfo=None).isoformat(" ") for date in dates]


def test_a_time_zone_is_brought_to_utc() -> None:
    assert parse_date("2024-01-01T02:00:00+02:00", None) == (parse_date("2024-01-01", None)[0], 7200)
    assert parse_date("2024-01-01", None)[1] is None


@pytest.mark.parametrize("first", [datetime(2024, 3, 30, 20), datetime(2024, 10, 26, 20)])
def test_hours_with_time_zones_go_on_in_utc_when_clocks_change(write: Write, first: datetime) -> None:
    series, notes = load(write(rows_of([date.isoformat() for date in local(first, 12)])))
    assert np.diff(series.dates).astype(int).tolist() == [3600] * 11
    assert series.dates[0] == np.datetime64(first)
    assert notes[-1] == f"12 rows from {first:%Y-%m-%d %H:%M}Z to {first + timedelta(hours=11):%Y-%m-%d %H:%M}Z, an hour apart"
    assert parse_date(series.when(series.dates[0]), None)[0] == series.dates[0].astype(int)


def test_zones_may_differ_from_row_to_row(write: Write) -> None:
    series, _ = load(write(rows_of(["2024-01-01T00:00Z", "2024-01-01T02:00+01:00", "2023-12-31 21:00-05:00"])))
    assert [series.when(date) for date in series.dates] == ["2024-01-01 00:00Z", "2024-01-01 01:00Z", "2024-01-01 02:00Z"]
    twice = refused(write(rows_of(["2024-01-01T00:00+01:00", "2024-01-01T01:00+02:00", "2024-01-01T02:00+02:00"])))
    assert "serie.csv:3: the date 2023-12-31 23:00Z stands twice" in twice


@pytest.mark.parametrize(
    ("dates", "said"),
    [
        (["2024-01-01T00:00+01:00", "2024-01-01T00:00"], "'2024-01-01T00:00' has no time zone, and the first date ({}:2) has one"),
        (["2024-01-01T00:00", "2024-01-01T01:00Z"], "'2024-01-01T01:00Z' has a time zone, and the first date ({}:2) has none"),
    ],
)  # fmt: skip
def test_dates_with_and_without_a_zone_are_not_mixed(write: Write, dates: list[str], said: str) -> None:
    file = write(rows_of([*dates, "2024-01-01T02:00"]))
    assert refused(file) == f"{file}:3: {said.format(file)}; give it to all dates, or to none"


@pytest.mark.parametrize("days", [1, 7])
def test_local_midnights_with_zones_are_days_of_the_wall_clock(write: Write, days: int) -> None:
    midnights = [datetime(2024, 3, 18, tzinfo=PARIS) + timedelta(days=days * place) for place in range(40)]
    series, _ = load(write(rows_of([date.isoformat() for date in midnights])))
    assert series.step == TimeStep(days * 86400)
    assert [series.when(date) for date in series.dates] == [f"{date:%Y-%m-%d}" for date in midnights]


def test_months_with_zones_are_those_of_the_wall_clock(write: Write) -> None:
    series, _ = load(write(rows_of([datetime(2024, month, 1, tzinfo=PARIS).isoformat() for month in range(1, 13)])))
    assert series.step == TimeStep(months=1)
    assert series.when(series.dates[0]) == "2024-01-01"


def test_hours_of_the_wall_clock_may_be_what_is_even(write: Write) -> None:
    days = [datetime(2024, 10, 25 + place // 4, 6 * (place % 4), tzinfo=PARIS) for place in range(24)]
    series, _ = load(write(rows_of([date.isoformat() for date in days])))
    assert series.step == TimeStep(6 * 3600)
    assert series.when(series.dates[-1]) == "2024-10-30 18:00"


@pytest.mark.parametrize("minutes", [15, 60])
def test_the_hour_that_local_clocks_repeat_is_told_for_what_it_is(write: Write, minutes: int) -> None:
    dates = without_zone(local(datetime(2024, 10, 26, 20), 720 // minutes, minutes))
    for told in (refused(write(rows_of(dates))), refused(write(rows_of(sorted(dates))))):
        assert "as when clocks go back at the end of summer time; write dates in UTC, or with their time zone" in told
    twice_elsewhere = refused(write(rows_of([dates[0], *dates])))
    assert "summer time" not in twice_elsewhere
    assert "stands twice" in twice_elsewhere


@pytest.mark.parametrize("minutes", [15, 60])
def test_the_hour_that_local_clocks_skip_is_told_for_what_it_is(write: Write, minutes: int) -> None:
    dates = without_zone(local(datetime(2024, 3, 30, 20), 720 // minutes, minutes))
    said = "; summer time begins so: write dates in UTC, or with their time zone, or fill them in: task.fill=linear"
    assert said in refused(write(rows_of(dates)))
    _, notes = load(write(rows_of(dates)), fill="linear")
    assert f"filled in (linear): {60 // minutes} missing rows and 0 missing cells" in notes
    assert "summer time" not in refused(write(rows_of([*dates[:2], *dates[2 + 60 // minutes :]])))
