"""Tables as people have them: a class of 1 %, fifty classes, a hundred megabytes. Time, memory, and what is found."""

import csv
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attentif.files import cache_folder
from attentif.view.words import duration, percent, size
from benchmarks.real.trial import train_run

TITLE = "Everyday tables: rare classes, many classes, large files"
ABOUT = """
Made of the real French reviews. *Rare*: 3,434 reviews of which 34 are negative, scored on 600 of each kind kept apart, once with
`task.class_weights=none task.metric=accuracy` (as it was before) and once as the recipe is. *Fifty*: of which of fifty series a review is,
3,800 rows. *Large*: sentences of the reviews drawn again until a table has 217,000 rows and 110 MB; its dry run, time and peak memory.
"""
LONG = False
BEFORE = ("task.class_weights=none", "task.metric=accuracy")
Rows = Sequence[tuple[str, str]]


def run(quick: bool) -> Iterator[str]:
    folder = cache_folder() / "real" / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [row for name in ("series", "films_train") for row in _read(Path(os.environ["ATTENTIF_DATA"], "reviews_fr", f"{name}.csv"))]
    yield from rare(rows, folder, quick)
    yield from fifty(rows, folder, quick)
    yield from large(rows, folder, quick)


def rare(rows: list[dict[str, str]], folder: Path, quick: bool) -> Iterator[str]:
    drawn = [(row["text"], "rare" if row["label"] == "0" else "common") for row in rows]
    random.Random(0).shuffle(drawn)
    common, few = ([row for row in drawn if row[1] == kind] for kind in ("common", "rare"))
    train, test = [*common[:3400], *few[:34]], [*common[-600:], *few[-600:]]
    random.Random(1).shuffle(train)
    _write(folder / "rare.csv", train)
    _write(folder / "rare_test.csv", test)
    yield "| 1 % of a class | balanced accuracy | recall of the rare class | AUC |"
    yield "|---|---|---|---|"
    for name, words in (("as it was", BEFORE), ("as it is", ())):
        command = ["classify", "--data", str(folder / "rare.csv"), "--test", str(folder / "rare_test.csv"), *words]
        found = train_run(command, quick=quick)
        table, labels, scores = found["details"]["confusion"], found["details"]["labels"], found["scores"]
        row = table[labels.index("rare")]
        recall = row[labels.index("rare")] / sum(row)
        yield f"| {name} | {percent(scores['balanced_accuracy']).en} | {percent(recall).en} | {percent(scores['auc']).en} |"
    yield ""


def fifty(rows: list[dict[str, str]], folder: Path, quick: bool) -> Iterator[str]:
    most = [name for name, _ in Counter(row["series"] for row in rows if "series" in row).most_common(50)]
    drawn = [(row["text"], f"s{row['series']}") for row in rows if row.get("series") in most]
    random.Random(0).shuffle(drawn)
    _write(folder / "fifty.csv", drawn[:3800])
    found = train_run(["classify", "--data", str(folder / "fifty.csv")], quick=quick)
    yield "| fifty classes | accuracy |"
    yield "|---|---|"
    systems = [(one["name"]["en"], one) for one in found["baselines"]] + [("this run", found)]
    for name, own in systems:
        low, high = own["intervals"]["accuracy"]
        yield f"| {name} | {percent(own['scores']['accuracy']).en} [{100 * low:.1f}, {100 * high:.1f}] |"
    yield ""


def large(rows: list[dict[str, str]], folder: Path, quick: bool) -> Iterator[str]:
    parts = {
        label: [own.strip() for row in rows if row["label"] == label for own in row["text"].split(".") if len(own) > 20] for label in "01"
    }
    rng, path = random.Random(0), folder / "large.csv"
    count = 2_000 if quick else 217_000
    _write(path, [(". ".join(rng.choice(parts["01"[n % 2]]) for _ in range(4 + n % 2)), "01"[n % 2]) for n in range(count)])
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "attentif", "train", "classify", "--data", str(path), "--dry-run", "--json"],
        stdout=subprocess.PIPE,
        check=True,
    )
    seconds = time.perf_counter() - begun
    peak = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    told: dict[str, Any] = json.loads(done.stdout)
    yield f"Dry run of {path.stat().st_size / 1e6:.0f} MB, {count:,} rows: {duration(seconds).en}, {size(peak).en} at most "
    yield f"(it says {size(told['peak']).en}); it expects {duration(told['seconds']).en} of training.\n"


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _write(path: Path, rows: Rows) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
