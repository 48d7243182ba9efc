"""The memory of nearest neighbours: what it holds, what it forgets, what it refuses."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.errors import ConfigError
from attentif.nn.bias import ALiBiConfig
from attentif.nn.mixer import Site
from attentif.nn.mixers.memory import Memory, MemoryConfig
from attentif.nn.seq import Seq
from attentif.nn.tape import record

WIDTH = 8


def made(**values: Any) -> Memory:
    torch.manual_seed(0)
    mixer = MemoryConfig.model_validate({"heads": 2, "window": 3, "size": 5, "top": 2} | values).build(Site(width=WIDTH)).double()
    for parameter in mixer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return mixer.eval()


def text(length: int, seed: int = 1) -> Tensor:
    return torch.randn(1, length, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_a_token_is_seen_in_the_window_then_if_it_is_near_then_never_again() -> None:
    mixer, x = made(top=50), text(20)
    with record(mixer) as tape:
        mixer(x, Seq.from_padded([20]))
    seen = tape.maps("")[0, :, :, 6] > 0
    assert seen.tolist() == [[6 <= t < 6 + 3 + 5 for t in range(20)]] * 2


def test_each_head_reads_so_many_of_the_memory() -> None:
    mixer, x = made(), text(20)
    with record(mixer) as tape:
        mixer(x, Seq.from_padded([20]))
    places = torch.arange(20)
    far = places[:, None] - places >= 3
    assert ((tape.maps("")[0] > 0) & far).sum(-1).tolist() == [[min(2, max(0, t - 2)) for t in range(20)]] * 2


def test_without_a_memory_yet_the_gate_counts_for_nothing() -> None:
    mixer, x = made(window=6), text(6)
    before = mixer(x, Seq.from_padded([6]))
    with torch.no_grad():
        mixer.gate.fill_(9.0)
    assert torch.equal(mixer(x, Seq.from_padded([6])), before)
    longer = text(9)
    assert not torch.allclose(mixer(longer, Seq.from_padded([9]))[:, 6:], made(window=6)(longer, Seq.from_padded([9]))[:, 6:])


def test_the_state_stays_of_one_size_however_long_the_text() -> None:
    mixer, x = made(), text(60)
    sizes = {capacity: mixer.init_state(1, capacity, device=x.device, dtype=x.dtype).bytes() for capacity in (8, 100_000)}
    assert set(sizes.values()) == {2 * 2 * (3 + 5) * 4 * 8}  # keys and values, heads, places, head width, float64
    whole = mixer(x, Seq.from_padded([60]))
    with torch.no_grad():
        state = mixer.init_state(1, 60, device=x.device, dtype=x.dtype)
        pieces = [mixer(x[:, begin : begin + 1], Seq.from_padded([1], start=begin), state) for begin in range(40)]
        pieces.append(mixer(x[:, 40:], Seq.from_padded([20], start=40), state))  # more than it holds, at once
    assert_close(torch.cat(pieces, 1), whole, rtol=1e-11, atol=1e-11)


def test_no_gradient_reaches_what_is_stored() -> None:
    mixer, x = made(window=1), text(12).requires_grad_()
    (gradient,) = torch.autograd.grad(mixer(x, Seq.from_padded([12]))[:, 9:].square().sum(), x)
    assert torch.count_nonzero(gradient[:, :9]) == 0


def test_more_queries_than_a_chunk_are_read_as_if_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    mixer, x = made(), text(40)
    whole = mixer(x, Seq.from_padded([40]))
    monkeypatch.setattr("attentif.nn.mixers.memory.CHUNK", 7)
    assert_close(mixer(x, Seq.from_padded([40])), whole, rtol=1e-11, atol=1e-11)


def test_refusals() -> None:
    with pytest.raises(ConfigError, match=r"= 8.*multiple.*= 3"):
        made(heads=3)
    with pytest.raises(ConfigError, match=r"4.*attention 2"):
        MemoryConfig(heads=2).build(Site(width=WIDTH, bias=ALiBiConfig(heads=4).build()))
