"""Simple forecasts that a model must be compared with: the last value, the last season, a linear map."""

from collections.abc import Callable
from dataclasses import replace

from attentif.tasks.answers import Baseline
from attentif.tasks.base import Say
from attentif.tasks.baselines import measure_time
from attentif.tasks.metrics import Floats
from attentif.tasks.series.forecast_scores import Tally, last_season, last_value, tally_errors
from attentif.tasks.series.linear_map import LinearMap
from attentif.tasks.series.windows import Windows
from attentif.view.words import Text


def forecast_baselines(
    train: Windows, valid: Windows, test: Windows, naive: Floats, period: int, linear: LinearMap | None, say: Say
) -> list[Baseline]:
    """Scored on all test windows; `linear`: the map where it is fitted already."""
    horizon = test.horizon
    found = [
        _measure(Text("dernière valeur", "last value"), say, lambda: tally_errors(test, naive, lambda read: last_value(read, horizon)))
    ]
    if 1 < period <= test.look_back:
        name = Text(f"saison précédente (période {period})", f"last season (period {period})")
        found.append(_measure(name, say, lambda: tally_errors(test, naive, lambda read: last_season(read, horizon, period))))
    elif period > 1:
        say(f"baseline last season: left out, as a season of {period} steps is longer than the look-back of {test.look_back}")
    with measure_time() as clock:
        if linear is None:
            say("baseline linear: choosing its ridge and how many steps it reads on validation")
            linear = LinearMap.choose(train, valid)
        tally = tally_errors(test, naive, linear)
    name = Text("linéaire (moindres carrés, choisi sur la validation)", "linear (ridge, chosen on validation)")
    say(f"baseline linear: {linear.choice}")
    return [*found, replace(_baseline(name, tally, clock.seconds, say), by_step=tally.by_step())]


def _measure(name: Text, say: Say, score: Callable[[], Tally]) -> Baseline:
    with measure_time() as clock:
        tally = score()
    return _baseline(name, tally, clock.seconds, say)


def _baseline(name: Text, tally: Tally, seconds: float, say: Say) -> Baseline:
    scores = tally.scores()
    say(f"baseline {name.en}: MSE {scores['mse']:.4f} ({seconds:.1f} s)")
    return Baseline(name, scores, tally.intervals(), seconds)
