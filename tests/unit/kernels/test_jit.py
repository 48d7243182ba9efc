"""Compiled loops: shared out in fixed shares, safe after a fork, said once."""

import logging
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from attentif.kernels import jit, jit_cache
from attentif.kernels.jit import Compiled, inline, parallel_for


@inline
def _twice(x: float) -> float:
    return 2 * x


def _double(start: int, stop: int, x: np.ndarray, y: np.ndarray) -> None:
    for i in range(start, stop):
        y[i] = _twice(x[i])


@pytest.fixture
def two_threads() -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("items", [0, 1, 2, 7])
def test_every_item_is_worked_out_once(items: int) -> None:
    seen: list[int] = []
    parallel_for(lambda start, stop: seen.extend(range(start, stop)), items)
    assert sorted(seen) == list(range(items))


@pytest.mark.usefixtures("two_threads")
def test_an_error_in_any_share_is_raised() -> None:
    def fail(start: int, stop: int) -> None:
        if stop == 4:
            raise ValueError("the last share")

    with pytest.raises(ValueError, match="last share"):
        parallel_for(fail, 4)


def test_each_layout_is_said_when_it_is_compiled_and_not_when_it_is_read_from_the_disk(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jit_cache, "open_folder", lambda: tmp_path)
    layouts = [np.arange(5.0), np.arange(10.0)[::2], np.arange(5.0)]
    said = []
    with caplog.at_level(logging.INFO, "attentif"):
        for _ in range(2):  # two processes, as it were
            kernel = Compiled(_double)
            for x in layouts:
                kernel(0, 5, x, np.empty(5))
                said.append(len(caplog.records))
    assert said == [1, 2, 2, 2, 2, 2]


def test_compilation_is_said_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit_cache, "open_folder", lambda: None)  # as on a machine that never ran it
    kernel = Compiled(_double)
    x, y = np.arange(5.0), np.empty(5)
    with caplog.at_level(logging.INFO, "attentif"):
        for _ in range(3):
            kernel(0, 5, x, y)
    assert np.array_equal(y, 2 * x)
    assert [record.message.partition(" in ")[0] for record in caplog.records] == ["compiled test_jit.double"]


@pytest.mark.usefixtures("two_threads")
def test_a_forked_child_has_threads_of_its_own() -> None:
    x, y = np.arange(8.0), np.zeros(8)
    parallel_for(lambda start, stop: y.__setitem__(slice(start, stop), x[start:stop]), 8)
    assert jit._pool is not None
    if (child := os.fork()) == 0:
        try:
            parallel_for(lambda start, stop: y.__setitem__(slice(start, stop), 2 * x[start:stop]), 8)
            os._exit(0 if np.array_equal(y, 2 * x) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
