"""Rows of experiments ask for what they say, and of real text what is tested on was not trained on."""

import numpy as np

from attentif.lab.rows import LETTERS, facts, real_text, token_before
from attentif.tasks.ragged import UNSCORED


def test_the_target_is_the_next_character_and_the_same_seed_gives_the_same_windows() -> None:
    tokens, targets = real_text(16)(4, 0)
    assert tokens.shape == targets.shape == (4, 16)
    assert (tokens[:, 1:] == targets[:, :-1]).all()
    assert tokens.min() >= 0
    assert tokens.max() < LETTERS
    assert np.array_equal(real_text(16)(4, 0)[0], tokens)
    assert not np.array_equal(real_text(16)(4, 1)[0], tokens)


def test_other_splits_are_other_texts() -> None:
    assert not np.array_equal(real_text(16, "test")(4, 0)[0], real_text(16)(4, 0)[0])


def test_the_token_before_is_asked_for_at_every_place_but_the_first() -> None:
    tokens, targets = token_before(8, 5)(3, 0)
    assert (targets[:, 0] == UNSCORED).all()
    assert (targets[:, 1:] == tokens[:, :-1]).all()


def test_a_table_of_facts_has_one_answer_for_two_names_whoever_asks() -> None:
    rows, known = facts(4, 16, seed=0), {}
    for seed in range(3):
        tokens, targets = rows(50, seed)
        assert (targets[:, 0] == UNSCORED).all()
        for pair, answer in zip(map(tuple, tokens.tolist()), targets[:, 1].tolist(), strict=True):
            assert known.setdefault(pair, answer) == answer
    assert len(set(known.values())) > 1
