"""Forecasts and signals as a user types them, at reduced size."""

import csv
import json
import os
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest
from terminal import Done, typed

from attentif.data.builtin import heartbeats, seasons

pytestmark = pytest.mark.system

SMALL = [
    "train.epochs=0",
    "train.min_steps=0",
    "train.steps=30",
    "train.eval_every=30",
    "train.threads=1",
    "model.layers=1",
    "model.width=32",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The recipes' own data, short, as files; the folder stays the current one."""
    path = tmp_path_factory.mktemp("user")
    columns = seasons.load(0)["test"]
    with (path / "serie.csv").open("w", newline="") as file:
        csv.writer(file).writerows([columns.keys(), *list(zip(*columns.values(), strict=True))[:1500]])
    signals = heartbeats.load(0)["valid"]
    with (path / "battements.jsonl").open("w") as file:
        for text, label in zip(signals["signal"][:120], signals["label"][:120], strict=True):
            file.write(json.dumps({"signal": [float(value) for value in text.split()], "label": label}) + "\n")
    before = Path.cwd()
    os.chdir(path)
    yield path
    os.chdir(before)


@pytest.fixture(scope="module")
def forecast(folder: Path) -> Done:
    return typed("train", "forecast", "--data", "serie.csv", "--out", "prevision", "task.look_back=96", *SMALL)


@pytest.fixture(scope="module")
def heart(folder: Path) -> Done:
    return typed("train", "heartbeats", "--data", "battements.jsonl", "--out", "coeur", *SMALL)


def test_the_forecast_recipe_trains_on_a_file_of_one_s_own(forecast: Done, folder: Path) -> None:
    assert forecast.code == 0, forecast.err
    assert "dates from column 'date', numbers from 'visits', 'temperature', 'power'" in forecast.err
    assert "cut by time" in forecast.err
    assert "linear (ridge, chosen on validation)" in forecast.out
    results = json.loads((folder / "prevision" / "results.json").read_text())
    assert results["metric"] == "mse"
    assert {"mse", "mae", "mase", "pinball", "coverage"} <= set(results["scores"])
    page = (folder / "prevision" / "report.html").read_text()
    assert "Une mauvaise prévision" in page


def test_a_forecast_is_a_table_json_or_a_csv_file(forecast: Done, folder: Path) -> None:
    shown = typed("predict", "prevision", "--file", "serie.csv")
    assert shown.code == 0, shown.err
    assert "2023-08-01 12:00" in shown.out  # the file ends at 11:00
    assert all(name in shown.out for name in ("visits", "temperature", "power"))
    assert "…" not in shown.out  # nothing is cut
    assert max(map(len, shown.out.splitlines())) <= 80
    assert "--out FILE.csv" in shown.err
    (answer,) = json.loads(typed("predict", "prevision", "--file", "serie.csv", "--json").out)
    assert len(answer["details"]["table"]) == 24
    assert typed("predict", "prevision", "--file", "serie.csv", "--out", "demain.csv").code == 0
    with (folder / "demain.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["date"] == "2023-08-01 12:00"
    assert rows[12]["date"] == "2023-08-02 00:00"
    assert "visits q0.9" in rows[0]
    assert float(rows[0]["visits"]) == pytest.approx(answer["details"]["table"][0]["visits"])


def test_forecasts_of_dates_with_time_zones_are_dated_in_utc(forecast: Done, folder: Path) -> None:
    header, *rows = (folder / "serie.csv").read_text().splitlines()
    zoned = [row.replace(",", "+02:00,", 1) for row in rows]
    (folder / "zones.csv").write_text("\n".join([header, *zoned]) + "\n")
    (answer,) = json.loads(typed("predict", "prevision", "--file", "zones.csv", "--json").out)
    assert answer["details"]["table"][0]["date"] == "2023-08-01 10:00Z"  # the file ends at 11:00, two hours ahead of UTC


def test_dates_in_several_columns_are_one_date_for_every_command(folder: Path) -> None:
    days = [date(2023, 1, 1) + timedelta(days=place) for place in range(120)]
    lines = [f"{day.day},{day.month},{day.year},{place % 7}" for place, day in enumerate(days)]
    (folder / "dmy.csv").write_text("\n".join(["jour,mois,annee,valeur", *lines]) + "\n")
    words = ("task.look_back=14", "task.horizon=7", "model.frontend.patch=7", "model.frontend.stride=7", "train.steps=3")
    trained = typed("train", "forecast", "--data", "dmy.csv", "--out", "jours", *SMALL, *words)
    assert trained.code == 0, trained.err
    assert "date from columns 'jour', 'mois', 'annee', numbers from 'valeur'" in trained.err
    scored = typed("evaluate", "jours", "--data", "dmy.csv", "--json")
    assert json.loads(scored.out)["examples"] == 120 - 14 - 7 + 1
    (answer,) = json.loads(typed("predict", "jours", "--file", "dmy.csv", "--json").out)
    assert answer["details"]["table"][0]["date"] == "2023-05-01"
    (folder / "fevrier.csv").write_text("\n".join(["jour,mois,annee,valeur", *lines[:58], "31,2,2023,1", *lines[59:]]) + "\n")
    expected = "error: fevrier.csv:60: annee 2023, mois 2, jour 31 is not a date; correct it"
    for command in (("evaluate", "jours", "--data", "fevrier.csv"), ("predict", "jours", "--file", "fevrier.csv")):
        assert typed(*command).err.strip().splitlines()[-1] == expected


def test_a_forecast_is_scored_again_and_on_other_rows(forecast: Done, folder: Path) -> None:
    first = json.loads((folder / "prevision" / "results.json").read_text())["scores"]
    again = json.loads(typed("evaluate", "prevision", "--json").out)
    assert again["scores"] == pytest.approx(first)
    other = typed("evaluate", "prevision", "--data", "serie.csv", "--json")
    assert json.loads(other.out)["examples"] == 1500 - 96 - 24 + 1


def test_a_bad_file_is_one_line(forecast: Done, folder: Path) -> None:
    lines = (folder / "serie.csv").read_text().splitlines()
    (folder / "trou.csv").write_text("\n".join([*lines[:300], *lines[303:]]) + "\n")
    done = typed("train", "forecast", "--data", "trou.csv", *SMALL)
    assert done.code == 1
    (line,) = [line for line in done.err.splitlines() if line.startswith("error:")]
    assert line.startswith("error: trou.csv:301: 3 rows are missing between 2023-06-12 10:00 and 2023-06-12 14:00; fill them in")
    assert typed("predict", "prevision", "--file", "absent.csv").err.strip() == "error: absent.csv: no such file"


def test_a_trained_run_takes_the_way_out_that_an_error_names(forecast: Done, folder: Path) -> None:
    lines = (folder / "serie.csv").read_text().splitlines()
    (folder / "lacune.csv").write_text("\n".join([*lines[:300], *lines[303:]]) + "\n")
    assert "task.fill=linear" in typed("evaluate", "prevision", "--data", "lacune.csv").err
    filled = typed("evaluate", "prevision", "task.fill=linear", "--data", "lacune.csv", "--json")
    assert json.loads(filled.out)["examples"] == 1500 - 96 - 24 + 1
    assert typed("predict", "prevision", "--file", "lacune.csv").code == 1
    filled = typed("predict", "prevision", "--file", "lacune.csv", "--set", "task.fill=linear")
    assert filled.code == 0
    assert "filled in (linear): " in filled.err
    for word in ("model.layers=2", "task.kind=classify"):
        refused = typed("evaluate", "prevision", word)
        assert refused.code == 2
        assert "task.kind" in refused.err


def test_a_recurrent_model_is_rolled_out(folder: Path) -> None:
    words = [
        "task.mode=rollout",
        "task.look_back=48",
        "task.horizon=6",
        "task.period=24",
        "model.base=gru-tiny",
        "model.frontend.normalise=window",
    ]
    done = typed(
        "train",
        "forecast",
        "--data",
        "serie.csv",
        "--out",
        "deroule",
        "data.limit=200",
        "data.valid_fraction=0.05",
        "data.test_fraction=0.05",
        *SMALL,
        *words,
        "train.steps=5",
    )
    assert done.code == 0, done.err
    details = json.loads((folder / "deroule" / "results.json").read_text())["details"]
    assert details["mode"] == "rollout"
    assert "told the truth at each step" in (folder / "deroule" / "report.html").read_text()


def test_the_heartbeats_recipe_trains_on_a_file_of_one_s_own(heart: Done, folder: Path) -> None:
    assert heart.code == 0, heart.err
    assert "random convolutions (ROCKET) + ridge" in heart.out
    answers = json.loads(typed("predict", "coeur", "--file", "battements.jsonl", "--json").out)
    assert len(answers) == 120
    assert set(answers[0]["scores"]) == set(heartbeats.LABELS)
    first = json.loads((folder / "battements.jsonl").read_text().splitlines()[0])["signal"]
    (typed_in,) = json.loads(typed("predict", "coeur", " ".join(map(str, first)), "--json").out)
    assert typed_in["scores"] == pytest.approx(answers[0]["scores"], rel=1e-3)
