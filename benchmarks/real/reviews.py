"""A few thousand labelled French reviews and no pre-trained weights: what is the best that can be done?

Protocol, fixed before anything was measured: film reviews in five folds (drawn once, labels balanced), series reviews always in training;
and the series reviews split by series. Validation is cut from the training rows by the command itself, by series where a review has one.
Of the recipe's settings four were tried on films of folds 1 to 3, each in turn the test of models that fold 0 had no part in, and one,
with another rate, had been seen on all five folds. Earlier trials, which gave up other networks, had looked at folds of these films, and
the words of the linear model were chosen among ten variants by cross-validation over them: all figures are a little flattered. The
transformer and the Mamba have the recipe's settings, with the rate and the dropout that suit them better; nothing else was tried for them.

Each run has one core, and as many go at once as there are.
"""

import csv
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from attentif.files import cache_folder, write_text
from benchmarks.real.trial import train_run

TITLE = "Real data: French reviews, a few thousand labels"
ABOUT = """
Accuracy with 95 % intervals: over folds (Student's t) for films, over splits for series. The recipe is one model: a network that reads what
the naive-Bayes-weighted linear model says of each word, and adds to its answer. Goals on a test kept apart, on which TF-IDF has 88.9 % and
the linear model 91.2 %: one model 91.5 %, an average 92 %, so 0.3 and 0.8 points more than the linear model. That test is not at hand, and
these folds are harder (a fifth of the films is missing from training, and both linear models are a point or two lower): what can be read
off here is by how much each is ahead of the linear model of as many labels. The average of the recipe and the linear model, or any of
the networks below, was no better than the recipe over the two folds where it was tried. Settings of the recipe were compared on folds of
these films, and a setting with another rate had been seen on all five; the linear model's words were chosen on them too, and that it
learns from validation at the end was decided on them: the figures of films are a little flattered.
"""
LONG = True
FOLDS, SEEDS = 5, (0, 1)
SPLITS = 3  # of the series
STUDENT = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776, 9: 2.306}  # the 97.5 % quantile of t by number of values, one less degree of freedom
MEMBERS = "train.ensemble=5"
ALONE = ("task.linear=averaged",)  # the answers of the network and of the linear model apart, then averaged
GENTLER = ("model.layers=1", "model.dropout=0.3", "model.head.pool=attention", "train.lr=2e-3")
EQUAL = {  # about 3 million parameters each, most of them words
    "LSTM each way": ALONE,
    "transformer, one block": ("model.base=encoder-tiny", "model.width=184", *GENTLER, *ALONE),
    "Mamba, one block": ("model.base=mamba-tiny", "model.width=192", "model.head.kind=classify", *GENTLER, *ALONE),
}

Words = tuple[str, ...]


def run(quick: bool) -> Iterator[str]:
    data = Path(os.environ["ATTENTIF_DATA"]) / "reviews_fr"
    folds = list(write_folds(data, cache_folder() / "real" / "reviews-folds"))
    seeds, used = ((0,), folds[:1]) if quick else (SEEDS, folds)
    by_series = ("classify", "--data", str(data / "series.csv"), "--group", "series")
    films = [[(*fold, "--seed", str(seed)) for seed in seeds] for fold in used]
    series = [[(*by_series, f"data.seed={seed}", "--seed", str(seed))] for seed in range(1 if quick else SPLITS)]
    several = [[(*words, MEMBERS) for words in row] for row in films]
    equal = {name: [[(*words, *changes) for words in row] for row in films] for name, changes in EQUAL.items()}

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        wanted = dict.fromkeys(chain(*films, *series, *several, *chain(*equal.values())))  # in the order of the page
        waiting = {words: pool.submit(train_run, words, quick=quick, threads=1) for words in wanted}
        of = lambda row: [waiting[words].result() for words in row]

        yield f"### Films: {FOLDS} folds, {len(seeds)} seeds each, series always in training\n"
        yield f"`attentif train {format_command(films[0][0])}`\n"
        yield "\n".join(table([of(row) for row in films])) + "\n"

        yield f"### Series: split by series, {len(series)} splits\n"
        yield f"`attentif train {format_command(series[0][0])}`\n"
        yield "\n".join(table([of(row) for row in series])) + "\n"

        yield f"### The mean of five networks, films, {FOLDS} folds, {len(seeds)} seeds each\n"
        yield f"`attentif train {format_command(several[0][0])}`\n"
        yield "\n".join(table([of(row) for row in several], "**the mean of five**")) + "\n"

        yield f"### Networks of equal size that read labels alone, films, {FOLDS} folds, {len(seeds)} seeds each\n"
        yield f"`attentif train {format_command(films[0][0])} {' '.join(ALONE)}`\n"
        yield "| network | parameters | the network alone | averaged with the linear model | minutes, one core |\n|---|---|---|---|---|"
        for name, rows in equal.items():
            results = [of(row) for row in rows]
            size = sum(results[0][0]["cost"]["parameters"].values())
            minutes = statistics.median(seconds(result) for result in chain(*results)) / 60
            alone, average = (spread(means(results, part)) for part in ("network", "own"))
            yield f"| {name} | {size / 1e6:.2f} M | {alone} | {average} | {minutes:.1f} |"
        yield ""


def write_folds(data: Path, folder: Path) -> Iterator[Words]:
    """What is typed for each fold, its files written where they are not yet: films of the other folds + series, films of this one."""
    films, series = (list(csv.DictReader((data / name).open(encoding="utf-8"))) for name in ("films_train.csv", "series.csv"))
    fold = np.empty(len(films), dtype=np.int64)
    random = np.random.default_rng(0)
    for label in sorted({film["label"] for film in films}):
        own = np.array([row for row, film in enumerate(films) if film["label"] == label])
        fold[random.permutation(own)] = np.arange(len(own)) % FOLDS
    folder.mkdir(parents=True, exist_ok=True)
    named = [film | {"group": f"film {row}"} for row, film in enumerate(films)]
    others = [{"text": row["text"], "label": row["label"], "group": row["series"]} for row in series]
    for n in range(FOLDS):
        train, test = folder / f"train-{n}.csv", folder / f"test-{n}.csv"
        write_rows(train, [film for row, film in enumerate(named) if fold[row] != n] + others)
        write_rows(test, [film for row, film in enumerate(named) if fold[row] == n])
        yield "classify", "--data", str(train), "--test", str(test), "--group", "group"


def write_rows(path: Path, rows: Sequence[Mapping[str, str]]) -> None:
    import io

    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, ["text", "label", "group"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    if not path.is_file() or path.read_text(encoding="utf-8", errors="replace") != text.getvalue():
        write_text(path, text.getvalue())


BASELINES = {"TF-IDF + logistic regression": "TF-IDF", "naive-Bayes-weighted linear model of words and letters": "naive-Bayes"}


def accuracy(results: Mapping[str, Any], system: str) -> float:
    if system == "own":
        return float(results["scores"]["accuracy"])
    if system == "network":
        return float(results["details"]["parts"]["network"]["scores"]["accuracy"])
    return next(float(rival["scores"]["accuracy"]) for rival in results["baselines"] if system in rival["name"]["en"])


def means(results: Sequence[Sequence[Mapping[str, Any]]], system: str) -> list[float]:
    """Of each row, over its runs."""
    return [statistics.mean(accuracy(result, system) for result in row) for row in results]


def table(results: Sequence[Sequence[Mapping[str, Any]]], own: str = "**the recipe**") -> Iterator[str]:
    """A line a system: the mean over the rows, each the mean over its runs; beside it the mean of each row."""
    yield "| | accuracy | each |"
    yield "|---|---|---|"
    for name, system in (BASELINES | {own: "own"}).items():
        each = means(results, system)
        yield f"| {name} | {spread(each)} | {' · '.join(f'{100 * mean:.1f}' for mean in each)} |"
    ece = [result["scores"]["ece"] for result in chain(*results)]
    minutes = statistics.median(seconds(result) for result in chain(*results)) / 60
    yield f"\nCalibration error {100 * statistics.mean(ece):.1f} % (mean), {minutes:.1f} minutes of training on one core (median)."


def seconds(results: Mapping[str, Any]) -> float:
    """Of training, the first stage included."""
    return float(results["cost"]["seconds"]) + float(results.get("pretrain", {}).get("cost", {}).get("seconds", 0.0))


def spread(values: Sequence[float]) -> str:
    """ "91.2 % (90.1 to 92.3)" """
    mean = statistics.mean(values)
    if len(values) < 2:
        return f"{100 * mean:.1f} %"
    half = STUDENT.get(len(values), 1.96) * statistics.stdev(values) / len(values) ** 0.5
    return f"{100 * mean:.1f} % ({100 * (mean - half):.1f} to {100 * (mean + half):.1f})"


def format_command(words: Words) -> str:
    """What is typed, without the machine's own paths."""
    return " ".join(Path(word).name if os.sep in word else word for word in words)
