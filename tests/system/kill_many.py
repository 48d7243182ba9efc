"""Start a run, kill it with -9 at a random moment, go on with it, compare: many times, from one warmed process that forks.

    python kill_many.py FOLDER KILLS       prints JSON: seconds of an undisturbed run, kills that hit, differences found

A process of its own, so that it is certain to be single-threaded: the child of a torch that has used two threads hangs.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import torch
import toy

CONFIG = {"steps": 12, "checkpoint_every": 3, "eval_every": 5, "ema": 0.9, "patience": 100}
TIMINGS = ("seconds", "tokens_per_second")


def start(path: Path) -> int:
    """A child that trains, or goes on."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            toy.train(path, toy.settings(**CONFIG))
            code = 0
        finally:
            os._exit(code)
    return child


def code_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def outcome(path: Path) -> dict[str, object]:
    """What must not depend on how often the run was killed."""
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return {
        "weights": hashlib.sha256((path / "model.safetensors").read_bytes()).hexdigest(),
        "metrics": [{key: value for key, value in row.items() if key not in TIMINGS} for row in rows],
        "left": sorted(file.name for file in path.rglob("*") if ".tmp" in file.name or "damaged" in file.name),
    }


def main(folder: Path, kills: int) -> None:
    torch.set_num_threads(1)
    toy.train(folder / "warm", toy.settings(**CONFIG))
    began = time.perf_counter()
    assert code_of(start(folder / "undisturbed")) == 0
    seconds = time.perf_counter() - began
    expected = outcome(folder / "undisturbed")
    dice = random.Random(0)
    hits, trials, resumed, differences = 0, 0, 0, []
    while hits < kills:
        trials += 1
        path = folder / f"run-{trials}"
        while True:  # killed again and again, sometimes
            child = start(path)
            time.sleep(dice.uniform(0, seconds))
            os.kill(child, signal.SIGKILL)
            if code_of(child) == 0:
                break
            hits += 1
            resumed += any(path.glob("checkpoints/step-*"))
            if dice.random() < 0.7:
                break
        if code_of(start(path)) != 0 or outcome(path) != expected:
            differences.append(path.name)
        else:
            shutil.rmtree(path)
    print(json.dumps({"seconds": seconds, "hits": hits, "trials": trials, "resumed": resumed, "differences": differences}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
