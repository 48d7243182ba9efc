"""The weighted mean of a head: its definition, packed and padded, and what can be seen of it."""

import torch

from attentif.models.heads.pooling import AttentionPool, pool_joined, pool_sequence
from attentif.nn.seq import Seq, pack
from attentif.nn.tape import record

LENGTHS = (5, 1, 3)


def drawn(width: int = 8) -> tuple[torch.Tensor, Seq, AttentionPool]:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(len(LENGTHS), max(LENGTHS), width, generator=random, dtype=torch.float64)
    pool = AttentionPool(width).double()
    torch.nn.init.normal_(pool.query, generator=random)
    return x, Seq.from_padded(torch.tensor(LENGTHS), max(LENGTHS)), pool


def test_each_place_weighs_as_the_equation_says() -> None:
    x, seq, pool = drawn()
    found = pool(x, seq)
    for row, length in enumerate(LENGTHS):
        alone = x[row, :length]
        weights = torch.exp(alone @ pool.query) / torch.exp(alone @ pool.query).sum()
        assert torch.allclose(found[row], weights @ alone, atol=1e-12)  # the same sums in float64, in another order


def test_it_begins_as_the_mean() -> None:
    x, seq, _ = drawn()
    assert torch.allclose(AttentionPool(8).double()(x, seq), pool_sequence(x, seq, "mean"), atol=1e-12)


def test_packed_and_padded_agree_whatever_stands_in_the_padding() -> None:
    x, seq, pool = drawn()
    packed, packed_seq = pack(x, seq)
    assert torch.allclose(pool(packed, packed_seq), pool(x, seq), atol=1e-12)
    spoiled = x.masked_fill(~seq.valid[..., None], 1e9)
    assert torch.equal(pool(spoiled, seq), pool(x, seq))


def test_a_text_without_tokens_gives_nothing_rather_than_no_number() -> None:
    _, _, pool = drawn()
    assert torch.equal(pool(torch.ones(1, 2, 8, dtype=torch.float64), Seq.from_padded(torch.tensor([0]), 2)), torch.zeros(1, 8))


def test_its_weights_can_be_looked_at() -> None:
    x, seq, pool = drawn()
    model = torch.nn.ModuleDict({"head": pool})
    with record(model) as tape:
        found = pool(x, seq)
    maps = tape.maps("head")
    assert maps.shape == (3, 1, 1, 5)
    assert torch.equal(found, pool(x, seq))  # looking changes nothing
    assert torch.allclose(torch.einsum("bt,btd->bd", maps[:, 0, 0], x), found)
    assert (maps[:, 0, 0].masked_select(~seq.valid) == 0).all()


def test_first_and_mean_stand_side_by_side_without_the_tokens_that_are_skipped() -> None:
    x, seq = torch.randn(2, 6, 4), Seq.from_padded([6, 4])
    found = pool_joined(x, seq, "first-mean", 3)
    for row, length in enumerate((6, 4)):
        assert torch.allclose(found[row], torch.cat([x[row, 0], x[row, 3:length].mean(0)]))
    assert torch.equal(pool_joined(x, seq, "first-two"), x[:, :2].flatten(1))
    assert torch.allclose(pool_joined(*pack(x, seq), "first-mean", 3), found)
