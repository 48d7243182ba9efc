"""Mixtures of experts in a run: losses of balance and moves of the bias happen once per step, however the step is computed."""

import json

import numpy as np
import pytest
import torch
import toy

from attentif.nn.auxiliary import collect_auxiliary, current_auxiliary
from attentif.nn.mixers.experts import Experts
from attentif.training.distributed import Ranks
from attentif.training.loop import Loop
from attentif.training.progress import Silent
from attentif.training.signals import Interrupts, StoppedError
from attentif.training.weights import read_tensors

BALANCE = [{"kind": "kl", "weight": 0.3}, {"kind": "switch", "weight": 0.2}, {"kind": "z", "weight": 0.1}, {"kind": "bias", "rate": 0.01}]


def rows(run):
    found = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    timings = ("seconds", "tokens_per_second")
    return [{key: value for key, value in row.items() if key not in timings} for row in found if "split" not in row]


def loop(path, **options):
    changes = {key: options.pop(key) for key in ("balance", "recompute") if key in options}
    config = toy.settings(**options)
    return Loop(toy.job(toy.folder(path), config, **{"balance": BALANCE} | changes), Ranks(), Silent(), Interrupts())


def by_hand(work, batches):
    """The objective of one step, its count, and the counts of each mixer: the definition."""
    objective, count, used = 0.0, 0, {}
    for chosen in batches:
        batch = work.job.train.batch(chosen)
        with collect_auxiliary() as auxiliary:
            loss = work.job.task.step(work.job.model, batch)
        objective, count = objective + loss.total + loss.count * sum(auxiliary.losses), count + loss.count
        for mixer, counts in auxiliary.counts.items():
            used[mixer] = used.get(mixer, 0) + counts
    return objective / count, used


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("accumulate", [1, 5])
def test_a_step_adds_the_mean_balance_of_its_batches_and_moves_the_bias_once(tmp_path, accumulate, recompute):
    work = loop(tmp_path / "run", accumulate=accumulate, recompute=recompute, clip=1e9)
    work.job.model.train()
    batches = work.epochs.batches(0)[:accumulate]
    objective, used = by_hand(work, batches)
    (parameters,) = work.parameters  # of the only member
    expected = torch.autograd.grad(objective, parameters)
    sums, counts = work.forward_backward(batches)
    work.mean_and_clip(sums["count"])
    for parameter, gradient in zip(parameters, expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-6)
    tokens = sum(int(work.job.train.lengths[row]) for chosen in batches for row in chosen)
    mixers = list(work.counter.mixers.values())
    assert counts == [float(number) for mixer in mixers for number in used[mixer]]
    assert [sum(used[mixer][:-1]) for mixer in mixers] == [2 * tokens] * 2  # padding is not among them
    work.counter.learn(counts)
    for mixer in mixers:
        share = used[mixer][:-1].float()
        torch.testing.assert_close(mixer.choice_bias, 0.01 * torch.sign(share.mean() - share))


def test_a_run_logs_shares_entropy_and_balance(tmp_path):
    toy.train(tmp_path / "run", toy.settings(), balance=BALANCE)
    for row in rows(tmp_path / "run"):
        assert row["expert_dropped"] == 0.0
        assert 0 < row["expert_entropy"] <= 1
        assert list(row["expert_shares"]) == ["hidden.blocks.0.ffn", "hidden.blocks.1.ffn"]
        assert all(sum(shares) == pytest.approx(1) for shares in row["expert_shares"].values())
        assert row["balance"] > 0


def test_recomputed_activations_change_nothing(tmp_path):
    for name, recompute in (("kept", False), ("recomputed", True)):
        toy.train(tmp_path / name, toy.settings(accumulate=2), balance=BALANCE, recompute=recompute)
    assert rows(tmp_path / "kept") == rows(tmp_path / "recomputed")
    one, other = (read_tensors(tmp_path / name / "model.safetensors") for name in ("kept", "recomputed"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_packed_batches_have_the_routing_of_padded_ones(tmp_path):
    for packed in (False, True):
        toy.train(tmp_path / str(packed), toy.settings(steps=3, log_every=1, packed=packed, batch_tokens=2000), balance=BALANCE)
    for one, other in zip(rows(tmp_path / "False"), rows(tmp_path / "True"), strict=True):
        assert one["expert_shares"] == other["expert_shares"]
        np.testing.assert_allclose(one["balance"], other["balance"], rtol=1e-5)


def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path):
    class Stopping(Silent):
        def show(self, status):
            if status.step == 7:
                work.interrupts.number = 2

    toy.train(tmp_path / "whole", toy.settings(), balance=BALANCE)
    work = loop(tmp_path / "parts")
    work.display = Stopping()
    with pytest.raises(StoppedError):
        work.run()
    work.job.folder.metrics.flush()
    toy.train(tmp_path / "parts", toy.settings(), balance=BALANCE)
    assert rows(tmp_path / "whole") == rows(tmp_path / "parts")
    one, other = (read_tensors(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_evaluation_neither_adds_a_loss_nor_moves_a_bias(tmp_path):
    class Watching(toy.Task):
        def evaluate(self, model, state, dataset, **options):
            biases = [m.choice_bias.clone() for m in model.modules() if isinstance(m, Experts)]
            assert current_auxiliary() is None
            found = super().evaluate(model, state, dataset, **options)
            assert all(
                torch.equal(b, m.choice_bias) for b, m in zip(biases, (m for m in model.modules() if isinstance(m, Experts)), strict=True)
            )
            return found

    for every in (1, 24):
        toy.train(tmp_path / str(every), toy.settings(eval_every=every), balance=BALANCE, task=Watching())
    assert rows(tmp_path / "1") == rows(tmp_path / "24")


def test_a_balanced_run_is_more_even_than_one_left_alone(tmp_path):
    """With the loss of balance alone the experts are used more evenly: the gradient has the right sign."""
    entropies = []
    for number, balance in enumerate(
        ([], [{"kind": "kl", "weight": 1.0}], [{"kind": "switch", "weight": 1.0}], [{"kind": "bias", "rate": 0.02}])
    ):
        toy.train(tmp_path / str(number), toy.settings(steps=60, log_every=10), balance=balance)
        entropies.append(rows(tmp_path / str(number))[-1]["expert_entropy"])
    assert min(entropies[1:]) > entropies[0]
