"""Attention by hashes and inside chunks: what is true of them beyond the contract."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.errors import AttentifError, ConfigError
from attentif.models import Batch, Input, build, resolve
from attentif.nn.mixer import Site
from attentif.nn.mixers.reformer import Chunked, ChunkedConfig, Reformer, ReformerConfig
from attentif.nn.position import AxialConfig
from attentif.nn.seq import Seq
from attentif.nn.tape import record

WIDTH = 16
CLOSE = {"rtol": 1e-11, "atol": 1e-11}


def reformer(**values: Any) -> Reformer:
    torch.manual_seed(0)
    config = ReformerConfig.model_validate({"heads": 2, "causal": True, "chunk": 4, "rounds": 2} | values)
    return config.build(Site(width=WIDTH)).double().eval()


def chunked(**values: Any) -> Chunked:
    torch.manual_seed(0)
    return ChunkedConfig.model_validate({"heads": 2, "causal": True, "chunk": 4} | values).build(Site(width=WIDTH)).double().eval()


def text(length: int, seed: int = 1) -> Tensor:
    return torch.randn(1, length, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("buckets", [[], [4]])
@pytest.mark.parametrize("gradients", [False, True])
def test_a_step_gives_what_the_last_token_of_the_text_so_far_would_get(buckets: list[int], gradients: bool) -> None:
    """Through several doublings of the number of buckets, which hash what was read anew."""
    mixer, x = reformer(buckets=buckets), text(40)
    with torch.set_grad_enabled(gradients):
        state = mixer.init_state(1, 40, device=x.device, dtype=x.dtype)
        assert_close(mixer(x[:, :9], Seq.from_padded([9]), state), mixer(x[:, :9], Seq.from_padded([9])), **CLOSE)
        for place in range(9, 40):
            y = mixer(x[:, place : place + 1], Seq.from_padded([1], start=place), state)
            assert_close(y[:, 0], mixer(x[:, : place + 1], Seq.from_padded([place + 1]))[:, -1], **CLOSE)


def test_ragged_rows_step_as_each_alone() -> None:
    mixer, texts, read = reformer(), [text(30, seed=2)[0], text(30, seed=3)[0], text(30, seed=4)[0]], [11, 3, 20]
    with torch.no_grad():
        state = mixer.init_state(3, 30, device=torch.device("cpu"), dtype=torch.float64)
        prompt = torch.nn.utils.rnn.pad_sequence([x[:n] for x, n in zip(texts, read, strict=True)], batch_first=True, padding_value=1e6)
        mixer(prompt, Seq.from_padded(read), state)
        state = state.select(torch.tensor([2, 0, 1]))
        texts, read = [texts[2], texts[0], texts[1]], [20, 11, 3]
        for _ in range(5):
            step = torch.stack([x[n] for x, n in zip(texts, read, strict=True)])[:, None]
            y = mixer(step, Seq.from_padded([1, 1, 1], start=torch.tensor(read)), state)
            for row, (x, n) in enumerate(zip(texts, read, strict=True)):
                assert_close(y[row, 0], mixer(x[None, : n + 1], Seq.from_padded([n + 1]))[0, -1], **CLOSE)
            read = [n + 1 for n in read]


def test_reading_again_from_an_earlier_place_forgets_what_came_after() -> None:
    mixer, x = reformer(), text(40)
    with torch.no_grad():
        state = mixer.init_state(1, 40, device=x.device, dtype=x.dtype)
        mixer(x, Seq.from_padded([40]), state)  # hashed into many buckets
        y = mixer(x[:, 6:7], Seq.from_padded([1], start=6), state)
        assert_close(y[:, 0], mixer(x[:, :7], Seq.from_padded([7]))[:, -1], **CLOSE)


def test_running_past_the_capacity_raises() -> None:
    mixer, x = reformer(), text(6)
    state = mixer.init_state(1, 5, device=x.device, dtype=x.dtype)
    with pytest.raises(AttentifError, match=r"6 tokens.*5"):
        mixer(x, Seq.from_padded([6]), state)


def test_a_text_of_one_chunk_is_read_in_full() -> None:
    """Then it is attention over all others with shared queries and keys, whatever the hashes say."""
    x = text(12)
    for causal in (True, False):
        one, many = reformer(chunk=12, rounds=1, causal=causal), reformer(chunk=12, rounds=5, seed=7, causal=causal)
        assert_close(one(x, Seq.from_padded([12])), many(x, Seq.from_padded([12])), **CLOSE)
        with record(one) as tape:
            one(x, Seq.from_padded([12]))
        weights = tape.maps("")[0]
        assert torch.count_nonzero(weights[:, 1:]) == 2 * (66 if causal else 121)  # all but its own key, from the second token on
        assert torch.count_nonzero(weights.diagonal(dim1=1, dim2=2)) == (2 if causal else 0)  # the first one is alone


def test_more_rounds_come_nearer_to_full_attention() -> None:
    x, seq = text(256), Seq.from_padded([256])
    full = reformer(chunk=256, causal=False, scale=4.0)
    weight = full.qk.weight.detach() * 4  # scores far enough apart that a few keys matter
    errors = []
    for mixer in (full, *(reformer(chunk=16, rounds=rounds, causal=False, scale=4.0) for rounds in (1, 4, 16))):
        mixer.qk.weight.data.copy_(weight)
        errors.append(float((mixer(x, seq) - full(x, seq)).detach().norm()))
    assert errors[0] == 0
    assert errors[1] > 1.2 * errors[2] > 1.2 * errors[3]


def test_directions_are_the_seeds_and_redrawn_in_training_only_where_asked() -> None:
    x, seq = text(40), Seq.from_padded([40])
    assert torch.equal(reformer(seed=1)(x, seq), reformer(seed=1)(x, seq))
    assert not torch.equal(reformer(seed=1)(x, seq), reformer(seed=2)(x, seq))
    redrawn = reformer(redraw=True)
    assert torch.equal(redrawn(x, seq), redrawn(x, seq))
    redrawn.train()
    torch.manual_seed(4)
    first, second = redrawn(x, seq), redrawn(x, seq)
    assert not torch.equal(first, second)
    torch.manual_seed(4)
    assert torch.equal(redrawn(x, seq), first)


def test_a_step_inside_chunks_reads_only_the_chunks_it_sees() -> None:
    mixer, x = chunked(), text(40)
    with torch.no_grad(), record(mixer) as tape:
        state = mixer.init_state(1, 40, device=x.device, dtype=x.dtype)
        mixer(x[:, :33], Seq.from_padded([33]), state)
        mixer(x[:, 33:34], Seq.from_padded([1], start=33), state)
    assert len(tape.records[""][-1].k) == 34 - 28
    assert torch.count_nonzero(tape.maps("")[..., :28]) == 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"buckets": [3]}, "must be even"),
        ({"buckets": [4, 0]}, "must be even"),
        ({"after": 1}, "after = 1: causal"),
        ({"heads": 3}, "not a multiple of heads"),
    ],
)
def test_refusals(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        reformer(**values)


def test_axial_positions_are_a_row_and_a_column() -> None:
    torch.manual_seed(0)
    axial = AxialConfig(shape=(3, 5), widths=(2, 6)).build(8)
    places = axial(torch.arange(15), torch.float32)
    assert places.shape == (15, 8)
    assert torch.equal(places[7], torch.cat([axial.rows.weight[1], axial.columns.weight[2]]))
    assert len({tuple(place.tolist()) for place in places}) == 15
    assert AxialConfig(shape=(3, 5)).limit == 15
    with pytest.raises(AttentifError, match=r"16 tokens.*15"):
        axial(torch.arange(16), torch.float32)
    with pytest.raises(ConfigError, match=r"8 components,.*9"):
        AxialConfig(shape=(3, 5), widths=(2, 6)).build(9)


def test_the_published_preset_has_the_published_size() -> None:
    """149 M parameters: 12 blocks, three of whose attentions share queries and keys, a head of its own over both halves."""
    model = build(resolve({"base": "reformer"}), device="meta")
    block, ffn = 2 * 2 * 1024, 2 * 1024 * 4096 + 4096 + 1024
    attention = 9 * 4 * 1024**2 + 3 * 3 * 1024**2
    tables = 258 * 1024 + 128 * 256 + 512 * 768
    expected = 12 * (block + ffn) + attention + tables + 258 * 2048 + 2 * 2048
    assert sum(parameter.numel() for parameter in model.parameters()) == expected == 149_182_464
    assert model.caps.max_len == 65536


def test_the_tiny_preset_reads_ragged_texts_and_learns() -> None:
    torch.manual_seed(0)
    model = build(resolve({"base": "reformer-tiny", "frontend": {"vocab": 50}})).train()
    ids, seq = torch.randint(50, (2, 100)), Seq.from_padded([100, 70])
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(8):
        logits = model(Batch(Input(ids, seq)))[0]
        loss = torch.nn.functional.cross_entropy(logits[:, :-1][seq.valid[:, 1:]], ids[:, 1:][seq.valid[:, 1:]])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] - 0.3


def test_a_head_that_shares_the_embedding_refuses_both_halves() -> None:
    with pytest.raises(ConfigError, match=r"head.tied: vectors of 256 components"):
        build(resolve({"base": "reformer-tiny", "frontend": {"vocab": 50}, "decoder": {"halves": "concat"}}))
