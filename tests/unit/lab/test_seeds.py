"""What was timed in rounds: the median and the quartiles."""

from attentif.lab.seeds import over_rounds, seed_band


def test_rounds_give_their_median_and_quartiles_and_one_round_no_interval() -> None:
    score = over_rounds([5.0, 1.0, 3.0, 2.0, 4.0])
    assert (score.value, score.low, score.high) == (3.0, 2.0, 4.0)
    alone = over_rounds([2.5])
    assert (alone.value, alone.low, alone.high) == (2.5, None, None)


def test_a_band_over_rounds_has_a_value_for_each_place() -> None:
    band = seed_band("time", [1, 2], [[1.0, 2.0, 3.0], [4.0, 4.0, 4.0]], over_rounds)
    assert (list(band.y), list(band.low or []), list(band.high or [])) == ([2.0, 4.0], [1.5, 4.0], [2.5, 4.0])
