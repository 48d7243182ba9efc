"""What linear, random-feature, low-rank, latent and gated linear attention promise besides the contract."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.errors import AttentifError, ConfigError
from attentif.nn.auxiliary import CountingModule
from attentif.nn.init import InitConfig, initialise, on_meta_device
from attentif.nn.mixer import MIXERS, Mixer, MixerConfig, Site
from attentif.nn.mixers.latent import Latent, LatentConfig
from attentif.nn.mixers.linformer import Linformer, LinformerConfig
from attentif.nn.mixers.performer import Performer, PerformerConfig
from attentif.nn.seq import Seq
from attentif.nn.tape import record

WIDTH = 32
KINDS = ["linear", "performer", "linformer", "latent", "gated-linear"]


def made(kind: str, **values: Any) -> Mixer:
    torch.manual_seed(0)
    config: MixerConfig = MIXERS[kind].model_validate({"kind": kind, "heads": 4, **values})
    mixer = config.build(Site(width=WIDTH))
    assert isinstance(mixer, Mixer)
    return mixer.double().eval()


def vectors(T: int, B: int = 2, seed: int = 1) -> Tensor:
    return torch.randn(B, T, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def performer(layer: int = 0, **values: Any) -> Performer:
    return PerformerConfig(heads=4, **values).build(Site(width=WIDTH, layer=layer))


# -------------------------------------------------------------------------------------------------------------- all of them


@pytest.mark.parametrize("kind", KINDS)
def test_a_width_that_the_heads_do_not_divide_is_refused_with_the_way_out(kind: str) -> None:
    with pytest.raises(ConfigError, match=r"= 32 .*; give (head|key)_width"):
        made(kind, heads=3)


@pytest.mark.parametrize("kind", KINDS)
def test_every_default_builds_on_paper(kind: str) -> None:
    with on_meta_device():
        mixer = MIXERS[kind].model_validate({"kind": kind}).build(Site(width=64))
    assert all(parameter.is_meta for parameter in mixer.parameters())


@pytest.mark.parametrize("kind", ["linear", "performer", "gated-linear"])
def test_the_state_has_one_size_whatever_the_capacity(kind: str) -> None:
    mixer = made(kind, **({} if kind == "gated-linear" else {"causal": True}))
    sizes = {mixer.init_state(2, n, device=torch.device("cpu"), dtype=torch.float64).bytes() for n in (1, 100, 100_000)}
    assert len(sizes) == 1
    state = mixer.init_state(2, 1, device=torch.device("cpu"), dtype=torch.float64)
    with torch.no_grad():
        mixer(vectors(50), Seq.from_padded([50, 50]), state)
    assert state.bytes() in sizes


@pytest.mark.parametrize("kind", ["linear", "performer", "gated-linear"])
def test_maps_of_what_was_read_unwatched_are_refused(kind: str) -> None:
    mixer, x = made(kind, **({} if kind == "gated-linear" else {"causal": True})), vectors(6)
    state = mixer.init_state(2, 9, device=x.device, dtype=x.dtype)
    with torch.no_grad():
        mixer(x[:, :3], Seq.from_padded([3, 3]), state)
        with record(mixer) as tape:
            mixer(x[:, 3:], Seq.from_padded([3, 3], start=3), state)
    with pytest.raises(ConfigError, match=r"record.*first"):
        tape.maps("")


@pytest.mark.parametrize("kind", ["linear", "performer", "gated-linear"])
def test_ragged_pieces_show_the_rows_of_the_whole_map(kind: str) -> None:
    mixer, x = made(kind, **({} if kind == "gated-linear" else {"causal": True})), vectors(9)
    state = mixer.init_state(2, 9, device=x.device, dtype=x.dtype)
    first, rest = torch.tensor([2, 5]), torch.tensor([6, 4])
    tails = torch.stack([torch.cat([x[0, 2:8]]), torch.cat([x[1, 5:9], torch.full((2, WIDTH), 7.0)])])
    with torch.no_grad(), record(mixer) as tape:
        mixer(x, Seq.from_padded([8, 9]))
        mixer(x[:, :5], Seq.from_padded(first, 5), state)
        mixer(tails, Seq.from_padded(rest, 6, start=first), state)
    whole, pieces = tape.maps("", call=0), tape.maps("", call=2)
    for row in range(2):
        begin, count = int(first[row]), int(rest[row])
        assert_close(pieces[row, :, :count, : begin + count], whole[row, :, begin : begin + count, : begin + count])
        assert torch.count_nonzero(pieces[row, :, count:]) == 0


# ---------------------------------------------------------------------------------------------------------------- performer


def test_directions_depend_on_seed_layer_and_number_of_the_draw() -> None:
    first = performer()
    assert torch.equal(first.directions, performer().directions)
    assert not torch.equal(first.directions, performer(layer=1).directions)
    assert not torch.equal(first.directions, performer(seed=1).directions)
    other = performer()
    before = other.directions
    other.redraw()
    assert not torch.equal(other.directions, before)
    assert torch.equal(before, first.directions)  # not written over
    first.redraw()
    assert torch.equal(first.directions, other.directions)


def test_directions_are_redrawn_after_so_many_steps_of_the_optimiser_and_not_in_between() -> None:
    mixer = performer(redraw=3)
    assert isinstance(mixer, CountingModule)
    draws = []
    for _ in range(7):
        mixer.learn([])
        draws.append(int(mixer.draws))
    assert draws == [0, 0, 1, 1, 1, 2, 2]
    never = performer()
    for _ in range(7):
        never.learn([])
    assert int(never.draws) == 0


def test_a_model_that_is_read_back_goes_on_with_its_directions() -> None:
    mixer = performer(redraw=2)
    for _ in range(3):
        mixer.learn([])
    again = performer(redraw=2)
    again.load_state_dict(mixer.state_dict())
    assert torch.equal(again.directions, mixer.directions)
    for m in (mixer, again):
        m.learn([])
    assert int(again.draws) == int(mixer.draws) == 2
    assert torch.equal(again.directions, mixer.directions)


def test_initialising_draws_the_first_directions_again() -> None:
    mixer = performer()
    first = mixer.directions
    mixer.redraw()
    initialise(mixer, InitConfig())
    assert torch.equal(mixer.directions, first)
    assert int(mixer.draws) == 0


def test_many_features_come_near_to_softmax_attention() -> None:
    exact = made("attention")
    x, seq = 0.5 * vectors(20), Seq.from_padded([20, 13])
    errors = []
    for features in (8, 4096):
        near = made("performer", features=features, eps=0.0)
        near.load_state_dict(near.state_dict() | exact.state_dict())
        with torch.no_grad():
            errors.append(float((near(x, seq) - exact(x, seq))[seq.valid].abs().max()))
    assert errors[1] < errors[0] / 4
    assert errors[1] < 0.02


# ---------------------------------------------------------------------------------------------------------------- linformer


def test_a_sequence_beyond_max_len_is_refused() -> None:
    mixer = made("linformer", max_len=8)
    assert mixer.caps.max_len == 8
    with pytest.raises(AttentifError, match=r"9 tokens.*8"):
        mixer(vectors(9), Seq.from_padded([9, 3]))
    mixer(vectors(9), Seq.from_padded([8, 3], 9))  # padding may go beyond


@pytest.mark.parametrize(("share", "projections"), [("none", 8), ("heads", 2), ("key-value", 1)])
def test_sharing_saves_projections(share: str, projections: int) -> None:
    mixer = made("linformer", max_len=10, rank=3, share=share)
    assert isinstance(mixer, Linformer)
    over = [mixer.over_keys] + ([] if mixer.over_values is None else [mixer.over_values])
    assert sum(t.numel() for t in over) == projections * 10 * 3


def test_projections_over_places_begin_as_the_paper_draws_them() -> None:
    mixer = LinformerConfig(max_len=512, rank=64).build(Site(width=64))
    initialise(mixer, InitConfig())
    assert mixer.over_keys.std().item() == pytest.approx(64**-0.5, rel=0.02)


# ------------------------------------------------------------------------------------------------------------------- latent


def latent(**values: Any) -> Latent:
    mixer = made("latent", **values)
    assert isinstance(mixer, Latent)
    return mixer


def test_a_state_keeps_the_latent_and_the_rotary_key_only() -> None:
    mixer = latent(kv_rank=12, rotary_width=6)
    assert mixer.init_state(3, 10, device=torch.device("cpu"), dtype=torch.float64).bytes() == 3 * 10 * (12 + 6) * 8


@pytest.mark.parametrize("values", [{}, {"q_rank": 10}, {"value_width": 3}, {"value_width": 20, "rotary_width": 2}])
def test_expanded_and_absorbed_forms_are_one_function(values: dict[str, Any]) -> None:
    mixer, x = latent(**values), vectors(9)
    lengths = torch.tensor([9, 6])
    outputs, gradients = [], []
    for form in (mixer.attend_expanded, mixer.attend_absorbed):
        q, q_place, c, k_place = (t.transpose(1, 2) for t in mixer.project(x, Seq.from_padded([9, 9])))
        at = (lengths - 1)[:, None, None, None]
        last = [t.gather(2, at.expand(-1, t.shape[1], 1, t.shape[3])) for t in (q, q_place)]
        seq = Seq.from_padded([1, 1], start=lengths - 1)
        y = form(*last, c, k_place, seq, torch.arange(9)[None])
        outputs.append(y)
        gradients.append(torch.autograd.grad(y.square().sum(), [mixer.q.weight, mixer.kv_down.weight, mixer.k.weight, mixer.v.weight]))
    assert_close(outputs[0], outputs[1], rtol=1e-12, atol=1e-12)
    assert_close(gradients[0], gradients[1], rtol=1e-11, atol=1e-11)


def test_a_step_makes_no_keys_of_earlier_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    mixer, x = latent(), vectors(6)
    expected = mixer(x, Seq.from_padded([6, 6]))
    state = mixer.init_state(2, 6, device=x.device, dtype=x.dtype)
    with torch.no_grad():
        mixer(x[:, :5], Seq.from_padded([5, 5]), state)
        monkeypatch.setattr(mixer, "expand_keys_values", lambda *_: pytest.fail("keys were made"))
        assert_close(mixer(x[:, 5:], Seq.from_padded([1, 1], start=5), state), expected[:, 5:])


def test_one_copy_of_a_latent_state_does_not_follow_the_other() -> None:
    mixer, x = latent(), vectors(4)
    state = mixer.init_state(2, 6, device=x.device, dtype=x.dtype)
    with torch.no_grad():
        mixer(x[:, :2], Seq.from_padded([2, 2]), state)
        kept = state.snapshot()
        before = copy.deepcopy(kept.k)
        mixer(x[:, 2:], Seq.from_padded([2, 2], start=2), state)
    assert torch.equal(kept.k, before)


def test_defaults_follow_the_proportions_of_deepseek() -> None:
    mixer = LatentConfig(heads=8).build(Site(width=1024))
    assert (mixer.K, mixer.V, mixer.P, mixer.rank) == (128, 128, 64, 512)
