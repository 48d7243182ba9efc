"""Forecasts: modes, scores against their definitions, answers with dates that go on."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_series import PATCHES, make, table, write
from torch.testing import assert_close

from attentif.data import DataConfig
from attentif.errors import ConfigError, DataError
from attentif.models import build, resolve
from attentif.models.frontends.series import SeriesConfig
from attentif.models.heads.horizon import HorizonHeadConfig
from attentif.tasks.predictors import Ensemble
from attentif.tasks.series.forecast import ForecastConfig
from attentif.tasks.series.linear_map import CENTRES, LinearMap, Moments, fold_centre
from attentif.tasks.series.rollout import predict_direct, predict_next, roll_blocks, roll_out, sample_futures, sample_quantiles
from attentif.tasks.series.stack import cautious_weight
from attentif.tasks.series.windows import Windows
from attentif.tasks.states import load_state, save_state
from attentif.view.page import Page, render

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


# ----------------------------------------------------------------------------------------------------------------- models


@pytest.mark.parametrize("base", ["encoder-tiny", "bi-lstm-tiny", "mamba-tiny", "lstm-tiny", "s4d-tiny", "decoder-tiny"])
def test_any_preset_is_a_body(tmp_path: Path, base: str) -> None:
    task, prepared, model = make(tmp_path, base, model={"width": 32})
    loss = task.step(model, prepared.train.batch([0, 1]))
    assert loss.count == 2 * 6 * 2
    assert loss.total.isfinite()


@pytest.mark.parametrize("base", ["lstm-tiny", "gru-tiny", "mamba-tiny", "decoder-tiny"])
@pytest.mark.parametrize("independent", [False, True])
def test_a_rolled_out_model_reads_its_own_answers_as_it_would_the_truth(tmp_path: Path, base: str, independent: bool) -> None:
    """Step by step with a state is the same as reading everything again from the beginning."""
    frontend = {"kind": "series", "independent": independent, "calendar": ["hour", "weekday"], "normalise": "window"}
    task, prepared, model = make(tmp_path, base, mode="rollout", quantiles=[0.1, 0.5, 0.9], model={"width": 32, "frontend": frontend})
    batch = prepared.test.batch([0, 5])
    given, chosen = roll_out(model, batch.source, 6, task.median)
    assert given.shape == (2, 6, 2, 3)
    assert_close(chosen, given[..., 1], **CLOSE)
    assert batch.labels is not None
    told, _ = predict_next(model, type(batch)(batch.source, labels=chosen))  # its own answers in place of the truth
    assert_close(told[:, -6:], given, **CLOSE)


def test_the_forecast_of_an_ensemble_is_the_mean_of_its_networks(tmp_path: Path) -> None:
    task, prepared, model = make(tmp_path, model=PATCHES, quantiles=[0.1, 0.5, 0.9])
    assert task.averages
    assert not ForecastConfig(mode="rollout").build().averages
    source = prepared.test.batch([0, 5]).source
    networks = [model, build(model.config).eval()]
    each = [predict_direct(network, source) for network in networks]
    assert_close(predict_direct(Ensemble(networks), source), torch.stack(each).mean(0), **CLOSE)
    assert not torch.equal(each[0], each[1])


def test_a_normalised_one_step_model_is_trained_on_the_horizon_alone(tmp_path: Path) -> None:
    for normalise, scored in (("none", 32 + 6 - 1), ("window", 6)):
        task, prepared, model = make(tmp_path, "gru-tiny", mode="rollout", model={"frontend": {"kind": "series", "normalise": normalise}})
        assert task.step(model, prepared.train.batch([0, 1])).count == 2 * scored * 2


def test_a_direct_model_rolled_out_in_one_block_is_direct(tmp_path: Path) -> None:
    task, prepared, model = make(tmp_path, model=PATCHES)
    source = prepared.test.batch([0, 1]).source
    assert_close(roll_blocks(partial(predict_direct, model), source, 6, 6, task.median), predict_direct(model, source), **CLOSE)
    blocks = roll_blocks(partial(predict_direct, model), source, 6, 2, task.median)
    assert_close(blocks[:, :2], predict_direct(model, source)[:, :2], **CLOSE)
    again = torch.cat([source.data, blocks[:, :2, :, 0]], 1)[:, 2:]
    assert_close(blocks[:, 2:4], predict_direct(model, replace(source, data=again))[:, :2], **CLOSE)


def test_a_shift_of_the_window_shifts_the_forecast_of_a_normalised_model(tmp_path: Path) -> None:
    _, prepared, model = make(tmp_path, model=PATCHES)
    source = prepared.test.batch([0]).source
    moved = predict_direct(model, replace(source, data=3 * source.data + 7))
    assert_close(moved, 3 * predict_direct(model, source) + 7, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("base", "model", "task", "said"),
    [
        ("transformer-tiny", {}, {}, "an encoder and a decoder"),
        ("patchtst-tiny", {"frontend": {"patch": 64}}, {}, "64 steps are more than task.look_back, 32"),
        ("patchtst-tiny", {"frontend": {"patch": 8, "stride": 4}}, {"mode": "rollout"}, "patch = 1"),
        ("encoder-tiny", {}, {"mode": "rollout"}, "only a causal model can be rolled out"),
        ("encoder-tiny", {"frontend": {"position": {"kind": "learned", "max_len": 8}}}, {}, "it makes 32 tokens, and this model reads 8"),
    ],
)
def test_models_that_cannot_forecast_are_refused_before_any_data(base: str, model: Any, task: Any, said: str) -> None:
    built = ForecastConfig(**{"look_back": 32, "horizon": 6} | task).build()
    with pytest.raises(ConfigError, match=said):
        built.check(built.adapt(resolve({"base": base} | model)))


@pytest.mark.parametrize(
    ("values", "said"),
    [({"quantiles": [0.1, 0.9]}, "0.5, the median"), ({"quantiles": [0.5, 0.1]}, "rise"), ({"split": [10, 10]}, "three numbers of rows")],
)
def test_contradictions_of_the_task_are_refused(values: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ForecastConfig(**values)


def test_the_head_and_the_frontend_follow_the_mode() -> None:
    for mode, pool in (("direct", "last"), ("rollout", "each")):
        adapted = ForecastConfig(mode=mode).build().adapt(resolve({"base": "lstm-tiny"}))
        assert isinstance(adapted.frontend, SeriesConfig)
        assert isinstance(adapted.head, HorizonHeadConfig)
        assert adapted.head.pool == pool


# ----------------------------------------------------------------------------------------------------------------- scores


def test_scores_are_the_definitions_over_every_window_whatever_the_batches(tmp_path: Path) -> None:
    task, prepared, model = make(tmp_path, model=PATCHES, split=[200, 50, 50])
    test = prepared.test
    batch = test.batch(range(len(test)))
    assert batch.labels is not None
    with torch.no_grad():
        error = (predict_direct(model, batch.source)[..., 0] - batch.labels).double().numpy()
    values = np.array([row[1:] for row in table()])[:200]
    values = (values - values.mean(0)) / values.std(0)
    scale = np.abs(values[24:] - values[:-24]).mean(0)
    expected = {"mse": (error**2).mean(), "mae": np.abs(error).mean(), "mase": (np.abs(error).mean((0, 1)) / scale).mean()}
    for budget in (14, 100, 8192):
        found = task.evaluate(model, prepared.state, test, budget=budget)
        assert found.scores == pytest.approx(expected, rel=1e-4)
        assert found.examples == 45
    assert found.details["by_step"]["model"] == pytest.approx((error**2).mean((0, 2)).tolist(), rel=1e-4)
    assert [entry["mse"] for entry in found.details["by_channel"]] == pytest.approx((error**2).mean((0, 1)).tolist(), rel=1e-4)
    assert task.evaluate(model, prepared.state, test, quick=True).scores["loss"] == pytest.approx(expected["mse"], rel=1e-4)


def test_quantiles_are_in_order_scored_by_the_pinball_loss_and_their_band_counted(tmp_path: Path) -> None:
    task, prepared, model = make(tmp_path, model=PATCHES, quantiles=[0.1, 0.5, 0.9])
    batch = prepared.test.batch(range(len(prepared.test)))
    given = task.forecast(model, prepared.state, batch.source)
    assert (given.diff(dim=-1) >= 0).all()
    assert batch.labels is not None
    inside = ((given[..., 0] <= batch.labels) & (batch.labels <= given[..., 2])).float().mean().item()
    beyond = batch.labels[..., None] - given
    loss = torch.stack([torch.maximum(q * beyond[..., n], (q - 1) * beyond[..., n]) for n, q in enumerate((0.1, 0.5, 0.9))]).mean().item()
    found = task.evaluate(model, prepared.state, prepared.test).scores
    assert found["coverage"] == pytest.approx(inside)
    assert found["pinball"] == pytest.approx(loss, rel=1e-4)


def test_values_drawn_from_quantiles_have_these_quantiles() -> None:
    levels = torch.tensor([0.1, 0.5, 0.9])
    values = sample_quantiles(torch.tensor([-1.0, 0.0, 2.0]).expand(20_000, 3), levels, torch.Generator().manual_seed(0))
    assert_close(values.quantile(levels), torch.tensor([-1.0, 0.0, 2.0]), rtol=0, atol=0.05)


def test_the_band_of_a_one_step_model_is_that_of_drawn_futures(tmp_path: Path) -> None:
    _, prepared, model = make(tmp_path, "gru-tiny", mode="rollout", quantiles=[0.1, 0.5, 0.9])
    source = prepared.test.batch([0]).source
    with torch.no_grad():
        found = sample_futures(model, source, 6, torch.tensor([0.1, 0.5, 0.9]), 30)
        assert_close(found, sample_futures(model, source, 6, torch.tensor([0.1, 0.5, 0.9]), 30))  # the same each time
    assert found.shape == (1, 6, 2, 3)
    assert (found.diff(dim=-1) >= 0).all()


def test_the_linear_baseline_is_the_ridge_regression(tmp_path: Path) -> None:
    """The normal equations against scikit-learn's, one map for both channels."""
    from sklearn.linear_model import Ridge

    _, prepared, _ = make(tmp_path, model=PATCHES)
    train = prepared.train
    assert isinstance(train, Windows)
    read, true = train.read_and_true(np.arange(len(train)))
    x, y = (part.transpose(0, 2, 1).reshape(-1, part.shape[1]).astype(np.float64) for part in (read, true))
    fitted = Ridge(alpha=0.01 * len(x)).fit(x, y)
    moments = Moments.of(train, "as it is")
    assert moments.count == len(x)
    ours = LinearMap(moments.solve(0.01, 32).astype(np.float32), "")
    expected = fitted.predict(x).reshape(len(train), 2, 6).transpose(0, 2, 1)
    np.testing.assert_allclose(ours(read), expected, rtol=1e-3, atol=1e-4)
    short = Ridge(alpha=0.01 * len(x)).fit(x[:, -8:], y).predict(x[:, -8:]).reshape(len(train), 2, 6).transpose(0, 2, 1)
    np.testing.assert_allclose(replace(ours, weight=moments.solve(0.01, 8).astype(np.float32))(read), short, rtol=1e-3, atol=1e-4)
    assert moments.error(moments.solve(0.01, 32)) == pytest.approx(float(((expected - true) ** 2).mean()), rel=1e-4)


@pytest.mark.parametrize("centre", list(CENTRES))
def test_a_centre_folds_into_the_weights(centre: str) -> None:
    random = np.random.default_rng(0)
    weight, read = random.normal(size=(9, 3)), random.normal(5, 1, (4, 8, 2))
    middle = CENTRES[centre](read)
    expected = np.einsum("ntc,th->nhc", read - middle, weight[:-1]) + weight[-1][:, None] + middle
    np.testing.assert_allclose(LinearMap(fold_centre(weight, centre).astype(np.float32), "")(read), expected, rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------------------------------ stacked on a linear map

STACKED = {"linear": "stacked", "model": {"frontend": {"patch": 8, "stride": 4, "normalise": "window"}}}


def test_a_stacked_network_begins_as_the_linear_map(tmp_path: Path) -> None:
    task, prepared, model = make(tmp_path, **STACKED)
    task.init_weights(model, prepared, lambda line: None)
    test = prepared.test
    read, true = test.read_and_true(np.arange(len(test)))  # type: ignore[union-attr]
    expected = float(((prepared.state.stack.linear(read) - true) ** 2).mean())  # type: ignore[union-attr]
    assert task.evaluate(model, prepared.state, test).scores["mse"] == pytest.approx(expected, rel=1e-3)
    baseline = task.baselines(prepared, lambda line: None)[-1]
    assert baseline.scores["mse"] == pytest.approx(expected, rel=1e-4)  # the map is the baseline, fitted once
    assert task.step(model, test.batch([0, 3])).total.item() == pytest.approx(
        float(((prepared.state.stack.linear(read[[0, 3]]) - true[[0, 3]]) ** 2).sum()),  # type: ignore[union-attr]
        rel=1e-3,
    )


def test_what_a_network_adds_is_weighted_by_what_it_is_worth_on_validation(tmp_path: Path) -> None:
    """A network of noise gets no weight, so forecasts are the linear map's; one that knows the errors keeps its own."""
    task, prepared, model = make(tmp_path, **STACKED)  # random weights
    state = task.finalize(model, prepared, budget=8192, say=lambda line: None)
    assert state.stack.network == pytest.approx(0, abs=0.05)
    random = np.random.default_rng(0)
    errors = random.normal(0, 1, (400, 6, 2))
    added = torch.tensor(0.8 * errors + random.normal(0, 0.1, errors.shape))[..., None]
    read = lambda: [(torch.arange(400), added, torch.zeros(400, 6, 2), torch.tensor(errors))]
    assert prepared.state.stack.choose(read, 400, 0, []).network == 1.0
    small = prepared.state.stack.choose(lambda: [(r, 4 * a, b, c) for r, a, b, c in read()], 400, 0, [])
    assert small.network == pytest.approx(0.8 * 4 / (3.2**2 + 0.16), rel=0.02)  # Σ x y / Σ x²


def test_bands_are_widened_until_their_pinball_loss_is_lowest(tmp_path: Path) -> None:
    _, prepared, _ = make(tmp_path, quantiles=[0.1, 0.5, 0.9], **STACKED)
    true = torch.tensor(np.random.default_rng(0).normal(0, 1, (500, 6, 2)))
    added = torch.tensor([-0.64, 0.0, 0.64]).double().expand(500, 6, 2, 3)  # half of what holds eight normal errors in ten
    stack = prepared.state.stack.choose(lambda: [(torch.arange(500), added, torch.zeros(500, 6, 2), true)], 500, 1, [0.1, 0.5, 0.9])
    assert stack.network == 0.0  # a median that is always 0 says nothing
    assert stack.width == pytest.approx(2.0, rel=0.11)


def test_a_weight_less_its_doubt_is_between_nothing_and_all() -> None:
    assert cautious_weight(np.zeros(8), np.zeros(8)) == 0.0
    assert cautious_weight(np.full(8, 0.5), np.ones(8)) == pytest.approx(0.5)  # all stretches agree
    assert cautious_weight(np.array([4.0, -3.0] * 4), np.ones(8)) == 0.0
    assert cautious_weight(np.full(8, 9.0), np.ones(8)) == 1.0


def test_a_stacked_run_answers_the_same_from_its_files(tmp_path: Path) -> None:
    task, prepared, model = make(tmp_path, quantiles=[0.1, 0.5, 0.9], **STACKED)
    state = task.finalize(model, prepared, budget=8192, say=lambda line: None)
    (tmp_path / "run").mkdir()
    save_state(tmp_path / "run", state)
    file = write(tmp_path / "neuf.csv", table(50, seed=3))
    again = load_state(tmp_path / "run", type(state))
    assert task.predict(model, again, {}, [file]) == task.predict(model, state, {}, [file])
    assert "linear map" in task.caveat(model, again)


def test_a_map_of_the_whole_horizon_is_not_rolled_out() -> None:
    assert ForecastConfig(mode="direct", linear="stacked").stacked
    assert not ForecastConfig(mode="rollout", linear="stacked").stacked


def test_baselines_repeat_the_last_value_and_the_last_season(tmp_path: Path) -> None:
    task, prepared, _ = make(tmp_path, model=PATCHES)
    found = {baseline.name.en: baseline.scores for baseline in task.baselines(prepared, lambda line: None)}  # type: ignore[union-attr]
    assert isinstance(prepared.test, Windows)
    read, true = prepared.test.read_and_true(np.arange(len(prepared.test)))
    assert found["last value"]["mse"] == pytest.approx(float(((read[:, -1:] - true) ** 2).mean()), rel=1e-4)
    assert found["last season (period 24)"]["mse"] == pytest.approx(float(((read[:, 8:14] - true) ** 2).mean()), rel=1e-4)
    assert found["linear (ridge, chosen on validation)"]["mse"] < found["last season (period 24)"]["mse"]


def test_the_report_draws_the_error_of_the_linear_baseline_step_by_step_beside_the_models(tmp_path: Path) -> None:
    task, prepared, model = make(tmp_path, model=PATCHES)
    test = task.evaluate(model, prepared.state, prepared.test)
    drawn = lambda: {trace.name: trace.y for trace in task.sections(test)[1].body[0].draw(lang="en").data}  # type: ignore[union-attr]
    assert "linear" not in drawn()
    baselines = task.baselines(prepared, lambda line: None)
    test, rivals = replace(test, baselines=baselines), {baseline.name.en: baseline.scores for baseline in baselines}  # type: ignore[union-attr]
    assert np.mean(drawn()["linear"]) == pytest.approx(rivals["linear (ridge, chosen on validation)"]["mse"], rel=1e-4)


def test_a_season_longer_than_the_look_back_is_left_out_and_said(tmp_path: Path) -> None:
    task, prepared, _ = make(tmp_path, model=PATCHES, period=40)
    said: list[str] = []
    assert len(task.baselines(prepared, said.append)) == 2
    assert any("a season of 40 steps is longer than the look-back" in line for line in said)


# ----------------------------------------------------------------------------------------------------------------- answers


def test_an_answer_goes_on_after_the_last_row_in_the_file_s_own_numbers(tmp_path: Path) -> None:
    task, prepared, model = make(tmp_path, model=PATCHES, quantiles=[0.1, 0.5, 0.9])
    file = write(tmp_path / "neuf.csv", table(50, seed=3))
    (answer,) = task.predict(model, prepared.state, {}, [file])
    rows = answer.details["table"]
    assert [row["date"] for row in rows] == [f"2024-01-03 {hour:02d}:00" for hour in range(2, 8)]
    assert list(rows[0]) == ["date", "a", "a q0.1", "a q0.9", "b", "b q0.1", "b q0.9"]
    read = (np.array([row[1:] for row in table(50, seed=3)])[-32:] - prepared.state.mean[0]) / prepared.state.deviation[0]
    batch = prepared.test.batch([0])
    with torch.no_grad():
        given = task.forecast(model, prepared.state, replace(batch.source, data=torch.tensor(read, dtype=torch.float32)[None]))[0]
    expected = given.numpy() * np.array(prepared.state.deviation[0])[:, None] + np.array(prepared.state.mean[0])[:, None]
    assert [[row["a q0.1"], row["a"], row["a q0.9"]] for row in rows] == [pytest.approx(own, rel=1e-4) for own in expected[:, 0].tolist()]


def test_too_short_a_file_cannot_be_continued(tmp_path: Path) -> None:
    task, prepared, model = make(tmp_path, model=PATCHES)
    with pytest.raises(DataError, match=r"20.*model.*32"):
        task.predict(model, prepared.state, {}, [write(tmp_path / "court.csv", table(20))])


def test_other_rows_are_scored_on_the_scale_of_training(tmp_path: Path) -> None:
    task, prepared, model = make(tmp_path, model=PATCHES)
    file = write(tmp_path / "autre.csv", table(80, seed=5))
    read = task.read(prepared.state, DataConfig(train=file), {}, model.config, lambda line: None)
    assert len(read) == 80 - 38 + 1
    assert read.scaled.mean.tolist() == prepared.state.mean.tolist()
    assert task.evaluate(model, prepared.state, read).scores["mse"] > 0
    with pytest.raises(DataError, match="a window takes 32 \\+ 6"):
        task.read(prepared.state, DataConfig(train=write(tmp_path / "court.csv", table(30))), {}, model.config, lambda line: None)


def test_the_report_is_drawn_from_plain_data_in_both_languages(tmp_path: Path) -> None:
    task, prepared, model = make(tmp_path, model=PATCHES, quantiles=[0.1, 0.5, 0.9])
    evaluation = task.evaluate(model, prepared.state, prepared.test)
    stored = type(evaluation)(evaluation.scores, details=json.loads(json.dumps(evaluation.details)))
    page = render(Page("forecast", task.sections(stored)))
    for words in (
        "Une mauvaise prévision",
        "A bad forecast",
        "Error against horizon",
        "rolled out, 1 steps at a time",
        "Channel by channel",
    ):
        assert words in page


def test_maps_name_patches_by_the_date_of_their_last_step(tmp_path: Path) -> None:
    task, prepared, model = make(tmp_path, model=PATCHES)
    (maps,) = task.maps(model, prepared.state, {}, task.examples(prepared))
    assert len(maps.rows) == 7
    start = int(prepared.test.starts[len(prepared.test) // 2])  # type: ignore[attr-defined]
    last = np.datetime64("2024-01-01T00") + start + 31
    assert maps.rows[-1] == "… " + str(last).replace("T", " ") + ":00"
