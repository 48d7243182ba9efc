"""That the contestants of the benchmark of vectors compute the same."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks.common import QUICK
from benchmarks.sentences import TINY, contestants, make_sorted_batches, run, write_random

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own

TEXTS = ["Un film magnifique.", "Trop long, trop lent et sans la moindre idée neuve.", "Quel film !", "On rit, on pleure."]


def test_all_sides_give_the_same_vectors(tmp_path: Path) -> None:
    write_random(tmp_path, TINY, TEXTS)
    ours, theirs = contestants(tmp_path, TEXTS)  # compares these two itself
    np.testing.assert_allclose(make_sorted_batches(tmp_path, TEXTS)(), theirs(2), atol=1e-4)
    assert np.asarray(ours()).shape == (4, TINY.width)


def test_without_the_data_it_says_why_it_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATTENTIF_DATA", raising=False)
    (reason,) = run(QUICK)
    assert "ATTENTIF_DATA" in str(reason)
