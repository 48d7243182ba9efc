"""Removing experts: the model that stays is a model like any other."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attentif.errors import ConfigError
from attentif.models import Batch, Input, Model, build, resolve
from attentif.models.experts import expert_counts, prune_experts, select_most_used
from attentif.nn.seq import Seq

PATH = "decoder.blocks.1.ffn"


@pytest.fixture
def model() -> Model:
    torch.manual_seed(0)
    mixers = {"ffn": {"mixer": {"experts": 4, "hidden": 24, "bias": True, "router_bias": True, "balance": [{"kind": "bias"}]}}}
    sizes = {"width": 32, "layers": 3, "frontend": {"vocab": 50}, "decoder": {"block": mixers}}
    made = build(resolve({"base": "mixtral-tiny"} | sizes)).eval()
    router = made.get_submodule(f"{PATH}.mixer.router")
    assert isinstance(router, nn.Linear)
    nn.init.zeros_(router.bias)
    router.bias.data[2] = -100.0  # nobody wants it
    return made


def batch() -> Batch:
    torch.manual_seed(1)
    return Batch(Input(torch.randint(50, (3, 9)), Seq.from_padded([9, 4, 6])))


def test_counts_say_who_is_used(model: Model) -> None:
    counts = expert_counts(model, [batch(), batch()])
    assert list(counts) == [f"decoder.blocks.{block}.ffn" for block in range(3)]
    assert all(int(found.sum()) == 2 * 2 * 19 for found in counts.values())
    assert int(counts[PATH][2]) == 0
    assert select_most_used(counts[PATH], 3) == [0, 1, 3]


def test_without_an_unused_expert_the_model_answers_the_same(model: Model) -> None:
    smaller = prune_experts(model, PATH, [0, 1, 3])
    before, after = (model(batch())[0], smaller(batch())[0])
    assert_close(after, before)
    kinds = smaller.config.decoder
    assert kinds is not None
    assert [(kind.repeat, kind.sublayers["ffn"].mixer.model_dump()["experts"]) for kind in kinds.blocks] == [(1, 4), (1, 3), (1, 4)]
    assert sum(p.numel() for p in smaller.parameters()) < sum(p.numel() for p in model.parameters())
    again = build(smaller.config)  # from its configuration alone
    again.load_state_dict(smaller.state_dict())


def test_the_first_model_is_left_as_it_is_and_the_second_can_be_pruned_further(model: Model) -> None:
    kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    smaller = prune_experts(prune_experts(model, PATH, [3, 1]), "decoder.blocks.0.ffn", [0, 2, 1])
    assert all(torch.equal(tensor, kept[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(smaller.state_dict()[f"{PATH}.mixer.up.weight"], kept[f"{PATH}.mixer.up.weight"][[3, 1]])
    assert torch.equal(
        smaller.state_dict()["decoder.blocks.0.ffn.mixer.router.bias"], kept["decoder.blocks.0.ffn.mixer.router.bias"][[0, 2, 1]]
    )
    smaller.train()(batch())[0].sum().backward()


@pytest.mark.parametrize(
    ("path", "keep", "message"),
    [
        ("decoder.blocks.1.attn", [0, 1], "there is no mixture of experts at 'decoder.blocks.1.attn'; there are: decoder.blocks.0.ffn"),
        (PATH, [0, 0, 1], "does not name different experts of 0 to 3"),
        (PATH, [0, 4], "does not name different experts of 0 to 3"),
        (PATH, [0], "a token uses 2 experts, so at least as many must be kept"),
    ],
)
def test_what_cannot_stay_is_refused(model: Model, path: str, keep: list[int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        prune_experts(model, path, keep)


def test_groups_keep_as_many_each() -> None:
    values = {"experts": 6, "groups": 2, "top_groups": 1, "hidden": 8}
    mixers = {"ffn": {"mixer": values}}
    grouped = build(resolve({"base": "mixtral-tiny", "width": 32, "layers": 1, "frontend": {"vocab": 50}, "decoder": {"block": mixers}}))
    with pytest.raises(ConfigError, match="2 groups"):
        prune_experts(grouped, "decoder.blocks.0.ffn", [0, 1, 2, 3])
    prune_experts(grouped, "decoder.blocks.0.ffn", [0, 2, 3, 5])(batch())
