"""Recurrent mixers: what is refused, how they begin, how far their gradients reach, what a state costs."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.errors import ConfigError
from attentif.nn.mixer import MixerConfig, Site
from attentif.nn.mixers.bidirectional import BidirectionalConfig
from attentif.nn.mixers.gru import GRUConfig
from attentif.nn.mixers.lstm import LSTMConfig
from attentif.nn.mixers.rnn import RNNConfig
from attentif.nn.recurrent import CellState
from attentif.nn.seq import Seq

every_cell = pytest.mark.parametrize("config", [RNNConfig(), LSTMConfig(), LSTMConfig(peepholes=True), GRUConfig()])


def reach(config: MixerConfig, steps: int = 200) -> float:
    """How much the first input weighs in the last output, against how much the last one does."""
    torch.manual_seed(0)
    mixer = config.build(Site(width=16)).double()
    x = torch.randn(8, steps, 16, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(mixer(x, Seq.from_padded([steps] * 8))[:, -1].sum(), x)
    return float(gradient[:, 0].norm() / gradient[:, -1].norm())


def test_over_200_steps_the_gradient_of_an_rnn_vanishes_and_that_of_an_lstm_less_so() -> None:
    rnn, lstm = reach(RNNConfig()), reach(LSTMConfig())
    assert rnn < 1e-30
    assert lstm > 1e6 * rnn


@every_cell
def test_truncated_backpropagation_carries_the_state_and_cuts_its_history(config: MixerConfig) -> None:
    torch.manual_seed(0)
    mixer = config.build(Site(width=8)).double()
    x = torch.randn(3, 12, 8, dtype=torch.float64)
    whole = mixer(x, Seq.from_padded([12] * 3))
    state = mixer.init_state(3, 12, device=x.device, dtype=x.dtype)
    for piece in range(3):
        if piece:
            state = state.detach()
        part = x[:, 4 * piece : 4 * piece + 4].clone().requires_grad_()
        y = mixer(part, Seq.from_padded([4] * 3, start=4 * piece), state)
        assert_close(y, whole[:, 4 * piece : 4 * piece + 4], rtol=1e-12, atol=1e-12)
        mixer.zero_grad()
        y.square().sum().backward()  # would fail on the freed graph of the piece before, were it still attached
        assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in mixer.parameters())
        assert part.grad is not None
        assert part.grad.count_nonzero() > 0


@every_cell
def test_a_state_has_one_size_however_much_was_read(config: MixerConfig) -> None:
    mixer = config.build(Site(width=8))
    sizes = {mixer.init_state(2, capacity, device=torch.device("cpu"), dtype=torch.float32).bytes() for capacity in (1, 100_000)}
    assert len(sizes) == 1


def test_a_state_in_use_is_replaced_and_never_written() -> None:
    mixer, x = LSTMConfig().build(Site(width=8)), torch.randn(2, 3, 8)
    state = mixer.init_state(2, 3, device=x.device, dtype=x.dtype)
    assert isinstance(state, CellState)
    h, c = state.h, state.c
    with torch.no_grad():
        mixer(x, Seq.from_padded([3, 3]), state)
        mixer(x[:, :1], Seq.from_padded([1, 1], start=3), state)
    assert not h.any()
    assert not c.any()
    assert state.h.any()
    assert state.c.any()


def test_the_cell_needs_no_projection_where_it_has_the_width_of_the_model() -> None:
    assert LSTMConfig().build(Site(width=8)).out is None
    assert LSTMConfig(hidden=8).build(Site(width=8)).out is None
    assert LSTMConfig(hidden=6).build(Site(width=8)).out.weight.shape == (8, 6)
    assert LSTMConfig(project=True).build(Site(width=8)).out.weight.shape == (8, 8)
    with pytest.raises(ConfigError, match=r"= 6.*projection.*8"):
        LSTMConfig(hidden=6, project=False).build(Site(width=8))


def test_forget_gates_begin_open_and_state_weights_orthogonal() -> None:
    lstm = LSTMConfig(peepholes=True).build(Site(width=6, out_width=8))
    assert torch.equal(lstm.x.bias, torch.tensor([0.0, 1, 0, 0]).repeat_interleave(8))
    assert not lstm.peepholes.any()
    for gate in lstm.w_h.chunk(4):
        assert_close(gate @ gate.T, torch.eye(8))
    assert torch.equal(RNNConfig(activation="relu").build(Site(width=4)).w_h, torch.eye(4))


def test_on_paper_nothing_is_filled() -> None:
    with torch.device("meta"):
        mixer = BidirectionalConfig().build(Site(width=8))
    assert all(parameter.is_meta for parameter in mixer.parameters())


def test_bidirectional_refuses_what_looks_ahead_or_cannot_give_half_the_width() -> None:
    attention = {"kind": "attention", "heads": 2}
    with pytest.raises(ConfigError, match=r"causal mixer.*attention"):
        BidirectionalConfig.model_validate({"mixer": attention, "join": "sum"}).build(Site(width=8))
    with pytest.raises(ConfigError, match=r"=.*project"):
        BidirectionalConfig.model_validate({"mixer": attention | {"causal": True}}).build(Site(width=8))
    with pytest.raises(ConfigError, match="even width, not 7"):
        BidirectionalConfig().build(Site(width=7))
    with pytest.raises(ConfigError, match=r"causal mixer.*cross-attention"):
        BidirectionalConfig.model_validate({"mixer": {"kind": "cross-attention"}, "join": "sum"}).build(Site(width=8, memory_width=8))


def test_causal_attention_in_both_directions_sees_everything() -> None:
    attention = {"kind": "attention", "heads": 2, "causal": True}
    mixer = BidirectionalConfig.model_validate({"mixer": attention, "join": "sum"}).build(Site(width=8))
    x = torch.randn(1, 5, 8, requires_grad=True)
    (gradient,) = torch.autograd.grad(mixer(x, Seq.from_padded([5]))[:, 2].square().sum(), x)
    assert (gradient.abs().sum(-1) > 0).all()


@pytest.mark.parametrize(
    ("seq", "expected"),
    [(Seq.from_padded([3, 1, 0], 4), [2, 1, 0, 3, 4, 5, 6, 7, 8, 9, 10, 11]), (Seq.from_packed([3, 0, 2]), [2, 1, 0, 4, 3])],
)
def test_each_sequence_is_reversed_by_its_own_length(seq: Seq, expected: list[int]) -> None:
    assert seq.reverse(torch.arange(seq.pos.numel()).view_as(seq.pos)).flatten().tolist() == expected


def test_marks_are_turned_with_their_tokens() -> None:
    seen: list[Tensor | None] = []
    mixer = BidirectionalConfig(mixer=RNNConfig()).build(Site(width=4))
    mixer.back.register_forward_pre_hook(lambda _, args: seen.append(args[1].marks))
    marks = torch.tensor([[True, False, False], [True, False, False]])
    mixer(torch.randn(2, 3, 4), Seq.from_padded([3, 2], marks=marks))
    assert seen[0] is not None
    assert seen[0].tolist() == [[False, False, True], [False, True, False]]
