"""Predictors: wrappers that combine plain networks, which know nothing of them."""

from copy import deepcopy

import torch
from torch.testing import assert_close

from attentif.models import Batch, Input, Model, build, resolve
from attentif.nn.seq import Seq
from attentif.nn.tape import record
from attentif.tasks.predictors import Ensemble, first_network, networks_of

SIZES = {"vocab": 13, "classes": 3}


def make_networks(count: int = 3) -> list[Model]:
    torch.manual_seed(0)
    config = resolve({"base": "encoder-tiny", "width": 16, "layers": 2}).with_sizes(**SIZES)
    return [build(config).eval() for _ in range(count)]


def make_batch() -> Batch:
    torch.manual_seed(1)
    return Batch(Input(torch.randint(13, (2, 5)), Seq.from_padded([5, 3])))


def test_an_ensemble_averages_the_logits_of_its_networks() -> None:
    networks = make_networks()
    each = [network(make_batch())[0] for network in networks]
    assert not torch.equal(each[0], each[1])
    assert_close(Ensemble(networks)(make_batch())[0], (each[0] + each[1] + each[2]) / 3, rtol=1e-6, atol=1e-6)


def test_a_network_is_the_same_inside_an_ensemble_and_alone() -> None:
    alone = make_networks(1)[0]
    ensemble = Ensemble(make_networks())
    assert ensemble.config == alone.config
    assert {*ensemble.networks[0].state_dict()} == {*alone.state_dict()}
    assert ensemble.sizes() == {part: 3 * number for part, number in alone.sizes().items()}
    assert sum(ensemble.sizes().values()) == sum(parameter.numel() for parameter in ensemble.parameters())


def test_the_networks_of_a_predictor_are_found_whatever_wraps_them() -> None:
    networks = make_networks()
    assert networks_of(networks[1]) == [networks[1]]
    assert networks_of(Ensemble(networks)) == networks
    assert first_network(Ensemble(networks)) is networks[0]


def test_modes_and_copies_reach_all_networks() -> None:
    ensemble = Ensemble(make_networks())
    assert all(network.training for network in ensemble.train().networks)
    copied = deepcopy(ensemble).eval()
    assert_close(copied(make_batch())[0], ensemble.eval()(make_batch())[0], rtol=0, atol=0)


def test_a_tape_of_an_ensemble_tells_its_networks_apart() -> None:
    ensemble = Ensemble(make_networks(2))
    with record(ensemble, layers=[1]) as tape:
        ensemble(make_batch())
    assert list(tape) == ["members.0.encoder.blocks.1.attn", "members.1.encoder.blocks.1.attn"]
