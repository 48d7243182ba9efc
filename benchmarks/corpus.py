"""Preparing a corpus: tokens a second and peak memory beside `datasets` + `tokenizers`, and what reading costs a training step.

    python -m benchmarks.corpus [--megabytes 256] [--processes 2]        prints JSON lines, kept in docs/reliability.md

The corpus is generated: sentences of words drawn by a Zipf law from 50,000, in 8 JSONL files, half of them zstd. Both sides use the same
BPE of 8,000 tokens and write 16-bit ids to the disk, each in processes of their own, in turn, three times.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from attentif.data.shards import TokenStream

STEPS = 24  # of the comparison of training
DOCUMENT = 300  # words


def write_corpus(folder: Path, megabytes: int) -> list[Path]:
    """Eight files, written as they are drawn: the corpus may be larger than memory."""
    random = np.random.default_rng(0)
    letters = np.array(list("eeeaaaiiotsnrulcdmpvgfbqhxjyz"))
    words = np.array(["".join(random.choice(letters, length)) for length in random.integers(2, 11, 50_000)], dtype=object)
    files = []
    for number in range(8):
        file = folder / (f"{number}.jsonl" + (".zst" if number % 2 else ""))
        size = 0
        with open_packed(file) as out:
            while size < megabytes * 1_000_000 // 8:
                drawn = words[np.minimum(random.zipf(1.15, (500, DOCUMENT)), len(words)) - 1]
                size += out.write("".join(json.dumps({"text": " ".join(row)}) + "\n" for row in drawn).encode())
        files.append(file)
    return files


def open_packed(file: Path) -> Any:
    import pyarrow

    return pyarrow.output_stream(str(file), compression="zstd" if file.suffix == ".zst" else None)


def ours(files: list[Path], tokenizer: Path, out: Path) -> int:
    from attentif.data.corpus import file_corpus
    from attentif.data.shards import token_stream
    from attentif.text.kinds import Given

    return len(token_stream(file_corpus(files), Given().load(tokenizer), cache=out))


def theirs(files: list[Path], tokenizer: Path, out: Path, processes: int) -> int:
    import datasets
    import tokenizers

    datasets.disable_progress_bars()
    rust = tokenizers.Tokenizer.from_file(str(tokenizer))
    rust.no_padding()
    table = datasets.load_dataset("json", data_files=[str(file) for file in files], split="train", cache_dir=str(out))

    def encode(batch: dict[str, list[str]]) -> dict[str, Any]:
        found = rust.encode_batch_fast(batch["text"], add_special_tokens=False)
        return {"ids": [one.ids for one in found]}

    features = datasets.Features({"ids": datasets.Sequence(datasets.Value("uint16"))})
    mapped = table.map(encode, batched=True, num_proc=processes, remove_columns=["text"], features=features)
    return sum(len(row) for batch in mapped.with_format("arrow").iter(10_000) for row in batch["ids"]) + len(mapped)


def child(side: str, files: list[Path], tokenizer: Path, processes: int) -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        order = [side, json.dumps([str(file) for file in files]), str(tokenizer), folder, str(processes)]
        environment = os.environ | {"TOKENIZERS_PARALLELISM": "true" if side == "ours" else "false"}
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.corpus", "child", *order], env=environment, capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout.splitlines()[-1])


def run_child(side: str, files: str, tokenizer: str, folder: str, processes: str) -> None:
    paths = [Path(file) for file in json.loads(files)]
    began = time.perf_counter()
    made = ours(paths, Path(tokenizer), Path(folder)) if side == "ours" else theirs(paths, Path(tokenizer), Path(folder), int(processes))
    seconds = time.perf_counter() - began
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1000
    print(json.dumps({"tokens": made, "tokens/s": round(made / seconds), "peak MB of the largest process": round(peak)}))


def train(stream: "TokenStream", folder: Path) -> float:
    """Tokens a second of a small decoder."""
    import torch

    from attentif.models import build, resolve
    from attentif.tasks.language.language import LanguageConfig, TextWindows
    from attentif.training.config import TrainConfig
    from attentif.training.distributed import ProcessGroup
    from attentif.training.loop import Job, fit
    from attentif.training.progress import Silent
    from attentif.training.rundir import RunFolder, create

    class Tokenizer:
        eos = pad = 0

    empty = type(stream)([], np.zeros(0, np.uint64), 0)
    parts = [TextWindows(name, some, Tokenizer(), 256) for name, some in (("train", stream), ("valid", empty))]  # type: ignore[arg-type]
    config = TrainConfig(steps=STEPS, epochs=0, batch_tokens=2048, checkpoint_every=10 * STEPS, log_every=1)
    create(folder, "bench", lambda new: (new / "config.toml").write_text(""))
    torch.manual_seed(0)
    job = Job(LanguageConfig().build(), build(resolve({"base": "decoder-tiny"}).with_sizes(vocab=8000)), *parts, config, RunFolder(folder))
    with ProcessGroup(torch.device("cpu")) as ranks:
        fit(job, ranks, Silent())
    rows = RunFolder(folder).metrics.rows()[STEPS // 4 :]
    return float(np.median([row["tokens_per_second"] for row in rows]))


def compare_training(files: list[Path], tokenizer: Path, place: Path, rounds: int) -> None:
    """The same steps from shards that no page cache holds, and from arrays in memory, in turns."""
    from attentif.data.corpus import file_corpus
    from attentif.data.shards import TokenStream, token_stream
    from attentif.text.kinds import Given

    found: dict[str, list[float]] = {"shards": [], "memory": []}
    for number in range(rounds):
        for kind in sorted(found, reverse=number % 2 == 0):
            stream = token_stream(file_corpus(files), Given().load(tokenizer), cache=place / "tokens")
            if kind == "memory":
                stream = TokenStream([stream.window(0, len(stream))], stream.contents, stream.text_bytes)
            for file in place.glob("tokens/shards/*/*.bin"):  # opening has read all of them
                with file.open("rb") as opened:
                    os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            found[kind].append(train(stream, place / f"{kind}-{number}"))
    ratios = [one / other for one, other in zip(found["shards"], found["memory"], strict=True)]
    print(json.dumps({"training, tokens/s": found, "shards / memory": quartiles(ratios)}), flush=True)


def quartiles(values: list[float]) -> list[float]:
    return [round(float(value), 3) for value in np.quantile(values, [0.25, 0.5, 0.75])]


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--megabytes", type=int, default=256)
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--rounds", type=int, default=3)
    asked = options.parse_args()
    from attentif.text import TOKENIZERS

    with TemporaryDirectory() as folder:
        files = write_corpus(Path(folder), asked.megabytes)
        config = TOKENIZERS["bpe"](vocab=8000)
        with files[0].open(encoding="utf-8") as lines:
            fitted = config.fit([json.loads(line)["text"] for line, _ in zip(lines, range(2000), strict=False)])
        tokenizer = Path(folder) / "tokenizer.json"
        fitted.save(tokenizer)
        ratios = []
        for _ in range(asked.rounds):
            found = {side: child(side, files, tokenizer, asked.processes) for side in ("ours", "theirs")}
            ratios.append(found["ours"]["tokens/s"] / found["theirs"]["tokens/s"])
            print(json.dumps(found | {"ratio": round(ratios[-1], 2)}), flush=True)
        print(json.dumps({"megabytes": asked.megabytes, "ratio": quartiles(ratios)}), flush=True)
        compare_training(files, tokenizer, Path(folder), asked.rounds)


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        run_child(*sys.argv[2:])
    else:
        main()
