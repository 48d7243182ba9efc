"""The programme of faults: what is done to runs and commands, how often, and what became of them.

    python -m benchmarks.faults [interrupted damaged clock memory disks processes]     (`make faults`; its table: docs/reliability.md)

A case survives where the work ends as if nothing had happened, or is refused in one line that names the file. It is lost where an answer is
silently wrong, work is gone, or a traceback is shown. The exit code is 1 where a case is lost.
"""

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import attentif
from attentif.errors import AttentifError
from attentif.training.progress import Silent

ROOT = Path(__file__).parent.parent
DAMAGED, CLOCKS, LIMITS = 300, 12, (600, 900, 1200, 1500)  # cases; MB of address space
DISKS = (4, 16, 64, 128, 256, 512, 1024)  # kB of a disk (tmpfs, which root may mount)
READ = ("README.md", "report.html", "metrics.jsonl", "results.json", "lock")  # files that no answer depends on
Count = tuple[int, int, list[str]]  # tried, survived, lost


def train_small(folder: Path, base: str = "encoder-tiny", width: int = 16, **train: object) -> attentif.Run:
    rows = [{"text": f"film {'bon' if n % 2 else 'mauvais'} {n % 7}", "label": "+" if n % 2 else "-"} for n in range(60)]
    settings = {"epochs": 0, "min_steps": 0, "steps": 12, "checkpoint_every": 3, "baselines": False, "threads": 1} | train
    model = {"base": base, "layers": 1, "width": width}
    return attentif.train("reviews", data=rows, out=folder, train=settings, model=model, watch=Silent())


def kill_trainings(folder: Path) -> Count:
    """Trainings killed with -9 at any moment, sometimes several times, then gone on with."""
    kills = [sys.executable, str(ROOT / "tests" / "system" / "kill_many.py"), str(folder), "200"]
    done = subprocess.run(kills, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    return found["hits"], found["hits"] - len(found["differences"]), found["differences"]


def damage_runs(folder: Path) -> Count:
    """Finished runs of which one file was flipped in a bit, cut short, emptied or removed."""
    run = train_small(folder / "run")
    expected = [one.output for one in run.predict(["film bon", "film mauvais"])]
    files = [file for file in sorted(run.path.iterdir()) if file.is_file() and file.name not in READ]
    dice, lost = random.Random(0), []
    for number in range(DAMAGED):
        copy = folder / "copy"
        shutil.copytree(run.path, copy)
        file = copy / dice.choice(files).name
        how = dice.choice(("flip", "cut", "empty", "remove"))
        raw = bytearray(file.read_bytes())
        place = dice.randrange(len(raw))
        raw[place] ^= 1 << dice.randrange(8)
        {
            "flip": lambda file=file, raw=raw: file.write_bytes(raw),
            "cut": lambda file=file, place=place: os.truncate(file, place),
            "empty": lambda file=file: os.truncate(file, 0),
            "remove": file.unlink,
        }[how]()
        try:
            answers = [one.output for one in attentif.load(copy).predict(["film bon", "film mauvais"])]
            lost.append(f"{number}: {how} of {file.name} was answered from{'' if answers == expected else ', wrongly'}")
        except AttentifError:
            pass
        except Exception as error:
            lost.append(f"{number}: {how} of {file.name}: {type(error).__name__}")
        shutil.rmtree(copy)
    return DAMAGED, DAMAGED - len(lost), lost


def clock(folder: Path) -> Count:
    """Trainings during which the clock jumps by hours or years, forward and back."""
    expected = train_small(folder / "plain").path.joinpath("model.safetensors").read_bytes()
    now, dice, lost = time.time, random.Random(0), []
    for number in range(CLOCKS):
        path = folder / f"run-{number}"
        with mock.patch("time.time", side_effect=lambda: now() + dice.choice((-1, 1)) * dice.choice((3600, 86_400, 10**9))):
            train_small(path)
        if path.joinpath("model.safetensors").read_bytes() != expected:
            lost.append(path.name)
        shutil.rmtree(path)
    return CLOCKS, CLOCKS - len(lost), lost


def memory(folder: Path) -> Count:
    """Commands that are given too little memory: one line and exit code 1, no half-made folder; with enough, the command as ever."""
    lost = []
    for limit in LIMITS:
        out = folder / f"run-{limit}"
        words = [sys.executable, "-m", "attentif", "train", "stdlib", "train.steps=2", "train.epochs=0", "train.batch_tokens=65536"]
        words += ["train.minutes=0", "train.baselines=false", "--out", str(out)]
        done = subprocess.run(words, capture_output=True, text=True, preexec_fn=lambda limit=limit: _limit_memory(limit), cwd=folder)
        said = [line for line in done.stderr.splitlines() if line.startswith("error:")]
        half = [path.name for path in folder.iterdir() if path.name.startswith(".")]
        if "Traceback" in done.stderr or half or (done.returncode != 0 and (done.returncode != 1 or len(said) != 1)):
            lost.append(f"{limit} MB: exit {done.returncode}, {done.stderr.strip().splitlines()[-1:]}")
    return len(LIMITS), len(LIMITS) - len(lost), lost


def _limit_memory(megabytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))


def fill_disks(folder: Path) -> Count:
    """Commands on disks of seven sizes: they end well, or with one line that names the file, and leave nothing half-made."""
    run = train_small(folder / "run", "esm-tiny", 64).path
    texts, rows = folder / "texts.txt", folder / "rows.csv"
    texts.write_text("un chat gris dort près du feu\n" * 3000, encoding="utf-8")
    rows.write_text("text,label\n" + "".join(f"film {n} {'bon' if n % 2 else 'nul'},{n % 2}\n" for n in range(5000)), encoding="utf-8")
    export = ["export", str(run), "--to"]
    subprocess.run([sys.executable, "-m", "attentif", *export, "hf", str(folder / "hf")], check=True, capture_output=True)
    small = ["model.layers=1", "model.width=16", "train.epochs=0", "train.min_steps=0", "train.steps=4", "train.checkpoint_every=2"]
    commands = {
        "train": ["train", "classify", "--data", str(rows), "--out", "run", *small],
        "ngram": ["train", "ngram", "--data", str(texts), "--out", "run"],
        "tokenizer": ["tokenizer", "train", str(texts), "--vocab", "300", "--out", "t.json"],
        "import": ["import", str(folder / "hf"), "run"],
        "export hf": [*export, "hf", "out"],
        "quantize": ["quantize", str(run), "out"],
        "predict": ["predict", str(run), "--file", str(rows), "--out", "answers.csv"],
        "embed": ["embed", str(run), str(rows), "--text", "text", "--out", "vectors.npz"],
        "compare": [
            "compare",
            "classify",
            "--models",
            "encoder-tiny,lstm-tiny",
            "--seeds",
            "1",
            "--data",
            str(rows),
            "--out",
            "comparison",
            *small,
        ],
    }
    place, tried, lost = folder / "disk", 0, []
    place.mkdir()
    for name, words in commands.items():
        for kilobytes in DISKS:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)], check=True)
            try:
                problem = _run_on_full_disk(words, place)
            finally:
                subprocess.run(["umount", str(place)], check=True)
            tried += 1
            if problem:
                lost.append(f"{name} in {kilobytes} kB: {problem}")
    return tried, tried - len(lost), lost


def _run_on_full_disk(words: list[str], place: Path) -> str:
    """What is wrong with how a command ended; nothing where all is well."""
    done = subprocess.run([sys.executable, "-m", "attentif", *words], capture_output=True, text=True, cwd=place)
    left = [str(path.relative_to(place)) for path in place.rglob("*") if ".tmp" in path.name]
    said = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    if done.returncode == 0:
        return f"left {left}" if left else ""
    clear = done.returncode == 1 and len(said) == 1 and "no space left" in said[0] and "Traceback" not in done.stderr
    return "" if clear and not left else f"exit {done.returncode}, {done.stderr.strip().splitlines()[-1:]}, left {left}"


def processes(_: Path) -> Count:
    """A process of several that is killed or hangs; a worker of a cluster that is killed; disks that are full; checkpoints damaged."""
    tests = ["test_lost_processes", "test_cluster", "test_kill", "test_disk_full"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(f"tests/system/{name}.py" for name in tests)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    passed = next((int(word) for line in done.stdout.splitlines()[-1:] for word, what in _pairs(line) if what.startswith("passed")), 0)
    return passed + len(failed), passed, failed


def _pairs(line: str) -> list[tuple[str, str]]:
    words = line.split()
    return [(one, other) for one, other in pairwise(words) if one.isdigit()]


PARTS: dict[str, Callable[[Path], Count]] = {
    "interrupted": kill_trainings,
    "damaged": damage_runs,
    "clock": clock,
    "memory": memory,
    "disks": fill_disks,
    "processes": processes,
}


def main() -> int:
    code = 0
    for name in sys.argv[1:] or PARTS:
        if name == "disks" and os.geteuid() != 0:
            print("| disks | left out: only root may mount small disks |", flush=True)
            continue
        with TemporaryDirectory() as folder:
            tried, survived, lost = PARTS[name](Path(folder))
        print(f"| {name} | {(PARTS[name].__doc__ or '').strip()} | {tried} | {survived} | {len(lost)} |", flush=True)
        for case in lost[:20]:
            print(f"  lost: {case}", flush=True)
        code |= bool(lost)
    return code


if __name__ == "__main__":
    sys.exit(main())
