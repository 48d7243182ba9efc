"""Recurrent decoders with attention: what is refused, what is shared, where they begin."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from attentif.errors import ConfigError
from attentif.models import ModelConfig, build
from attentif.nn.mixer import Site
from attentif.nn.mixers.attentive import AttentiveConfig, AttentiveRecurrence, AttentiveState
from attentif.nn.seq import Seq

SITE = Site(width=6, memory_width=6)


def made(site: Site = SITE, **values: Any) -> AttentiveRecurrence:
    torch.manual_seed(0)
    mixer = AttentiveConfig.model_validate(values).build(site).eval()
    for parameter in mixer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return mixer


def memory(lengths: tuple[int, ...] = (4, 2)) -> tuple[torch.Tensor, Seq]:
    return torch.randn(len(lengths), max(lengths), 6, generator=torch.Generator().manual_seed(1)), Seq.from_padded(lengths)


@pytest.mark.parametrize("score", ["dot", "cosine", "scaled-dot"])
def test_products_of_vectors_of_different_widths_are_refused_with_the_way_out(score: str) -> None:
    with pytest.raises(ConfigError, match=rf"{score}.*5.*6.*= 6"):
        made(hidden=5, score=score)


def test_it_belongs_in_a_decoder_that_has_an_encoder() -> None:
    with pytest.raises(ConfigError, match="needs a memory"):
        made(Site(width=6))


def test_beams_share_the_memory_of_their_source() -> None:
    state = made(score="general").init_state(*memory())
    beams = state.select(torch.tensor([0, 0, 0, 1, 1, 1]))
    assert (beams.fanout, beams.h.shape[0]) == (3, 6)
    again = beams.select(torch.tensor([2, 0, 0, 3, 5, 4]))
    for chosen in (beams, again, again.snapshot()):
        assert isinstance(chosen, AttentiveState)
        assert chosen.values.data_ptr() == state.values.data_ptr()
        assert chosen.keys is not None
        assert state.keys is not None
        assert chosen.keys.data_ptr() == state.keys.data_ptr()


def test_dot_products_need_no_copy_of_the_memory() -> None:
    assert made(score="dot").init_state(*memory()).keys is None


@pytest.mark.parametrize(("start", "wanted"), [("first", lambda m: m[0]), ("last", lambda m: m[-1]), ("mean", lambda m: m.mean(0))])
def test_first_states_are_made_from_the_memory(start: str, wanted: Any) -> None:
    mixer, (m, seq) = made(cell="lstm", layers=2, start=start), memory()
    state = mixer.init_state(m, seq)
    assert mixer.start is not None
    assert state.c is not None
    for row, length in enumerate((4, 2)):
        expected = torch.tanh(mixer.start(wanted(m[row, :length])))
        assert_close(torch.cat([state.h[row], state.c[row]]).flatten(), expected)


def test_a_bridge_gives_each_layer_the_state_of_the_encoders() -> None:
    mixer = made(cell="lstm", layers=2, hidden=5, score="general")
    empty = mixer.init_state(*memory())
    ended = [SimpleNamespace(h=torch.full((2, 5), float(n)), c=torch.full((2, 5), -float(n))) for n in (1, 2)]
    state = mixer.resume(empty, ended)
    assert state.h[:, :, 0].tolist() == [[1.0, 2.0]] * 2
    assert state.c is not None
    assert state.c[:, :, 0].tolist() == [[-1.0, -2.0]] * 2
    with pytest.raises(ConfigError, match=r"encoder,.*1"):
        mixer.resume(empty, ended[:1])
    with pytest.raises(ConfigError, match="hidden = 5"):
        mixer.resume(empty, [SimpleNamespace(h=torch.zeros(2, 5))] * 2)
    with pytest.raises(ConfigError, match="hidden = 5"):
        mixer.resume(empty, [SimpleNamespace(h=torch.zeros(2, 4), c=torch.zeros(2, 4))] * 2)
    with pytest.raises(ConfigError, match=r"leave.*bridge"):
        made(start="mean").resume(empty, ended)


def test_dropout_acts_between_layers_and_in_training_only() -> None:
    x, (m, seq) = torch.randn(2, 3, 6), memory()
    for layers, changes in ((1, False), (2, True)):
        mixer = made(layers=layers, dropout=0.5)
        run = lambda mixer=mixer: mixer(x, Seq.from_padded([3, 3]), m, seq)
        assert torch.equal(run(), run())
        mixer.train()
        assert torch.equal(run(), run()) != changes


def test_weights_of_the_state_begin_orthogonal_and_nothing_begins_as_it_was_found_in_memory() -> None:
    tokens = {"kind": "tokens", "vocab": 9}
    config = ModelConfig.model_validate(
        {
            "width": 8,
            "layers": 1,
            "frontend": tokens,
            "target": tokens,
            "encoder": {"block": {"attn": {"mixer": {"kind": "attention", "heads": 2}}}},
            "decoder": {"block": {"rnn": {"mixer": {"kind": "attentive-recurrence", "layers": 2, "score": "cosine"}}}},
            "head": {"kind": "language"},
        }
    )
    model = build(config)
    assert model.decoder is not None
    mixer = dict(model.decoder.sublayers())["blocks.0.rnn"].mixer
    assert isinstance(mixer, AttentiveRecurrence)
    for cell in mixer.cells:
        for gate in cell.w_h.chunk(3):
            assert_close(gate @ gate.T, torch.eye(8), rtol=1e-5, atol=1e-5)
        assert torch.count_nonzero(cell.b_h) == 0
    assert mixer.score.sharpness.item() == 10.0
