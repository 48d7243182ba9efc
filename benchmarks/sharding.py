"""Training in shards beside one process and DDP: the same losses, peak memory, and a run killed with 4 processes that goes on with 2 and 1.

python -m benchmarks.sharding [losses|memory|kill]        minutes; prints JSON lines, kept in docs/reliability.md
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import psutil

SMALL = {"width": 64, "layers": 4, "dropout": 0.1}
LARGE = {"width": 768, "layers": 12, "dropout": 0.0}  # 98 million parameters
VOCAB = {"small": 512, "large": 16384}


def work(order: dict[str, Any]) -> None:
    """One process of a training; the first prints the losses and the peak memory of all."""
    import torch

    from attentif.data.shards import TokenStream
    from attentif.models import build, resolve
    from attentif.tasks.language.language import LanguageConfig, TextWindows
    from attentif.training.config import TrainConfig
    from attentif.training.distributed import ProcessGroup
    from attentif.training.loop import Job, fit
    from attentif.training.machine import peak_memory, seed_all
    from attentif.training.progress import Silent
    from attentif.training.rundir import RunFolder, create

    torch.set_num_threads(1)
    vocab = VOCAB[order["size"]]

    class Tokenizer:
        eos = pad = 0

    ids = np.random.default_rng(0).zipf(1.3, 400_000).clip(1, vocab - 1).astype(np.uint16)
    windows = [
        TextWindows(name, TokenStream([some], np.zeros(1, np.uint64), len(some)), Tokenizer(), 64)  # type: ignore[arg-type]
        for name, some in (("train", ids), ("valid", ids[:0]))
    ]
    shape = {"base": "decoder-tiny"} | (SMALL if order["size"] == "small" else LARGE)
    config = TrainConfig(steps=order["steps"], epochs=0, log_every=1, batch_tokens=128, accumulate=4, **order["train"])
    with ProcessGroup(torch.device("cpu")) as ranks:
        path = Path(order["folder"])
        if ranks.main and not path.exists():
            create(path, "bench", lambda new: (new / "config.toml").write_text(""))
        ranks.barrier()
        seed_all(0)
        model = build(resolve(shape).with_sizes(vocab=vocab))
        task = LanguageConfig().build()
        began = time.perf_counter()
        fit(Job(task, model, windows[0], windows[1], config, RunFolder(path)), ranks, Silent())
        seconds = time.perf_counter() - began
        peaks = ranks.gather(peak_memory())
        if ranks.main:
            losses = [row["loss"] for row in RunFolder(path).metrics.rows()]
            print(json.dumps({"losses": losses, "peaks": peaks, "seconds": seconds, "parameters": sum(model.sizes().values())}))


def launch(processes: int, order: dict[str, Any]) -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    return subprocess.Popen(
        [sys.executable, *torchrun, "-m", "benchmarks.sharding", "work", json.dumps(order)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def run(processes: int, **order: Any) -> dict[str, Any]:
    said, _ = launch(processes, order).communicate()
    return json.loads(said.splitlines()[-1])


def losses(folder: Path) -> None:
    """50 steps with dropout, AdamW and Muon."""
    for optimizer in ("adamw", "muon"):
        own = {"size": "small", "steps": 50}
        settings = {"optimizer": optimizer, "lr": 1e-3, "checkpoint_every": 1000}
        one = run(1, folder=str(folder / f"{optimizer}-1"), train=settings, **own)["losses"]
        for processes in (2, 4):
            train = settings | {"shard": "full", "gradient_checkpointing": processes == 4}
            found = run(processes, folder=str(folder / f"{optimizer}-{processes}"), train=train, **own)["losses"]
            off = float(np.max(np.abs(np.array(found) / one - 1)))
            print(json.dumps({"optimizer": optimizer, "processes": processes, "steps": len(found), "largest relative difference": off}))


def memory(folder: Path) -> None:
    """Peak resident memory of the largest process, Python and torch included."""
    for processes in (2, 4):
        found = {}
        for shard in ("none", "full"):
            train = {"shard": shard, "checkpoint_every": 1000, "gradient_checkpointing": True}
            out = run(processes, folder=str(folder / f"{shard}-{processes}"), size="large", steps=2, train=train)
            found[shard] = max(out["peaks"]) / 1e6
            shutil.rmtree(folder / f"{shard}-{processes}")
        share = round(found["full"] / found["none"], 3)
        print(json.dumps({"parameters": out["parameters"], "processes": processes, "peak MB": found, "share": share}), flush=True)


def kill(folder: Path) -> None:
    """Killed with 4 processes, then with 2, ended with 1; and with 4 all along."""
    train = {"shard": "full", "lr": 1e-3, "checkpoint_every": 5}
    whole = run(4, folder=str(folder / "whole"), size="small", steps=40, train=train)["losses"]
    path = folder / "killed"
    for processes, until in ((4, 10), (2, 25)):
        going = launch(processes, {"folder": str(path), "size": "small", "steps": 40, "train": train})
        while not (path / "checkpoints" / f"step-{until:08}").exists():
            time.sleep(0.05)
        for process in (*psutil.Process(going.pid).children(recursive=True), going):  # torchrun's workers outlive it
            process.send_signal(signal.SIGKILL)
        going.wait()
    found = run(1, folder=str(path), size="small", steps=40, train=train)["losses"]
    differences = np.abs(np.array(found) / whole - 1)
    told = {"steps": len(found), "the same bits until step": int(np.argmax(differences > 0)) if differences.any() else 40}
    print(json.dumps(told | {"largest relative difference": float(differences.max())}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(json.loads(sys.argv[2]))
    else:
        place = Path(mkdtemp())
        for name in sys.argv[1:] or ("losses", "memory", "kill"):
            {"losses": losses, "memory": memory, "kill": kill}[name](place / name)
        shutil.rmtree(place)
