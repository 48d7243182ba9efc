"""From what was read to a forecast: all steps at once, or one after the other on the model's own answers.

    direct     ŷ_{1…H} = f(x_{1…L})
    one step   x̂_{t+1} = f(x_{1…t}, calendar of t + 1)       trained on the truth (teacher forcing), used on its own answers
    rolled     the first k steps of a direct forecast are read as if they had come, and so on until the horizon is reached

Instance normalisation stands around the model: what it reads is on the scale of its window, what it gives is brought back. A one-step
model whose windows are normalised is trained on the horizon alone: the window's statistics know what its first steps would be asked for.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from attentif.models import Batch, Input, Model
from attentif.models.frontends.series import SeriesConfig, normalise_window
from attentif.nn.seq import Seq
from attentif.tasks.narrow import labels_of, narrow

Choose = Callable[[Tensor], Tensor]  # (..., Q) to (...): the value that is read on


def frontend_of(model: Model) -> SeriesConfig:
    return narrow(model.config.frontend, SeriesConfig)


def predict_direct(model: Model, source: Input) -> Tensor:
    """(B, horizon, channels, quantiles)"""
    change, level = predict_change(model, source)
    return change + level[..., None]


def predict_change(model: Model, source: Input) -> tuple[Tensor, Tensor]:
    """What is given beside the level of the window (B, horizon, channels, quantiles), and that level (B, 1, channels)."""
    config = frontend_of(model)
    _, shift, scale = normalise_window(source.data, config.normalise)
    given, _ = model(Batch(normalise_input(model, source)))
    return _join_channels(given, config) * scale[..., None], shift


def normalise_input(model: Model, source: Input) -> Input:
    """A window on the scale of the model, with the calendar of what it reads alone."""
    read, _, _ = normalise_window(source.data, frontend_of(model).normalise)
    return replace(source, data=read, beside=_dates(source, 0, read.shape[1]))


def predict_next(model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
    """What is given for the next step at every place that is scored, (B, T, channels, quantiles), and what came (B, T, channels)."""
    config, source = frontend_of(model), batch.source
    steps = source.data.shape[1]
    _, shift, scale = normalise_window(source.data, config.normalise)
    whole = torch.cat([source.data, labels_of(batch)], dim=1)
    read = (whole[:, :-1] - shift) / scale
    seq = Seq.from_padded(torch.full_like(source.seq.lengths, read.shape[1]))
    given, _ = model(Batch(Input(read, seq, beside=_dates(source, 1, read.shape[1]))))
    given = _join_channels(given[:, :, 0], config) * scale[..., None] + shift[..., None]
    first = 0 if config.normalise == "none" else steps - 1
    return given[:, first:], whole[:, 1 + first :]


def roll_out(model: Model, source: Input, horizon: int, choose: Choose) -> tuple[Tensor, Tensor]:
    """A one-step model that reads on what `choose` makes of its own answers: what it gave, (B, horizon, channels, quantiles), and what
    was chosen, (B, horizon, channels)."""
    config = frontend_of(model)
    read, shift, scale = normalise_window(source.data, config.normalise)
    rows, steps, channels = read.shape
    state = model.init_state(rows * channels if config.independent else rows, steps + horizon)
    given, chosen = [], []
    seq = source.seq
    for step in range(horizon):
        to_come = _dates(source, steps + step if step else 1, read.shape[1])  # of the step after each that is read
        x, places = model.decode(Input(read, seq, beside=to_come), state=state)
        last = _join_channels(model.head(x[:, -1:], places)[:, :, 0], config)[:, -1]  # (B, channels, Q)
        given.append(last)
        chosen.append(choose(last))
        read = chosen[-1][:, None]
        seq = Seq.from_padded(torch.ones_like(seq.lengths), 1, steps + step)
    return torch.stack(given, 1) * scale[..., None] + shift[..., None], torch.stack(chosen, 1) * scale + shift


def roll_blocks(forecast: Callable[[Input], Tensor], source: Input, horizon: int, block: int, middle: Choose) -> Tensor:
    """(B, horizon, channels, quantiles) of direct forecasts, `block` steps at a time."""
    given: list[Tensor] = []
    read, done = source.data, 0
    while done < horizon:
        beside = None if source.beside is None else replace(source.beside, data=source.beside.data[:, done : done + read.shape[1]])
        given.append(forecast(replace(source, data=read, beside=beside))[:, : min(block, horizon - done)])
        done += given[-1].shape[1]
        read = torch.cat([read, middle(given[-1])], dim=1)[:, -read.shape[1] :]
    return torch.cat(given, 1)


def sample_quantiles(given: Tensor, levels: Tensor, generator: torch.Generator) -> Tensor:
    """Draw a value (...) from the quantiles (..., Q), interpolated linearly and extrapolated beyond the outermost."""
    chance = torch.rand(given.shape[:-1], generator=generator)
    place = torch.searchsorted(levels, chance).clamp(1, len(levels) - 1).to(given.device)
    ordered, levels, chance = given.sort(-1).values, levels.to(given), chance.to(given)
    low, high = (ordered.gather(-1, (place - back)[..., None])[..., 0] for back in (1, 0))
    return low + (high - low) * (chance - levels[place - 1]) / (levels[place] - levels[place - 1])


def sample_futures(model: Model, source: Input, horizon: int, levels: Tensor, count: int) -> Tensor:
    """Quantiles (B, horizon, channels, Q) of futures of a one-step model, each drawn step by step and read on."""
    generator = torch.Generator().manual_seed(0)
    draw = lambda given: sample_quantiles(given, levels, generator)
    paths = roll_out(model, repeat_windows(source, count), horizon, draw)[1].unflatten(
        0, (-1, count)
    )  # side by side: (B, count, horizon, channels)
    return paths.quantile(levels.to(paths), 1).movedim(0, -1)


def repeat_windows(source: Input, count: int) -> Input:
    """Repeat every window."""
    seq = Seq.from_padded(source.seq.lengths.repeat_interleave(count))
    beside = None if source.beside is None else repeat_windows(source.beside, count)
    return Input(source.data.repeat_interleave(count, 0), seq, beside=beside)


def _dates(source: Input, start: int, count: int) -> Input | None:
    """The calendar of `count` steps from `start` on."""
    if source.beside is None:
        return None
    data = source.beside.data[:, start : start + count]
    return Input(data, Seq.from_padded(torch.full((len(data),), data.shape[1], device=data.device)))


def _join_channels(given: Tensor, config: SeriesConfig) -> Tensor:
    """(B · C, T, 1, Q) of channels apart as (B, T, C, Q)."""
    if not config.independent:
        return given
    return given.unflatten(0, (-1, config.channels or 1)).squeeze(3).transpose(1, 2)
