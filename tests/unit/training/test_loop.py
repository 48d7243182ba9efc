import itertools
import json
import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import toy

from attentif.errors import DataError, RunError
from attentif.training.checkpoint import Checkpoints
from attentif.training.distributed import Ranks
from attentif.training.loop import Loop, fit
from attentif.training.progress import Silent
from attentif.training.rundir import RunFolder
from attentif.training.signals import Interrupts, StoppedError
from attentif.training.weights import read_tensors

TIMINGS = ("seconds", "tokens_per_second")


class Words(Silent):
    """A display that remembers, and does something at a step."""

    def __init__(self, at=None, action=None, evaluation=None):
        self.lines, self.at, self.action, self.evaluation = [], at, action, evaluation

    def say(self, line):
        self.lines.append(line)

    def show(self, status):
        if status.step == self.at and self.action:
            self.action()

    def work(self, what, done, total):
        if done == self.evaluation:
            self.action()


def rows(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def without_timings(run):
    return [{key: value for key, value in row.items() if key not in TIMINGS} for row in rows(run)]


def weights(run):
    return read_tensors(run / "model.safetensors")


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def same(one, other):
    return all(torch.equal(weights(one)[name], weights(other)[name]) for name in weights(one))


def test_a_run_learns_and_logs_it(tmp_path):
    place = toy.train(tmp_path / "run", toy.settings(steps=60))
    training = [row for row in rows(tmp_path / "run") if "split" not in row]
    valid = [row for row in rows(tmp_path / "run") if row.get("split") == "valid"]
    assert (place.step, place.ended) == (60, "steps")
    assert training[-1]["loss"] < 0.2 < training[0]["loss"]
    assert [row["step"] for row in training] == list(range(3, 61, 3))
    assert [row["step"] for row in valid] == list(range(6, 61, 6))
    assert valid[-1]["accuracy"] > 0.9
    assert set(training[0]) == {
        "step", "epoch", "loss", "accuracy", "lr", "grad_norm", "tokens", "padding", "tokens_per_second", "seconds",
    }  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [{"optimizer": kind} for kind in ("adamw", "adafactor", "muon")] + [{"ema": 0.9}, {"patience": 9}, {"packed": True}, {"accumulate": 5}],
)
def test_a_run_that_was_stopped_ends_with_the_bits_of_one_that_was_not(tmp_path, changes):
    config = toy.settings(**changes)
    toy.train(tmp_path / "whole", config)
    with pytest.raises(StoppedError, match="stopped at step 8"):
        toy.train(tmp_path / "parts", config, display=Words(7, interrupt))
    with pytest.raises(StoppedError, match="stopped at step 17"):
        toy.train(tmp_path / "parts", config, display=Words(16, interrupt))
    toy.train(tmp_path / "parts", config)
    assert same(tmp_path / "whole", tmp_path / "parts")
    assert without_timings(tmp_path / "whole") == without_timings(tmp_path / "parts")


def test_a_task_may_draw_from_any_generator_and_still_resume(tmp_path):
    class Noisy(toy.Task):
        def step(self, model, batch):
            import random

            loss = super().step(model, batch)
            return type(loss)(loss.total * (1 + random.random() + np.random.random() + torch.rand(1).item()), loss.count)

    toy.train(tmp_path / "whole", toy.settings(), task=Noisy())
    with pytest.raises(StoppedError):
        toy.train(tmp_path / "parts", toy.settings(), task=Noisy(), display=Words(9, interrupt))
    toy.train(tmp_path / "parts", toy.settings(), task=Noisy())
    assert same(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_within_the_step_and_leaves_the_right_code(tmp_path, number, code):
    with pytest.raises(StoppedError) as stopped:
        toy.train(tmp_path / "run", toy.settings(), display=Words(4, lambda: os.kill(os.getpid(), number)))
    assert stopped.value.exit_code == code
    assert Checkpoints(tmp_path / "run" / "checkpoints").paths()[0].name == "step-00000005"


def test_a_signal_abandons_an_evaluation_which_is_done_again(tmp_path):
    toy.train(tmp_path / "whole", toy.settings())
    for _ in range(2):
        with pytest.raises(StoppedError, match="stopped at step 6"):
            toy.train(tmp_path / "parts", toy.settings(), display=Words(action=interrupt, evaluation=3))
    assert [row["step"] for row in rows(tmp_path / "parts")] == [3, 6]
    toy.train(tmp_path / "parts", toy.settings())
    assert same(tmp_path / "whole", tmp_path / "parts")
    assert without_timings(tmp_path / "whole") == without_timings(tmp_path / "parts")


def test_a_second_ctrl_c_leaves_at_once(monkeypatch):
    monkeypatch.setattr("attentif.training.signals.SAME_PRESS", 0.0)
    with Interrupts() as interrupts:
        interrupt()
        assert interrupts.number == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            interrupt()


def test_one_press_that_arrives_twice_is_one_press():
    before = signal.getsignal(signal.SIGINT)
    with Interrupts() as interrupts:
        interrupt()
        interrupt()
        assert interrupts.number == signal.SIGINT
    assert signal.getsignal(signal.SIGINT) is before


def test_damaged_checkpoints_change_nothing_but_the_time(tmp_path):
    toy.train(tmp_path / "whole", toy.settings(keep=3))
    with pytest.raises(StoppedError):
        toy.train(tmp_path / "parts", toy.settings(keep=3), display=Words(15, interrupt))
    for path in Checkpoints(tmp_path / "parts" / "checkpoints").paths()[:2]:
        (path / "optimizer.safetensors").write_bytes(b"")
    words = Words()
    toy.train(tmp_path / "parts", toy.settings(keep=3), display=words)
    assert same(tmp_path / "whole", tmp_path / "parts")
    assert without_timings(tmp_path / "whole") == without_timings(tmp_path / "parts")
    assert [line for line in words.lines if "damaged" in line or "resuming" in line][-1] == "resuming from step 8"


def test_followed_weights_are_those_of_the_steps_and_change_nothing(tmp_path):
    toy.train(tmp_path / "plain", toy.settings(steps=12, checkpoint_every=3, keep=9))
    toy.train(tmp_path / "run", toy.settings(steps=12, checkpoint_every=3, keep=9, follow=True))
    assert same(tmp_path / "plain", tmp_path / "run")
    found = RunFolder(tmp_path / "run").weights_by_step()
    assert list(found) == [0, 1, 3, 6, 9, 10, 12]
    kept = read_tensors(tmp_path / "run" / "checkpoints" / "step-00000003" / "model.safetensors")
    assert all(torch.equal(tensor, kept[name]) for name, tensor in read_tensors(found[3]).items())


def test_accumulated_batches_give_the_loss_of_one_large_batch(tmp_path):
    data = toy.Texts()
    data.lengths[:] = 8  # equal lengths: the plan of one large batch is made of those of the small ones
    data.ids = [np.resize(row, 8) for row in data.ids]
    norms = []
    for number, changes in enumerate(({"batch_tokens": 96 * 8}, {"batch_tokens": 64, "accumulate": 12})):
        config = toy.settings(steps=5, log_every=1, **changes)
        toy.train(tmp_path / str(number), config, dropout=0.0, train=data)
        norms.append([(row["loss"], row["grad_norm"]) for row in rows(tmp_path / str(number)) if "split" not in row])
    np.testing.assert_allclose(*norms, rtol=1e-5)


def test_every_row_is_read_once_an_epoch(tmp_path):
    class Counting(toy.Texts):
        def batch(self, chosen, **options):
            seen.extend(int(row) for row in chosen)
            return super().batch(chosen, **options)

    seen = []
    place = toy.train(tmp_path / "run", toy.settings(steps=0, epochs=2, accumulate=5), train=Counting())
    assert sorted(seen) == sorted([*range(96)] * 2)
    assert (place.epochs, place.ended) == (2.0, "epochs")


def test_a_fraction_of_an_epoch_is_enough_to_ask_for(tmp_path):
    place = toy.train(tmp_path / "run", toy.settings(steps=0, epochs=0.5, eval_every=0.25))
    assert place.epochs == pytest.approx(0.5, abs=0.1)
    assert len([row for row in rows(tmp_path / "run") if "split" in row]) == 2


def test_minutes_are_minutes_of_training(tmp_path, monkeypatch):
    """A clock that moves on by a second whenever it is read: one second a step, for evaluations are not training."""
    clock = itertools.count()
    monkeypatch.setattr("attentif.training.loop.time", SimpleNamespace(perf_counter=lambda: float(next(clock))))
    place = toy.train(tmp_path / "run", toy.settings(steps=0, minutes=0.5, eval_every=7))
    assert (place.ended, place.step, place.seconds) == ("minutes", 30, 30.0)
    rates = [row["lr"] for row in rows(tmp_path / "run") if "lr" in row]
    assert rates[-1] < 0.5 * max(rates)


def test_the_first_limit_ends_the_run(tmp_path):
    assert toy.train(tmp_path / "run", toy.settings(steps=3, epochs=5)).ended == "steps"


class Scored(toy.Task):
    """Evaluations with these results."""

    def __init__(self, scores):
        super().__init__()
        self.scores = iter(scores)

    def evaluate(self, model, state, dataset, **options):
        found = super().evaluate(model, state, dataset)
        score = next(self.scores)
        return type(found)({"accuracy": score, "loss": score}, examples=1)


def test_patience_ends_the_run_and_keeps_the_best_weights(tmp_path):
    config = toy.settings(eval_every=2, patience=2, checkpoint_every=2, keep=20)
    place = toy.train(tmp_path / "run", config, task=Scored([0.1, 0.5, float("nan"), 0.5, 0.9]))
    assert (place.step, place.ended, place.best, place.best_step) == (8, "patience", 0.5, 4)
    best = read_tensors(tmp_path / "run" / "checkpoints" / "step-00000004" / "model.safetensors")
    assert all(torch.equal(tensor, weights(tmp_path / "run")[name]) for name, tensor in best.items())


def test_a_score_that_should_be_low_improves_downwards(tmp_path):
    task = Scored([3.0, 2.0, 2.5, 2.2])
    task.metric = "loss"
    place = toy.train(tmp_path / "run", toy.settings(), task=task)
    assert (place.best, place.best_step) == (2.0, 12)


def test_patience_can_judge_by_the_loss_instead(tmp_path):
    place = toy.train(tmp_path / "run", toy.settings(eval_every=2, patience=2, best_by="loss"), task=Scored([0.5, 0.4, 0.6, 0.7]))
    assert (place.step, place.ended, place.best, place.best_step) == (8, "patience", 0.4, 4)


def test_the_averaged_weights_are_the_ones_that_are_kept(tmp_path):
    toy.train(tmp_path / "run", toy.settings(ema=0.9))
    average = read_tensors(tmp_path / "run" / "checkpoints" / "step-00000024" / "average.safetensors")
    assert all(torch.equal(tensor, weights(tmp_path / "run")[name]) for name, tensor in average.items())


class Poisoned(toy.Task):
    """Row 17 makes the loss, or its gradient, infinite."""

    def __init__(self, power):
        super().__init__()
        self.power = power

    def step(self, model, batch):
        loss = super().step(model, batch)
        zero = (model.head.bias * 0).sum()
        return type(loss)(loss.total + zero.abs() ** self.power if 17 in batch.rows else loss.total, loss.count)


@pytest.mark.parametrize(("power", "what"), [(-1.0, "loss"), (0.5, "gradient")])
def test_what_is_not_finite_stops_the_run_and_names_the_rows(tmp_path, power, what):
    config = toy.settings(checkpoint_every=1, keep=100, batch_tokens=40)
    with pytest.raises(RunError, match=rf"\d+:.*{what}.*toy\.csv:19"):
        toy.train(tmp_path / "run", config, task=Poisoned(power))
    last = Checkpoints(tmp_path / "run" / "checkpoints").latest(lambda line: None)
    assert last is None or all(tensor.isfinite().all() for tensor in read_tensors(last / "model.safetensors").values())


def test_a_checkpoint_of_another_model_is_refused_with_the_run(tmp_path):
    with pytest.raises(StoppedError):
        toy.train(tmp_path / "run", toy.settings(), display=Words(5, interrupt))
    with pytest.raises(RunError, match=r"not.*configuration"):
        toy.train(tmp_path / "run", toy.settings(ema=0.9))


def test_padding_is_said_each_epoch(tmp_path):
    words = Words()
    toy.train(tmp_path / "run", toy.settings(), display=words)
    assert [line for line in words.lines if line.startswith("epoch")] == [f"epoch {n}: 12 batches, 2.6% padding" for n in (1, 2)]


def test_packed_batches_have_no_padding(tmp_path):
    toy.train(tmp_path / "run", toy.settings(packed=True))
    assert {row["padding"] for row in rows(tmp_path / "run") if "padding" in row} == {0.0}


def test_no_example_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no example"):
        toy.train(tmp_path / "run", toy.settings(), train=toy.Texts(0))


def test_a_run_without_validation_rows_trains_to_its_end(tmp_path):
    run = toy.folder(tmp_path / "run")
    job = toy.job(run, toy.settings())
    place = fit(type(job)(job.task, job.model, job.train, toy.Texts(0), job.config, run), Ranks(), Silent())
    assert (place.step, place.best) == (24, None)


def test_tensorboard_gets_the_same_numbers(tmp_path):
    pytest.importorskip("tensorboard")
    toy.train(tmp_path / "run", toy.settings(tensorboard=True))
    assert list((tmp_path / "run" / "tensorboard").glob("events.*"))


def test_a_step_of_a_run_limited_by_minutes_alone_has_a_rate(tmp_path):
    loop = Loop(toy.job(toy.folder(tmp_path / "run"), toy.settings(steps=0, minutes=1.0)), Ranks(), Silent(), Interrupts())
    assert 0 < loop.epochs.rate(loop.state) < loop.config.lr


def test_small_data_are_passed_over_until_there_are_steps_enough(tmp_path):
    words = Words()
    place = toy.train(tmp_path / "run", toy.settings(steps=0, epochs=2.0, min_steps=33, eval_every=1.0), display=words)
    per_epoch = 6
    assert place.ended == "epochs"
    assert place.step == 33
    valid = [row["step"] for row in rows(tmp_path / "run") if row.get("split") == "valid"]
    assert len(valid) == 2  # as many evaluations as were asked for
    assert len([line for line in words.lines if line.startswith("epoch ")]) < place.step / per_epoch
    said = [line for line in words.lines if "train.min_steps" in line]
    assert said == ["the data are small: 2.75 passes instead of 2, for train.min_steps asks for 33 steps at least"]


def test_nothing_is_said_of_more_passes_where_steps_end_the_run_before(tmp_path):
    words = Words()
    toy.train(tmp_path / "run", toy.settings(steps=3, epochs=2.0, min_steps=33), display=words)
    assert not [line for line in words.lines if "min_steps" in line]
