"""What pre-training is worth: accuracy on French reviews against the number of labels, with and without.

Protocol, fixed before anything was measured: films and series together; a fifth of the films and of the series (all reviews of a series
together) are the test, a tenth of the rest validation. Bodies are pre-trained on the texts of the training rows alone, validation and
test texts are in no file that they read. Every point is three runs, whose seeds decide weights and labelled examples. The same steps with
and without; nothing was chosen on the test. Runs are kept (`$ATTENTIF_CACHE/real/pretraining`) and what is finished is not done again.
"""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from attentif.files import cache_folder
from attentif.view.curve import curve_table
from attentif.view.words import metric, say
from benchmarks.real.reviews import write_rows
from benchmarks.real.trial import format_score

TITLE = "Real data: what pre-training is worth"
ABOUT = (
    "Accuracy on film and series reviews that share no series with the training rows, mean over three seeds with a 95 % interval "
    "(Student's t). Bodies are pre-trained on the texts of the training rows, without their labels."
)
LONG = True
HERE = Path(__file__).parent
TEST, VALID = 0.2, 0.1
ENCODER, DECODER = "pretraining.toml", "pretraining_decoder.toml"
LABELS, SEEDS = "100,500,2000,all", 3
STAGES = {  # how each body is pre-trained, and whose model it has
    "masked": ('task={kind="masked",context=128,whole_words=true}', ENCODER),
    "replaced": ('task={kind="replaced",context=128}', ENCODER),
    "language": ('task={kind="language",context=128}', DECODER),
}
PRETRAIN = ["train.optimizer=muon", "train.lr=4e-3", "model.dropout=0.1", "train.epochs=12", "train.batch_tokens=1024"]
PRETRAIN += ["train.patience=0", "train.eval_every=4.0"]
QUICK = ["train.epochs=0", "train.min_steps=0", "train.steps=2"]


def run(quick: bool) -> Iterator[str]:
    out = cache_folder() / "real" / ("pretraining-quick" if quick else "pretraining")
    train, valid, test = write_splits(Path(os.environ["ATTENTIF_DATA"]) / "reviews_fr", out / "data")
    for name, (task, recipe) in STAGES.items():
        pretrain(out / name, [str(HERE / recipe), "--data", str(train), task, *PRETRAIN, *(QUICK if quick else [])])
        shown = " ".join(f"'{word}'" if "{" in word else word for word in [task, *PRETRAIN])
        yield f"- {name}: `attentif train benchmarks/real/{recipe} --data train.csv {shown}`: {describe_backbone(out / name)}"
    files = ["--data", str(train), "--valid", str(valid), "--test", str(test)]
    labels, seeds = ("100", 1) if quick else (LABELS, SEEDS)
    for title, names, recipe in (
        ("An encoder", ("masked", "replaced"), ENCODER),
        ("A decoder, which reads from left to right", ("language",), DECODER),
    ):
        begins = [word for name in names for word in ("--from", str(out / name))]
        words = [str(HERE / recipe), *files, *begins, "--labels", labels, "--seeds", str(seeds)]
        folder = out / f"curve-{names[0]}"
        table = curve([*words, *(QUICK if quick else []), "--out", str(folder)])
        shown = " ".join([*(f"--from {name}" for name in names), "--labels", labels])
        command = f"attentif curve benchmarks/real/{recipe} --data train.csv --valid valid.csv --test test.csv {shown}"
        yield f"\n### {title}\n\n`{command}`\n\n{table}\n"


def write_splits(data: Path, folder: Path) -> tuple[Path, Path, Path]:
    """Films and series in three files; the reviews of a series stay together."""
    films, series = (list(csv.DictReader((data / name).open(encoding="utf-8"))) for name in ("films_train.csv", "series.csv"))
    rows = [film | {"group": f"film {number}"} for number, film in enumerate(films)]
    rows += [{"text": row["text"], "label": row["label"], "group": f"series {row['series']}"} for row in series]
    groups = sorted({row["group"] for row in rows})
    draws = dict(zip(groups, np.random.default_rng(0).random(len(groups)), strict=True))
    borders = {"test": (0.0, TEST), "valid": (TEST, TEST + VALID), "train": (TEST + VALID, 1.0)}
    folder.mkdir(parents=True, exist_ok=True)
    for name, (low, high) in borders.items():
        write_rows(folder / f"{name}.csv", [row for row in rows if low <= draws[row["group"]] < high])
    return folder / "train.csv", folder / "valid.csv", folder / "test.csv"


def pretrain(folder: Path, words: list[str]) -> None:
    """A body: made, gone on with, or there already."""
    if (folder / "results.json").is_file():
        return
    what = ["--resume", str(folder)] if (folder / "config.toml").is_file() else [*words, "--out", str(folder)]
    attentif("train", *what)


def describe_backbone(folder: Path) -> str:
    """What a body reached, and what counting reaches: "accuracy 31.5 % (...); the commonest 19.7 % (...)"."""
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    key = results["metric"]
    rivals = (f"{rival['name']['en']} {format_score(key, rival)}" for rival in results["baselines"])
    return "; ".join([f"{metric(key).title.en} {format_score(key, results)}", *rivals])


def curve(words: list[str]) -> str:
    """The table of `attentif curve`, as markdown."""
    found = json.loads(attentif("curve", *words, "--json"))
    columns, rows = curve_table(found)
    lines = ["| " + " | ".join(say(name, "en") for name in columns) + " |", "|---" * len(columns) + "|"]
    return "\n".join(lines + ["| " + " | ".join(say(cell, "en") for cell in row) + " |" for row in rows])


def attentif(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "attentif", *words], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"attentif {' '.join(words)} failed ({done.returncode})")
    return done.stdout
