import os
import signal
import subprocess
import sys

import pytest

from attentif.errors import RunError
from attentif.training.lock import Lock

HOLD = """
import sys, time
from pathlib import Path
from attentif.training.lock import Lock

with Lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_two_writers_are_kept_apart_and_a_killed_one_blocks_nobody(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path / "lock"], stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(RunError, match=f"{holder.pid}"), Lock(tmp_path / "lock"):
        pass
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    with Lock(tmp_path / "lock"):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_lock_that_was_left_can_be_taken_again(tmp_path):
    for _ in range(2):
        with Lock(tmp_path / "lock"):
            pass
