import pytest
import torch

from attentif.lab.machine import available_memory, measures_memory, peak_bytes, processor

MEGABYTE = 1 << 20


@pytest.mark.skipif(not measures_memory(), reason="only Linux lets a process set its peak back")
@pytest.mark.parametrize("size", [8, 50])
def test_the_peak_of_a_call_is_what_it_takes_whatever_was_freed_before(size: int) -> None:
    fill = lambda: torch.ones(size * MEGABYTE // 4)
    for _ in range(3):  # a second call must not seem to need nothing
        peak = peak_bytes(fill)
        assert peak is not None
        assert (size - 1) * MEGABYTE < peak < (size + 4) * MEGABYTE  # the kernel adds its cores' pages up in batches; all else that runs


def test_the_machine_says_what_it_is() -> None:
    assert "core" in processor()
    free = available_memory()
    assert free is None or free > MEGABYTE
