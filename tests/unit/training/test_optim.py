import pytest
import torch
import toy
from torch import nn

from attentif.models import build, resolve
from attentif.nn.linear import StackedLinear
from attentif.training.optim import Muon, load_state, optimizers, orthogonal, set_rate, state_of

KINDS = ["adamw", "adafactor", "muon"]


def groups_of(found, model):
    """Parameter's name -> (optimiser, weight decay)."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {
        names[id(parameter)]: (type(optimizer).__name__, group["weight_decay"])
        for optimizer in found
        for group in optimizer.param_groups
        for parameter in group["params"]
    }


def take_steps(model, found, count):
    for _ in range(count):
        sum((parameter * torch.randn_like(parameter)).sum() for parameter in model.parameters()).backward()
        for optimizer in found:
            optimizer.step()
            optimizer.zero_grad()


def test_biases_and_embeddings_do_not_decay():
    model = toy.Model()
    assert groups_of(optimizers(model, toy.settings(weight_decay=0.1)), model) == {
        "hidden.weight": ("AdamW", 0.1),
        "head.weight": ("AdamW", 0.1),
        "tokens.weight": ("AdamW", 0.0),
        "hidden.bias": ("AdamW", 0.0),
        "head.bias": ("AdamW", 0.0),
    }


def test_the_stacked_biases_of_experts_do_not_decay_either():
    model = nn.ModuleDict({"up": StackedLinear(4, 8, 6)})
    for optimizer in ("adamw", "muon"):
        found = groups_of(optimizers(model, toy.settings(optimizer=optimizer, weight_decay=0.1)), model)
        assert found == {"up.weight": ("AdamW", 0.1), "up.bias": ("AdamW", 0.0)}


def test_muon_takes_hidden_matrices_and_leaves_the_rest_to_adamw():
    model = toy.Model()
    assert groups_of(optimizers(model, toy.settings(optimizer="muon", weight_decay=0.1)), model) == {
        "hidden.weight": ("Muon", 0.1),
        "head.weight": ("AdamW", 0.1),
        "tokens.weight": ("AdamW", 0.0),
        "hidden.bias": ("AdamW", 0.0),
        "head.bias": ("AdamW", 0.0),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_parameters_are_left_out(kind):
    model = toy.Model()
    model.hidden.weight.requires_grad_(False)
    assert "hidden.weight" not in groups_of(optimizers(model, toy.settings(optimizer=kind)), model)


@pytest.mark.parametrize("together", [1, 2000, 1 << 20])  # each matrix alone, two at once, all of a shape
def test_muon_agrees_with_torch_to_the_last_bits(monkeypatch, together):
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda self: self)  # theirs in float32 as ours: bfloat16 products stop some machines dead
    monkeypatch.setattr("attentif.training.optim.TOGETHER", together)
    torch.manual_seed(0)
    shapes = [(24, 40), (40, 24), (24, 40), (16, 16), (24, 40)]
    ours, theirs = ([nn.Parameter(torch.zeros(shape)) for shape in shapes] for _ in range(2))
    own = Muon(ours, lr=0.1, weight_decay=0.1)
    other = torch.optim.Muon(theirs, lr=0.1, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for _ in range(5):
        for mine, their in zip(ours, theirs, strict=True):
            mine.grad = torch.randn_like(mine)
            their.grad = mine.grad.clone()
        own.step()
        other.step()
    for mine, their in zip(ours, theirs, strict=True):
        assert (mine - their).norm() / their.norm() < 1e-5  # float32, and products that may be summed in another order


@pytest.mark.parametrize("shape", [(16, 16), (8, 40), (40, 8)])
def test_orthogonalised_matrices_have_singular_values_near_one_and_the_same_directions(shape):
    torch.manual_seed(0)
    matrix = torch.randn(shape, dtype=torch.float64)
    (found,) = orthogonal(matrix[None], 5)
    values = torch.linalg.svdvals(found)
    assert values.min() > 0.3
    assert values.max() < 1.3
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    inner = u.T @ found @ v.T
    assert (inner - inner.diag().diag()).abs().max() < 1e-10


@pytest.mark.parametrize("kind", KINDS)
def test_an_optimiser_goes_on_from_its_saved_state_to_the_last_bit(kind):
    config = toy.settings(optimizer=kind)
    models, found = [], []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(toy.Model())
        found.append(optimizers(models[-1], config))
    torch.manual_seed(1)
    take_steps(models[0], found[0], 3)
    models[1].load_state_dict(models[0].state_dict())
    load_state(found[1], state_of(found[0]))
    for model, own in zip(models, found, strict=True):
        torch.manual_seed(2)
        take_steps(model, own, 3)
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_rate_is_set_everywhere():
    found = optimizers(toy.Model(), toy.settings(optimizer="muon"))
    set_rate(found, 0.25)
    assert {group["lr"] for optimizer in found for group in optimizer.param_groups} == {0.25}


@pytest.mark.parametrize("kind", KINDS)
def test_each_block_learns_at_a_share_of_the_rate_above_it(kind):
    model = build(resolve({"base": "transformer-tiny", "width": 16, "layers": 3, "frontend": {"vocab": 20}, "target": {"vocab": 20}}))
    model.get_parameter("encoder.blocks.1.ffn.mixer.up.weight").requires_grad_(False)
    found = optimizers(model, toy.settings(optimizer=kind, layer_decay=0.5))
    set_rate(found, 0.8)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    rates = {names[id(p)]: group["lr"] for optimizer in found for group in optimizer.param_groups for p in group["params"]}
    assert rates.keys() == {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    expected = {"frontend.": 0.1, "target.": 0.1, "encoder.blocks.2.": 0.8, "decoder.norm.": 0.8, "head.": 0.8}
    expected |= {f"{side}.blocks.{block}.": 0.2 * 2**block for side in ("encoder", "decoder") for block in range(3)}
    for name, rate in rates.items():
        wanted = [value for part, value in expected.items() if name.startswith(part)]
        assert not wanted or rate == pytest.approx(wanted[0]), name
    assert {0.1, 0.2, 0.4, 0.8} == {round(rate, 6) for rate in rates.values()}
    sum(parameter.square().sum() for parameter in model.parameters()).backward()
    for optimizer in found:
        optimizer.step()


def test_without_layer_decay_all_learn_alike_in_the_groups_they_were_in():
    assert [[group["share"] for group in optimizer.param_groups] for optimizer in optimizers(toy.Model(), toy.settings())] == [[1.0, 1.0]]
