from contextlib import suppress

import torch
from torch import nn

from attentif.training.ema import Average


def drift(model, average, steps):
    """Moves the weights at random, and works out the average by its definition."""
    expected = model.weight.detach().clone()
    for step in range(1, steps + 1):
        with torch.no_grad():
            model.weight += torch.randn_like(model.weight)
        average.update(step)
        decay = min(average.decay, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * model.weight.detach()
    return expected


def test_the_average_follows_its_definition():
    model = nn.Linear(4, 3)
    average = Average(model, 0.5)
    expected = drift(model, average, 20)
    torch.testing.assert_close(average.mean["weight"], expected)


def test_swapped_weights_come_back_even_after_an_error():
    model = nn.Linear(4, 3)
    average = Average(model, 0.9)
    drift(model, average, 3)
    own, mean = model.weight.detach().clone(), average.mean["weight"].clone()
    with suppress(RuntimeError), average.apply():
        assert torch.equal(model.weight, mean)
        raise RuntimeError
    assert torch.equal(model.weight, own)
    assert torch.equal(average.mean["weight"], mean)


def test_frozen_weights_are_not_averaged():
    model = nn.Linear(4, 3)
    model.bias.requires_grad_(False)
    assert list(Average(model, 0.9).mean) == ["weight"]
