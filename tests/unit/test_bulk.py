from pathlib import Path

import numpy as np

from attentif.bulk import InputRows, answer_rows, embed_into
from attentif.data.input_rows import AskedRow, SkippingTolerance
from attentif.tasks.answers import Prediction


def test_the_bar_stands_before_the_first_chunk_is_answered() -> None:
    shown: list[tuple[int, int]] = []

    def answer(rows: object) -> list[Prediction]:
        assert shown == [(0, 2)]
        return [Prediction("a", "x"), Prediction("b", "y")]

    asked = InputRows(Path("rows.txt"), iter([AskedRow(1, "a"), AskedRow(2, "b")]), 2, SkippingTolerance(0, []))
    assert [line for line, _ in answer_rows(asked, answer, lambda done, total: shown.append((done, total)))] == [2]
    assert shown == [(0, 2), (2, 2)]


def test_the_bar_stands_before_the_first_vectors_are_there() -> None:
    shown: list[tuple[int, int]] = []

    def embed(texts: list[str]) -> np.ndarray:
        assert shown == [(5, 6)]
        return np.zeros((len(texts), 2), np.float32)

    embed_into(iter([(6, "f")]), embed, done=5, total=6, progress=lambda done, total: shown.append((done, total)))
    assert shown == [(5, 6), (6, 6)]
