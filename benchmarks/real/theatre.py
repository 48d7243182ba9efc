"""French classical theatre: language models that count and language models that learn, on the same text."""

import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from attentif.training.rundir import RunFolder
from attentif.view.words import duration

TITLE = "Real data: French theatre, one character after the other"
ABOUT = """
40 million characters to learn from, bits per character of one million others (val), all of them predicted, unknown characters too.
Nothing is chosen on val: the last half percent of train is watched instead, and the last weights are scored. Neural models have 2 million
parameters over the same 4,096 byte-pair tokens, windows of 256 tokens, and ten minutes of training each, on one core, as many at once as
there are. All have the recipe's optimiser and rate, of which three (4e-3, 8e-3, 1.6e-2) were tried with the transformer for 500 steps on a
part of train. Every model is a run of its own under runs/theatre: what was stopped goes on, what is finished is not trained again.
"""
LONG = True
FOLDER = Path(os.environ.get("ATTENTIF_DATA", "")) / "theatre_fr"
NEURAL = ["stdlib", "train.epochs=0", "train.minutes=10", "train.eval_every=2000"]
MODELS: dict[str, list[str]] = {
    "5-grams of characters, Kneser-Ney": ["ngram", "tokenizer.kind=char", "tokenizer.min_count=1"],
    "5-grams of byte-pair tokens, Kneser-Ney": ["ngram"],
    "fixed window of 8 tokens (MLP)": [
        *NEURAL, "model.base=window-mlp-tiny", "model.width=160", "model.decoder.block.window.mixer.hidden=896",
    ],
    "LSTM, 2 layers": [*NEURAL, "model.base=lstm-tiny", "model.width=256"],
    "transformer, 4 blocks": [*NEURAL, "model.base=decoder-tiny", "model.width=160"],
    "Mamba, 8 blocks": [*NEURAL, "model.base=mamba-tiny", "model.width=160", "model.layers=8"],
}  # fmt: skip
QUICK = ["data.limit=3000"]
PART = 20_000  # characters that are scored to see that everything runs


def run(quick: bool) -> Iterator[str]:
    with gzip.open(FOLDER / "val.txt.gz", "rt", encoding="utf-8") as packed:
        text = packed.read(PART if quick else -1)
    characters, size = len(text), len(text.encode())
    yield f"val: {characters:,} characters, {size:,} bytes.\n"
    yield "| | bits per character (lower is better) | bits per byte | perplexity of a token | parameters or n-grams | time |"
    yield "|---|---|---|---|---|---|"
    with tempfile.TemporaryDirectory() as scratch:
        scored = FOLDER / "val.txt.gz"
        if quick:
            scored = Path(scratch) / "val.txt"
            scored.write_text(text, encoding="utf-8")
        parent = Path(scratch if quick else "runs/theatre")
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            runs = {
                name: pool.submit(_results, parent / name.split(",")[0].replace(" ", "-"), [*words, *_data(scored)], quick)
                for name, words in MODELS.items()
            }
            for name, ended in runs.items():
                yield _row(name, ended.result(), size / characters)


def _data(scored: Path) -> list[str]:
    return [f"--data={FOLDER / 'train.txt.gz'}", f"--test={scored}", "data.valid_fraction=0.005"]


def _results(folder: Path, words: list[str], quick: bool) -> dict[str, Any]:
    """Those of a run: finished, gone on with, or begun."""
    ready = RunFolder(folder)
    if not ready.finished:
        short = [*QUICK, *(["train.minutes=0", "train.steps=2"] if words[0] == "stdlib" else [])] if quick else []
        begin = [*words, *short, "--out", str(folder)]
        _train(["--resume", str(folder)] if ready.config.is_file() else begin)
    results: dict[str, Any] = json.loads(ready.results.read_text(encoding="utf-8"))
    return results


def _train(words: list[str]) -> None:
    call = [sys.executable, "-m", "attentif", "train", *words]
    if subprocess.run(call, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL, check=False).returncode:
        raise SystemExit(f"attentif train {' '.join(words)} failed")


def _row(name: str, results: dict[str, Any], bytes_per_character: float) -> str:
    bits, cost = results["scores"]["bits_per_byte"], results["cost"]
    low, high = (bound * bytes_per_character for bound in results["intervals"]["bits_per_byte"])
    return (
        f"| {name} | {bits * bytes_per_character:.3f} ({low:.3f} to {high:.3f}) | {bits:.3f} | {results['scores']['perplexity']:.1f} "
        f"| {sum(cost['parameters'].values()) / 1e6:.2f} M | {duration(cost['seconds']).en} |"
    )
