"""Each filter against its definition, on logits made by hand."""

import math

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.testing import assert_close

from attentif.decode.options import GenerateOptions
from attentif.decode.sampling import Sampler, adjust_logits, draw, keep_min_p, keep_top_k, keep_top_p, penalise

PROBABILITIES = [0.4, 0.3, 0.2, 0.07, 0.03]


def logits(*orders: list[int]) -> Tensor:
    """Rows with the probabilities above, shuffled."""
    rows = [[math.log(PROBABILITIES[place]) for place in order] for order in orders or ([0, 1, 2, 3, 4],)]
    return torch.tensor(rows)


def kept(filtered: Tensor) -> list[list[int]]:
    return [row.isfinite().nonzero().flatten().tolist() for row in filtered]


def test_top_k_keeps_the_k_largest_of_each_row() -> None:
    assert kept(keep_top_k(logits([0, 1, 2, 3, 4], [4, 3, 2, 1, 0]), 2)) == [[0, 1], [3, 4]]


def test_top_k_larger_than_the_vocabulary_keeps_all() -> None:
    assert kept(keep_top_k(logits(), 50)) == [[0, 1, 2, 3, 4]]


def test_top_k_keeps_what_equals_the_last_one_kept() -> None:
    assert kept(keep_top_k(torch.tensor([[1.0, 3.0, 1.0, 0.0]]), 2)) == [[0, 1, 2]]


@pytest.mark.parametrize(
    ("p", "expected"), [(0.01, [0]), (0.39, [0]), (0.5, [0, 1]), (0.75, [0, 1, 2]), (0.95, [0, 1, 2, 3]), (1.0, [0, 1, 2, 3, 4])]
)
def test_top_p_keeps_the_fewest_tokens_that_reach_p(p: float, expected: list[int]) -> None:
    assert kept(keep_top_p(logits(), p)) == [expected]
    shuffled = [3, 0, 4, 2, 1]
    assert kept(keep_top_p(logits(shuffled), p)) == [sorted(shuffled.index(token) for token in expected)]


@pytest.mark.parametrize(("p", "expected"), [(0.0, [0, 1, 2, 3, 4]), (0.1, [0, 1, 2, 3]), (0.4, [0, 1, 2]), (0.6, [0, 1]), (1.0, [0])])
def test_min_p_keeps_what_is_likely_enough_beside_the_likeliest(p: float, expected: list[int]) -> None:
    assert kept(keep_min_p(logits(), p)) == [expected]


def test_the_penalty_divides_positive_scores_and_multiplies_negative_ones() -> None:
    seen = torch.tensor([[True, True, False]])
    assert_close(penalise(torch.tensor([[2.0, -2.0, 2.0]]), seen, 4.0), torch.tensor([[0.5, -8.0, 2.0]]))


def test_filters_see_the_distribution_after_the_temperature() -> None:
    """At temperature 2 the probabilities are those of √p: .313 .271 .221 .131 .086 after rounding and division by their sum."""
    flat = GenerateOptions(temperature=2.0, top_p=0.6)
    assert kept(adjust_logits(logits(), flat)) == [[0, 1, 2]]
    assert kept(adjust_logits(logits(), flat.replace(temperature=1.0))) == [[0, 1]]
    root = torch.tensor(PROBABILITIES).sqrt()
    assert_close(adjust_logits(logits(), GenerateOptions(temperature=2.0)).softmax(-1)[0], root / root.sum())


def test_filters_are_applied_in_the_documented_order() -> None:
    """After top-k 3 the probabilities are 4/9 3/9 2/9, of which p = 0.75 needs two; before it, p = 0.75 would need three."""
    assert kept(adjust_logits(logits(), GenerateOptions(temperature=1.0, top_k=3, top_p=0.75))) == [[0, 1]]


def test_greedy_scores_are_changed_by_the_penalty_alone() -> None:
    options = GenerateOptions(repetition_penalty=2.0)
    seen = torch.tensor([[True, False, False, False, False]])
    assert adjust_logits(logits(), options, seen).argmax(-1).tolist() == [1]


def test_a_draw_is_the_token_where_the_summed_probability_passes_the_number() -> None:
    numbers = torch.tensor([0.0, 0.39, 0.41, 0.69, 0.71, 0.91, 0.98, 1 - 1e-17], dtype=torch.float64)
    rows = logits().expand(len(numbers), -1)
    assert draw(rows, numbers).tolist() == [0, 0, 1, 1, 2, 3, 4, 4]


def test_a_token_of_no_probability_is_never_drawn() -> None:
    rows = torch.tensor([[float("-inf"), 0.0, float("-inf"), 0.0, float("-inf")]])
    assert {int(draw(rows, torch.tensor([u]))) for u in (0.0, 0.25, 0.5, 0.75, 1 - 2**-53)} == {1, 3}


def test_frequencies_of_many_draws_are_the_probabilities() -> None:
    sampler = Sampler(GenerateOptions(temperature=1.0, top_k=3, seed=5), [[0]], 5, torch.device("cpu"))
    counts = np.bincount([int(sampler.choose(logits())) for _ in range(4000)], minlength=5) / 4000
    # five standard deviations of a share of 4,000 draws are below 0.04
    assert np.abs(counts - np.array([4 / 9, 3 / 9, 2 / 9, 0, 0])).max() < 0.04
    assert counts[3:].tolist() == [0, 0]


@pytest.mark.parametrize(
    "values",
    [
        {"beams": 4, "temperature": 1.0},
        {"beams": 4, "repetition_penalty": 1.2},
        {"beams": 2, "stop": ("x",)},
        {"top_k": 5},
        {"temperature": -1.0},
        {"temperature": 1.0, "top_p": 0.0},
        {"max_tokens": 0},
        {"stop": ("",)},
        {"tempreature": 1.0},
    ],
)
def test_contradictions_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        GenerateOptions.model_validate(values)


def test_every_option_says_what_it_means() -> None:
    assert all(field.description for field in GenerateOptions.model_fields.values())
