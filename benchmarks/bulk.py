"""Answering a large file: rows a second beside a transformers pipeline with the same weights, memory, and a command that is killed.

python -m benchmarks.bulk [--rows 1000000]        prints JSON lines, kept in docs/reliability.md
"""

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

SAMPLE = 4000  # rows that the pipeline answers: its speed does not depend on how many there are


def write_rows(file: Path, rows: int) -> None:
    from attentif.data.builtin import BUILTIN

    texts = BUILTIN["reviews"].load(0)["test"]["text"]
    with file.open("w", encoding="utf-8") as out:
        out.write("id\ttext\n")
        for number in range(rows):
            out.write(f"{number}\t{texts[number % len(texts)]}\n")


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


def pipeline_speed(folder: Path, texts: list[str]) -> dict[int, float]:
    """Rows a second by size of batch."""
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count() or 1)
    classify = transformers.pipeline("text-classification", str(folder), device="cpu")
    found = {}
    for batch in (1, 32):
        classify(texts[:64], batch_size=batch)
        began = time.perf_counter()
        classify(texts, batch_size=batch)
        found[batch] = len(texts) / (time.perf_counter() - began)
    return found


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rows", type=int, default=1_000_000)
    rows = options.parse_args().rows
    import attentif
    from attentif.training.progress import Silent

    with TemporaryDirectory() as folder:
        place = Path(folder)
        settings = {"epochs": 0, "min_steps": 0, "steps": 30, "baselines": False}
        run = attentif.train("reviews", out=place / "run", train=settings, model={"base": "esm-tiny"}, watch=Silent())
        subprocess.run(
            [sys.executable, "-m", "attentif", "export", str(run.path), "--to", "hf", str(place / "hf")], check=True, capture_output=True
        )
        write_rows(place / "few.tsv", rows // 10)
        write_rows(place / "many.tsv", rows)
        seconds, few = measure(predict(run.path, place / "few.tsv", place / "few.csv"))
        seconds, many = measure(predict(run.path, place / "many.tsv", place / "many.csv"))
        texts = [
            line.split("\t", 1)[1].rstrip("\n") for line in (place / "few.tsv").read_text(encoding="utf-8").splitlines()[1 : SAMPLE + 1]
        ]
        theirs = pipeline_speed(place / "hf", texts)
        told: dict[str, Any] = {"rows": rows, "seconds": round(seconds, 1), "rows/s": round(rows / seconds)}
        told |= {"peak MB": {str(rows // 10): round(few), str(rows): round(many)}}
        told |= {f"transformers, batches of {batch}, rows/s": round(speed) for batch, speed in theirs.items()}
        print(json.dumps(told | {"ratio": round(rows / seconds / max(theirs.values()), 1)}), flush=True)
        out = place / "killed.csv"
        for share in (0.2, 0.5):
            words = ["--resume"] if share > 0.2 else []
            going = subprocess.Popen(
                predict(run.path, place / "many.tsv", out, *words), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
            journal = place / ".killed.csv.journal"
            while not journal.exists() or json.loads(journal.read_text() or "{}").get("rows", 0) < share * rows:
                time.sleep(0.1)
            going.send_signal(signal.SIGKILL)
            going.wait()
        subprocess.run(predict(run.path, place / "many.tsv", out, "--resume"), check=True, capture_output=True)
        same = hashlib.sha256(out.read_bytes()).hexdigest() == hashlib.sha256((place / "many.csv").read_bytes()).hexdigest()
        print(
            json.dumps({"killed twice and resumed": "the same bytes" if same else "OTHER BYTES", "answers": sum(1 for _ in out.open()) - 1})
        )


if __name__ == "__main__":
    main()
