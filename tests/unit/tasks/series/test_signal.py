"""Signals: rows of numbers with a label, read by any body, scored as any classification."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from attentif.data import DataConfig
from attentif.data.signals import parse_signal
from attentif.errors import ConfigError, DataError, UsageError
from attentif.models import Model, build, resolve
from attentif.tasks import Prepared
from attentif.tasks.series.signal import Signal, SignalConfig
from attentif.tasks.series.signal_baselines import convolve, random_kernels
from attentif.view.page import Page, render

Ready = tuple[Signal, Prepared, Model]


def rows(count: int = 60, steps: int = 24) -> list[tuple[list[float], str]]:
    """Slow and fast waves."""
    random = np.random.default_rng(0)
    found = []
    for row in range(count):
        label = ("lent", "vif")[row % 2]
        turns = 1 if label == "lent" else 4
        wave = np.sin(2 * np.pi * (turns * np.arange(steps) / steps + random.uniform())) + random.normal(0, 0.1, steps)
        found.append(([round(float(value), 4) for value in wave], label))
    return found


def write_csv(path: Path, table: list[tuple[list[Any], str]]) -> str:
    with path.open("w", newline="") as file:
        longest = max(len(signal) for signal, _ in table)
        header = ["label", *(f"t{step}" for step in range(longest))]
        csv.writer(file).writerows([header, *([label, *signal, *[""] * (longest - len(signal))] for signal, label in table)])
    return str(path)


def write_json(path: Path, table: list[tuple[Any, str]]) -> str:
    path.write_text("".join(json.dumps({"signal": signal, "label": label}) + "\n" for signal, label in table))
    return str(path)


def make(file: str, base: str = "encoder-tiny", model: dict[str, Any] | None = None, **task: Any) -> Ready:
    built = SignalConfig(**task).build()
    small = {"width": 32, "layers": 1, "dropout": 0.0, "frontend": {"kind": "series", "patch": 4}} | (model or {})
    adapted = built.adapt(resolve({"base": base} | small))
    built.check(adapted)
    prepared = built.prepare(DataConfig(train=file), {}, adapted, lambda line: None)
    torch.manual_seed(0)
    return built, prepared, build(prepared.sizes.fill(adapted)).eval()


def test_a_row_of_numbers_is_a_signal_and_a_list_the_same(tmp_path: Path) -> None:
    table = rows()
    wide, listed = (make(write(tmp_path / name, table))[1] for write, name in ((write_csv, "s.csv"), (write_json, "s.jsonl")))  # type: ignore[operator]
    assert len(wide.train) == len(listed.train) == 48
    assert_close(wide.train.batch([0, 5]).source.data, listed.train.batch([0, 5]).source.data)
    assert any("signals of 24 steps, 1 channel" in note for note in wide.notes)


def test_several_channels_are_lists_of_lists(tmp_path: Path) -> None:
    table = [([[value, 2 * value + 1] for value in signal], label) for signal, label in rows()]
    _, prepared, model = make(write_json(tmp_path / "s.jsonl", table))
    data = prepared.train.batch([0]).source.data
    assert data.shape == (1, 24, 2)
    assert_close(data[..., 0], data[..., 1], rtol=1e-4, atol=1e-4)  # both on the scale of training
    assert model(prepared.train.batch([0, 1]))[0].shape == (2, 2)


def test_signals_of_different_lengths_stand_side_by_side(tmp_path: Path) -> None:
    table = [(signal[: 24 - row % 5], label) for row, (signal, label) in enumerate(rows())]
    _, prepared, model = make(write_csv(tmp_path / "s.csv", table))
    batch = prepared.train.batch(range(10))
    assert not batch.source.seq.dense
    together = model(batch)[0]
    for row in range(10):
        assert_close(together[row : row + 1], model(prepared.train.batch([row]))[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("base", ["lstm-tiny", "mamba-tiny", "bi-lstm-tiny"])
def test_any_preset_is_a_body(tmp_path: Path, base: str) -> None:
    task, prepared, model = make(write_csv(tmp_path / "s.csv", rows()), base)
    loss = task.step(model, prepared.train.batch([0, 1, 2]))
    assert loss.count == 3
    assert loss.total.isfinite()


def test_it_learns_and_its_answers_are_its_scores(tmp_path: Path, teach: Any) -> None:
    file = write_csv(tmp_path / "s.csv", rows())
    task, prepared, model = make(file, model={"frontend": {"kind": "series", "patch": 4, "normalise": "window"}})
    teach(task, prepared, model, steps=25, lr=5e-3)
    found = task.evaluate(model, prepared.state, prepared.train)
    assert found.scores["accuracy"] > 0.9
    answers = task.predict(model, prepared.state, {}, task.inputs(Path(file), None))
    labels = [label for _, label in rows()]
    assert np.mean([answer.output == label for answer, label in zip(answers, labels, strict=True)]) > 0.9
    assert answers[0].input.endswith("s.csv:2")
    assert sum(answers[0].scores.values()) == pytest.approx(1)
    assert render(Page("signal", task.sections(found)))


def test_the_worst_errors_are_drawn(tmp_path: Path) -> None:
    task, prepared, model = make(write_csv(tmp_path / "s.csv", rows()))
    found = task.evaluate(model, prepared.state, prepared.train)
    worst = found.details["worst_signals"]
    assert worst
    assert all(error["true"] != error["predicted"] for error in worst)
    page = render(Page("signal", task.sections(type(found)(found.scores, details=json.loads(json.dumps(found.details))))))
    assert "The worst errors" in page


def test_baselines_tell_slow_from_fast(tmp_path: Path) -> None:
    task, prepared, _ = make(write_csv(tmp_path / "s.csv", rows()))
    found = {baseline.name.en: baseline.scores["accuracy"] for baseline in task.baselines(prepared, lambda line: None)}  # type: ignore[union-attr]
    assert found["majority class"] == 0.5
    assert found["spectrum + logistic regression"] == 1.0
    assert found["random convolutions (ROCKET) + ridge"] == 1.0


def test_random_convolutions_are_their_definition() -> None:
    signals = np.random.default_rng(0).normal(size=(3, 2, 40)).astype(np.float32)
    kernels = random_kernels(2, 40, count=4)
    features = convolve(signals, kernels)
    for number, (weights, bias, dilation, padding) in enumerate(kernels):
        padded = np.pad(signals[1], ((0, 0), (padding, padding)))
        span = (weights.shape[2] - 1) * dilation
        y = [(weights[0].numpy() * padded[:, t : t + span + 1 : dilation]).sum() + bias for t in range(padded.shape[1] - span)]
        assert features[1, 2 * number] == pytest.approx(max(y), rel=1e-4)
        assert features[1, 2 * number + 1] == pytest.approx(np.mean(np.array(y) > 0), abs=1e-6)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: [*t[:3], ([*t[3][0][:5], "douze", *t[3][0][6:]], "vif"), *t[4:]], "s.csv:5: t5: 'douze' is not a number"),
        (lambda t: [*t[:3], ([*t[3][0][:5], "", *t[3][0][6:]], "vif"), *t[4:]], "s.csv:5: t5: is missing inside the signal"),
        (lambda t: [*t[:3], (t[3][0][:2], "vif"), *t[4:]], "s.csv:5: the signal has 2 steps; this model reads 4 to"),
        (lambda t: [*t[:3], (t[3][0], ""), *t[4:]], "s.csv:5: the label is empty"),
        (lambda t: [(signal, "vif") for signal, _ in t], "nothing to tell apart"),
    ],
)
def test_every_fault_is_one_line_with_its_place(tmp_path: Path, change: Any, said: str) -> None:
    with pytest.raises(DataError) as error:
        make(write_csv(tmp_path / "s.csv", change(rows())))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("signal", "said"),
    [
        ([1, 2, [3, 4]], "different numbers of channels"),
        ([1, None, 3], "a number is missing inside"),
        (5, "holds int where a list of numbers is expected"),
    ],
)
def test_faults_of_lists_too(tmp_path: Path, signal: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        make(write_json(tmp_path / "s.jsonl", [*rows(), (signal, "vif")]))


@pytest.mark.parametrize(
    ("label", "said"), [(["lent", "vif"], "'label' holds a list"), (None, "'label' is missing"), ({"a": 1}, "an object")]
)
def test_a_label_is_text_or_a_number(tmp_path: Path, label: Any, said: str) -> None:
    table = rows()
    table[7] = (table[7][0], label)
    with pytest.raises(DataError, match=f":8: {said}" if said.startswith("'") else said):
        make(write_json(tmp_path / "s.jsonl", table))


def test_a_channel_that_never_moves_is_refused(tmp_path: Path) -> None:
    still = [([[value, 7] for value in signal], label) for signal, label in rows()]
    with pytest.raises(DataError, match=r"2.*constant"):
        make(write_json(tmp_path / "s.jsonl", still))


def test_a_signal_can_be_typed(tmp_path: Path) -> None:
    task, prepared, model = make(write_csv(tmp_path / "s.csv", rows()))
    (answer,) = task.predict(model, prepared.state, {}, [" ".join(map(str, rows()[0][0]))])
    assert answer.output in ("lent", "vif")
    with pytest.raises(UsageError, match="'un'"):
        task.predict(model, prepared.state, {}, ["un deux trois quatre cinq"])
    assert parse_signal("1,2 3,4").tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("base", "model", "said"),
    [
        ("patchtst-tiny", {}, "one label for all its channels"),
        ("transformer-tiny", {}, "signal reads measurements"),
        ("lstm-tiny", {"frontend": {"kind": "series"}, "head": {"kind": "classify", "pool": "first"}}, 'pool = "last" has read it all'),
        ("lstm-tiny", {"frontend": {"kind": "series", "calendar": ["hour"]}}, "signals have no dates"),
    ],
)
def test_models_that_cannot_are_refused_before_any_data(base: str, model: Any, said: str) -> None:
    built = SignalConfig().build()
    with pytest.raises(ConfigError, match=said):
        built.check(built.adapt(resolve({"base": base} | model)))
