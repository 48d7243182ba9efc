"""Several networks as one model: each is a model by itself, and the answer is the mean of theirs."""

from copy import deepcopy

import pytest
import torch
from torch.testing import assert_close

from attentif.errors import ConfigError
from attentif.models import Batch, Input, Model, build, resolve
from attentif.nn.seq import Seq
from attentif.nn.tape import record

SIZES = {"vocab": 13, "classes": 3}


def made(members: int = 3, base: str = "encoder-tiny") -> Model:
    torch.manual_seed(0)
    config = resolve({"base": base, "width": 16, "layers": 2, "members": members})
    return build(config.with_sizes(**SIZES)).eval()


def batch() -> Batch:
    torch.manual_seed(1)
    return Batch(Input(torch.randint(13, (2, 5)), Seq.padded([5, 3])))


def test_the_answer_is_the_mean_of_the_members_answers() -> None:
    model = made()
    each = [member(batch())[0] for member in model.members]
    assert len(each) == 3
    assert not torch.equal(each[0], each[1])
    assert_close(model(batch())[0], (each[0] + each[1] + each[2]) / 3, rtol=1e-6, atol=1e-6)


def test_a_member_is_a_whole_model_that_shares_its_weights() -> None:
    model = made()
    names = set(made(1).state_dict())
    for member in model.members:
        assert set(member.state_dict()) == names
        assert member.members == [member]
        assert member.config == made(1).config
    with torch.no_grad():
        next(model.members[0].parameters()).zero_()
    assert not next(model.parameters()).any()


def test_every_parameter_belongs_to_one_member() -> None:
    model = made()
    own = [id(parameter) for member in model.members for parameter in member.parameters()]
    assert sorted(own) == sorted(id(parameter) for parameter in model.parameters())
    assert model.sizes() == {part: 3 * number for part, number in made(1).sizes().items()}


def test_a_model_of_one_is_what_it_was() -> None:
    model = made(1)
    assert model.members == [model]
    assert "others" not in "".join(model.state_dict())


def test_modes_copies_and_checkpointing_reach_all_members() -> None:
    model = made()
    model.checkpointing = True
    assert all(member.checkpointing for member in model.members)
    assert all(member.training for member in model.train().members)
    copied = deepcopy(model).eval()
    assert_close(copied(batch())[0], model.eval()(batch())[0], rtol=0, atol=0)


def test_a_tape_of_the_whole_tells_members_apart() -> None:
    model = made(2)
    with record(model, layers=[1]) as tape:
        model(batch())
    assert list(tape) == ["encoder.blocks.1.attn", "others.0.encoder.blocks.1.attn"]


def test_an_average_does_not_write() -> None:
    config = resolve({"base": "decoder-tiny", "width": 16, "layers": 1, "members": 2}).with_sizes(vocab=13)
    model = build(config).eval()
    with pytest.raises(ConfigError, match="it does not write"):
        model.init_state(1, 8)
    with pytest.raises(ValueError, match="take no state"):
        model(batch(), build(config.changed(members=1)).init_state(2, 8))
