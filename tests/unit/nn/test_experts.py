"""Mixtures of experts: what is refused, what the router is told, what it tells."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.errors import ConfigError
from attentif.nn.auxiliary import collect_auxiliary
from attentif.nn.balance import KLConfig, Routing, SwitchConfig, evenness
from attentif.nn.mixer import Site
from attentif.nn.mixers.experts import Experts, ExpertsConfig
from attentif.nn.seq import Seq
from attentif.nn.stack import Stack, StackConfig
from attentif.nn.tape import record

WIDTH, LENGTHS = 16, [7, 3, 5]
SEQ = Seq.from_padded(LENGTHS)


def built(**values: Any) -> Experts:
    torch.manual_seed(0)
    return ExpertsConfig.model_validate({"experts": 4, "hidden": 12} | values).build(Site(width=WIDTH))


def drawn(seed: int = 1) -> Tensor:
    return torch.randn(3, 7, WIDTH, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"top_k": 5}, "top_k = 5 is more than experts = 4"),
        ({"groups": 3}, "experts = 4 is not a multiple of groups = 3"),
        ({"groups": 2}, "groups need top_groups"),
        ({"groups": 2, "top_groups": 3}, "top_groups = 3 is more than groups = 2"),
        ({"groups": 4, "top_groups": 2}, "group_best = 2 is more than the 1 experts of a group"),
        ({"groups": 2, "top_groups": 1, "top_k": 3}, "top_k = 3 is more than the 2 experts of top_groups = 1 groups"),
    ],
)
def test_what_cannot_be_chosen_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        built(**values)


def test_padding_reaches_neither_the_statistics_nor_the_losses() -> None:
    mixer = built(balance=[{"kind": "kl"}, {"kind": "switch"}, {"kind": "z"}])
    clean, dirty = drawn(), drawn()
    dirty[~SEQ.valid] = 1e6
    found = []
    for x, seq in ((clean, SEQ), (dirty, SEQ), (clean[SEQ.valid], Seq.from_packed(LENGTHS))):
        with collect_auxiliary() as auxiliary:
            mixer(x, seq)
        assert int(auxiliary.counts[mixer][-1]) == sum(LENGTHS)
        assert int(auxiliary.counts[mixer][:-1].sum()) == 2 * sum(LENGTHS)
        found.append((auxiliary.loss, auxiliary.counts[mixer]))
    assert_close(found[0], found[1], rtol=0, atol=0)
    assert_close(found[0], found[2])


def test_nobody_listening_means_nothing_said() -> None:
    mixer = built(balance=[{"kind": "bias"}])
    assert mixer.choice_bias is not None
    mixer(drawn(), SEQ)
    assert torch.count_nonzero(mixer.choice_bias) == 0


def test_the_tape_keeps_where_every_token_went() -> None:
    mixer = built()
    with record(mixer) as tape, torch.no_grad():
        mixer(drawn(), SEQ)
    (routing,) = tape.records[""]
    assert isinstance(routing, Routing)
    assert routing.chosen.shape == routing.weights.shape == (sum(LENGTHS), 2)
    assert_close(routing.weights.sum(1), torch.ones(sum(LENGTHS)))
    assert_close(routing.shares.sum(), torch.tensor(1.0))
    best = routing.probabilities.max(-1)
    assert torch.equal(routing.chosen[:, 0], best.indices)


def test_losses_are_least_where_all_experts_are_alike() -> None:
    even = Routing(torch.zeros(8, 4), torch.full((8, 4), 0.25), torch.arange(8)[:, None] % 4, torch.ones(8, 1))
    one = torch.nn.functional.one_hot(torch.zeros(8, dtype=torch.long), 4).float()
    uneven = Routing(torch.zeros(8, 4), one, torch.zeros(8, 1, dtype=torch.long), torch.ones(8, 1))
    assert float(KLConfig().loss(even)) == pytest.approx(0)
    assert float(KLConfig().loss(uneven)) == pytest.approx(math.log(4))
    assert float(SwitchConfig().loss(even)) == pytest.approx(1)
    assert float(SwitchConfig().loss(uneven)) == pytest.approx(4)
    assert evenness(even.shares.tolist()) == pytest.approx(1)
    assert evenness(uneven.shares.tolist()) == 0
    assert evenness([1.0]) == 1


def test_an_expert_that_nobody_would_use_has_a_finite_gradient() -> None:
    logits = torch.tensor([[0.0, -1000.0], [0.0, -1000.0]], requires_grad=True)
    routing = Routing(logits, logits.softmax(-1), torch.zeros(2, 1, dtype=torch.long), torch.ones(2, 1))
    loss = KLConfig().loss(routing)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(math.log(2))
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_the_bias_changes_who_is_chosen_and_not_what_they_weigh() -> None:
    mixer = built(top_k=1, normalised=False, scores="sigmoid", balance=[{"kind": "bias", "rate": 0.5}])
    x = drawn()[SEQ.valid]
    before = mixer.route(x)
    mixer.learn([*(10.0 if number == 2 else 0.0 for number in range(4)), 10.0])
    assert mixer.choice_bias is not None
    assert mixer.choice_bias.tolist() == [0.5, 0.5, -0.5, 0.5]
    after = mixer.route(x)
    assert (before.chosen == 2).any()
    assert not (after.chosen == 2).any()
    assert_close(after.weights, after.logits.sigmoid().gather(1, after.chosen))


def test_jitter_moves_the_router_in_training_alone() -> None:
    mixer, x = built(jitter=0.3), drawn()[SEQ.valid]
    mixer.train()
    assert not torch.equal(mixer.route(x).logits, mixer.route(x).logits)
    mixer.eval()
    assert torch.equal(mixer.route(x).logits, mixer.router(x))


def test_an_empty_batch_has_no_loss() -> None:
    mixer = built(balance=[{"kind": "kl"}, {"kind": "switch"}, {"kind": "z"}])
    with collect_auxiliary() as auxiliary:
        y = mixer(torch.zeros(0, WIDTH), Seq.from_packed([0, 0]))
    assert y.shape == (0, WIDTH)
    assert sum(float(loss.detach()) for loss in auxiliary.losses) == 0
    assert mixer.describe([0.0] * 5)["expert_dropped"] == 0


def test_each_expert_begins_as_a_linear_map_of_its_own() -> None:
    from attentif.nn.init import InitConfig, initialise

    config = StackConfig.model_validate({"block": {"ffn": {"mixer": {"kind": "experts", "experts": 4, "hidden": 300, "bias": True}}}})
    stack = Stack(config, width=200, layers=2, dropout=0.0)
    initialise(stack, InitConfig(kind="xavier"))
    mixer = stack.blocks[1].get_submodule("ffn.mixer")
    assert isinstance(mixer, Experts)
    bound = math.sqrt(6 / 500)
    for weights, limit in ((mixer.up.weight, bound), (mixer.out.weight, bound / math.sqrt(2))):  # two sublayers write into the stream
        for matrix in weights:
            assert float(matrix.detach().abs().max()) == pytest.approx(limit, rel=0.01)
    assert mixer.out.bias is not None
    assert torch.count_nonzero(mixer.out.bias) == 0


@pytest.mark.parametrize("reversible", [False, True])
def test_what_is_computed_again_backwards_is_said_once(reversible: bool) -> None:
    """Losses and gradients are those of a stack that keeps everything, however it saves memory."""
    block = {name: {"mixer": {"kind": "experts", "experts": 4, "hidden": 12, "balance": [{"kind": "kl"}]}} for name in ("one", "two")}
    values = {"block": block} | ({"reversible": True} if reversible else {})
    torch.manual_seed(0)
    stack = Stack(StackConfig.model_validate(values), width=WIDTH, layers=2, dropout=0.0).double()
    found = []
    for saving in (False, True):
        stack.checkpointing = saving and not reversible
        x = drawn().double().requires_grad_()
        with collect_auxiliary() as auxiliary:
            # a reversible stack that needs no gradient of its own input or weights keeps everything: given a state, it does
            y = stack(x, SEQ, state=stack.init_state(3, 8, device=x.device, dtype=x.dtype)) if reversible and not saving else stack(x, SEQ)
        objective = y[SEQ.valid].square().sum() + 100 * auxiliary.loss
        gradients = torch.autograd.grad(objective, [x, *stack.parameters()])
        found.append((objective.detach(), auxiliary.counts, gradients))
    (one, counts, first), (other, again, second) = found
    assert_close(one, other)
    assert {mixer: said.tolist() for mixer, said in counts.items()} == {mixer: said.tolist() for mixer, said in again.items()}
    assert len(counts) == 4
    assert_close(first, second)
