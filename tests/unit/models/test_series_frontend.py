"""Measurements to vectors and back: patches, channels apart, calendar, normalisation, the head of the horizon."""

import math
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from attentif.errors import ConfigError
from attentif.models import Batch, Input, build, resolve
from attentif.models.frontends.series import SeriesConfig, normalise_window, patches
from attentif.models.heads.horizon import HorizonHeadConfig, pinball
from attentif.nn.seq import Seq

CLOSE = {"rtol": 1e-5, "atol": 1e-6}


def given(rows: int = 2, steps: int = 20, channels: int = 3) -> Input:
    torch.manual_seed(0)
    dates = torch.stack([torch.randint(count, (rows, steps)) for count in (24, 7, 31, 12)], -1)
    lengths = torch.full((rows,), steps)
    return Input(torch.randn(rows, steps, channels), Seq.from_padded(lengths), beside=Input(dates, Seq.from_padded(lengths)))


def frontend(**values: Any) -> Any:
    torch.manual_seed(1)
    return SeriesConfig(channels=3, **values).build(8, 0.0).eval()


def test_a_step_is_a_token_by_default() -> None:
    built, source = frontend(), given()
    x, seq = built(source)
    assert_close(x, source.data @ built.patch.weight.T + built.patch.bias, **CLOSE)
    assert seq.lengths.tolist() == [20, 20]


@pytest.mark.parametrize(("patch", "stride", "first", "count"), [(6, 4, 2, 4), (5, 5, 0, 4), (20, 20, 0, 1), (7, 3, 1, 5)])
def test_patches_end_with_the_last_step(patch: int, stride: int, first: int, count: int) -> None:
    built, source = frontend(patch=patch, stride=stride), given()
    x, seq = built(source)
    assert seq.lengths.tolist() == [count] * 2
    assert SeriesConfig(patch=patch, stride=stride).tokens(20) == count
    for number in range(count):
        start = first + number * stride
        own = source.data[:, start : start + patch].transpose(1, 2).flatten(1)  # channel by channel
        assert_close(x[:, number], own @ built.patch.weight.T + built.patch.bias, **CLOSE)
    assert start + patch == 20


def test_channels_apart_are_read_with_the_same_weights() -> None:
    built, source = frontend(patch=4, independent=True), given()
    x, seq = built(source)
    assert x.shape == (6, 5, 8)
    assert seq.batch == 6
    alone = SeriesConfig(channels=1, patch=4).build(8, 0.0)
    alone.load_state_dict(built.state_dict())
    for row in range(2):
        for channel in range(3):
            single = Input(source.data[row : row + 1, :, channel : channel + 1], Seq.from_padded([20]))
            assert_close(x[3 * row + channel], alone(single)[0][0], **CLOSE)


@pytest.mark.parametrize("values", [{}, {"patch": 4, "stride": 3}, {"patch": 4, "independent": True}])
def test_a_ragged_batch_is_each_row_alone(values: dict[str, Any]) -> None:
    built = frontend(**values)
    long, short = torch.randn(1, 20, 3), torch.randn(1, 13, 3)
    together = torch.cat([long, torch.nn.functional.pad(short, (0, 0, 0, 7), value=99.0)])
    x, seq = built(Input(together, Seq.from_padded([20, 13])))
    times = 3 if values.get("independent") else 1
    for row, alone in enumerate((long, short)):
        own, own_seq = built(Input(alone, Seq.from_padded([alone.shape[1]])))
        assert seq.lengths[row * times] == own_seq.lengths[0]
        assert_close(x[row * times, : own.shape[1]], own[0], **CLOSE)


@pytest.mark.parametrize("how", ["cyclic", "learned"])
def test_the_calendar_is_that_of_the_last_step_of_a_patch(how: Any) -> None:
    built, source = frontend(patch=4, calendar=("weekday", "month"), calendar_as=how), given()
    plain, _ = frontend(patch=4)(source)
    assert source.beside is not None
    x, _ = built(source)
    built.calendar, own = None, built.calendar
    known = x - built(source)[0]
    weekday, month = source.beside.data[:, 3::4, 1], source.beside.data[:, 3::4, 3]
    if how == "learned":
        expected = own.tables[0](weekday) + own.tables[1](month)
    else:
        turns = (2 * math.pi * weekday / 7, 2 * math.pi * month / 12)
        waves = torch.stack([f(turn) for turn in turns for f in (torch.sin, torch.cos)], -1)
        expected = waves @ own.cycles.weight.T
    assert_close(known, expected, rtol=1e-4, atol=1e-5)
    assert plain.shape == x.shape


@pytest.mark.parametrize("how", ["none", "window", "last"])
def test_normalisation_is_undone_by_its_shift_and_scale(how: Any) -> None:
    data = 5 + 3 * torch.randn(4, 30, 2)
    read, shift, scale = normalise_window(data, how)
    assert_close(read * scale + shift, data, rtol=1e-5, atol=1e-5)
    if how == "window":
        assert_close(read.mean(1), torch.zeros(4, 2), rtol=0, atol=1e-5)
        assert_close(read.std(1, unbiased=False), torch.ones(4, 2), rtol=0, atol=1e-4)
    if how == "last":
        assert_close(read[:, -1], torch.zeros(4, 2))


def test_a_flat_window_stays_finite() -> None:
    read, _, scale = normalise_window(torch.full((1, 10, 1), 3.0), "window")
    assert read.abs().max() == 0
    assert scale.item() > 0


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(ValueError, match=r"3 steps.*4"):
        frontend(patch=4)(given(steps=3))
    with pytest.raises(ValueError, match=r"2 channels.*3"):
        frontend()(given(channels=2))
    with pytest.raises(ValueError, match="reads the calendar"):
        frontend(calendar=("hour",))(Input(torch.randn(1, 5, 3), Seq.from_padded([5])))
    with pytest.raises(ValueError, match="would leave out some"):
        SeriesConfig(patch=4, stride=5)
    with pytest.raises(ConfigError, match="channels"):
        SeriesConfig().build(8, 0.0)


def test_patches_of_a_tensor() -> None:
    assert patches(torch.arange(7.0)[None, :, None], 3, 2)[0].tolist() == [[0, 1, 2], [2, 3, 4], [4, 5, 6]]


@pytest.mark.parametrize(
    ("pool", "shape"), [("flatten", (2, 4, 3, 5)), ("last", (2, 4, 3, 5)), ("mean", (2, 4, 3, 5)), ("each", (2, 6, 4, 3, 5))]
)
def test_the_head_gives_horizon_by_channels_by_quantiles(pool: Any, shape: tuple[int, ...]) -> None:
    head = HorizonHeadConfig(pool=pool, horizon=4, channels=3, quantiles=5, places=6).build(8, None, 0.0)
    assert head(torch.randn(2, 6, 8), Seq.from_padded([6, 6])).shape == shape


def test_a_flattened_head_refuses_windows_of_different_lengths() -> None:
    head = HorizonHeadConfig(horizon=4, channels=3, quantiles=1, places=6).build(8, None, 0.0)
    with pytest.raises(ValueError, match="windows of one length"):
        head(torch.randn(2, 6, 8), Seq.from_padded([6, 5]))


def test_the_pinball_loss_is_least_at_the_quantile() -> None:
    """The definition, and its minimum over constants: the empirical quantile (Koenker & Bassett 1978)."""
    torch.manual_seed(0)
    true = torch.randn(4001)
    assert pinball(torch.tensor([[1.0]]), torch.tensor([3.0]), torch.tensor([0.9])).item() == pytest.approx(0.9 * 2)
    assert pinball(torch.tensor([[3.0]]), torch.tensor([1.0]), torch.tensor([0.9])).item() == pytest.approx(0.1 * 2)
    for q in (0.1, 0.5, 0.9):
        candidates = torch.linspace(-2, 2, 401)
        loss = pinball(candidates.expand(4001, 401)[..., None], true[:, None].expand(4001, 401), torch.tensor([q])).mean((0, 2))
        assert candidates[loss.argmin()].item() == pytest.approx(true.quantile(q).item(), abs=0.02)


@pytest.mark.parametrize("name", ["patchtst", "patchtst-tiny"])
def test_patchtst_runs_and_every_parameter_learns(name: str) -> None:
    config = resolve({"base": name}).with_sizes(frontend={"channels": 3}, head={"horizon": 4, "channels": 1, "places": 11, "quantiles": 2})
    model = build(config)
    source = given(steps=96)
    out, seq = model(Batch(source))
    assert out.shape == (6, 4, 1, 2)
    assert seq.batch == 6
    out.square().mean().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
