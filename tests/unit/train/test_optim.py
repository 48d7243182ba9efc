import pytest
import torch
import toy
from torch import nn

from attentif.nn.linear import StackedLinear
from attentif.train.optim import Muon, load_state, optimizers, orthogonal, set_rate, state_of

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


def test_muon_agrees_with_torch_up_to_its_bfloat16():
    torch.manual_seed(0)
    ours, theirs = (nn.Parameter(torch.zeros(24, 40)) for _ in range(2))
    own = Muon([ours], lr=0.1, weight_decay=0.1)
    other = torch.optim.Muon([theirs], lr=0.1, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for _ in range(5):
        ours.grad = torch.randn(24, 40)
        theirs.grad = ours.grad.clone()
        own.step()
        other.step()
    assert (ours - theirs).norm() / theirs.norm() < 0.02


@pytest.mark.parametrize("shape", [(16, 16), (8, 40), (40, 8)])
def test_orthogonalised_matrices_have_singular_values_near_one_and_the_same_directions(shape):
    torch.manual_seed(0)
    matrix = torch.randn(shape, dtype=torch.float64)
    found = orthogonal(matrix, 5)
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
