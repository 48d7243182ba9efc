"""Answering a large file: rows a second beside a transformers pipeline with the same weights, memory, a command that is killed,
and a cluster that loses a worker.

python -m benchmarks.bulk [--rows 1000000]        prints JSON lines, kept in docs/reliability.md
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

SAMPLE = 1000  # rows that the pipeline answers: its speed does not depend on how many there are
ROUNDS = 5
THREADS = int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)  # of both sides


def write_rows(file: Path, rows: int) -> None:
    from attentif.data.builtin import BUILTIN

    texts = BUILTIN["reviews"].load(0)["test"]["text"]
    with file.open("w", encoding="utf-8") as out:
        out.write("id\ttext\n")
        for number in range(rows):
            out.write(f"{number}\t{texts[number % len(texts)]} ({number})\n")  # no text twice


def predict(run: Path, file: Path, out: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "attentif", "predict", str(run), "--file", str(file), "--out", str(out), *words]


def measure(command: list[str]) -> tuple[float, float]:
    """Seconds, and peak memory in MB."""
    code = (
        "import subprocess, sys, resource; subprocess.run(sys.argv[1:], check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL); "
    )
    code += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True)
    return time.perf_counter() - began, int(done.stdout) / 1000


def open_pipeline(folder: Path) -> Any:
    import torch
    import transformers

    torch.set_num_threads(THREADS)
    return transformers.pipeline("text-classification", str(folder), device="cpu")


def pipeline_speed(classify: Any, texts: list[str], batch: int) -> float:
    """Rows a second."""
    classify(texts[:64], batch_size=batch)
    began = time.perf_counter()
    classify(texts, batch_size=batch)
    return len(texts) / (time.perf_counter() - began)


def compare_speed(place: Path, run: Path, rows: int) -> None:
    """Our command and the pipeline in turns; the start of the command is measured once and taken off, as the pipeline is open already."""
    write_rows(place / "some.tsv", max(rows, SAMPLE))
    write_rows(place / "one.tsv", 1)
    lines = (place / "some.tsv").read_text(encoding="utf-8").splitlines()
    texts = [line.split("\t", 1)[1] for line in lines[1 : SAMPLE + 1]]
    classify = open_pipeline(place / "hf")
    best = max((1, 32), key=lambda batch: pipeline_speed(classify, texts[:200], batch))
    ours, theirs = [], []
    for _ in range(ROUNDS):
        theirs.append(pipeline_speed(classify, texts, best))
        start, _ = measure(predict(run, place / "one.tsv", place / "one.csv", "--force"))
        seconds, _ = measure(predict(run, place / "some.tsv", place / "some.csv", "--force"))
        ours.append(max(rows, SAMPLE) / (seconds - start))
    told = {"rounds": ROUNDS, "threads": THREADS, "rows/s": quartiles(ours), "transformers, rows/s": quartiles(theirs), "their batch": best}
    print(json.dumps(told | {"ratio": quartiles([one / other for one, other in zip(ours, theirs, strict=True)])}), flush=True)


def quartiles(values: list[float]) -> list[float]:
    return [round(value, 2) for value in statistics.quantiles(values, n=4, method="inclusive")]


def answer_all(place: Path, run: Path, rows: int) -> None:
    """A tenth of the rows, then all: seconds and peak memory."""
    found = {}
    for name, count in (("few", rows // 10), ("many", rows)):
        write_rows(place / f"{name}.tsv", count)
        seconds, peak = measure(predict(run, place / f"{name}.tsv", place / f"{name}.csv"))
        found[str(count)] = {"seconds": round(seconds, 1), "rows/s": round(count / seconds), "peak MB": round(peak)}
    print(json.dumps(found), flush=True)


def kill_twice(place: Path, run: Path, rows: int) -> None:
    out = place / "killed.csv"
    for share in (0.2, 0.5):
        words = ["--resume"] if share > 0.2 else []
        going = subprocess.Popen(predict(run, place / "many.tsv", out, *words), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wait_for_rows(out, round(share * rows), going)
        going.send_signal(signal.SIGKILL)
        going.wait()
    subprocess.run(predict(run, place / "many.tsv", out, "--resume"), check=True, capture_output=True)
    same = out.read_bytes() == (place / "many.csv").read_bytes()
    answers = sum(1 for _ in out.open()) - 1
    print(json.dumps({"killed twice and resumed": "the same bytes" if same else "OTHER BYTES", "answers": answers}), flush=True)


def wait_for_rows(out: Path, rows: int, going: "subprocess.Popen[bytes]") -> None:
    """Until so many rows have been answered."""
    journal = out.with_name(f".{out.name}.journal")
    while not journal.exists() or json.loads(journal.read_text() or "{}").get("rows", 0) < rows:
        if going.poll() is not None:
            raise RuntimeError(f"ended with {going.returncode} before it was killed")
        time.sleep(0.1)


def kill_worker(place: Path, run: Path, rows: int) -> None:
    """The same rows on a dask cluster of two workers, one of which is killed on the way."""
    from distributed import LocalCluster

    out = place / "together.csv"
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs="CRITICAL") as cluster:
        began = time.perf_counter()
        going = subprocess.Popen(predict(run, place / "many.tsv", out, "--cluster", cluster.scheduler_address), stderr=subprocess.DEVNULL)
        wait_for_rows(out, round(0.3 * rows), going)
        killed = next(iter(cluster.workers.values())).pid
        os.kill(killed, signal.SIGKILL)
        code = going.wait()
        seconds = time.perf_counter() - began
    with (place / "many.csv").open() as alone, out.open() as together:
        different = sum(one != other for one, other in zip(alone, together, strict=True))
    told = {"cluster of two workers, one killed": f"{different} rows differ", "exit code": code}
    print(json.dumps(told | {"seconds": round(seconds, 1), "answers": sum(1 for _ in out.open()) - 1}), flush=True)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rows", type=int, default=1_000_000)
    rows = options.parse_args().rows
    import attentif
    from attentif.training.progress import Silent

    with TemporaryDirectory() as folder:
        place = Path(folder)
        settings = {"epochs": 0, "min_steps": 0, "steps": 30, "baselines": False}
        run = attentif.train("reviews", out=place / "run", train=settings, model={"base": "esm-tiny"}, watch=Silent()).path
        export = [sys.executable, "-m", "attentif", "export", str(run), "--to", "hf", str(place / "hf")]
        subprocess.run(export, check=True, capture_output=True)
        compare_speed(place, run, min(rows, 20_000))
        answer_all(place, run, rows)
        kill_twice(place, run, rows)
        kill_worker(place, run, rows)


if __name__ == "__main__":
    main()
