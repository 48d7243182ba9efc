import math

import pytest

from attentif.training.metrics import Metrics


@pytest.fixture
def metrics(tmp_path):
    found = Metrics(tmp_path / "metrics.jsonl")
    for step in (1, 2, 3):
        found.append({"step": step, "loss": 1 / step})
    found.append({"step": 3, "split": "valid", "accuracy": 0.5})
    return found


def test_rows_come_back_in_order(metrics):
    assert [row["step"] for row in metrics.rows()] == [1, 2, 3, 3]


def test_a_torn_last_line_is_dropped(metrics):
    whole = metrics.path.read_bytes()
    metrics.path.write_bytes(whole + b'{"step": 4, "lo')
    assert len(metrics.rows()) == 4
    metrics.truncate(lambda row: True)
    assert metrics.path.read_bytes() == whole


def test_a_last_line_without_its_end_is_torn_even_if_it_reads_well(metrics):
    metrics.path.write_bytes(metrics.path.read_bytes() + b'{"step": 4}')
    assert len(metrics.rows()) == 4


def test_what_comes_after_the_checkpoint_is_cut_off(metrics):
    metrics.truncate(lambda row: row["step"] <= 2)
    assert [row["step"] for row in metrics.rows()] == [1, 2]


def test_what_is_not_a_number_is_null(metrics):
    metrics.append({"step": 4, "loss": math.nan, "perplexity": math.inf})
    assert metrics.rows()[-1] == {"step": 4, "loss": None, "perplexity": None}


def test_a_run_without_metrics_has_no_rows(tmp_path):
    metrics = Metrics(tmp_path / "none.jsonl")
    metrics.truncate(lambda row: True)
    assert metrics.rows() == []
