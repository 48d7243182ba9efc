"""Patterns: what random blocks are drawn, when rows are computed by blocks, what a window remembers, and what is refused."""

from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch.testing import assert_close

from attentif.errors import AttentifError, ConfigError
from attentif.nn.cache import KeyValueState, WindowState
from attentif.nn.distance import DistanceConfig
from attentif.nn.mixer import Site
from attentif.nn.mixers import Attention, AttentionConfig
from attentif.nn.pattern import GlobalPattern, PatternConfig, RandomPattern, ShortPattern, WindowPattern
from attentif.nn.rotary import RotaryConfig
from attentif.nn.seq import Seq
from attentif.nn.tape import record


def built(*pattern: PatternConfig, heads: int = 4, **values: Any) -> Attention:
    return AttentionConfig.model_validate({"heads": heads, "pattern": pattern} | values).build(Site(width=16))


def test_blocks_are_drawn_outside_the_window_and_the_ends_as_bigbird_does() -> None:
    drawn = RandomPattern(blocks=3, block=4).draw_blocks(80, causal=False, layer=0, heads=5)
    assert drawn.shape == (5, 20, 3)
    for block, rows in enumerate(drawn.transpose(0, 1).tolist()):
        for row in rows:
            assert len(set(row)) == 3
            assert set(row) <= set(range(1, 19)) - {block - 1, block, block + 1}


def test_a_short_row_has_fewer_blocks_to_draw_from() -> None:
    drawn = RandomPattern(blocks=3, block=4).draw_blocks(24, causal=False, layer=0, heads=2)  # six blocks, of which 1 to 4 can be drawn
    assert [sorted(row) for row in drawn[0].tolist()] == [[2, 3, 4], [-1, 3, 4], [-1, -1, 4], [-1, -1, 1], [-1, 1, 2], [1, 2, 3]]
    assert (RandomPattern(blocks=3, block=4).draw_blocks(3, causal=False, layer=0, heads=2) == -1).all()


def test_every_block_is_drawn_about_as_often_as_any_other() -> None:
    drawn = RandomPattern(blocks=2, block=1).draw_blocks(24, causal=False, layer=0, heads=400)
    counts = torch.bincount(drawn[:, 12].flatten(), minlength=24)[[*range(1, 11), *range(14, 23)]]
    assert counts.sum() == 800
    assert int(counts.min()) > 20  # 42 on average, with a standard deviation of 6.5
    assert int(counts.max()) < 75


def test_a_draw_depends_on_seed_layer_head_and_length_alone() -> None:
    def draw(seed: int = 0, layer: int = 0, length: int = 320) -> torch.Tensor:
        return RandomPattern(block=4, seed=seed).draw_blocks(length, causal=False, layer=layer, heads=2)

    assert torch.equal(draw(), draw())
    assert not torch.equal(draw(), draw(seed=1))
    assert not torch.equal(draw(), draw(layer=1))
    assert not torch.equal(draw()[0], draw()[1])
    assert not torch.equal(draw(length=400)[:, :80], draw())


def test_a_causal_draw_looks_back_and_does_not_know_the_length() -> None:
    entry = RandomPattern(blocks=2, block=4)
    short, long = (entry.draw_blocks(length, causal=True, layer=1, heads=3) for length in (40, 80))
    assert torch.equal(long[:, :10], short)
    assert all(place < max(block - 1, 0) for block in range(20) for place in long[:, block].flatten().tolist())
    assert (long[:, 4:] > 0).all()


def test_the_same_blocks_on_every_machine() -> None:
    assert RandomPattern(blocks=3, block=1, seed=7).draw_blocks(40, causal=False, layer=2, heads=2)[:, 20].tolist() == EXPECTED


EXPECTED = [[7, 27, 3], [26, 17, 8]]


def test_a_row_longer_than_its_table_is_refused() -> None:
    mixer = built(RandomPattern(block=4, table=(((1,), (0,)),)))
    x = torch.zeros(1, 9, 16)
    mixer(x[:, :8], Seq.from_padded([8]))
    with pytest.raises(AttentifError, match=r"9 tokens.*3.*4.*2"):
        mixer(x, Seq.from_padded([9]))


@pytest.mark.parametrize("row", [(1, 1), (-1, 2)])
def test_a_table_has_different_blocks_counted_from_zero(row: tuple[int, ...]) -> None:
    with pytest.raises(ValidationError, match="head 0 must be different"):
        RandomPattern(table=((row,),))


def test_a_table_can_be_written_in_toml() -> None:
    config = AttentionConfig.model_validate({"pattern": [{"kind": "random", "block": 4, "table": [[[1, 2], []], [[0], [1]]]}], "heads": 2})
    assert config.pattern[0].table == (((1, 2), ()), ((0,), (1,)))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("pattern", "values", "message"),
    [
        ((RandomPattern(block=4), RandomPattern(block=8)), {}, "random blocks of 4 and 8 tokens"),
        ((RandomPattern(table=(((1,),), ((2,),))),), {}, "the table of random blocks has 2 heads, the attention 4"),
        ((GlobalPattern(last=1),), {"causal": True}, "cannot have global tokens counted from the end"),
        ((WindowPattern(left=1),), {"global_projections": True}, "need a pattern with global tokens"),
        ((GlobalPattern(first=1),), {"global_projections": True, "causal": True}, "bidirectional"),
        ((ShortPattern(up_to=8),), {"causal": True}, "cannot have a pattern for short"),
        ((GlobalPattern(first=1, weight=2.0),), {"softcap": 5.0}, "weights of global tokens"),
        ((WindowPattern(left=1),), {"distances": DistanceConfig()}, "cannot be combined with a pattern"),
        ((), {"rotary": RotaryConfig(of="input"), "head_width": 6}, "16 with 4 heads of 6"),
    ],
)
def test_contradictions_are_refused(pattern: tuple[PatternConfig, ...], values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        built(*pattern, **values)


def test_rows_are_computed_by_blocks_where_they_are_long_and_few_keys_are_seen() -> None:
    near = built(WindowPattern(left=256, right=256)).sparse
    assert near.block(8192) == 128
    assert [near.pays(length) for length in (512, 1024, 1280, 8192)] == [False, False, True, True]
    tiny = built(WindowPattern(left=4)).sparse
    assert [tiny.pays(length) for length in (33, 255, 256)] == [False, False, True]
    assert built(WindowPattern(left=1, right=1, block=64), RandomPattern(blocks=3, block=64), GlobalPattern(first=64, last=64)).sparse.pays(
        1024
    )
    assert not built(WindowPattern(left=600)).sparse.pays(1024)
    assert not built().sparse.pays(10**6) or not built().config.pattern


def test_no_row_depends_on_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    mixer, x = built(WindowPattern(left=3, right=1), GlobalPattern(first=1)).double(), torch.randn(2, 40, 16, dtype=torch.float64)
    dense = mixer(x, Seq.from_padded([40, 31]))
    monkeypatch.setattr("attentif.nn.sparse.SHORTEST", 0)
    blocks = mixer(x, Seq.from_padded([40, 31]))
    assert mixer.sparse.pays(40)
    assert_close(blocks[0], dense[0], rtol=1e-11, atol=1e-11)
    assert_close(blocks[1, :31], dense[1, :31], rtol=1e-11, atol=1e-11)


def test_a_window_remembers_no_more_than_it_sees() -> None:
    def state(capacity: int, *pattern: PatternConfig) -> Any:
        return built(*pattern, causal=True).init_state(2, capacity, device=torch.device("cpu"), dtype=torch.float32)

    assert isinstance(state(1000, WindowPattern(left=7)), WindowState)
    assert state(1000, WindowPattern(left=7)).bytes() == state(100_000, WindowPattern(left=7)).bytes() == 2 * 2 * 8 * 16 * 4
    assert state(5, WindowPattern(left=7)).bytes() == 2 * 2 * 5 * 16 * 4
    assert isinstance(state(1000, WindowPattern(left=7), GlobalPattern(first=1)), KeyValueState)
    assert isinstance(state(1000, WindowPattern(left=1, block=4)), KeyValueState)


def test_a_window_reads_on_past_the_capacity_it_was_made_for() -> None:
    mixer, x = built(WindowPattern(left=3), causal=True).double(), torch.randn(1, 30, 16, dtype=torch.float64)
    with torch.no_grad():
        state = mixer.init_state(1, 8, device=x.device, dtype=x.dtype)
        steps = [mixer(x[:, place : place + 1], Seq.from_padded([1], start=place), state) for place in range(30)]
        assert_close(torch.cat(steps, 1), mixer(x, Seq.from_padded([30])), rtol=1e-11, atol=1e-11)


def test_a_window_larger_than_the_capacity_is_as_full_as_any_other_state() -> None:
    mixer, x = built(WindowPattern(left=20), causal=True).double(), torch.randn(2, 8, 16, dtype=torch.float64)
    with torch.no_grad():
        state = mixer.init_state(2, 6, device=x.device, dtype=x.dtype)
        y = [mixer(x[:, a:b], Seq.from_padded([b - a] * 2, start=a), state) for a, b in ((0, 2), (2, 3), (3, 6))]
        assert_close(torch.cat(y, 1), mixer(x[:, :6], Seq.from_padded([6, 6])), rtol=1e-11, atol=1e-11)
        with pytest.raises(AttentifError, match=r"7 tokens.*6"):
            mixer(x[:, 6:7], Seq.from_padded([1, 1], start=6), state)


def test_long_pieces_read_with_a_state_equal_the_whole() -> None:
    """Pieces long enough for blocks, rows that start at different places."""
    for pattern in (
        (WindowPattern(left=5),),
        (WindowPattern(left=5), GlobalPattern(at=(2,))),
        (WindowPattern(left=1, block=8), RandomPattern(blocks=2, block=8)),
    ):
        mixer = built(*pattern, causal=True).double()
        x = torch.randn(2, 700, 16, dtype=torch.float64)
        starts, ends = torch.tensor([3, 40]), (690, 700)
        whole = mixer(x, Seq.from_padded(ends, 700))
        with torch.no_grad():
            state = mixer.init_state(2, 700, device=x.device, dtype=x.dtype)
            mixer(x[:, :40], Seq.from_padded([3, 40]), state)
            rest = torch.stack([torch.cat([row[s:e], row.new_zeros(700 - (e - s), 16)]) for row, s, e in zip(x, starts, ends, strict=True)])
            seq = Seq.from_padded([e - int(s) for s, e in zip(starts, ends, strict=True)], 700, start=starts)
            assert mixer.sparse.pays(seq.max_len)
            y = mixer(rest, seq, state)
        for row, (s, e) in enumerate(zip(starts.tolist(), ends, strict=True)):
            assert_close(y[row, : e - s], whole[row, s:e], rtol=1e-11, atol=1e-11)


def test_maps_of_earlier_steps_stay_what_they_were() -> None:
    """Although the ring they were read from has been written since."""
    mixer, x = built(WindowPattern(left=2), causal=True).double(), torch.randn(1, 8, 16, dtype=torch.float64)
    with torch.no_grad(), record(mixer) as tape:
        mixer(x, Seq.from_padded([8]))
        state = mixer.init_state(1, 8, device=x.device, dtype=x.dtype)
        for place in range(8):
            mixer(x[:, place : place + 1], Seq.from_padded([1], start=place), state)
    whole = tape.maps("", call=0)
    for place in range(8):
        assert_close(tape.maps("", call=1 + place), whole[:, :, place : place + 1, : place + 1], rtol=1e-11, atol=1e-11)


def test_global_tokens_that_no_row_has_leave_the_window_alone() -> None:
    mixer, plain = (built(WindowPattern(left=2, right=2), *more).double() for more in ((GlobalPattern(at=(90,)),), ()))
    plain.load_state_dict(mixer.state_dict())
    x, seq = torch.randn(1, 20, 16, dtype=torch.float64), Seq.from_padded([20])
    assert_close(mixer(x, seq), plain(x, seq), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    "pattern",
    [
        (WindowPattern(left=5, right=5),),
        (WindowPattern(left=5), GlobalPattern(first=1, last=1)),
        (WindowPattern(left=1, right=1, block=8), RandomPattern(blocks=2, block=8)),
        (RandomPattern(blocks=0, block=8), WindowPattern(left=2)),
    ],
)
def test_a_row_without_tokens_is_no_trouble(pattern: tuple[PatternConfig, ...]) -> None:
    mixer, x = built(*pattern).double(), torch.randn(2, 300, 16, dtype=torch.float64, requires_grad=True)
    y = mixer(x, Seq.from_padded([0, 300]))
    assert mixer.sparse.pays(300)
    assert_close(y[1:], mixer(x[1:], Seq.from_padded([300])), rtol=1e-11, atol=1e-11)
    (gradient,) = torch.autograd.grad(y[1].square().sum(), x)
    assert torch.count_nonzero(gradient[0]) == 0
    assert gradient.isfinite().all()
