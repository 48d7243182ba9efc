"""Each row is tested once; rows that belong together are in one fold."""

import json

import numpy as np
import pandas as pd
import pytest
from small_reviews import ROWS, SMALL

from attentif.config import Layer
from attentif.data.table import Table
from attentif.errors import DataError
from attentif.lab.folds import assign_folds, cross_validate
from attentif.training.progress import Silent


def table(rows):
    columns = {role: [row[role] for row in rows] for role in rows[0]}
    return Table("train", columns, ["t.csv"], np.zeros((len(rows), 2), np.int64))


def test_classes_are_spread_evenly_and_repeated_rows_stay_together():
    rows = [{"text": f"texte {n // 2}", "label": "ab"[n % 4 < 2]} for n in range(80)]
    found = assign_folds([table(rows)], rows, 4, 0)
    assert [found.count(fold) for fold in range(4)] == [20] * 4
    assert all(found[n] == found[n + 1] for n in range(0, 80, 2))
    for fold in range(4):
        assert sum(rows[n]["label"] == "a" for n in range(80) if found[n] == fold) == 10


def test_groups_are_never_cut():
    rows = [{"text": f"texte {n}", "label": "ab"[n % 2], "group": f"auteur {n % 6}"} for n in range(60)]
    found = assign_folds([table(rows)], rows, 3, 0)
    assert all(found[n] == found[n + 6] for n in range(54))
    with pytest.raises(DataError) as error:
        assign_folds([table(rows)], rows, 7, 0)
    assert error.value.code == "folds"


def test_every_row_is_tested_once_by_a_run_that_did_not_train_on_it(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTENTIF_CACHE", str(tmp_path / "cache"))
    pd.DataFrame(ROWS).to_csv(tmp_path / "avis.csv", index=False)
    layers = [Layer({"data": {"train": str(tmp_path / "avis.csv"), "text": "avis", "label": "sentiment"}}, "data")]
    found = cross_validate(SMALL, layers, 2, out=tmp_path / "cv", watch=Silent())
    results = [json.loads((tmp_path / "cv" / f"fold-{fold}" / "results.json").read_text()) for fold in (1, 2)]
    assert sum(result["examples"] for result in results) == len(ROWS)
    assert found.scores == [result["scores"]["accuracy"] for result in results]
    assert found.mean == pytest.approx(sum(found.scores) / 2)
    assert json.loads((tmp_path / "cv" / "folds.json").read_text())["metric"] == "accuracy"
