"""Small models for experiments: the same seed gives the same weights, and what can be learned is learned."""

import numpy as np
import torch

from attentif.lab.small import Rows, accuracy_by_place, answers, batch_of, exact_match, make_tick, train_model
from attentif.models import ModelConfig, build
from attentif.tasks.ragged import UNSCORED

MODEL = {
    "width": 16,
    "layers": 1,
    "init": {"kind": "xavier"},
    "frontend": {"kind": "tokens", "vocab": 4},
    "decoder": {"block": {"cell": {"mixer": {"kind": "gru"}}}},
    "head": {"kind": "language", "tied": False},
}


def same(count: int, seed: int) -> Rows:
    """The token itself, asked for at every place but the first."""
    tokens = np.random.default_rng(seed).integers(0, 4, (count, 5))
    targets = tokens.copy()
    targets[:, 0] = UNSCORED
    return tokens, targets


def test_a_model_learns_the_same_thing_twice() -> None:
    ticks: list[tuple[int, int]] = []
    tick = make_tick(lambda done, total: ticks.append((done, total)), 120)
    first, again = (train_model(MODEL, same, steps=60, lr=1e-2, tick=tick) for _ in range(2))
    assert ticks[-1] == (120, 120)
    for one, other in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)
    assert exact_match(first, same(100, 10**6)) > 0.95
    places = accuracy_by_place(first, same(100, 10**6))
    assert np.isnan(places[0])
    assert (places[1:] > 0.95).all()


def test_a_decoder_beside_an_encoder_reads_the_targets_before_each_place() -> None:
    rows = np.array([[1, 2, 3]]), np.array([[3, 2, 1]])
    stack = {"placement": "none", "block": {"rnn": {"residual": False, "mixer": {"kind": "gru"}}}}
    frontend = {"kind": "tokens", "vocab": 4}
    bridged = {"width": 8, "layers": 1, "bridge": ["rnn"], "frontend": frontend, "target": frontend, "encoder": stack, "decoder": stack}
    model = build(ModelConfig.model_validate(bridged | {"head": {"kind": "language", "tied": False}}))
    given = batch_of(model, rows).target
    assert given is not None
    assert given.data.tolist() == [[0, 3, 2]]
    assert answers(model, rows)[0].shape == (1, 3, 4)
