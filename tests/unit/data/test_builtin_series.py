"""The generated series and signals are what their pages say."""

import numpy as np

from attentif.data.builtin import heartbeats, riders, seasons, tides
from attentif.data.signals import parse_signal


def test_seasons_follow_one_another_hour_by_hour_and_depend_on_the_seed_alone() -> None:
    splits = seasons.load(0)
    dates = np.array([date for columns in splits.values() for date in columns["date"]], dtype="datetime64[h]")
    assert (np.diff(dates).astype(int) == 1).all()
    assert splits == seasons.load(0)
    assert splits["test"]["visits"] != seasons.load(1)["test"]["visits"]


def test_pay_days_come_at_changing_distances_and_raise_the_visits() -> None:
    columns = seasons.load(0)["train"]
    visits = np.array(columns["visits"]).reshape(-1, 24).sum(1)
    days = np.array(columns["date"][::24], dtype="datetime64[D]")
    day_of_month = (days - days.astype("datetime64[M]").astype("datetime64[D]")).astype(int) + 1
    weekday = (days.astype(int) + 3) % 7
    pay = np.isin(day_of_month, seasons.PAY_DAYS)
    for own in range(7):
        assert visits[pay & (weekday == own)].mean() > 1.5 * visits[~pay & (weekday == own)].mean()
    assert len(set(np.diff(np.flatnonzero(pay)).tolist())) >= 3


def test_the_heating_has_a_kink() -> None:
    columns = seasons.load(0)["train"]
    warmth, power, visits = (np.array(columns[name]) for name in ("temperature", "power", "visits"))
    rest = power - 20 - 0.12 * visits
    assert abs(rest[warmth > 17].mean()) < 0.1
    assert np.polyfit(warmth[warmth < 14], rest[warmth < 14], 1)[0] < -1.5


def test_levels_of_the_test_sets_break() -> None:
    level = lambda split: np.array(split["level"])
    splits = tides.load(0)
    train, test = level(splits["train"]), level(splits["test"])
    cut, later = 3 * len(train) // 5, len(test) // 3
    assert train[cut:].mean() - train[:cut].mean() > 15
    assert test[:later].mean() - test[later:].mean() > 15
    assert splits == tides.load(0)
    bus = np.array(riders.load(0)["train"]["bus"])
    assert bus[riders.FALL : riders.FALL + 56].mean() < 0.75 * bus[riders.FALL - 56 : riders.FALL].mean()


def test_the_tide_is_no_season_of_whole_steps() -> None:
    level = np.array(tides.load(0)["train"]["current"])
    spectrum = np.abs(np.fft.rfft(level - level.mean()))
    hours = len(level) / 2 / np.argmax(spectrum)
    assert abs(hours - 12.4206) < 0.05


def test_heartbeats_have_as_many_of_each_kind_and_no_number_tells_them_apart() -> None:
    columns = heartbeats.load(0)["valid"]
    labels = np.array(columns["label"])
    signals = np.array([parse_signal(text)[:, 0] for text in columns["signal"]])
    assert signals.shape == (300, heartbeats.RATE * heartbeats.SECONDS)
    assert [(labels == label).sum() for label in heartbeats.LABELS] == [100] * 3
    for statistic in (signals.mean(1), signals.std(1), signals.max(1)):
        best = max(
            np.mean((statistic > cut) == (labels == label)) for cut in np.quantile(statistic, np.linspace(0, 1, 50)) for label in labels[:9]
        )
        assert best < 0.8  # two of three by always saying no


def test_premature_beats_come_early_and_a_pause_follows() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        peaks = heartbeats._peaks("premature", 0.8, random)
        (first, *_) = [place for place, (_, wide) in enumerate(peaks) if wide]
        before, here, after = (peaks[first + shift][0] for shift in (-1, 0, 1))
        assert here - before < 0.75 * 0.9
        assert after - here > 0.8
        assert 0 < here < heartbeats.SECONDS
