import pytest
import torch
import torch.nn.functional as F

from attentif.errors import ConfigError
from attentif.models import Batch, Input, Model, build, resolve
from attentif.nn.seq import Seq
from attentif.tasks import ClassifyConfig
from attentif.tasks.classification.adversarial import adversarial_loss, worst_step

LENGTHS, VOCAB, WIDTH = (5, 2, 4), 20, 8
LABELS = torch.tensor([0, 1, 1])


def small(dropout: float = 0.0) -> Model:
    torch.manual_seed(0)
    values = {"base": "bi-lstm-tiny", "width": WIDTH, "dropout": dropout, "frontend": {"kind": "tokens", "vocab": VOCAB}}
    return build(resolve(values | {"head": {"kind": "classify", "classes": 2}})).double()


def batch(*, packed: bool = False) -> Batch:
    torch.manual_seed(1)
    rows = [torch.randint(0, VOCAB, (length,)) for length in LENGTHS]
    if packed:
        return Batch(Input(torch.cat(rows), Seq.from_packed(LENGTHS)), labels=LABELS)
    return Batch(Input(torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), Seq.from_padded(LENGTHS)), labels=LABELS)


def loss_of(logits: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits, LABELS, reduction="sum")


def loss_at(model: Model, given: Batch, moved: torch.Tensor) -> torch.Tensor:
    """The loss where the tokens' vectors are moved."""
    handle = model.frontend.tokens.register_forward_hook(lambda module, source, output: output + moved)
    try:
        return loss_of(model(given)[0])
    finally:
        handle.remove()


def test_the_step_is_the_paper_s_equation_in_normalised_vectors() -> None:
    model, given, radius = small(), batch(), 0.7
    table = model.frontend.tokens.weight.detach()
    v = table[given.source.data].requires_grad_()
    (slope,) = torch.autograd.grad(loss_at(model, given, v - v.detach()), v)
    tokens = torch.cat([table[row[:length]] for row, length in zip(given.source.data, LENGTHS, strict=True)])
    spread = tokens.var(0, correction=0).sqrt()
    found = worst_step(v.detach(), slope, given.source.seq, radius)
    for row, length in enumerate(LENGTHS):
        g = slope[row, :length] * spread  # the gradient for v̄ = (v - E[v]) / √Var[v]
        r = radius * g / g.norm()
        torch.testing.assert_close(found[row, :length], spread * r)
        assert not found[row, length:].any()
        assert (found[row, :length] / spread).norm().item() == pytest.approx(radius)


@pytest.mark.parametrize("packed", [False, True])
def test_loss_and_gradient_are_the_mean_of_both_places_with_the_step_held_fixed(packed: bool) -> None:
    model, given, radius = small(), batch(packed=packed), 0.5
    v = model.frontend.tokens.weight.detach()[given.source.data].requires_grad_()
    (slope,) = torch.autograd.grad(loss_at(model, given, v - v.detach()), v)
    step = worst_step(v.detach(), slope, given.source.seq, radius)
    by_hand = (loss_of(model(given)[0]) + loss_at(model, given, step)) / 2
    expected = torch.autograd.grad(by_hand, list(model.parameters()))
    found, logits = adversarial_loss(model, given, loss_of, radius)
    torch.testing.assert_close(found, by_hand)
    torch.testing.assert_close(logits, model(given)[0])
    for one, other in zip(torch.autograd.grad(found, list(model.parameters())), expected, strict=True):
        torch.testing.assert_close(one, other)


def test_no_step_of_that_length_is_worse_to_first_order() -> None:
    model, given, radius = small(), batch(), 1e-3
    v = model.frontend.tokens.weight.detach()[given.source.data].requires_grad_()
    (slope,) = torch.autograd.grad(loss_at(model, given, v - v.detach()), v)
    worst = worst_step(v.detach(), slope, given.source.seq, radius)
    chance = worst_step(v.detach(), torch.randn_like(slope), given.source.seq, radius)
    here = loss_of(model(given)[0])
    assert loss_at(model, given, worst) > here
    assert loss_at(model, given, worst) > loss_at(model, given, chance)
    assert loss_at(model, given, -worst) < here


def test_both_passes_see_the_same_dropout() -> None:
    model, given = small(dropout=0.5).train(), batch()
    torch.manual_seed(3)
    found, _ = adversarial_loss(model, given, loss_of, 1e-9)
    torch.manual_seed(3)
    torch.testing.assert_close(found, loss_of(model(given)[0]))


def test_it_is_for_training_alone() -> None:
    task, model, given = ClassifyConfig(adversarial=3.0).build(), small(), batch()
    plain = loss_of(model(given)[0])
    assert task.step(model.eval(), given).total.item() == pytest.approx(plain.item())
    assert task.step(model.train(), given).total.item() > plain.item()


def test_a_model_that_reads_no_tokens_is_refused() -> None:
    values = {"base": "encoder-tiny", "frontend": {"kind": "patches", "size": 4}}
    with pytest.raises(ConfigError, match=r"task\.adversarial"):
        ClassifyConfig(adversarial=1.0).build().check(resolve(values))
