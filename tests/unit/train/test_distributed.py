import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import toy

from attentif.errors import ConfigError
from attentif.train.distributed import Ranks, device_of

OPTIONS = {"steps": 15, "log_every": 1, "accumulate": 4, "dropout": 0.0, "eval_every": 5, "ema": 0.9}


def torchrun(folder, options, processes=2):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), toy.__file__]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    return subprocess.run([*command, str(folder), json.dumps(options)], env=environment, capture_output=True, text=True, timeout=120)


def losses(run):
    found = [json.loads(line) for line in (Path(run) / "metrics.jsonl").read_text().splitlines()]
    return [(row["loss"], row["grad_norm"], row["tokens"]) for row in found if "split" not in row]


def test_two_processes_give_the_losses_of_one(tmp_path):
    # 12 batches an epoch in steps of 5: the last step of each has 2; then of 4 with 3 in the last one, which two processes cannot share evenly
    for accumulate, rows in ((4, 96), (10, 96), (4, 90)):
        toy.Texts.__init__.__defaults__ = (rows, *toy.Texts.__init__.__defaults__[1:])
    run = torchrun(tmp_path / "two", OPTIONS)
    assert run.returncode == 0, run.stderr
    toy.train(tmp_path / "one", toy.settings(**{key: value for key, value in OPTIONS.items() if key != "dropout"}), dropout=0.0)
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(tmp_path / "one"), rtol=1e-5)


def test_a_process_alone_sums_and_gathers_its_own():
    ranks = Ranks()
    assert ranks.sum([1.5, 2.0]) == [1.5, 2.0]
    assert ranks.gather({"a": 1}) == [{"a": 1}]
    assert ranks.share("x") == "x"


@pytest.mark.parametrize("name", ["tpu9", "cuda:99", "meta"])
def test_a_device_that_is_not_there_is_refused(name):
    with pytest.raises(ConfigError, match=r"train\.device"):
        device_of(name)


def test_auto_is_a_device_that_is_there():
    assert device_of("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
