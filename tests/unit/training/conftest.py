"""What the tests of training share."""

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Two test processes share two cores; and a run of one thread is the same to the bit everywhere."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
