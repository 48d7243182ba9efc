"""Readers of passages: what each way to pre-train asks for, what a classifier begins with, and that nothing asked about was read."""

from collections import Counter
from typing import get_args

import pytest
import torch

from attentif.lab.texts import PACKAGES, WORDS, Objective, School, TextSizes, passages, shift_targets, shuffle_words
from attentif.tasks.ragged import UNSCORED

SIZES = TextSizes(texts=60, tested=20, width=16, layers=1, reading=3, teaching=3)


@pytest.fixture(scope="module")
def school() -> School:
    return School(SIZES, 3, lambda: None)


def test_passages_are_as_long_and_none_that_is_asked_about_was_read() -> None:
    train, test = passages(600, 200, seed=1)
    assert (len(train), len(test)) == (600, 200)
    assert {*train.lengths.tolist(), *test.lengths.tolist()} == {WORDS + 2}
    assert set(train.labels.tolist()) == set(range(len(PACKAGES)))
    shared = {*train.table["text"]} & {*test.table["text"]}
    assert len(shared) < 0.01 * len(test), "but for passages that the library itself repeats"


@pytest.mark.parametrize("senseless", [False, True])
@pytest.mark.parametrize("objective", get_args(Objective))
def test_the_same_seed_reads_and_answers_the_same(objective: Objective, senseless: bool) -> None:
    schools = [School(SIZES, seed, lambda: None, senseless=senseless) for seed in (3, 3, 4)]
    first, again, other = (torch.cat([p.flatten() for p in school.pretrain(objective).parameters()]) for school in schools)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert schools[0].right(objective, 16) == schools[1].right(objective, 16)


def test_texts_without_sense_have_the_same_words_in_other_company(school: School) -> None:
    dealt = shuffle_words(school.train, seed=0)
    assert Counter(dealt.ids.flat.tolist()) == Counter(school.train.ids.flat.tolist())
    assert (dealt.ids.lengths == school.train.ids.lengths).all()
    same = dealt.ids.flat == school.train.ids.flat
    special = school.vocabulary.special.numpy()[school.train.ids.flat]
    assert same[special].all()
    assert same[~special].mean() < 0.2


def test_a_causal_reader_is_asked_for_the_token_after_each_and_never_for_padding(school: School) -> None:
    cls, sep, pad = (getattr(school.train.tokenizer, name) for name in ("cls", "sep", "pad"))
    ids, labels = shift_targets(torch.tensor([[cls, 20, 21, sep], [cls, 20, sep, pad]]), school.vocabulary)
    assert ids.tolist() == [[cls, 20, 21, sep], [cls, 20, sep, pad]]
    assert labels.tolist() == [[20, 21, sep, UNSCORED], [20, sep, UNSCORED, UNSCORED]]


def test_a_masked_reader_is_asked_for_the_words_chosen_and_for_no_others(school: School) -> None:
    torch.manual_seed(0)
    ids = school.train.batch(range(60)).source.data
    read, labels = school.mask(ids)
    asked = labels != UNSCORED
    assert (labels[asked] == ids[asked]).all()
    assert (read[~asked] == ids[~asked]).all()
    assert not school.vocabulary.special[labels[asked]].any()
    assert (read[asked] == school.train.tokenizer.mask).float().mean() == pytest.approx(0.8, abs=0.1)


@pytest.mark.parametrize("objective", ["masked", "causal"])
def test_a_classifier_begins_with_all_that_was_read_but_the_head(school: School, objective: Objective) -> None:
    begun = school.pretrain(objective).state_dict()
    fresh, lent = school.classifier(objective).state_dict(), school.classifier(objective, school.pretrain(objective)).state_dict()
    for name, weight in lent.items():
        if name.startswith("head."):
            assert torch.equal(weight, fresh[name])
        else:
            assert torch.equal(weight, begun[name])
            assert not torch.equal(weight, fresh[name]) or weight.ndim == 1


def test_only_a_masked_reader_sees_what_follows(school: School) -> None:
    batch = school.train.batch([0])
    for objective, sees in (("masked", True), ("causal", False)):
        model = school.classifier("masked" if sees else "causal").eval()
        before, _ = model.hidden(batch)
        batch.source.data[0, -2] += 1
        after, _ = model.hidden(batch)
        batch.source.data[0, -2] -= 1
        assert (not torch.equal(before[0, 0], after[0, 0])) is sees, objective
